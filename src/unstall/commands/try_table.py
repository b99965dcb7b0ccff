"""The table of ``unstall try`` as text.

In: an :class:`~unstall.trial.Outcome` and a width. Out: lines: the plain step, a row a candidate, what to write for the
winners, and the reason of every row that needs one.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unstall.trial import Outcome, Row

MISSING = "–"


def render(outcome: Outcome, width: int) -> str:
    """Text that fits the width, apart from lines of code, which must stay whole."""
    from unstall.report.layout import Column, table

    rows = outcome.rows
    name = Column("candidate", [r.name for r in rows], least=18)
    columns = [
        Column("predicted", [_predicted(r) for r in rows], rank=2),
        Column("ms a step", [_ms(r.step_ns) for r in rows], rank=1),
        Column("measured", [_measured(r) for r in rows], left=True),
        Column("verdict", [r.verdict for r in rows], left=True),
        Column("losses", [r.losses.verdict if r.losses else MISSING for r in rows], left=True),
        Column("safety", [r.safety for r in rows], left=True, rank=3),
    ]
    lines = [_head(outcome), "", *(line.plain.rstrip() for line in table(name, columns, width)), ""]
    return "\n".join([*lines, *_advice(rows), *_reasons(rows, width), *outcome.notes]).rstrip() + "\n"


def _head(outcome: Outcome) -> str:
    runs = f"{outcome.plain_runs} plain run{'s' if outcome.plain_runs != 1 else ''}"
    where = "with a GPU" if outcome.gpu else "without a GPU"
    step = _ms(outcome.plain_step_ns)
    return f"As it is: {step} ms a step, {where}, no profiler ({runs}, {outcome.seconds:.0f} s in all)"


def _advice(rows: list[Row]) -> list[str]:
    won = [r for r in rows if r.verdict == "faster"]
    if not won:
        return ["Nothing that was tried is faster beyond doubt.", ""]
    lines = ["What to write:"]
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
