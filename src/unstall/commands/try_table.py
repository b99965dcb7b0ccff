"""The table of ``unstall try`` as text.

In: an :class:`~unstall.trial.Outcome` and a width. Out: lines: the plain step, a row a candidate, what to write for the
winners, and the reason of every row that needs one.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from unstall.lang import Speaker, speaker

if TYPE_CHECKING:
    from unstall.trial import Outcome, Row

MISSING = "–"


def told(outcome: Outcome, language: str) -> Outcome:
    """The outcome with the reasons of its rows in ``language``; verdicts stay codes."""
    from msgspec.structs import replace

    say = speaker(language)

    def row_told(row: Row) -> Row:
        losses = row.losses and replace(row.losses, text=say.heard(row.losses.text))
        return replace(row, reason=say.heard(row.reason), losses=losses)

    notes = [say.heard(note) for note in outcome.notes]
    return replace(outcome, rows=[row_told(row) for row in outcome.rows], notes=notes)


def render(outcome: Outcome, width: int, language: str = "en") -> str:
    """Text that fits the width, apart from lines of code, which must stay whole."""
    from unstall.report.layout import Column, table

    say, rows = speaker(language), outcome.rows
    name = Column(say("candidate"), [r.name for r in rows], least=18)
    columns = [
        Column(say("predicted"), [_predicted(r) for r in rows], rank=2),
        Column(say("ms a step"), [_ms(r.step_ns) for r in rows], rank=1),
        Column(say("measured"), [_measured(r) for r in rows], left=True),
        Column(say("verdict"), [say(r.verdict) for r in rows], left=True),
        Column(say("losses"), [say(r.losses.verdict) if r.losses else MISSING for r in rows], left=True),
        Column(say("safety"), [say(r.safety) for r in rows], left=True, rank=3),
    ]
    lines = [_head(outcome, say), "", *(line.plain.rstrip() for line in table(name, columns, width)), ""]
    return "\n".join([*lines, *_advice(rows, say), *_reasons(rows, width), *outcome.notes]).rstrip() + "\n"


def _head(outcome: Outcome, say: Speaker) -> str:
    from unstall.report.words import plural

    return say(
        "As it is: {step} ms a step, {where:said}, no profiler ({runs}, {seconds} s in all)",
        step=_ms(outcome.plain_step_ns),
        where="with a GPU" if outcome.gpu else "without a GPU",
        runs=plural(say, outcome.plain_runs, "plain run"),
        seconds=f"{outcome.seconds:.0f}",
    )


def _advice(rows: list[Row], say: Speaker) -> list[str]:
    won = [r for r in rows if r.verdict == "faster"]
    if not won:
        return [say("Nothing that was tried is faster beyond doubt."), ""]
    lines = [say("What to write:")]
    for row in won:
        if len(row.names) == 1:
            lines.append(f"  {row.name}: {row.write[0]}")
    return [*lines, ""]


def _reasons(rows: list[Row], width: int) -> list[str]:
    said = [(r.name, r.reason or (r.losses.text if r.losses and r.losses.verdict != "equal" else "")) for r in rows]
    lines = []
    for name, reason in said:
        if reason:
            lines += textwrap.wrap(f"{name}: {reason}", max(width, 40), subsequent_indent="  ")
    return lines


def _predicted(row: Row) -> str:
    return f"{row.predicted_ratio:.2f}x" if row.predicted_ratio else MISSING


def _measured(row: Row) -> str:
    if row.ratio is None or row.ratio_low is None or row.ratio_high is None:
        return MISSING
    return f"{row.ratio:.2f}x ({row.ratio_low:.2f}–{row.ratio_high:.2f})"


def _ms(ns: int | None) -> str:
    return MISSING if ns is None else f"{ns / 1e6:.2f}"
