"""``unstall ranks``: captures of many ranks read side by side, merged, shown, written.

In: places and options as parsed. Out: text on standard output, files where the user named them, progress on standard
error. One rank that cannot be read is a line of the report; none that can is an error.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from unstall.commands.files import STDOUT, check, emit, emitting, say, write
from unstall.errors import UsageError

if TYPE_CHECKING:
    from unstall.model import Report


def run(
    places: Sequence[str],
    targets: dict[str, str | None],
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    step: str | None = None,
    cache: bool = True,
    patience: float = 600.0,
    top: int = 10,
    language: str = "en",
) -> None:
    """Read, merge, show; ``targets``: ``json``, ``markdown`` or ``html`` → its file, ``-`` for standard output."""
    wanted = {kind: target for kind, target in targets.items() if target}
    _check(wanted, places)
    from unstall.ranks import ranks

    report = ranks(
        places, workers=workers, scheduler=scheduler, step=step, cache=cache, patience=patience, language=language,
        say=_say,
    )  # fmt: skip
    if STDOUT not in wanted.values():
        from unstall.ranks import terminal

        with emitting() as out:
            terminal.show(report, out, top=top)
    for kind, target in wanted.items():
        content = _rendered(kind, report)
        emit(content) if target == STDOUT else write(target, content)


def _rendered(kind: str, report: Report) -> str | bytes:
    if kind == "json":
        from unstall.report.json import to_json

        return to_json(report, indent=2) + b"\n"
    if kind == "markdown":
        from unstall.ranks.markdown import to_markdown

        return to_markdown(report)
    from unstall.ranks.html import to_html

    return to_html(report)


def _check(wanted: dict[str, str], places: Sequence[str]) -> None:
    """What would mix two outputs, or overwrite an input, is found before anything is read."""
    if list(wanted.values()).count(STDOUT) > 1:
        raise UsageError("two outputs on standard output", "they would mix", "Give one of them a file")
    files = [target for target in wanted.values() if target != STDOUT]
    if len({os.path.realpath(f) for f in files}) < len(files):
        raise UsageError(files[0], "two outputs in one file", "Give each a file of its own")
    from unstall.ranks.places import find, is_address

    here = [place for place in places if not is_address(place)] if files else []
    inputs = [found.name for found in find(here)]
    for file in files:
        check(file, inputs)


def _say(line: str) -> None:
    say(f"unstall: {line}")
