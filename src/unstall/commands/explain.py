"""``unstall explain CODE``: what a finding means, why it costs time, how to fix it, when it is a false alarm.

In: a code, or none for the list of all. Out: Markdown on standard output, laid out where that is a
terminal.
"""

from __future__ import annotations

import sys

from unstall.commands.files import emitting


def run(code: str | None = None, *, language: str = "en") -> None:
    """Print one explanation, or a line for every code.

    Raises:
        UsageError: there is no such finding.
    """
    from unstall.diagnose import registry

    text = _listed(language) if code is None else registry.rule(code).explain(language)
    if code is not None and sys.stdout.isatty():
        _laid_out(f"# {code}\n\n{text}")
        return
    with emitting() as out:
        out.write(text.rstrip() + "\n")


def _listed(language: str) -> str:
    from unstall.diagnose import registry

    rows = [(rule.code, rule.explain(language).partition("\n")[0]) for rule in registry.rules()]
    width = max(len(code) for code, _ in rows)
    return "\n".join(f"{code:<{width}}  {summary}" for code, summary in rows)


def _laid_out(text: str) -> None:
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(text))
