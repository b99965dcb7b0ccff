"""What is shown in full: the typical step of each process, with neighbours while rows allow.

In: an analysis, findings, how many rows may be shown in full. Out: :class:`Windows`, in ns of the capture's clock.

A step that the GPU limits is issued before it runs: its host side and its device side are then two windows, and between
them may lie other steps that nobody needs in full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from unstall.analyze import intervals
from unstall.analyze.intervals import Union
from unstall.model import Analysis, Finding, StepTable, pid_of

STEPS = 3
"""Steps in full at most: the one looked at and its neighbours, to see that it repeats."""
PROCESSES = 8
"""Processes whose steps are shown in full; ranks of one machine do the same."""
TABLES = ("ranges", "api", "osrt", "library", "gil", "kernels", "copies", "memsets", "graphs")
INSTANTS = ("sched", "samples")

Window = tuple[int, int]


@dataclass(frozen=True)
class Sides:
    """One step, ns: its window on the clock that limits, its range on the host, the device work launched in it."""

    window: Window
    host: Window
    device: Window

    @classmethod
    def of(cls, row: pl.DataFrame) -> Sides:
        window, host, device = (
            (row[a][0], row[b][0]) for a, b in (("start", "end"), ("host_start", "host_end"), ("gpu_start", "gpu_end"))
        )
        return cls(window, host if None not in host else window, device if None not in device else window)


@dataclass(frozen=True)
class Windows:
    """Spans of time, ns.

    Attributes:
        begin, end: first and last instant of any event.
        home: what is looked at first.
        full: what is shown in full.
        steps: process → the step looked at.
    """

    begin: int
    end: int
    home: Window
    full: Union
    steps: dict[int, Sides]

    def cover(self, frame: pl.DataFrame) -> pl.Series:
        """Which rows overlap something shown in full."""
        start, end = frame["start"].to_numpy(), frame["end"].to_numpy()
        at = np.searchsorted(self.full[1], start, side="right")
        begin = np.append(self.full[0], np.iinfo(np.int64).max)[at]
        return pl.Series("inside", begin < np.maximum(end, start + 1))


def rows_of(analysis: Analysis) -> int:
    """Rows that a timeline of everything would have, about."""
    tables = [analysis.profile.table(t) for t in (*TABLES, *INSTANTS)]
    return sum(t.height for t in tables if t is not None)


def windows(analysis: Analysis, findings: Sequence[Finding], most: int) -> Windows | None:
    """The windows of a capture; ``None`` where nothing in it has a time.

    Args:
        analysis: of the whole capture.
        findings: the step in which one has its evidence is preferred.
        most: rows to show in full, about; one step of each process is taken in any case.
    """
    extent = _extent(analysis)
    if extent is None:
        return None
    begin, end = extent
    total = rows_of(analysis)
    picked = {s.process: (s, _picked(s, findings)) for s in analysis.steps[:PROCESSES]}
    steps = {p: Sides.of(s.frame[i]) for p, (s, i) in picked.items()}
    if not picked:
        share = min(1.0, most / max(total, 1))
        home = (begin, end) if share == 1.0 else _busiest(analysis, begin, end, share)
        return Windows(begin, end, home, intervals.union([home[0]], [home[1]]), {})
    spans = [w for s, i in picked.values() for w in _shown(s, i, total, most // len(picked))]
    home = next(iter(steps.values())).window
    return Windows(begin, end, home, intervals.union([a for a, _ in spans], [b for _, b in spans]), steps)


def _extent(analysis: Analysis) -> Window | None:
    low, high = [], []
    for name in (*TABLES, *INSTANTS):
        table = analysis.profile.table(name)
        if table is not None and table.height:
            start, end = ("time", "time") if name in INSTANTS else ("start", "end")
            low.append(int(table[start].min()))  # type: ignore[arg-type]
            high += [int(x) for x in (table[start].max(), table[end].max()) if x is not None]  # type: ignore[arg-type]
    return (min(low), max(*high, min(low) + 1)) if low else None


def _picked(steps: StepTable, findings: Sequence[Finding]) -> int:
    """Number of the step to look at: typical, if possible the one in which a finding shows, else the most typical."""
    frame = steps.frame.with_row_index("at")
    for flags in (pl.col("typical"), pl.col("steady"), pl.lit(value=True)):
        good = frame.filter(flags)
        if good.height:
            break
    for seen in (e.start_ns for f in findings if f.where.process == pid_of(steps.process) for e in f.evidence):
        at = good.filter((pl.col("start") <= seen) & (pl.col("end") > seen)) if seen is not None else good.head(0)
        if at.height:
            return int(at["at"][0])
    off = (good["period_ns"] - good["period_ns"].median()).abs()
    return int(good["at"][int(off.arg_min() or 0)])


def _shown(steps: StepTable, index: int, total: int, most: int) -> list[Window]:
    """The sides of the step looked at and of as many neighbours as rows allow."""
    each = max(total // max(steps.frame.height, 1), 1)
    count = int(np.clip(most // each, 1, STEPS))
    first = max(min(index - (count - 1) // 2, steps.frame.height - count), 0)
    rows = [Sides.of(steps.frame[i]) for i in range(first, min(first + count, steps.frame.height))]
    return [w for row in rows for w in (row.window, row.host, row.device)]


def _busiest(analysis: Analysis, begin: int, end: int, share: float) -> Window:
    """Where no steps are known: that share of the capture, around the middle of what the GPU (or the host) does."""
    ranges = analysis.profile.ranges
    rows = analysis.ops if analysis.ops.height or ranges is None else ranges
    middle = int(rows["start"].median() or 0) if rows.height else (begin + end) // 2  # type: ignore[arg-type]
    half = max(int((end - begin) * share / 2), 1)
    return max(begin, middle - half), min(end, middle + half)
