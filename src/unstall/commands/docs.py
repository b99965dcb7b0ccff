"""The page of each command, generated: ``python -m unstall.commands.docs [FOLDER]`` writes ``docs/commands/*.md``.

In: the command line as ``unstall.cli`` declares it. Out: Markdown, one page a command and an index. A test keeps the
committed pages current. What is read are typer's own records, not its help text, which each version lays out anew.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer

from unstall.cli import app
from unstall.diagnose.docs import write

FOLDER = Path("docs") / "commands"
MORE = {  # what else there is to read, beside docs/
    "baseline": "[compare](../compare.md)", "compare": "[compare](../compare.md)",
    "doctor": "[collecting](../collecting.md)", "explain": "[findings](../findings/index.md)",
    "kernel": "[compute-bound](../findings/compute-bound.md)", "ranks": "[many ranks](../collecting.md#many-ranks)",
    "fix": "[try and fix](../try-and-fix.md)", "redact": "[privacy](../privacy.md)",
    "report": "[what the numbers mean](../numbers.md), [JSON schema](../report.schema.json)",
    "run": "[collecting](../collecting.md)", "try": "[try and fix](../try-and-fix.md)",
}  # fmt: skip


def pages() -> dict[str, str]:
    """File name → text."""
    texts = {f"{name}.md": page(name, [(name, call)]) for name, call in _commands(app)}
    for group in app.registered_groups:
        name, told = str(group.name), group.typer_instance
        if told is not None:
            head = inspect.cleandoc(str(told.info.help))
            texts[f"{name}.md"] = page(name, [(f"{name} {n}", c) for n, c in _commands(told)], head)
    rows = [f"| [unstall {p.removesuffix('.md')}]({p}) | {_summary(text)} |" for p, text in texts.items()]
    return {"index.md": "\n".join([INDEX, *rows]) + "\n\n" + FOOT, **texts}


INDEX = """# Commands

| command | does |
|---|---|"""
FOOT = """`unstall COMMAND --help` shows the same in a terminal, `unstall --version` the version. Exit codes are on
[a page of their own](../exit-codes.md). In Python: [the API](../python.md).
"""


def page(title: str, commands: list[tuple[str, Callable[..., Any]]], head: str = "") -> str:
    """One page; a group of commands has a section for each."""
    parts = [f"# unstall {title}"] + ([head] if head else [])
    for name, call in commands:
        parts += [f"## unstall {name}"] if head else []
        parts += list(_described(name, call))
    more = MORE.get(title)
    return "\n\n".join([*parts, *([f"More: {more}."] if more else [])]) + "\n"


def _commands(told: typer.Typer) -> Iterator[tuple[str, Callable[..., Any]]]:
    for command in told.registered_commands:
        if command.callback is not None and not command.hidden:
            yield command.name or command.callback.__name__, command.callback


def _described(name: str, call: Callable[..., Any]) -> Iterator[str]:
    told = inspect.signature(call, eval_str=True).parameters.values()
    rows = [_Parameter(p) for p in told if get_origin(p.annotation) is Annotated]  # not typer's own context
    arguments = [row for row in rows if row.argument]
    options = [row for row in rows if not row.argument]
    usage = " ".join(["unstall", name, *(["[OPTIONS]"] if options else []), *(a.use for a in arguments)])
    yield f"```text\n{usage}\n```"
    yield inspect.cleandoc(call.__doc__ or "")
    lines = [f"| {row.left} | {row.right} |" for row in (*arguments, *options)]
    if lines:
        yield "\n".join(["| | |", "|---|---|", *lines])


class _Parameter:
    """One argument or option, in words."""

    def __init__(self, parameter: inspect.Parameter) -> None:
        self.name, self.default = parameter.name, parameter.default
        self.type, *told = get_args(parameter.annotation)
        self.told: Any = told[0]
        self.argument = isinstance(self.told, typer.models.ArgumentInfo)

    @property
    def types(self) -> list[Any]:
        """What a value may be; ``None`` left out."""
        union = get_origin(self.type) in (Union, UnionType)
        return [t for t in (get_args(self.type) if union else (self.type,)) if t is not NoneType]

    @property
    def many(self) -> bool:
        return any(get_origin(t) is list for t in self.types)

    @property
    def flag(self) -> bool:
        return self.types == [bool]

    @property
    def metavar(self) -> str:
        choices = [str(c) for t in self.types if get_origin(t) is Literal for c in get_args(t)]
        return "|".join(choices) or self.told.metavar or self.name.upper()

    @property
    def use(self) -> str:
        return self.metavar + ("…" if self.many and " " not in self.metavar else "")

    @property
    def names(self) -> list[str]:
        """``--keep-report``, ``--no-keep-report``; typer keeps the first of an annotated option as its default."""
        told = (self.told.default, *(self.told.param_decls or ()))
        return "/".join(d for d in told if isinstance(d, str)).split("/")

    @property
    def left(self) -> str:
        if self.argument:
            return f"`{self.metavar}`"
        names = ", ".join(f"`{d}`" for d in self.names)
        return names if self.flag else f"{names[:-1]} {_cell(self.metavar)}`"

    @property
    def right(self) -> str:
        text = _cell(str(self.told.help))
        if self.many and not self.argument:
            text += " May be repeated."
        shown = self.default not in (None, "", inspect.Parameter.empty) and not self.flag
        text += f" Default: {self.default}." if shown and "[" not in str(self.told.help) else ""
        text += f" Default: `{self.names[not self.default]}`." if self.flag and len(self.names) > 1 else ""
        return text + (f" Or the variable `{self.told.envvar}`." if self.told.envvar else "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _summary(text: str) -> str:
    """The first sentence of a page."""
    told = [part for part in text.split("\n\n")[1:] if not part.startswith(("```", "#"))]
    return told[0].split(". ")[0].replace("\n", " ").rstrip(".") + "."


if __name__ == "__main__":
    write(Path(sys.argv[1]) if sys.argv[1:] else FOLDER, pages())
