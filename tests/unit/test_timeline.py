"""Timeline: what it holds is what was captured, what it leaves out is said, and it never grows beyond its size."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import unstall
from unstall.analyze.lanes import lanes
from unstall.analyze.timeline import timeline
from unstall.analyze.timeline.stacks import tree
from unstall.analyze.timeline.thin import counted, fitted, thin
from unstall.analyze.tracks import tracks
from unstall.model import Analysis, Report, Timeline, TimelineTrack
from unstall.testing import TraceBuilder, ms, us

Row = tuple[int, int, int, str, int]  # lane, start, end, name, events


def analysed(trace: TraceBuilder) -> tuple[Analysis, Report]:
    analysis = unstall.analyze(trace.profile())
    return analysis, unstall.diagnose(analysis)


def made(trace: TraceBuilder, **options: Any) -> Timeline:
    found = timeline(*analysed(trace), **options)
    assert found is not None
    return found


def track_of(found: Timeline, kind: str, number: int = 0) -> TimelineTrack:
    return [t for t in found.tracks if t.kind == kind][number]


def rows_of(found: Timeline, track: TimelineTrack) -> list[Row]:
    """A track's rows again, in the capture's clock."""
    lane = [i for i, size in enumerate(track.lanes) for _ in range(size)]
    count = [1] * len(track.start)
    for at, n in zip(accumulate(track.merged.at), track.merged.count, strict=True) if track.merged else ():
        count[at] = n
    return [
        (where, start + found.zero_ns, start + found.zero_ns + dur, found.names[label], n)
        for where, start, dur, label, n in zip(
            lane, accumulate(track.start), track.dur, track.label, count, strict=True
        )
    ]


def loop(trace: TraceBuilder, steps: int = 8, kernels: int = 4, period: int = ms(10)) -> TraceBuilder:
    """Steps that load for 6 of 10 ms and launch a few kernels then."""

    def body(t: TraceBuilder, i: int, at: int) -> None:
        t.range(f"step_{i}", at, at + period - us(50))
        t.range("data_load", at + us(10), at + ms(6))
        t.range("forward", at + ms(6), at + ms(9))
        t.copy("HtoD", at=at + ms(6), copy_dur=us(100))
        for k in range(kernels):
            t.launch(f"gemm<{k}>", at=at + ms(6) + us(200) + k * us(60), kernel_dur=us(40))

    trace.steps(steps, period, body)
    return trace


def test_every_event_is_there_as_it_was_captured() -> None:
    trace = loop(TraceBuilder())
    profile, found = trace.profile(), made(loop(TraceBuilder()))
    assert profile.ranges is not None and profile.kernels is not None and profile.api is not None
    nvtx = rows_of(found, track_of(found, "nvtx"))
    assert sorted((s, e, n) for _, s, e, n, _ in nvtx) == sorted(profile.ranges.select("start", "end", "name").rows())
    assert {lane for lane, _, _, name, _ in nvtx if name.startswith("step_")} == {0}
    assert {lane for lane, _, _, name, _ in nvtx if not name.startswith("step_")} == {1}
    stream = rows_of(found, track_of(found, "stream"))
    kernels = profile.kernels.select("start", "end", pl.col("name").cast(pl.String)).rows()
    assert sorted((s, e, n) for _, s, e, n, _ in stream if n.startswith("gemm")) == sorted(kernels)
    assert sum(n == "HtoD pageable" for *_, n, _ in stream) == 8
    assert {n for *_, n, _ in rows_of(found, track_of(found, "api"))} == {"cudaLaunchKernel", "cudaMemcpyAsync"}
    assert not found.omitted


def test_times_count_from_the_start_of_the_typical_step() -> None:
    found = made(loop(TraceBuilder()))
    steps = rows_of(found, track_of(found, "steps"))
    assert found.home[0] == 0
    assert (found.zero_ns, found.zero_ns + found.home[1]) in {(s, e) for _, s, e, *_ in steps}


def test_a_call_and_its_kernel_share_a_number_within_their_process_only() -> None:
    trace = loop(loop(TraceBuilder()))
    trace.process(200)
    loop(trace)
    found = made(trace)
    for process in (0, 1):
        call = next(t for t in found.tracks if t.kind == "api" and t.process == process)
        work = next(t for t in found.tracks if t.kind == "stream" and t.process == process)
        calls, works = list(accumulate(call.link or [])), list(accumulate(work.link or []))
        assert set(works) <= set(calls) and len(set(calls)) == len(calls)
        starts = dict(zip(calls, accumulate(call.start), strict=True))
        assert all(starts[k] <= at for k, at in zip(works, accumulate(work.start), strict=True))


def test_facts_tell_what_a_kernel_and_a_copy_were() -> None:
    trace = loop(TraceBuilder(), kernels=1)
    trace.launch("odd", at=ms(90), grid=(7, 8, 9), block=(64, 2, 1), registers=77, dynamic_smem_bytes=2048)
    trace.copy("DtoH", at=ms(91), bytes=12345, destination="pinned")
    found = made(trace)
    stream = track_of(found, "stream")
    facts = {name: found.facts[f] for (*_, name, _), f in zip(rows_of(found, stream), stream.fact or [], strict=True)}
    assert facts["odd"] == ["kernel", 7, 8, 9, 64, 2, 1, 77, 0, 2048]
    assert facts["DtoH pinned"] == ["copy", 12345, "DtoH", "device", "pinned"]


def test_a_stack_is_read_from_the_inside_out() -> None:
    trace = loop(TraceBuilder())
    trace.sample(ms(5), ["inner", "middle", "outer"])
    trace.sample(ms(6), ["other", "middle", "outer"])
    trace.sample(ms(7), [("0x7f00", "/opt/lib/libx.so"), "outer"])
    found = made(trace)
    samples = track_of(found, "samples")
    stacks = [stack_of(found, node) for node in samples.stack or []]
    assert stacks == [["inner", "middle", "outer"], ["other", "middle", "outer"], ["[libx.so]", "outer"]]
    assert len(found.stacks.parent) == 5, "what stacks share is held once"


def stack_of(found: Timeline, node: int) -> list[str]:
    out = []
    while node >= 0:
        out.append(found.names[found.stacks.name[node]])
        node = found.stacks.parent[node]
    return out


def test_a_capture_without_stacks_has_an_empty_tree() -> None:
    assert tree(None, pl.Series([1], dtype=pl.Int64), None).nodes(pl.Series([1, None])).tolist() == [-1, -1]  # type: ignore[arg-type]


def test_what_was_never_closed_is_left_out_and_said() -> None:
    trace = loop(TraceBuilder())
    trace.range("open", ms(3), None)
    found = made(trace)
    assert "open" not in found.names
    assert [(o.what, o.count) for o in found.omitted] == [("ranges", 1)]


def test_nothing_to_draw_is_no_timeline() -> None:
    assert timeline(*analysed(TraceBuilder())) is None


def test_a_finding_leads_to_its_range_and_the_idle_gpu() -> None:
    analysis, report = analysed(loop(TraceBuilder(), steps=12))
    found = timeline(analysis, report)
    assert found is not None and len(found.jumps) == len(report.findings)
    at, jump = next((f, j) for f, j in zip(report.findings, found.jumps, strict=True) if f.code == "host-data-loading")
    assert jump is not None and at.where.range == jump.label == "data_load"
    assert (jump.start_ns, jump.end_ns) == (us(10), ms(6)), "inside the step that times count from"
    assert found.tracks[jump.track or 0].kind == "nvtx"
    assert jump.idle == [[us(10), ms(6)]] and (jump.gaps, jump.idle_ns) == (1, ms(6) - us(10))


def test_a_finding_on_a_gpu_bound_step_looks_at_the_host_where_it_was_issued() -> None:
    trace = TraceBuilder()
    for i in range(12):  # the host takes 1 ms to issue what takes the GPU 5 ms
        trace.range(f"step_{i}", ms(i), ms(i) + us(900))
        trace.range("forward", ms(i) + us(10), ms(i) + us(800))
        trace.launch("sgemm_128x128_nn", at=ms(i) + us(20), kernel_start=ms(5 * i) + us(30), kernel_dur=ms(5) - us(9))
    analysis, report = analysed(trace)
    found = timeline(analysis, report)
    assert found is not None and analysis.steps[0].limit == "gpu"
    jump = next(j for f, j in zip(report.findings, found.jumps, strict=True) if f.where.kernel)
    assert jump is not None and found.tracks[jump.track or 0].kind == "stream"
    assert len(jump.marks) == 1 and jump.marks[0] == [jump.start_ns, jump.end_ns]
    assert -us(50) < jump.start_ns < us(50), "the launch of this very step, not the next one's"


def test_what_is_shown_in_full_stays_whole_when_the_rest_is_thinned() -> None:
    trace = loop(TraceBuilder(), steps=60, kernels=60)
    analysis, report = analysed(trace)
    found = timeline(analysis, report, events=3000)
    assert found is not None
    profile, windows = trace.profile(), [(a + found.zero_ns, b + found.zero_ns) for a, b in found.windows]
    assert profile.kernels is not None
    drawn = rows_of(found, track_of(found, "stream"))
    wanted = profile.kernels.select("start", "end").rows()
    whole = {(s, e) for s, e in wanted if any(s < b and e > a for a, b in windows)}
    assert whole <= {(s, e) for _, s, e, _, n in drawn if n == 1} and len(whole) >= 60
    assert sum(len(t.start) for t in found.tracks if t.kind != "counter") <= 3000
    merged = next(o for o in found.omitted if o.what == "merged")
    assert merged.count == sum(n for t in found.tracks if t.dur for *_, n in rows_of(found, t) if n > 1)
    assert sum(n for *_, n in drawn) == 60 * 61, "every operation is in some row"


def test_a_step_too_large_to_be_shown_in_full_is_not_said_to_be() -> None:
    trace = loop(TraceBuilder(), steps=6, kernels=60)
    assert made(trace, events=2000).windows
    small = made(trace, events=120)
    assert small.windows == [] and any(o.what == "merged" for o in small.omitted)


@pytest.mark.parametrize("name", ["n<" * 800, "한글 범위 " * 100])
def test_the_size_is_bounded_whatever_the_names(name: str) -> None:
    trace = TraceBuilder()
    for i in range(120):
        trace.range(f"{i} {name} {i}", ms(i), ms(i) + us(900))
        trace.launch(f"k{i} {name}", at=ms(i) + us(20))
    found = made(trace, most_bytes=30_000)
    assert len(msgspec.json.encode(found).replace(b"<", rb"\u003c")) <= 30_000
    assert {o.what for o in found.omitted} >= {"names"}
    for kind in ("nvtx", "api", "stream"):
        assert sum(n for *_, n in rows_of(found, track_of(found, kind))) == 120, "every event is in some row"


def test_counters_are_means_over_equal_stretches() -> None:
    trace = loop(TraceBuilder(), steps=4)
    for i in range(40_000):
        trace.metric("SM Active", us(i), float(i % 100))
    found = made(trace)
    counter = next(t for t in found.tracks if t.kind == "counter" and t.name == "SM Active")
    assert counter.values is not None and 100 < len(counter.values) == len(counter.start) <= 3001
    assert all(0 < v < 100 for v in counter.values)


def test_a_gpu_that_idles_most_of_the_time_is_seen_to(profile_path: Callable[[str], Path]) -> None:
    """Busy 6 % of the time, most of its changes while it works: a mean of the points would show 90 %."""
    analysis = unstall.analyze(unstall.load(profile_path("slow_loader_window")))
    found = timeline(analysis, unstall.diagnose(analysis))
    busy = next(t for t in found.tracks if t.kind == "counter" and t.name == "GPU busy [%]")
    at = np.cumsum(busy.start)
    mean = float((np.asarray(busy.values)[:-1] * np.diff(at)).sum() / (at[-1] - at[0]))
    assert 4 < mean < 8


@pytest.mark.parametrize(
    ("name", "code", "kind"),
    [
        ("slow_loader_window", "host-data-loading", "nvtx"),
        ("pageable_h2d_window", "pageable-copy", "nvtx"),
        ("fp32_matmul_window", "fp32-matmul", "stream"),
    ],
)
def test_real_findings_lead_somewhere(profile_path: Callable[[str], Path], name: str, code: str, kind: str) -> None:
    analysis = unstall.analyze(unstall.load(profile_path(name)))
    report = unstall.diagnose(analysis)
    found = timeline(analysis, report)
    assert found is not None
    jump = next(j for f, j in zip(report.findings, found.jumps, strict=True) if f.code == code)
    assert jump is not None and found.tracks[jump.track or 0].kind == kind
    length = found.home[1] - found.home[0]
    assert -length < jump.start_ns < jump.end_ns < 2 * length, "in the step that is looked at, or on its host side"
    assert all(jump.start_ns <= a < b <= jump.end_ns for a, b in jump.idle)


def test_a_real_capture_of_two_processes(profile_path: Callable[[str], Path]) -> None:
    analysis = unstall.analyze(unstall.load(profile_path("twoproc")))
    found = timeline(analysis, unstall.diagnose(analysis))
    assert found is not None
    profile = analysis.profile
    assert profile.kernels is not None and profile.copies is not None and profile.memsets is not None
    drawn = sum(n for t in found.tracks if t.kind == "stream" for *_, n in rows_of(found, t))
    assert drawn == profile.kernels.height + profile.copies.height + profile.memsets.height
    headings = [(g.kind, g.parent) for g in found.groups]
    assert headings.count(("process", None)) == 2 and [k for k, _ in headings].count("gpu") == 2


@pytest.mark.parametrize("events", [100, 300, 500])
def test_what_is_thinned_again_and_again_loses_nothing(events: int) -> None:
    trace = loop(TraceBuilder())
    trace.api("cudaGetDevice_v3020", 0, us(1))
    for i in range(500):  # short for a capture of two seconds: merged at once, and again until it fits
        trace.api("cudaEventQuery_v3020", ms(2000) + us(2 * i), ms(2000) + us(2 * i + 1))
    found = made(trace, events=events)
    calls = [(name, n) for *_, name, n in rows_of(found, track_of(found, "api"))]
    assert sum(n for _, n in calls) == 541
    assert sum(n for name, n in calls if name == "cudaEventQuery") == 500
    assert max(n for _, n in calls) > 1


# ---- lanes and thinning ----------------------------------------------------------------------------------------------

SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=40)


@given(SPANS)
def test_no_two_events_of_a_lane_overlap(spans: list[tuple[int, int]]) -> None:
    start = np.array([s for s, _ in spans], np.int64)
    end = start + np.array([d for _, d in spans], np.int64)
    where = lanes(start, end)
    assert (where >= 0).all()
    for lane in set(where.tolist()):
        rows = sorted(zip(start[where == lane].tolist(), end[where == lane].tolist(), strict=True))
        assert all(a[1] <= b[0] for a, b in pairwise(rows))


def test_what_nests_gets_its_depth_and_too_deep_is_marked() -> None:
    start, end = np.array([0, 1, 2, 50]), np.array([100, 40, 30, 60])
    assert lanes(start, end).tolist() == [0, 1, 2, 1]
    assert lanes(start, end, most=2).tolist() == [0, 1, -1, 1]


@given(SPANS, st.integers(2, 30), st.lists(st.integers(0, 80), max_size=2))
def test_thinning_keeps_count_time_and_order(spans: list[tuple[int, int]], pixel: int, cuts: list[int]) -> None:
    start = np.array([s for s, _ in spans], np.int64)
    end = start + np.array([d for _, d in spans], np.int64)
    frame = pl.DataFrame({"start": start, "end": end, "lane": lanes(start, end)}, schema_overrides={"lane": pl.Int64})
    frame = frame.with_columns(name=pl.lit("x"), link=pl.int_range(pl.len(), dtype=pl.Int64))
    apart = np.array(sorted(cuts), np.int64)
    thinned = thin(counted(frame), pixel, apart)
    assert thinned["count"].sum() == frame.height and thinned["busy"].sum() == int((end - start).sum())
    long = frame.filter(pl.col("end") - pl.col("start") >= pixel)
    assert set(long.select("lane", "start", "end").rows()) <= set(thinned.select("lane", "start", "end").rows())
    assert thinned.filter((pl.col("count") > 1) & pl.col("link").is_not_null()).is_empty()
    for lane, rows in thinned.sort("lane", "start", "end").group_by("lane"):
        assert (rows["start"][1:] >= rows["end"][:-1]).all(), f"lane {lane} overlaps"
    for cut in cuts:
        kept, began = thinned.filter(pl.col("start") <= cut)["count"].sum(), int((start <= cut).sum())
        assert kept == began, "nothing is merged across what is shown in full"


def test_thinning_goes_on_until_it_fits() -> None:
    start = np.arange(0, 100_000, 10)
    frame = counted(pl.DataFrame({"start": start, "end": start + 5, "lane": 0, "name": "x"}))
    (fit,) = fitted([frame], 50, 100_000, np.empty(0, np.int64))
    assert 25 <= fit.height <= 50 and fit["count"].sum() == 10_000


def test_tracks_come_one_at_a_time(profile_path: Callable[[str], Path]) -> None:
    analysis = unstall.analyze(unstall.load(profile_path("slow_loader_window")))
    first = next(iter(tracks(analysis)))
    assert first.kind == "steps" and first.frame.columns[:3] == ["start", "end", "name"]
