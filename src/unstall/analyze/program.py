"""A few steady steps of one process as a program that can be run again: host calls, device operations, who waits for
whom.

In: an analysis and the steps of one process. Out: a :class:`Program`, arrays only, times relative to nothing: *gaps*,
*durations*, *lags*. ``replay`` runs it, changed or not.

How the captured times become a program, each with what it rests on:

- **Host calls in order of start.** A call starts its *gap* after the latest event (start or end of another call of the
  process) before it. Threads that hand work to each other (autograd) come out in order; nothing is assumed about them.
- **A device operation starts its *lag* after its call started**, and not before the operation ahead of it in its stream
  has ended (plus the *pause* seen between queued operations). Where it was queued, its own lag could not be seen: the
  median of those seen is taken. What was ahead of the window's first operation is not known, so neither is its lag.
- **A call that waits** ends its *tail* after the operation that it waited for: the one that, of those launched before,
  ended last before the call returned. Copies from pageable memory wait for their own operation.
- **A launch that waited for room in the launch queue** looks long and is not: its duration is cut to a quick one's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from unstall.analyze.device import TABLE, stream
from unstall.analyze.host import call_kinds
from unstall.analyze.intervals import Ints
from unstall.model import Analysis, StepTable

MAX_CALLS = 8_000
"""Host calls replayed at the most: the loop is plain Python, about a microsecond and a half a call."""
MAX_STEPS = 24
QUEUED_NS = 2_500
"""An operation that starts within this of the end of the one ahead was queued behind it (H200: 0.9 to 2.2 µs)."""
BLOCKED = 8
"""A launch this many times as long as the quick ones of its name may have waited for room in the launch queue."""
USUAL_LAG_NS = 5_000
USUAL_PAUSE_NS = 1_000
"""Defaults where a capture shows none: an H200 shows a lag of 4 to 9 µs and a pause of about 1 µs."""

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Program:
    """Arrays of a replayable window. Shapes: ``(calls,)`` and ``(ops,)``; times in ns.

    Attributes:
        calls: one row a host call, step mark (``kind`` = mark) or the window's end (end), in order of start.
        ops: one row a device operation, in order of launch.
        anchor: index of the call whose event precedes this one; -1 for the first.
        from_end: whether that event is the anchor's end (else its start).
        gap: time from that event to the start.
        usual: the call's own duration, waiting taken out.
        waits_for: index of the operation it waits for; -1 for none.
        tail: from that operation's end to the call's end.
        call_of: index of the launching call of each operation.
        lag: from the start of the call to the start of the operation, when nothing is ahead.
        pause: from the end of the operation ahead in its stream.
        after: an operation of another stream that must end first (event waits); -1 for none.
        lane: small integer for (device, context, stream).
    """

    calls: pl.DataFrame
    ops: pl.DataFrame
    anchor: Ints
    from_end: Bools
    gap: Ints
    usual: Ints
    waits_for: Ints
    tail: Ints
    call_of: Ints
    lag: Ints
    pause: Ints
    after: Ints
    lane: Ints
    steps: int
    window: tuple[int, int] = field(default=(0, 0))


def build(analysis: Analysis, steps: StepTable) -> Program:
    """The program of a window of consecutive steady steps."""
    first, last = _window(analysis, steps)
    frame = steps.frame[first : last + 1]
    begin, end = int(frame["host_start"][0]), int(_next_start(steps, last))
    calls = _calls(analysis, steps, frame, begin, end)
    ops = _ops(analysis, steps, calls, begin, end)
    anchor, from_end, gap = _order(calls)
    call_of = ops["call"].to_numpy()
    lane = ops.select(stream().rank("dense").cast(pl.Int64) - 1).to_series().to_numpy()
    lag, pause = _lags(calls, ops, lane)
    waits_for, tail, usual = _waits(calls, ops)
    return Program(
        calls,
        ops,
        anchor,
        from_end,
        gap,
        usual,
        waits_for,
        tail,
        call_of,
        lag,
        pause,
        _event_waits(analysis, steps, calls, ops),
        lane,
        frame.height,
        (begin, end),
    )


def _window(analysis: Analysis, steps: StepTable) -> tuple[int, int]:
    """Consecutive steady steps, the last one left out when it has no successor: as many as can be replayed quickly."""
    steady = np.flatnonzero(steps.frame["steady"].to_numpy())
    last = int(steady[-1]) - (1 if len(steady) > 2 else 0)
    per_step = 1.0
    api = analysis.profile.api
    if api is not None and api.height:
        begin, end = int(steps.frame["host_start"][int(steady[0])]), int(steps.frame["host_end"][-1])
        own = api.filter((pl.col("process") == steps.process) & pl.col("start").is_between(begin, end))
        per_step = max(own.height / len(steady), 1.0)
    count = int(min(MAX_STEPS, max(2, MAX_CALLS / per_step), last - int(steady[0]) + 1))
    return last - count + 1, last


def _next_start(steps: StepTable, last: int) -> int:
    starts = steps.frame["host_start"]
    return int(starts[last + 1]) if last + 1 < len(starts) else int(steps.frame["host_end"][last])


def _calls(analysis: Analysis, steps: StepTable, frame: pl.DataFrame, begin: int, end: int) -> pl.DataFrame:
    """Calls of the process inside the window, a mark at each step's start, and one at the end, in order of start."""
    marks = frame.select(
        start="host_start",
        end="host_start",
        thread=pl.lit(steps.thread, pl.Int64),
        correlation=pl.lit(-1, pl.Int64),
        name=pl.lit("step"),
        kind=pl.lit("mark"),
        rank=pl.lit(0),
    )
    stop = pl.DataFrame(
        {
            "start": [end],
            "end": [end],
            "thread": [steps.thread],
            "correlation": [-1],
            "name": ["end"],
            "kind": ["end"],
            "rank": [2],
        }
    )
    parts = [marks, stop.select(pl.col(n).cast(t) for n, t in marks.schema.items())]
    if analysis.profile.api is not None:
        own = analysis.profile.api.filter(
            (pl.col("process") == steps.process) & (pl.col("start") >= begin) & (pl.col("start") < end)
        )
        parts.append(_outermost(own).with_columns(rank=pl.lit(1)))
    calls = pl.concat(parts).sort("start", "rank", maintain_order=True).drop("rank")
    step = np.searchsorted(frame["host_start"].to_numpy(), calls["start"].to_numpy(), side="right") - 1
    return calls.with_columns(step=pl.Series(step, dtype=pl.Int64))


def _outermost(own: pl.DataFrame) -> pl.DataFrame:
    """Calls not made inside another call of the same thread, with their kind."""
    own = own.sort("start", "end", descending=[False, True])
    reach = pl.col("end").cum_max().shift(1).over("thread")
    own = own.filter((pl.col("start") >= reach).fill_null(value=True))
    return own.select(
        "start", "end", "thread", "correlation", name=pl.col("name").cast(pl.String), kind=call_kinds(own["name"])
    )


def _ops(analysis: Analysis, steps: StepTable, calls: pl.DataFrame, begin: int, end: int) -> pl.DataFrame:
    """Operations launched inside the window, in order of launch, with the index of their call."""
    index = (
        calls.with_row_index("call")
        .filter(pl.col("kind") != "mark")
        .select("correlation", pl.col("call").cast(pl.Int64), "step")
    )
    own = analysis.ops.filter(
        (pl.col("process") == steps.process) & (pl.col("api_start") >= begin) & (pl.col("api_start") < end)
    )
    joined = own.join(index.unique("correlation", keep="first"), on="correlation", how="inner")
    joined = joined.join(_facts(analysis), on=["table", "row"], how="left")
    return joined.sort("call", "start", maintain_order=True)


def _facts(analysis: Analysis) -> pl.DataFrame:
    """Name, bytes and memory kinds of each device operation."""
    text = pl.String
    parts = []
    profile = analysis.profile
    if profile.kernels is not None:
        parts.append(
            profile.kernels.select(
                table=pl.lit("kernels", TABLE),
                row=pl.int_range(pl.len(), dtype=pl.Int64),
                name=pl.col("name").cast(text),
                bytes=pl.lit(None, pl.Int64),
                copy_kind=pl.lit(None, text),
                source=pl.lit(None, text),
                destination=pl.lit(None, text),
            )
        )
    if profile.copies is not None:
        parts.append(
            profile.copies.select(
                table=pl.lit("copies", TABLE),
                row=pl.int_range(pl.len(), dtype=pl.Int64),
                name=pl.col("kind").cast(text),
                bytes=pl.col("bytes"),
                copy_kind=pl.col("kind").cast(text),
                source=pl.col("source").cast(text),
                destination=pl.col("destination").cast(text),
            )
        )
    if not parts:
        schema: dict[str, Any] = {
            "table": TABLE,
            "row": pl.Int64,
            "name": text,
            "bytes": pl.Int64,
            "copy_kind": text,
            "source": text,
            "destination": text,
        }
        return pl.DataFrame(schema=schema)
    return pl.concat(parts)


def _order(calls: pl.DataFrame) -> tuple[Ints, Bools, Ints]:
    """For each call the latest earlier event, and the time from it."""
    start, end = calls["start"].to_numpy(), calls["end"].to_numpy()
    n = len(start)
    last_end = np.full(n, -1, np.int64)
    order = np.argsort(end, kind="stable")
    position = np.searchsorted(end[order], start, side="right") - 1
    # The call that ended last before this start and began before it; a zero-length mark may be itself.
    has = position >= 0
    last_end[has] = order[position[has]]
    itself = last_end >= np.arange(n)
    last_end[itself] = np.maximum(np.arange(n)[itself] - 1, -1)
    last_start = np.arange(n) - 1
    end_at = np.where(last_end >= 0, end[np.maximum(last_end, 0)], np.iinfo(np.int64).min // 2)
    start_at = np.where(last_start >= 0, start[np.maximum(last_start, 0)], np.iinfo(np.int64).min // 2)
    from_end = (end_at >= start_at) & (end_at <= start)
    anchor = np.where(from_end, last_end, last_start)
    at = np.where(from_end, end_at, start_at)
    gap = np.where(anchor >= 0, start - at, 0)
    return anchor.astype(np.int64), from_end, np.maximum(gap, 0)


def _lags(calls: pl.DataFrame, ops: pl.DataFrame, lane: Ints) -> tuple[Ints, Ints]:
    """Lag and pause of each operation; see the module's text."""
    if not ops.height:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    start, end = ops["start"].to_numpy(), ops["end"].to_numpy()
    call = ops["call"].to_numpy()
    called = calls["start"].to_numpy()[call]
    ahead = _previous_end(start, end, lane)
    pause = start - ahead
    queued = (ahead > called) & (pause < QUEUED_NS)
    seen = start - called
    same_call = np.concatenate(([False], call[1:] == call[:-1]))
    free = ~queued & ~same_call & (ahead <= called) & (ahead >= 0)
    usual_lag = int(np.median(seen[free])) if free.any() else USUAL_LAG_NS
    usual_pause = int(np.median(np.maximum(pause[queued], 0))) if queued.any() else USUAL_PAUSE_NS
    lag = np.where(free, seen, np.minimum(usual_lag, np.maximum(seen, 0)))
    pause = np.where(queued | same_call, np.maximum(pause, 0), usual_pause)
    return np.maximum(lag, 0).astype(np.int64), pause.astype(np.int64)


def _previous_end(start: Ints, end: Ints, lane: Ints) -> Ints:
    """End of the operation ahead in the same stream; -1 for the first."""
    frame = (
        pl.DataFrame({"lane": lane, "start": start, "end": end}).with_row_index("i").sort("start", maintain_order=True)
    )
    frame = frame.with_columns(ahead=pl.col("end").shift(1).over("lane").fill_null(-1)).sort("i")
    return frame["ahead"].to_numpy()


def _waits(calls: pl.DataFrame, ops: pl.DataFrame) -> tuple[Ints, Ints, Ints]:
    """Which operation each call waits for, the tail after it, and the call's usual duration."""
    start, end = calls["start"].to_numpy(), calls["end"].to_numpy()
    kind = calls["kind"].to_numpy()
    n = len(start)
    waits, tail = np.full(n, -1, np.int64), np.zeros(n, np.int64)
    usual = _usual(calls, ops)
    if not ops.height:
        return waits, tail, usual
    op_end, op_call = ops["end"].to_numpy(), ops["call"].to_numpy()
    by_end = np.argsort(op_end, kind="stable")
    sorted_end = op_end[by_end]
    own = _own_blocking(calls, ops)
    for k in np.flatnonzero((kind == "sync") | own):
        i = int(np.searchsorted(sorted_end, end[k], side="right")) - 1
        for j in range(i, max(i - 64, -1), -1):
            op = by_end[j]
            if op_call[op] <= k and (op_call[op] == k or kind[k] == "sync"):
                if op_end[op] > start[k]:
                    waits[k], tail[k] = op, end[k] - op_end[op]
                break
    waited = waits >= 0
    usual = np.where(waited, np.minimum(usual, _shortest(calls, waited)), usual)
    return waits, tail, usual.astype(np.int64)


def _own_blocking(calls: pl.DataFrame, ops: pl.DataFrame) -> Bools:
    """Copy calls that returned only after their own operation had ended (pageable or synchronous copies)."""
    own = ops.filter(pl.col("kind") == "copy").group_by("call").agg(pl.col("end").max())
    out = np.zeros(calls.height, np.bool_)
    at = own["call"].to_numpy()
    out[at] = own["end"].to_numpy() <= calls["end"].to_numpy()[at]
    return out


def _usual(calls: pl.DataFrame, ops: pl.DataFrame) -> Ints:
    """Durations, with calls that waited for room in the launch queue cut to what their name usually takes.

    Such a call is many times as long as the quicker ones of its name, and work given to the GPU before it was still
    running when it returned: then it was the GPU that it waited for.
    """
    took = (pl.col("end") - pl.col("start")).alias("took")
    frame = calls.select("name", "kind", "end", took).with_columns(quick=pl.col("took").quantile(0.25).over("name"))
    backlog = pl.Series("backlog", _reach(calls.height, ops)) > calls["end"]
    blocked = pl.col("kind").is_in(["launch", "graph", "copy", "other"]) & (pl.col("took") > BLOCKED * pl.col("quick"))
    cut = pl.when(blocked & backlog).then(pl.col("quick").cast(pl.Int64)).otherwise("took")
    usual: Ints = frame.select(cut).to_series().to_numpy().astype(np.int64)
    return usual


def _reach(count: int, ops: pl.DataFrame) -> Ints:
    """For each call, when the device work of all earlier calls ends."""
    ends = np.zeros(count + 1, np.int64)
    np.maximum.at(ends, ops["call"].to_numpy() + 1, ops["end"].to_numpy())
    return np.maximum.accumulate(ends)[:count]


def _shortest(calls: pl.DataFrame, waited: Bools) -> Ints:
    """What a waiting call costs when there is nothing to wait for: the shortest of its name, at most 10 µs."""
    took = calls.select((pl.col("end") - pl.col("start")).min().over("name")).to_series().to_numpy()
    short: Ints = np.minimum(took, 10_000)
    return short


def _event_waits(analysis: Analysis, steps: StepTable, calls: pl.DataFrame, ops: pl.DataFrame) -> Ints:
    """For the first operation of a stream after ``cudaStreamWaitEvent``: the operation of another stream it
    waited for.
    """
    after = np.full(ops.height, -1, np.int64)
    syncs = analysis.profile.syncs
    if syncs is None or not ops.height:
        return after
    rows = syncs.filter((pl.col("process") == steps.process) & (pl.col("kind").cast(pl.String) == "stream_wait_event"))
    index = calls.with_row_index("call").select("correlation", pl.col("call").cast(pl.Int64))
    rows = rows.join(index, on="correlation", how="inner")
    lane = ops.select(stream()).to_series().to_numpy()
    call, start, end = (ops[c].to_numpy() for c in ("call", "start", "end"))
    for waiting, at in rows.select(stream().alias("lane"), "call").iter_rows():
        later = np.flatnonzero((lane == waiting) & (call > at))
        if not len(later):
            continue
        op = later[0]
        done = np.flatnonzero((lane != waiting) & (call < at) & (end <= start[op]))
        if len(done):
            after[op] = done[np.argmax(end[done])]
    return after
