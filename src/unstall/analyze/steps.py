"""Training steps: found for any naming, or without NVTX; warm-up set apart; period of the resource that limits.

In: nested ranges, marks, device operations. Out: one :class:`~unstall.model.StepTable` a process that has steps.

How steps are found, first match wins, a process at a time:

1. ``--step REGEX``: ranges whose name matches.
2. Ranges of the user whose *name* says step (``step_12``, ``train/step``, ``ProfilerStep#3``, ``스텝`` …).
3. Marks whose name says step.
4. The outermost repeating range that *encloses* others and covers most of the time.
5. A repeating sequence of phases with no wrapper (``load``, ``forward`` …): a step runs from one first phase to the
next.
6. The periodic sequence of device operations (no NVTX at all).

A step's *host* window runs from its range's start to the next one's; its *GPU* window likewise between the first device
operations that it launched. Where the host runs ahead (GPU-bound), only the second tells the truth, so the windows are
taken from the resource with the longer median period. The last step has no next one: see :data:`SHORT`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from unstall.analyze import intervals, periodic
from unstall.analyze.device import launched_at
from unstall.errors import UsageError
from unstall.model import StepTable
from unstall.pace import bursty

MIN_STEPS = 3
"""Fewer repetitions than this are not called steps: two periods cannot tell warm-up from steady state."""
MANY_PERIODS, STEP_OPS = 10, 4
"""Without any name, fewer repetitions or fewer operations in each are weak evidence: a benchmark loop over one kernel
repeats as well, and a training step copies its input and has a forward, a backward and an update operation. Three
operations were one turn of an inner loop (tanh, a constant's copy, add) that a JAX step on the H200 makes 100 times."""
RUN_AHEAD = 1.05
"""GPU period over host period from which the host is said to run ahead; below, both follow the host."""
UNEVEN = 3.0
"""Phases whose quartiles of period differ by more are parts of a model, not of a loop."""
GPU_BOUND = 0.9
"""Busy share of the span of all steps but the first from which the GPU's own windows are used."""
WARM = 1.3
"""A leading step longer than this times the steady median is warm-up, unless steady steps spread as far: :data:`FENCE`.
On the H200 the first step is 2 to 12 times as long (library loading, allocation), while steady steps of host-bound
loops spread by up to 1.2."""
FENCE = 1.5
"""Interquartile ranges above the upper quartile within which a step is one of its kind (Tukey). Steps that contend for
the GIL took 21 to 34 ms on the H200: the second and third of them, 24 and 32 ms, are no warm-up."""
SHORT = 0.05
"""Share of a period that lies between two steps from which the last step is no sample: nothing follows it, so its
window ends with its own work and lacks that part (loading between ``with step():`` blocks is most of a period). Between
the steps of captures from the H200 lies 0.0 to 2.9 % of a period."""
KNOWN = 0.9
"""Share of periods whose launch must be in the capture: with fewer, work queued before it began is being watched, the
host's side of a period is unknown, and a model's repeating layers cannot be told from steps."""
COVERAGE = 0.5
"""An unnamed wrapper must cover this much of the time between its first start and last end to be called a step."""

STEP_NAME = re.compile(
    r"(?i)(?:^|[^a-z])(?:train(?:ing)?[ _/.:-]?)?(?:step|iter(?:ation)?|minibatch|mini_batch|micro_?batch|ProfilerStep)"
    r"(?:$|[^a-z])|ProfilerStep|trainstep|(?:^|[^a-z])batch(?:[ _#:-]*[\d*]+)?$|스텝|반복|ステップ|步"
)
NOT_A_STEP = re.compile(r"(?i)epoch|optim|sched|lr_?step|load|fetch|copy|h2d|zero_grad|ddp|warm|eval|valid")
"""Names that hold a step-like word and are something else: ``optimizer.step``, ``lr_scheduler.step``,
``load_batch``.
"""


@dataclass(frozen=True)
class _Found:
    """Step ranges of one process before they are timed: shape ``(n,)`` each, in order."""

    source: str
    thread: int
    names: list[str]
    start: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]


def find_steps(
    ranges: pl.DataFrame | None, marks: pl.DataFrame | None, ops: pl.DataFrame, *, pattern: str | None = None
) -> tuple[StepTable, ...]:
    """Steps of each process, the process with the most device time (then host time) first.

    Args:
        ranges: nested ranges (``analyze.ranges.nest``), or ``None``.
        marks: NVTX marks, or ``None``.
        ops: device operations (``analyze.device.device_ops``).
        pattern: a regular expression that names the step ranges.

    Raises:
        UsageError: the pattern is not a regular expression, or matches no range.
    """
    chosen = _compiled(pattern) if pattern else None
    processes = _processes(ranges, ops)
    found = [(p, f) for p in processes if (f := _find(p, ranges, marks, ops, chosen)) is not None]
    if chosen is not None and not found:
        raise UsageError(
            f"--step {pattern}", f"no range repeated {MIN_STEPS} times matches", "See the names in `unstall report`."
        )
    spans = ops.select("process", "device", "context", "stream", "api_start", "start", "end")
    return tuple(_timed(p, f, spans.filter(pl.col("process") == p)) for p, f in found)


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise UsageError(f"--step {pattern}", f"not a regular expression ({error})") from error


def _processes(ranges: pl.DataFrame | None, ops: pl.DataFrame) -> list[int]:
    """Processes by device time; those without any only where no process has device work (a CPU capture)."""
    rows = ops if ops.height else ranges
    if rows is None:
        return []
    spent = rows.group_by("process").agg((pl.col("end") - pl.col("start")).sum().alias("ns"))
    return spent.sort("ns", "process", descending=[True, False])["process"].to_list()  # always in the same order


def _find(
    process: int,
    ranges: pl.DataFrame | None,
    marks: pl.DataFrame | None,
    ops: pl.DataFrame,
    chosen: re.Pattern[str] | None,
) -> _Found | None:
    own = (
        None
        if ranges is None
        else ranges.filter((pl.col("process") == process) & pl.col("closed") & ~pl.col("library"))
    )
    if chosen is not None:
        return None if own is None else next(filter(_takes_time, _by_name(own, chosen, None, "regex")), None)
    mine = ops.select("process", "kind", "code", "thread", "api_start", "start", "end")
    mine = mine.filter(pl.col("process") == process)
    attempts = (
        () if own is None else _by_name(own, STEP_NAME, NOT_A_STEP, "range"),
        () if marks is None else _by_mark(marks.filter(pl.col("process") == process)),
        () if own is None else _by_structure(own, mine),
        () if own is None else _by_phase(own, mine),
        _by_kernels(mine),
    )
    return next((f for a in attempts for f in a if _takes_time(f)), None)


def _takes_time(found: _Found) -> bool:
    return bool(np.median(np.diff(found.start)) > 0)


def _by_name(
    own: pl.DataFrame, wanted: re.Pattern[str], unwanted: re.Pattern[str] | None, source: str
) -> Iterator[_Found]:
    """Families that a pattern names: outermost first, then the most numerous."""
    families = own.group_by("family", "thread").agg(
        pl.len(), pl.col("depth").min(), pl.col("name").first().cast(pl.String)
    )
    order = families.sort("depth", "len", "family", "thread", descending=[False, True, False, False])
    for family, thread, _, _, name in order.iter_rows():
        text = name if source == "regex" else family
        if wanted.search(text) and not (unwanted and unwanted.search(text)):
            yield from _sequence(own, family, thread, source)


def _by_mark(marks: pl.DataFrame) -> Iterator[_Found]:
    names = marks.with_columns(pl.col("name").cast(pl.String).str.replace_all(r"\d+", "*").alias("family"))
    for (family,), rows in names.group_by("family", maintain_order=True):
        if rows.height > MIN_STEPS and STEP_NAME.search(str(family)) and not NOT_A_STEP.search(str(family)):
            at = rows["time"].to_numpy()
            yield _Found(
                f"marker:{family}", int(rows["thread"][0]), rows["name"].cast(pl.String).to_list()[:-1], at[:-1], at[1:]
            )


def _by_structure(own: pl.DataFrame, ops: pl.DataFrame) -> Iterator[_Found]:
    """Unnamed wrappers: an outermost repeating family with children that covers most of its own span."""
    parents = own.filter(pl.col("id").is_in(own["parent"].drop_nulls().unique().implode()))
    families = parents.group_by("family", "thread").agg(
        pl.len(),
        pl.col("depth").min(),
        (pl.col("end") - pl.col("start")).sum().alias("ns"),
        (pl.col("end").max() - pl.col("start").min()).alias("span"),
    )
    wide = families.filter((pl.col("len") >= MIN_STEPS) & (pl.col("ns") >= COVERAGE * pl.col("span")))
    order = wide.sort("depth", "ns", "family", "thread", descending=[False, True, False, False])
    for family, thread, count, _, _, _ in order.iter_rows():
        if count >= MIN_STEPS and not re.search("(?i)epoch", family):
            yield from _sequence(own, family, thread, "range", feeds=ops)


def _by_phase(own: pl.DataFrame, ops: pl.DataFrame) -> Iterator[_Found]:
    """No wrapper: outermost families with equal counts; the one that starts first begins the step."""
    top = own.filter(pl.col("depth") == 0).group_by("family", "thread").agg(pl.len(), pl.col("start").min())
    counts = top.group_by("thread", "len").agg(
        pl.len().alias("families"), pl.col("family").sort_by("start", "family").first()
    )
    good = counts.filter((pl.col("families") >= 2) & (pl.col("len") >= MIN_STEPS + 1))
    for thread, _, _, family in good.sort("families", "len", "thread", descending=[True, True, False]).iter_rows():
        for found in _sequence(own, family, thread, "phase"):
            start, end = found.start[:-1], found.start[1:]
            low, high = np.percentile(np.diff(found.start), [25, 75])
            if high <= UNEVEN * low and (not ops.height or _feeds(ops, start, end)):
                yield _Found(found.source, thread, found.names[:-1], start, end)


def _sequence(
    own: pl.DataFrame, family: str, thread: int, source: str, feeds: pl.DataFrame | None = None
) -> Iterator[_Found]:
    """The family's instances on a thread if they follow one another (outermost of recursive ones)."""
    rows = own.filter((pl.col("family") == family) & (pl.col("thread") == thread)).sort("start")
    rows = rows.filter(pl.col("depth") == pl.col("depth").min())  # none where nesting is not known
    start, end = rows["start"].to_numpy(), rows["end"].to_numpy()
    if len(start) < MIN_STEPS or (start[1:] < end[:-1]).any():
        return
    if feeds is not None and feeds.height and not _feeds(feeds, start, end):
        return
    yield _Found(f"{source}:{family}", int(thread), rows["name"].cast(pl.String).to_list(), start, end)


def _feeds(ops: pl.DataFrame, start: npt.NDArray[np.int64], end: npt.NDArray[np.int64]) -> bool:
    """Most device work is launched inside these windows: an unnamed wrapper without it is not the training step."""
    at = launched_at(ops)
    i = np.searchsorted(start, at, side="right") - 1
    return bool(((i >= 0) & (at < end[np.maximum(i, 0)])).mean() >= COVERAGE)


def _by_kernels(ops: pl.DataFrame) -> Iterator[_Found]:
    """No usable NVTX: the repeating sequence of device operations, anchored at the operation that opens a period."""
    anchors = periodic.anchors(ops)
    if len(anchors) <= MIN_STEPS:
        return
    rows = ops[anchors]
    thread = rows["thread"].drop_nulls()
    if 0 < len(thread) < KNOWN * len(rows):
        return
    at = np.sort((rows["api_start"] if len(thread) else rows["start"]).drop_nulls().to_numpy())
    names = [f"period {i}" for i in range(len(at) - 1)]
    yield _Found("kernels", int(thread.mode()[0]) if len(thread) else -1, names, at[:-1], at[1:])


# --------------------------------------------------------------------------------------------------------------------
# Timing
# --------------------------------------------------------------------------------------------------------------------


def _timed(process: int, found: _Found, ops: pl.DataFrame) -> StepTable:
    frame = pl.DataFrame(
        {"index": np.arange(len(found.start)), "name": found.names, "host_start": found.start, "host_end": found.end}
    )
    frame = frame.join(_device_spans(found, ops), on="index", how="left", maintain_order="left")
    host, gpu = _periods(frame, "host_start", "host_end"), _periods(frame, "gpu_start", "gpu_end")
    limit = "gpu" if host is None or _runs_ahead(host, gpu, frame, ops) else "host"
    frame = frame.with_columns(_windows(frame, limit))
    frame = frame.with_columns(
        busy_ns=intervals.covered(intervals.union(ops["start"], ops["end"]), frame["start"], frame["end"]),
        ops=pl.col("ops").fill_null(0),
    )
    return StepTable(process, found.thread, found.source, limit, _marked(frame, limit))


def _device_spans(found: _Found, ops: pl.DataFrame) -> pl.DataFrame:
    """Start and last end of the device work launched in each step (any thread of the process), and its count.

    A step's work starts with its first operation in the stream that works most: a stream that copies batches ahead
    runs ahead of the step as well, and its pace is not that of the step.
    """
    at = launched_at(ops)
    index = np.searchsorted(found.start, at, side="right") - 1
    last = found.end[-1]
    inside = (index >= 0) & (at < max(int(last), int(found.start[-1]) + 1))
    rows = (
        ops.select("start", "end", main=_in_main_stream(ops))
        .with_columns(index=pl.Series(index, dtype=pl.Int64))
        .filter(pl.Series(inside, dtype=pl.Boolean))
    )
    return rows.group_by("index").agg(
        gpu_start=pl.coalesce(pl.col("start").filter("main").min(), pl.col("start").min()),
        gpu_end=pl.col("end").max(),
        ops=pl.len().cast(pl.Int64),
    )


def _in_main_stream(ops: pl.DataFrame) -> pl.Series:
    """Which operations are in the stream that spends most time."""
    stream = ["device", "context", "stream"]
    spent = ops.group_by(stream).agg((pl.col("end") - pl.col("start")).sum().alias("ns"))
    most = spent.sort("ns", *stream, descending=[True, False, False, False]).head(1)
    if not most.height:
        return pl.Series(dtype=pl.Boolean)
    same = [pl.col(c).eq_missing(pl.lit(most[c][0], pl.Int64)) for c in stream]
    return ops.select(pl.all_horizontal(same)).to_series()


def _periods(frame: pl.DataFrame, start: str, end: str) -> npt.NDArray[np.int64] | None:
    """Start-to-start periods but for the first (initialisation). ``None`` where a step has no device work."""
    if frame[start].null_count():
        return None
    at = frame[start].to_numpy()
    return np.diff(np.append(at, frame[end][-1]))[1:]


def _runs_ahead(
    host: npt.NDArray[np.int64], gpu: npt.NDArray[np.int64] | None, frame: pl.DataFrame, ops: pl.DataFrame
) -> bool:
    """Whether the GPU's windows are the ones to trust: its period is the longer, or it is never idle.

    While the launch queue fills, the host's steps are short; once it is full they follow the GPU. The median over both
    phases means nothing, so a GPU that is busy throughout decides by itself.
    """
    if gpu is None or np.median(gpu) <= 0:
        return False
    if np.median(gpu) > RUN_AHEAD * np.median(host):
        return True
    first, last = int(frame["gpu_start"][1]), int(frame["gpu_end"].to_numpy().max())
    busy = intervals.covered(intervals.union(ops["start"], ops["end"]), [first], [last])[0]
    return bool(busy >= GPU_BOUND * (last - first))


def _windows(frame: pl.DataFrame, limit: str) -> list[pl.Expr]:
    """Abutting windows on the limiting resource; the last one ends with its own work."""
    start, end = f"{limit}_start", f"{limit}_end"
    stop = pl.col(start).shift(-1).fill_null(pl.col(end))
    return [pl.col(start).alias("start"), stop.alias("end"), (stop - pl.col(start)).alias("period_ns")]


def _marked(frame: pl.DataFrame, limit: str) -> pl.DataFrame:
    """Adds ``warmup``, ``steady`` and ``typical``. The last window lacks a little even where it is steady, and is never
    typical when others are there."""
    period = frame["period_ns"].to_numpy()
    warm = warmup(period)
    own = (frame[f"{limit}_end"] - frame[f"{limit}_start"]).to_numpy()
    end = len(period) - (len(period) > MIN_STEPS and _last_is_short((period - own)[warm:-1], period[warm:-1]))
    at = np.arange(len(period))
    usual = np.zeros(len(period), np.bool_)
    usual[warm:end] = typical(period[warm:end])
    if usual[:-1].any():
        usual[-1] = False
    steady = pl.Series((at >= warm) & (at < end))
    return frame.with_columns(warmup=pl.Series(at < warm), steady=steady, typical=pl.Series(usual))


def _last_is_short(between: npt.NDArray[np.int64], period: npt.NDArray[np.int64]) -> bool:
    """Whether the last window is no period, see :data:`SHORT`; of the steady steps that another one follows.

    Work of a step that overlaps the next one's (a copy ahead) makes the last window as much too long.
    """
    return bool(abs(between.sum()) >= SHORT * period.sum())


def confidence(steps: StepTable) -> Literal["high", "medium", "low"]:
    """How sure it is that these are the training steps: names are evidence, a repetition alone is little."""
    if not steps.source.startswith(("kernels", "phase")):
        return "high"
    frame = steps.frame
    seldom = frame.height < MANY_PERIODS or float(np.median(frame["ops"].to_numpy())) < STEP_OPS
    return "low" if steps.source == "kernels" and seldom else "medium"


def typical(period: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Which of these steady periods lie in the middle half; all of them where steps come in bursts."""
    if bursty(period.tolist()):
        return np.ones(len(period), np.bool_)
    low, high = np.percentile(period, [25, 75], method="nearest")
    inside: npt.NDArray[np.bool_] = (period >= low) & (period <= high)
    return inside


def warmup(period: npt.NDArray[np.int64]) -> int:
    """How many leading steps are warm-up: up to the last slow one in an unbroken run (one normal step forgiven)."""
    slow = period > _slowest_usual(period[len(period) // 2 :])
    count, normal = 0, 0
    for i, is_slow in enumerate(slow[: len(period) // 2]):
        normal = 0 if is_slow else normal + 1
        count = i + 1 if is_slow else count
        if normal > 1:
            break
    return count


def _slowest_usual(later: npt.NDArray[np.int64]) -> float:
    """What a step may take and still be like these later ones."""
    low, middle, high = np.percentile(later, [25, 50, 75])
    return float(max(WARM * middle, high + FENCE * (high - low)))
