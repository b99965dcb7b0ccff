"""``unstall doctor``: what can be collected here, as text or JSON.

In: where the JSON goes. Out: text on standard output, unless the JSON goes there.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from unstall.commands.files import STDOUT, emit, emit_text, write
from unstall.lang import Speaker, speaker

if TYPE_CHECKING:
    from unstall.collect.doctor import Check, Doctor

WIDEST = 100
MARK = 7  # cells
COLLECTORS = {"nsys": "nsys", "builtin": "the built-in collector"}


def run(json_file: str | None, *, language: str = "en") -> None:
    """Look at this machine and say what was found."""
    from unstall.collect.doctor import doctor

    record = doctor().told(language)
    if json_file == STDOUT:
        emit(record.to_json())
        return
    if json_file:
        write(json_file, record.to_json())
    emit_text(render(record, min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns), language))


def render(record: Doctor, width: int = WIDEST, language: str = "en") -> str:
    """The record for people: one paragraph a check, remedies on lines of their own so that they can be copied."""
    say = speaker(language)
    inside = say(", inside {container}", container=record.container) if record.container else ""
    lines = [
        *_wrapped(f"unstall {record.unstall} · Python {record.python}", width),
        *_wrapped(record.system + inside, width),
        "",
        *(line for check in record.checks for line in _check(check, width, say)),
        "",
        *_wrapped(_collector(record, say), width),
        *_wrapped(say("It records here: {what}.", what="; ".join(record.collects)), width),
    ]
    return "\n".join(lines) + "\n"


def _collector(record: Doctor, say: Speaker) -> str:
    """Who would record; with --auto and --steps it may be another one."""
    plain, auto = COLLECTORS[record.collector], COLLECTORS[record.collector_auto]
    if plain == auto:
        return say("`unstall run` would use {collector:said}.", collector=plain)
    return say(
        "`unstall run` would use {collector:said}; with --auto or --steps {other:said}, because this nsys records no "
        "range of pip nvtx.",
        collector=plain,
        other=auto,
    )


def _check(check: Check, width: int, say: Speaker) -> list[str]:
    from rich.cells import set_cell_size

    mark = "" if check.state == "info" else say(check.state)
    lost = say(" Lost without it: {what}.", what=check.lost) if check.lost else ""
    first = f"{set_cell_size(mark, MARK)}  {say(check.name)}: "
    lines = _wrapped(check.text + lost, width, first=first, indent=MARK + 2)
    return [*lines, *([f"{' ' * (MARK + 2)}→ {check.remedy}"] if check.remedy else [])]


def _wrapped(text: str, width: int, **how: str | int) -> list[str]:
    from unstall.report.layout import wrap

    return [line.plain.rstrip() for line in wrap(text, width, **how)]  # type: ignore[arg-type]
