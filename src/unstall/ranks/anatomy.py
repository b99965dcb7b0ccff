"""The steps of one process, as much of them as is kept: which ones, where each one's time went, its phases.

In: an analysis and one of its step tables. Out: the arrays of a :class:`~unstall.ranks.summary.RankSummary`.

Kept are steady steps whose number is a multiple of the least power of two that leaves few enough of them, so every
rank keeps the same ones, and a rank that must keep fewer keeps a part of the others'.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from unstall.analyze import intervals, ranges
from unstall.analyze.breakdown import split
from unstall.analyze.device import device_ops, devices_of, known
from unstall.analyze.focus import EVENTS, INSTANTS, LEAST, SPANS
from unstall.analyze.intervals import Ints
from unstall.analyze.project import attribute
from unstall.model import Analysis, Profile, Report, StepTable, pid_of
from unstall.ranks import collectives
from unstall.ranks.summary import LONGEST_TEXT, Phase, RankSummary, named, packed

MOST_STEPS = 256
"""Steps kept of a rank; with eight categories 20 kB, and as wide as a heat map can be read."""
MOST_PHASES = 6
OFTEN = 0.8  # share of the kept steps in which a range must be to be called a phase


def fill(row: RankSummary, analysis: Analysis, steps: StepTable) -> None:
    """Add what is kept of the steps."""
    keys, row.named = numbers(steps.frame)
    kept = chosen(keys, steps, _events(analysis))
    frame = steps.frame.filter(pl.Series(kept))
    whole = bool(kept.all())
    view = analysis if whole else _cut(analysis, frame)
    table = replace(steps, frame=frame.with_columns(typical=pl.lit(value=True)))
    row.keys, row.starts, row.periods = packed(keys[kept]), packed(frame["start"]), packed(frame["period_ns"])
    row.categories = _categories(view, table)
    row.device, row.gpu = _device(analysis, steps.process)
    row.meetings, row.meeting_stride = collectives.meetings(
        analysis, steps.process, steps.frame["host_start"].to_numpy(), keys, keys[kept]
    )
    if row.meetings is None:
        row.phases = _phases(view, table)


def without_steps(analysis: Analysis, report: Report) -> list[RankSummary]:
    """Processes with collectives but no steps: the whole capture counts as one."""
    made = []
    zero, keys = np.array([np.iinfo(np.int64).min // 2]), np.array([0])
    for process in analysis.ops.filter(pl.col("kind") == "communication")["process"].unique().sort().to_list():
        program, called = named(report, pid_of(process))
        row = RankSummary(rank=report.profile.rank, called=called, program=program, process=pid_of(process))
        row.device, row.gpu = _device(analysis, process)
        own = analysis.ops.filter(pl.col("process") == process)
        first = int(own["start"].min())  # type: ignore[arg-type]
        row.keys, row.starts = packed(keys), packed([first])
        row.periods = packed([int(own["end"].max()) - first])  # type: ignore[arg-type]
        row.meetings, row.meeting_stride = collectives.meetings(analysis, process, zero, keys, keys)
        made.append(row)
    return made


def numbers(frame: pl.DataFrame) -> tuple[Ints, bool]:
    """The number of each step: the last one in its name where those rise (``step_12``), else its place."""
    told = frame["name"].cast(pl.String).str.extract(r"(\d{1,12})\D*$").cast(pl.Int64)
    if not told.null_count() and len(told) and bool((np.diff(told.to_numpy()) > 0).all()):
        return told.to_numpy(), not frame["name"][0].startswith("period ")
    return np.arange(frame.height, dtype=np.int64), False


def chosen(keys: Ints, steps: StepTable, events: int) -> np.ndarray:
    """Which steps are kept."""
    steady = steps.frame["steady"].to_numpy()
    most = min(MOST_STEPS, max(LEAST, int(EVENTS * len(keys) / max(events, 1))))
    stride = 1
    while (steady & (keys % stride == 0)).sum() > most:
        stride *= 2
    return np.asarray(steady & (keys % stride == 0))


def _events(analysis: Analysis) -> int:
    p = analysis.profile
    return analysis.ops.height + sum(t.height for t in (p.api, p.osrt, p.gil) if t is not None)


def _cut(analysis: Analysis, frame: pl.DataFrame) -> Analysis:
    """The analysis of what overlaps these steps: every interval operation over the rest would be for nothing."""
    low = frame.select(pl.min_horizontal("host_start", "gpu_start", "start")).to_series()
    high = frame.select(pl.max_horizontal("host_end", "gpu_end", "end")).to_series()
    profile = _sliced(analysis.profile, intervals.union(low, high))
    nested = None if profile.ranges is None else ranges.nest(profile.ranges)
    ops = device_ops(profile)
    return replace(analysis, profile=profile, ranges=nested, ops=ops if nested is None else attribute(ops, nested))


def _sliced(profile: Profile, windows: intervals.Union) -> Profile:
    cut: dict[str, Any] = {}
    for name in (*SPANS, *INSTANTS):
        table = profile.table(name)
        if table is not None and table.height:
            first, last = ("start", "end") if name in SPANS else ("time", "time")
            start = table[first].to_numpy()
            end = table.select(pl.coalesce(last, first)).to_series().to_numpy()
            at = np.searchsorted(windows[1], start, side="right")
            over = (at < len(windows[0])) & (windows[0][np.minimum(at, len(windows[0]) - 1)] <= end)
            cut[name] = table.filter(pl.Series(over))
    return replace(profile, **cut)


def _categories(view: Analysis, table: StepTable) -> dict[str, Any]:
    """Category → ns in each kept step."""
    parts, _ = split(view.profile, view.ranges, view.ops, table)
    spent = {n: intervals.covered(u, table.frame["start"], table.frame["end"]) for n, u in parts.items() if len(u[0])}
    return {name: packed(ns) for name, ns in spent.items() if ns.any()}


def _device(analysis: Analysis, process: int) -> tuple[int | None, str]:
    devices = devices_of(analysis.ops, process)
    if not devices:
        return None, ""
    gpus = analysis.profile.gpus
    names = {} if gpus is None else dict(gpus.select("device", "name").iter_rows())
    return known(devices[0]), str(names.get(devices[0]) or "")


def _phases(view: Analysis, table: StepTable) -> list[Phase]:
    """The longest range families that come in nearly every step, on the step's own thread."""
    if view.ranges is None:
        return []
    begin = table.frame["host_start"].to_numpy()
    own = view.ranges.filter((pl.col("thread") == table.thread) & pl.col("closed"))
    step = np.searchsorted(begin, own["start"].to_numpy(), side="right") - 1
    inside = (step >= 0) & (own["end"].to_numpy() <= table.frame["host_end"].to_numpy()[np.maximum(step, 0)])
    wrapper = re.escape(table.source.partition(":")[2])
    own = own.with_columns(step=pl.Series(step, dtype=pl.Int64)).filter(pl.Series(inside, dtype=pl.Boolean))
    own = own.filter(~pl.col("family").cast(pl.String).str.contains(f"^{wrapper}$"))
    by = own.group_by("family", "step").agg(
        pl.col("start").min(), pl.col("end").max(), total=(pl.col("end") - pl.col("start")).sum()
    )
    sums = by.group_by("family").agg(pl.len(), pl.col("total").sum())
    long = sums.filter(pl.col("len") >= OFTEN * table.frame.height).sort("total", descending=True)
    return [_phase(f, by.filter(pl.col("family") == f), table.frame.height) for f in long["family"].head(MOST_PHASES)]


def _phase(family: str, rows: pl.DataFrame, count: int) -> Phase:
    columns = {}
    for column in ("start", "end", "total"):
        values = np.full(count, -1, np.int64)
        values[rows["step"].to_numpy()] = rows[column].to_numpy()
        columns[column] = packed(values)
    return Phase(str(family)[:LONGEST_TEXT], **columns)
