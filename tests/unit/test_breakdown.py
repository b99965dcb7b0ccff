"""The categories of a step are exclusive, add up exactly, and name what the host was doing."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from unstall.analyze import analyze, ranges
from unstall.analyze.breakdown import breakdown
from unstall.analyze.device import device_ops
from unstall.analyze.steps import find_steps
from unstall.model import BreakdownRow, Profile
from unstall.testing import TraceBuilder, ms, us


def rows(profile: Profile) -> BreakdownRow:
    nested = None if profile.ranges is None else ranges.nest(profile.ranges)
    ops = device_ops(profile)
    (steps,) = find_steps(nested, profile.marks, ops)
    return breakdown(profile, nested, ops, steps)


def parts(row: BreakdownRow) -> dict[str, int]:
    return {c.name: c.ns for c in row.categories}


def trainer(**extra: int) -> TraceBuilder:
    """10 ms steps: 6 ms of loading, a pageable copy, a launch of a 1 ms kernel, a wait for it."""
    t = TraceBuilder()
    for i in range(10):
        at = i * ms(10)
        t.range(f"step_{i}", at, at + ms(10))
        t.range("data_load", at, at + ms(6))
        t.range("forward", at + ms(6.5), at + ms(9))
        t.copy("HtoD", at + ms(6), us(100), copy_dur=us(400))
        t.launch("gemm", at + ms(7), us(10), kernel_dur=ms(1))
        t.sync("stream", at + ms(7.5), at + ms(8.2))
    return t


def test_loading_copy_compute_wait() -> None:
    got = parts(rows(trainer().profile()))
    assert sum(got.values()) == ms(10)
    assert got["data_loading"] == ms(6)
    assert got["gpu_compute"] == ms(1)
    assert got["exposed_copy"] == us(400)
    assert got["copy_call"] == us(100)
    assert got["launch"] == us(10)
    # The kernel ends at 8.01 ms; the host notices at 8.2 ms: only that tail is the sync's.
    assert got["sync"] == us(190)


def test_the_host_range_is_named() -> None:
    row = rows(trainer().profile())
    loading = next(c for c in row.categories if c.name == "data_loading")
    assert [r.name for r in loading.ranges] == ["data_load"]


def test_a_copy_behind_compute_is_not_charged() -> None:
    t = TraceBuilder()
    for i in range(10):
        at = i * ms(10)
        t.range(f"step_{i}", at, at + ms(10))
        t.launch("gemm", at + us(10), us(10), kernel_start=at + us(20), kernel_dur=ms(9))
        t.copy("HtoD", at + us(100), us(10), copy_start=at + ms(1), copy_dur=ms(2), stream=8, source="pinned")
    got = parts(rows(t.profile()))
    assert "exposed_copy" not in got
    assert got["gpu_compute"] == ms(9)


def test_two_streams_are_a_union() -> None:
    t = TraceBuilder()
    for i in range(10):
        at = i * ms(10)
        t.range(f"step_{i}", at, at + ms(10))
        for stream in (7, 8):
            t.launch("gemm", at + us(10 * stream), us(5), kernel_start=at + ms(1), kernel_dur=ms(4), stream=stream)
    assert parts(rows(t.profile()))["gpu_compute"] == ms(4)


def test_queued_work_is_no_fault_of_the_host() -> None:
    t = TraceBuilder()
    for i in range(10):
        at = i * ms(10)
        t.range(f"step_{i}", at, at + ms(10))
        t.launch("a", at, us(5), kernel_start=at + us(5), kernel_dur=ms(4))
        t.launch("b", at + us(10), us(5), kernel_start=at + ms(4) + us(105), kernel_dur=ms(4))
    assert parts(rows(t.profile()))["device_latency"] == us(100)


def test_unnamed_loading_shows_before_the_first_copy() -> None:
    t = TraceBuilder(trace=("cuda",))
    for i in range(12):
        at = i * ms(10)
        t.copy("HtoD", at + ms(8), us(50), copy_dur=us(50))
        t.launch("gemm", at + ms(8.2), us(10), kernel_dur=ms(1))
    got = parts(rows(t.profile()))
    assert got["data_loading"] > ms(7)


def test_gil_waits_of_the_feeding_thread() -> None:
    t = TraceBuilder(trace=("cuda", "nvtx", "gil"))
    for i in range(10):
        at = i * ms(10)
        t.range(f"step_{i}", at, at + ms(10))
        t.gil("waiting", at + ms(1), at + ms(5))
        t.gil("waiting", at, at + ms(9), tid=777)  # another thread's waiting starves nobody
        t.launch("gemm", at + ms(6), us(10), kernel_dur=ms(1))
    assert parts(rows(t.profile()))["gil_wait"] == ms(4)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9000), st.integers(1, 3000), st.integers(0, 3)), min_size=1, max_size=12))
def test_categories_add_up_whatever_happens(events: list[tuple[int, int, int]]) -> None:
    t = TraceBuilder(trace=("cuda", "nvtx", "osrt"))
    for i in range(6):
        at = i * ms(10)
        t.range(f"step_{i}", at, at + ms(9.9))
        for start, length, kind in events:
            begin = at + us(start)
            if kind == 0:
                t.launch("k", begin, us(5), kernel_start=begin + us(3), kernel_dur=us(length))
            elif kind == 1:
                t.copy("HtoD", begin, us(5), copy_dur=us(length))
            elif kind == 2:
                t.osrt("read", begin, begin + us(length))
            else:
                t.sync("stream", begin, begin + us(length))
    row = rows(t.profile())
    assert sum(c.ns for c in row.categories) == row.step_ns
    assert all(c.ns > 0 for c in row.categories)


def test_of_several_gpus_each_has_its_own_figure() -> None:
    """torch's DataParallel: one process, two GPUs, half a step each. Busy and idle are of the one that works most."""
    t = TraceBuilder()
    t.gpu(1)
    for i in range(12):
        at = ms(10 * i)
        t.range(f"step_{i}", at, at + ms(9.9))
        t.launch("gemm", at + us(100), kernel_start=at + us(200), kernel_dur=ms(3), device=0, context=1)
        t.launch("gemm", at + us(150), kernel_start=at + ms(4), kernel_dur=ms(5), device=1, context=2)
        t.sync("context", at + us(300), at + ms(9.1))
    report = analyze(t.profile()).report
    (row,), (where,) = report.steps, report.breakdown
    assert [(g.device, g.busy_ns) for g in row.gpus] == [(1, ms(5)), (0, ms(3))]
    assert (where.device, parts(where)["gpu_compute"]) == (1, row.gpu_busy_ns) == (1, ms(5))
    told = {w.code: w.text for w in report.warnings}
    assert "GPU 1 5 ms, GPU 0 3 ms" in told["several-gpus"]
    assert [p.devices for p in report.profile.processes] == [[0, 1]]


def test_of_one_gpu_nothing_is_said() -> None:
    report = analyze(trainer().profile()).report
    assert [(g.device, g.busy_ns) for g in report.steps[0].gpus] == [(0, report.steps[0].gpu_busy_ns)]
    assert report.breakdown[0].device == 0 and "several-gpus" not in {w.code for w in report.warnings}
