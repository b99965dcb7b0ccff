"""Where a finding is to be seen: the range, kernel or call that it names, inside the typical step, and the idle GPU.

In: an analysis, the step looked at in each process, findings. Out: one :class:`Place` a finding in the capture's clock,
or ``None`` where it names nothing that has a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from unstall.analyze import intervals
from unstall.analyze.intervals import Union
from unstall.analyze.timeline.windows import Sides, Window
from unstall.calls import VERSION
from unstall.model import Analysis, Evidence, Finding, pid_of

MOST = 1_000
"""Gaps and kernels pointed at in one finding; a step can have more, and the longest tell."""


@dataclass(frozen=True)
class Idle:
    """Gaps of the GPU: the longest, how many there are, and how long together."""

    longest: list[Window] = field(default_factory=list)
    count: int = 0
    ns: int = 0


@dataclass(frozen=True)
class Place:
    """One finding on the timeline, ns of the capture's clock."""

    window: Window
    label: str
    process: int
    kind: str = ""  # of the track: nvtx, api, stream; empty for none in particular
    thread: int | None = None
    stream: tuple[int, int, int] | None = None  # device, context, stream
    idle: Idle = field(default_factory=Idle)
    marks: list[Window] = field(default_factory=list)


def places(analysis: Analysis, steps: Mapping[int, Sides], findings: Iterable[Finding]) -> list[Place | None]:
    """One place a finding, in their order.

    Args:
        analysis: of the whole capture.
        steps: process → the step to look at.
        findings: from its report.
    """
    return [_place(analysis, steps, finding) for finding in findings]


def _place(analysis: Analysis, steps: Mapping[int, Sides], finding: Finding) -> Place | None:
    process = _process(analysis, finding)
    seen = next((e for e in finding.evidence if e.start_ns is not None), None)
    step = steps.get(process) if process is not None else None
    if step is None and seen is not None:
        step = Sides(*[_bounds(seen)] * 3)
    if process is None or step is None:
        return None
    found = (
        _kernel(analysis, process, step.device, finding)
        or _call(analysis, process, step.host, finding)
        or _range(analysis, process, step.host, finding)
    )
    return found or Place(step.window, finding.title, process, idle=_idle(analysis, process, step.window))


def _process(analysis: Analysis, finding: Finding) -> int | None:
    pid = finding.where.process
    known = [s.process for s in analysis.steps] + analysis.ops["process"].unique(maintain_order=True).to_list()
    if analysis.ranges is not None:
        known += analysis.ranges["process"].unique(maintain_order=True).to_list()
    return next((p for p in known if p is not None and (pid is None or pid_of(p) == pid)), None)


def _bounds(seen: Evidence) -> Window:
    assert seen.start_ns is not None  # asked for before
    return seen.start_ns, max(seen.end_ns or 0, seen.start_ns + 1)


def _inside(frame: pl.DataFrame, process: int, window: Window) -> pl.DataFrame:
    """Rows of a process that lie in the window for the most part: its neighbours begin and end where it does."""
    middle = (pl.col("start") + pl.col("end")) // 2
    over = (middle >= window[0]) & (middle <= window[1])
    return frame.filter((pl.col("process") == process) & over)


def _kernel(analysis: Analysis, process: int, window: Window, finding: Finding) -> Place | None:
    """The launches of one kernel in the step."""
    kernels = analysis.profile.kernels
    if finding.where.kernel is None or kernels is None:
        return None
    rows = _inside(kernels.filter(pl.col("name").cast(pl.String) == finding.where.kernel), process, window)
    if not rows.height:
        return None
    longest = _longest(rows).row(0, named=True)
    stream = (longest["device"], longest["context"], longest["stream"])
    return Place(_hull(rows), finding.where.kernel, process, "stream", stream=stream, marks=_spans(rows))


def _call(analysis: Analysis, process: int, window: Window, finding: Finding) -> Place | None:
    """The calls that a finding names, in the range that it names, if any."""
    if finding.where.call is None:
        return None
    for kind, table in (("api", analysis.profile.api), ("osrt", analysis.profile.osrt)):
        named = None if table is None else _named_calls(_inside(table, process, window), finding.where.call)
        if named is not None and named.height:
            around = _range(analysis, process, window, finding)
            longest = _longest(named).row(0, named=True)
            beside = around is None or not around.window[0] <= longest["start"] < around.window[1]
            seen = window if around is None or beside else around.window
            idle = _idle(analysis, process, seen)
            return Place(seen, finding.where.call, process, kind, longest["thread"], idle=idle, marks=_spans(named))
    return None


def _named_calls(rows: pl.DataFrame, call: str) -> pl.DataFrame:
    return rows.filter(pl.col("name").cast(pl.String).str.replace(VERSION, "") == call)


def _range(analysis: Analysis, process: int, window: Window, finding: Finding) -> Place | None:
    """The longest instance of the range in the step, and when the GPU was idle meanwhile."""
    if finding.where.range is None or analysis.ranges is None:
        return None
    rows = analysis.ranges.filter(pl.col("family").cast(pl.String) == finding.where.range)
    rows = _inside(rows.filter("closed"), process, window)
    if not rows.height:
        return None
    longest = _longest(rows).row(0, named=True)
    seen = (int(longest["start"]), int(longest["end"]))
    kind = "nvtx" if str(longest["style"]) == "push_pop" else "nvtx_async"
    return Place(seen, str(longest["name"]), process, kind, int(longest["thread"]), idle=_idle(analysis, process, seen))


def _longest(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.sort(pl.col("end") - pl.col("start"), descending=True, maintain_order=True)


def _hull(rows: pl.DataFrame) -> Window:
    return int(rows["start"].min()), int(rows["end"].max())  # type: ignore[arg-type]


def _spans(rows: pl.DataFrame) -> list[Window]:
    kept = _longest(rows).head(MOST).sort("start")
    return [(int(a), int(b)) for a, b in kept.select("start", "end").iter_rows()]


def _idle(analysis: Analysis, process: int, window: Window) -> Idle:
    """When no device that the process uses did anything; nothing without device work."""
    devices = analysis.ops.filter(pl.col("process") == process)["device"].unique()
    rows = analysis.ops.filter(pl.col("device").is_in(devices.implode()) & (pl.col("start") < window[1]))
    rows = rows.filter(pl.col("end") > window[0])
    if not len(devices):
        return Idle()
    free: Union = intervals.gaps(intervals.union(rows["start"].to_numpy(), rows["end"].to_numpy()), *window)
    longest = np.sort(np.argsort(free[0] - free[1], kind="stable")[:MOST])
    listed = [(int(a), int(b)) for a, b in zip(free[0][longest], free[1][longest], strict=True)]
    return Idle(listed, len(free[0]), intervals.total(free))
