"""A bounded run of steady steps: what the anatomy of a step is read from.

In: a profile, its nested ranges, device operations, and the steps of one process. Out: the same four, cut to
consecutive
steady steps with about :data:`EVENTS` events; the very same where there are no more than that.

Thousands of steps say no more of a typical step than a hundred, and every interval operation over them costs time and
memory: on ten million rows diagnosis alone took minutes and several gigabytes. Of all runs of that length the one is
taken whose median period is nearest to the median of all. Totals, summaries and step times are never cut.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from unstall.analyze import project, ranges
from unstall.analyze.device import device_ops
from unstall.analyze.steps import typical
from unstall.model import TABLES, Profile, StepTable

EVENTS = 300_000
"""Device operations, CUDA calls and OS calls looked at, about; a second's work on two cores."""
LEAST = 64
"""Steps looked at in any case, so that what happens every few dozen steps (a checkpoint, a log line) is among them."""
CANDIDATES = 32
SPANS, INSTANTS = (tuple(t for t, columns in TABLES.items() if at in columns) for at in ("start", "time"))

View = tuple[Profile, pl.DataFrame | None, pl.DataFrame, StepTable]


def focus(profile: Profile, nested: pl.DataFrame | None, ops: pl.DataFrame, steps: StepTable) -> View:
    """The run of steady steps to look at; see the module's text."""
    first = int(steps.frame["warmup"].sum())
    count = _affordable(profile, ops, steps)
    if steps.frame.height - first <= count:
        return profile, nested, ops, steps
    start = _nearest(steps.frame["period_ns"].to_numpy()[first:], count) + first
    frame = steps.frame[start : start + count]
    frame = frame.with_columns(typical=pl.Series(typical(frame["period_ns"].to_numpy())))
    begin, end = _bounds(frame)
    cut = _sliced(profile, begin, end)
    cut_ranges = None if cut.ranges is None else ranges.nest(cut.ranges)
    cut_ops = device_ops(cut)
    if cut_ranges is not None:
        cut_ops = project.attribute(cut_ops, cut_ranges)
    return cut, cut_ranges, cut_ops, replace(steps, frame=frame)


def _affordable(profile: Profile, ops: pl.DataFrame, steps: StepTable) -> int:
    """Steps that hold about :data:`EVENTS` events."""
    rows = ops.height + sum(t.height for t in (profile.api, profile.osrt, profile.gil) if t is not None)
    return max(LEAST, int(EVENTS * steps.frame.height / max(rows, 1)))


def _nearest(period: np.ndarray, count: int) -> int:
    """Where the run of ``count`` periods begins whose median is nearest to that of all."""
    starts = np.unique(np.linspace(0, len(period) - count, CANDIDATES).astype(np.int64))
    off = [abs(float(np.median(period[s : s + count])) - float(np.median(period))) for s in starts]
    return int(starts[int(np.argmin(off))])


def _bounds(frame: pl.DataFrame) -> tuple[int, int]:
    """From the first host or device instant of these steps to the last."""
    low = frame.select(pl.min_horizontal(pl.col("host_start", "gpu_start", "start").min())).item()
    high = frame.select(pl.max_horizontal(pl.col("host_end", "gpu_end", "end").max())).item()
    return int(low), int(high)


def _sliced(profile: Profile, begin: int, end: int) -> Profile:
    """Every event table cut to what overlaps ``[begin, end)``; facts stay whole."""
    cut: dict[str, Any] = {}
    for name in (*SPANS, *INSTANTS):
        table = profile.table(name)
        if table is not None:
            over = (
                (pl.col("start") < end) & (pl.col("end").fill_null(end) > begin)
                if name in SPANS
                else pl.col("time").is_between(begin, end)
            )
            cut[name] = table.filter(over)
    return replace(profile, **cut)
