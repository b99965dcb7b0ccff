"""A timeline put together: tracks collected one at a time, thinned until they fit, encoded; see the package.

In: an analysis and its report. Out: a :class:`~unstall.model.Timeline`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import numpy as np
import polars as pl

from unstall.analyze import intervals
from unstall.analyze.intervals import Ints
from unstall.analyze.timeline import groups, jumps
from unstall.analyze.timeline.columns import Book, Writer
from unstall.analyze.timeline.jumps import Place
from unstall.analyze.timeline.stacks import tree
from unstall.analyze.timeline.thin import FINEST, counted, fitted, thin
from unstall.analyze.timeline.windows import Windows, rows_of, windows
from unstall.analyze.tracks import tracks
from unstall.model import Analysis, Jump, Omitted, Report, Timeline, Track

MOST_BYTES = 5_000_000
EVENTS = 200_000
"""Rows at most: about 20 bytes each, and as many as a browser draws smoothly (``benchmarks/timeline.py``)."""
IN_FULL = 0.6
"""Share of them for the steps shown in full, where a capture has more rows."""
COUNTER_POINTS = 1_500
"""Points of a counter over the whole run, and as many again where it is shown in full."""
LONGEST_NAME = 400
"""Characters; the longest kernel names of CUTLASS have thousands."""
LEAST = 200
"""Rows below which thinning goes no further."""


def timeline(
    analysis: Analysis, report: Report | None = None, *, events: int = EVENTS, most_bytes: int = MOST_BYTES
) -> Timeline | None:
    """The timeline of a capture; ``None`` where it holds no event with a time.

    Args:
        analysis: of the whole capture.
        report: with findings, each of which gets its place in ``jumps``.
        events: rows at most.
        most_bytes: of its JSON; fewer rows and shorter names are taken until it fits.
    """
    findings = report.findings if report else []
    seen = windows(analysis, findings, int(events * IN_FULL))
    if seen is None:
        return None
    if rows_of(analysis) <= events:
        seen = replace(seen, full=intervals.union([seen.begin - 1], [seen.end + 1]))
    collected, left = _collected(analysis, seen)
    places, longest = jumps.places(analysis, seen.steps, findings), LONGEST_NAME
    while True:
        collected = _fit(collected, seen, events)
        made = _made(analysis, seen, collected, places, longest)
        made.omitted = [*left, *_merged(collected), *made.omitted]
        size = len(msgspec.json.encode(made).replace(b"<", rb"\u003c"))
        if size <= most_bytes or events <= LEAST:
            return made
        longest, events = max(longest // 2, 40), int(events * min(0.8, most_bytes / size))


def _collected(analysis: Analysis, seen: Windows) -> tuple[list[Track], list[Omitted]]:
    """All tracks, each at once cut down to what may be shown, so that no two are held whole; and what that left out."""
    kept, deep = [], 0
    for track in tracks(analysis):
        if track.kind == "counter":
            kept.append(replace(track, frame=_sampled(track.frame, seen)))
            continue
        deep += int((track.frame["lane"] < 0).sum())
        frame = counted(track.frame.filter(pl.col("lane") >= 0))
        frame = frame.with_columns(seen.cover(frame))
        fine = thin(frame.filter(~pl.col("inside")), max((seen.end - seen.begin) // FINEST, 1), seen.full[0])
        kept.append(replace(track, frame=pl.concat([frame.filter("inside"), fine])))
    chosen = groups.chosen(kept)
    return chosen, [o for o in _left_out(analysis, deep, len(kept) - len(chosen)) if o.count]


def _left_out(analysis: Analysis, deep: int, tracks_: int) -> list[Omitted]:
    ranges, samples = analysis.profile.ranges, analysis.profile.samples
    unclosed = 0 if ranges is None else ranges.height - ranges.filter(pl.col("end") >= pl.col("start")).height
    bare = 0 if samples is None else samples["callchain"].null_count()
    return [
        Omitted(what="ranges", count=unclosed, text=f"{unclosed:,} ranges without an end"),
        Omitted(what="samples", count=bare, text=f"{bare:,} samples without a call stack"),
        Omitted(what="lanes", count=deep, text=f"{deep:,} events nested too deeply to draw"),
        Omitted(what="tracks", count=tracks_, text=f"{tracks_:,} rows of threads that tell least"),
    ]


def _sampled(frame: pl.DataFrame, seen: Windows) -> pl.DataFrame:
    """A counter's points: means over equal stretches of the whole run, finer where it is shown in full.

    A value holds until the next one: the means are of time, not of points, of which a quiet stretch has few.
    """
    if frame.height <= COUNTER_POINTS:
        return frame
    time, value = frame["time"].to_numpy(), frame["value"].to_numpy()
    spans = int((seen.full[1] - seen.full[0]).sum())
    begin, end = int(time[0]), max(seen.end, int(time[-1]) + 1)
    edges = [np.linspace(begin, end, COUNTER_POINTS + 1)]
    edges += [np.arange(a, b, max(spans // COUNTER_POINTS, 1)) for a, b in zip(*seen.full, strict=True)]
    at = np.unique(np.concatenate(edges).astype(np.int64).clip(begin, end))
    upto = np.concatenate([[0.0], np.cumsum(value[:-1] * np.diff(time))])
    area = np.interp(at, np.append(time, end), np.append(upto, upto[-1] + value[-1] * (end - time[-1])))
    means = np.diff(area) / np.diff(at)
    changes = np.flatnonzero(np.abs(np.diff(means, prepend=np.inf)) > 0)
    return pl.DataFrame({"time": at[:-1][changes], "value": means[changes]})


def _fit(kept: list[Track], seen: Windows, events: int) -> list[Track]:
    """The same tracks with few enough rows: what is shown in full as long as it fits, the rest thinned."""
    drawn = [t for t in kept if t.kind != "counter"]
    inside = [t.frame.filter("inside") for t in drawn]
    outside = [t.frame.filter(~pl.col("inside")) for t in drawn]
    spans, most = int((seen.full[1] - seen.full[0]).sum()), int(events * IN_FULL)
    rest = sum(f.height for f in outside)
    inside = fitted(inside, max(most, events - rest), spans, seen.full[0])
    outside = fitted(outside, events - sum(f.height for f in inside), seen.end - seen.begin, seen.full[0])
    frames = iter(pl.concat(pair) for pair in zip(inside, outside, strict=True))
    return [t if t.kind == "counter" else replace(t, frame=next(frames)) for t in kept]


def _merged(kept: list[Track]) -> list[Omitted]:
    many = [t.frame.filter(pl.col("count") > 1) for t in kept if t.kind != "counter"]
    rows, events = sum(f.height for f in many), sum(int(f["count"].sum()) for f in many)
    text = f"{events:,} short events drawn as {rows:,} blocks"
    return [Omitted(what="merged", count=events, text=text)] if rows else []


def _made(
    analysis: Analysis, seen: Windows, kept: list[Track], places: Sequence[Place | None], longest: int
) -> Timeline:
    headings, rows = groups.outline(kept)
    ordered, zero = [t for t, _ in rows], seen.home[0]
    processes = {p: i for i, p in enumerate(dict.fromkeys(t.process for t in ordered))}
    book = Book(analysis.profile, longest)
    chains = [t.frame["chain"].drop_nulls() for t in ordered if "chain" in t.frame.columns]
    stacks = tree(
        analysis.profile.frames, pl.concat(chains).unique() if chains else pl.Series([], dtype=pl.Int64), book
    )
    writer = Writer(zero, processes, book, stacks)
    made = Timeline(
        zero_ns=zero,
        begin_ns=seen.begin - zero,
        end_ns=seen.end - zero,
        home=[seen.home[0] - zero, seen.home[1] - zero],
        windows=[] if _thinned(kept) else _pairs(seen.full[0] - zero, seen.full[1] - zero),
        names=[],
        facts=book.facts,
        stacks=stacks.stacks,
        groups=headings,
        tracks=[writer.encoded(t, g) for t, g in rows],
        jumps=[None if p is None else _jump(p, ordered, zero) for p in places],
    )
    made.names = book.names
    _note_steps(analysis, ordered, made)
    if book.shortened:
        count = len(book.shortened)
        made.omitted = [Omitted(what="names", count=count, text=f"{count:,} names cut after {longest} characters")]
    return made


def _thinned(kept: list[Track]) -> bool:
    """Whether even the steps to be shown in full had too many rows."""
    return any((t.frame["inside"] & (t.frame["count"] > 1)).any() for t in kept if t.kind != "counter")


def _note_steps(analysis: Analysis, ordered: list[Track], made: Timeline) -> None:
    """Which steps are warm-up, and whose clock they are cut on."""
    tables = {s.process: s for s in analysis.steps}
    for track, row in zip(ordered, made.tracks, strict=True):
        if track.kind == "steps":
            row.step, row.limit = int(tables[track.process].frame["warmup"].sum()), tables[track.process].limit


def _pairs(starts: Ints, ends: Ints) -> list[list[int]]:
    return [[int(a), int(b)] for a, b in zip(starts, ends, strict=True)]


def _jump(place: Place, ordered: list[Track], zero: int) -> Jump:
    """A finding's place in numbers of the timeline."""
    same = (i for i, t in enumerate(ordered) if (t.process, t.kind) == (place.process, place.kind) and _is_at(t, place))
    return Jump(
        start_ns=place.window[0] - zero,
        end_ns=place.window[1] - zero,
        label=place.label,
        track=next(same, None),
        idle=[[a - zero, b - zero] for a, b in place.idle.longest],
        idle_ns=place.idle.ns,
        gaps=place.idle.count,
        marks=[[a - zero, b - zero] for a, b in place.marks],
    )


def _is_at(track: Track, place: Place) -> bool:
    return (track.device, track.context, track.stream) == place.stream if place.stream else track.thread == place.thread
