"""The whole capture as tracks: one a thread and kind of event, one a stream, one a counter.

In: an :class:`~unstall.model.Analysis` of a whole capture. Out: :class:`~unstall.model.Track`, one at a time, so that
only one track's rows are held besides the tables. What draws or exports events starts here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from unstall.analyze import intervals
from unstall.analyze.device import STREAM
from unstall.analyze.lanes import lanes
from unstall.calls import plain
from unstall.model import Analysis, Profile, StepTable, Track

PUSH_POP = "push_pop"
BUSY = "GPU busy [%]"
BUSY_POINTS, LEAST_BUSY_NS = 20_000, 10_000
"""Stretches over which the GPU's work is averaged, and the shortest: a few kernels long."""
COLUMNS = ("start", "end", "name", "lane", "link", "table", "row", "chain")


def tracks(analysis: Analysis) -> Iterator[Track]:
    """Every track of the capture that has rows: steps, threads, streams, counters."""
    who = _Who.of(analysis.profile)
    parts = (_steps(analysis.steps), _threads(analysis.profile), _streams(analysis), _counters(analysis))
    for part in parts:
        for track in part:
            if track.frame.height:
                yield who.named(track)


@dataclass(frozen=True)
class _Who:
    """Names of processes, threads and GPUs."""

    processes: dict[int, str]
    threads: dict[int, str]
    gpus: dict[int, str]

    @classmethod
    def of(cls, profile: Profile) -> _Who:
        tables = ((profile.processes, "process"), (profile.threads, "thread"), (profile.gpus, "device"))
        found = [
            {} if t is None else dict(t.select(key, pl.col("name").cast(pl.String)).iter_rows()) for t, key in tables
        ]
        return cls(*found)

    def named(self, track: Track) -> Track:
        return replace(
            track,
            process_name=self.processes.get(track.process) or "",
            thread_name="" if track.thread is None else self.threads.get(track.thread) or "",
            device_name="" if track.device is None else self.gpus.get(track.device) or "",
        )


def _steps(steps: tuple[StepTable, ...]) -> Iterator[Track]:
    for table in steps:
        frame = table.frame.select("start", "end", "name", row="index")
        yield Track("steps", table.process, _events(frame, "steps"), thread=table.thread)


def _threads(profile: Profile) -> Iterator[Track]:
    """Host tables, a thread at a time."""
    for kind, table, frame in _host_frames(profile):
        for (process, thread), rows in frame.group_by("process", "thread", maintain_order=True):
            yield Track(kind, int(process), _events(rows, table), thread=int(thread))


def _host_frames(profile: Profile) -> Iterator[tuple[str, str, pl.DataFrame]]:
    """Kind, table, and rows with ``start``, ``end``, ``name``, ``row`` and what else there is."""
    for kind, table in (("nvtx", "ranges"), ("api", "api"), ("osrt", "osrt"), ("library", "library"),
                        ("gil", "gil"), ("overhead", "overhead")):  # fmt: skip
        frame = profile.table(table)
        if frame is not None:
            yield from _kinds(kind, table, frame.with_row_index("row"))
    if profile.sched is not None:
        yield "cpu", "sched", _running(profile.sched)
    if profile.samples is not None:
        yield "samples", "samples", _samples(profile)


def _kinds(kind: str, table: str, frame: pl.DataFrame) -> Iterator[tuple[str, str, pl.DataFrame]]:
    if table == "api":
        yield kind, table, frame.with_columns(renamed(frame["name"], plain), link="correlation")
    elif table == "gil":
        yield kind, table, frame.rename({"state": "name"})
    elif table == "ranges":
        closed = frame.filter(pl.col("end") >= pl.col("start"))
        nested = pl.col("style").cast(pl.String) == PUSH_POP
        yield kind, table, closed.filter(nested)
        yield "nvtx_async", table, closed.filter(~nested)
    else:
        yield kind, table, frame


def _running(sched: pl.DataFrame) -> pl.DataFrame:
    """When each thread was on a CPU: from a row that says it runs to the thread's next row."""
    frame = sched.with_row_index("row").sort("thread", "time", maintain_order=True)
    following = pl.col("time").shift(-1).over("thread")
    spans = frame.with_columns(start="time", end=following).filter("running" & pl.col("end").is_not_null())
    return spans.with_columns(name=pl.format("CPU {}", "cpu"))


def _samples(profile: Profile) -> pl.DataFrame:
    """Samples that have a stack, named by its innermost frame."""
    assert profile.samples is not None
    frame = profile.samples.with_row_index("row").filter(pl.col("callchain").is_not_null())
    frame = frame.with_columns(start="time", end="time")
    if profile.frames is None:
        return frame.with_columns(name=pl.lit(None, pl.String))
    inner = profile.frames.sort("depth").unique("callchain", keep="first", maintain_order=True)
    inner = inner.select("callchain", frame_names(inner))
    return frame.join(inner, on="callchain", how="left", maintain_order="left")


def _streams(analysis: Analysis) -> Iterator[Track]:
    for key, rows in analysis.ops.group_by(STREAM, maintain_order=True):
        parts = [_device_rows(analysis.profile, str(t), part) for (t,), part in rows.group_by("table")]
        process, device, context, stream = (None if k is None else int(k) for k in key)
        frame = _laned(pl.concat(parts))
        yield Track("stream", process or 0, frame, device=device, context=context, stream=stream)


def _device_rows(profile: Profile, table: str, ops: pl.DataFrame) -> pl.DataFrame:
    source = profile.table(table)
    assert source is not None  # the operations came from there
    return _shaped(ops.with_columns(_device_names(table, source, ops["row"]), link="correlation"), table)


def _device_names(table: str, source: pl.DataFrame, row: pl.Series) -> pl.Series:
    if table == "kernels":
        return source["name"].gather(row)
    if table == "copies":
        host = [pl.col(c).cast(pl.String) for c in ("source", "destination")]
        sides = [pl.when(h.is_in(["pageable", "pinned"])).then(h) for h in host]
        memory = pl.coalesce(sides)
        rows = source.select("kind", "source", "destination")[row]
        return rows.select(
            name=pl.concat_str(pl.col("kind").cast(pl.String), memory, separator=" ", ignore_nulls=True)
        )["name"]
    if table == "memsets":
        return pl.repeat("memset", len(row), eager=True).alias("name")
    return source[row].select(name=pl.format("CUDA graph {}", pl.col("graph").fill_null(0)))["name"]


def _counters(analysis: Analysis) -> Iterator[Track]:
    yield from _busy(analysis)
    profile = analysis.profile
    if profile.gpu_metrics is None:
        return
    for (device, name), rows in profile.gpu_metrics.group_by("device", "name", maintain_order=True):
        frame = rows.select("time", "value").drop_nulls().sort("time")
        yield Track("counter", -1, frame, device=None if device is None else int(device), label=str(name))


def _busy(analysis: Analysis) -> Iterator[Track]:
    """How much of its time each GPU works, all processes together."""
    for (device,), rows in analysis.ops.group_by("device", maintain_order=True):
        union = intervals.union(rows["start"].to_numpy(), rows["end"].to_numpy())
        if not len(union[0]):
            continue
        begin, end = int(union[0][0]), int(union[1][-1])
        width = max((end - begin) // BUSY_POINTS, LEAST_BUSY_NS)
        time = np.arange(begin, end + width, width)
        value = intervals.covered(union, time, time + width) * (100 / width)
        changes = np.flatnonzero(np.diff(value, prepend=-1.0))
        frame = pl.DataFrame({"time": time[changes], "value": value[changes]})
        yield Track("counter", -1, frame, device=None if device is None else int(device), label=BUSY)


def _events(rows: pl.DataFrame, table: str) -> pl.DataFrame:
    return _laned(_shaped(rows, table))


def _shaped(rows: pl.DataFrame, table: str) -> pl.DataFrame:
    """The columns that every track has."""
    null = pl.lit(None, pl.Int64)
    return rows.select(
        "start",
        "end",
        pl.col("name").cast(pl.String).cast(pl.Categorical) if rows.schema["name"] != pl.Categorical else "name",
        link=pl.col("link") if "link" in rows.columns else null,
        table=pl.lit(table, pl.Categorical),
        row=pl.col("row").cast(pl.Int64),
        chain=pl.col("callchain") if "callchain" in rows.columns else null,
    )


def _laned(frame: pl.DataFrame) -> pl.DataFrame:
    """By lane and start; what lies deeper than lanes go stands at the end, in lane -1."""
    frame = frame.filter(pl.col("end") >= pl.col("start"))
    lane = lanes(frame["start"].to_numpy(), frame["end"].to_numpy())
    return frame.with_columns(lane=pl.Series(lane)).sort("lane", "start", "end").select(COLUMNS)


def renamed(names: pl.Series, change: Callable[[str], str]) -> pl.Series:
    """The names with each distinct one changed; nulls stay null."""
    codes = names.cast(pl.Categorical)
    distinct = codes.unique().drop_nulls()
    new = pl.Series([change(n) for n in distinct.cast(pl.String)], dtype=pl.Categorical)
    place = np.zeros(int(distinct.to_physical().max() or 0) + 1, np.uint32)  # type: ignore[arg-type]
    place[distinct.to_physical().to_numpy()] = np.arange(len(distinct))
    index = pl.Series(place[codes.to_physical().fill_null(0).to_numpy()]) if len(distinct) else codes.to_physical()
    keep = pl.when(codes.is_not_null()).then(index)
    return new.gather(pl.select(keep).to_series()).alias(names.name)


def frame_names(frames: pl.DataFrame) -> pl.Series:
    """``name`` of each frame: its symbol, or the file that it lies in where the address has none."""
    symbol, module = pl.col("symbol").cast(pl.String), pl.col("module").cast(pl.String)
    file = module.str.extract(r"([^/]+)$")
    bare = symbol.is_null() | symbol.str.contains(r"^(0x[0-9a-fA-F]+|\[.*\])?$")
    return frames.select(name=pl.when(bare & file.is_not_null()).then(pl.format("[{}]", file)).otherwise(symbol))[
        "name"
    ]
