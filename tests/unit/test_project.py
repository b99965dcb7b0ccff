"""Whose range a device operation belongs to."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unstall.analyze.device import device_ops
from unstall.analyze.project import attribute, device_time, gpu_span
from unstall.analyze.ranges import nest, range_rows
from unstall.model import RangeRow
from unstall.testing import TraceBuilder

quick = settings(deadline=None, max_examples=60)
MAIN, HELPER, OTHER = 100, 101, 102


def attributed(t: TraceBuilder) -> tuple[pl.DataFrame, pl.DataFrame]:
    profile = t.profile()
    nested = nest(profile.ranges)  # type: ignore[arg-type]
    return attribute(device_ops(profile), nested), nested


def found(t: TraceBuilder) -> list[tuple[str | None, str | None]]:
    """(range's name, how) of each operation in order of its start."""
    ops, nested = attributed(t)
    names = nested["name"].cast(pl.String).to_list()
    return [(None if r is None else names[r], by) for r, by in ops.select("range", "by").iter_rows()]


def rows(t: TraceBuilder) -> dict[str, RangeRow]:
    ops, nested = attributed(t)
    return {r.name: r for r in range_rows(t.profile(), nested, ops, None)}


def test_the_innermost_range_on_the_launching_thread() -> None:
    t = TraceBuilder()
    t.range("step", 0, 1000)
    t.range("forward", 100, 500)
    t.launch("a", at=200, dur=5)
    t.launch("b", at=700, dur=5)
    t.launch("c", at=2000, dur=5)
    assert found(t) == [("forward", "thread"), ("step", "thread"), (None, None)]


def test_a_call_that_straddles_two_siblings_is_their_parents() -> None:
    t = TraceBuilder()
    t.range("step", 0, 1000)
    t.range("left", 100, 500)
    t.range("right", 500, 900)
    t.launch("a", at=495, dur=10)
    t.launch("b", at=995, dur=10)
    assert found(t) == [("step", "thread"), (None, None)]


def test_autograds_thread_belongs_to_the_range_that_waits_for_it() -> None:
    t = TraceBuilder()
    t.range("step", 0, 1000)
    t.range("backward", 500, 900)
    t.launch("a", at=600, dur=5, tid=HELPER, kernel_dur=30)
    t.launch("b", at=950, dur=5, tid=HELPER, kernel_start=1000, kernel_dur=7)
    assert found(t) == [("backward", "time"), ("step", "time")]
    got = rows(t)
    assert (got["backward"].gpu_ns, got["backward"].gpu_by_time_ns) == (30, 30)
    assert (got["step"].gpu_ns, got["step"].gpu_by_time_ns) == (37, 37)


def two_candidates(main_launch: int, other_launch: int, *, other_stream: int = 7) -> TraceBuilder:
    """Two threads have a range open when a third, which has none, launches on stream 7."""
    t = TraceBuilder()
    t.range("backward", 0, 1000, tid=MAIN)
    t.range("load", 50, 1000, tid=OTHER)
    t.launch("m", at=main_launch, dur=5, tid=MAIN)
    t.launch("o", at=other_launch, dur=5, tid=OTHER, stream=other_stream)
    t.launch("lost", at=600, dur=5, tid=HELPER, kernel_start=5000)
    return t


def test_of_several_threads_the_last_to_launch_on_the_same_stream() -> None:
    assert found(two_candidates(300, 200))[-1] == ("backward", "time")
    assert found(two_candidates(200, 300))[-1] == ("load", "time")
    assert found(two_candidates(200, 300, other_stream=13))[-1] == ("backward", "time")  # a prefetcher's own stream


def test_a_launch_before_the_open_range_or_after_the_call_says_nothing() -> None:
    """Then the range opened last is taken: ``load`` opens at 50, ``backward`` at 0."""
    t = TraceBuilder()
    t.range("backward", 100, 1000, tid=MAIN)
    t.range("load", 150, 1000, tid=OTHER)
    t.launch("m", at=20, dur=5, tid=MAIN)
    t.launch("m", at=800, dur=5, tid=MAIN)
    t.launch("lost", at=600, dur=5, tid=HELPER, kernel_start=5000)
    assert found(t)[-1] == ("load", "time")


def test_the_launch_may_be_anywhere_in_the_outermost_open_range() -> None:
    """The forward pass of the same step is evidence enough, even when the main thread launches nothing in backward."""
    t = TraceBuilder()
    t.range("step", 0, 1000, tid=MAIN)
    t.range("forward", 0, 100, tid=MAIN)
    t.range("backward", 100, 900, tid=MAIN)
    t.range("load", 150, 1000, tid=OTHER)
    t.launch("m", at=20, dur=5, tid=MAIN)
    t.launch("lost", at=600, dur=5, tid=HELPER, kernel_start=5000)
    assert found(t)[-1] == ("backward", "time")


def test_the_main_threads_unnamed_work_is_not_a_workers() -> None:
    """A thread with ranges of its own is helped out by another only where that one launched on the same stream."""
    t = TraceBuilder()
    t.range("step", 0, 100, tid=MAIN)
    t.range("load", 0, 1000, tid=OTHER)
    t.launch("o", at=150, dur=5, tid=OTHER, stream=13)
    t.launch("unnamed", at=500, dur=5, tid=MAIN)
    assert found(t)[-1] == (None, None)


def test_recomputation_on_autograds_thread_has_ranges_of_its_own() -> None:
    """Gradient checkpointing opens the forward's ranges on autograd's thread; its other work is still backward's."""
    t = TraceBuilder()
    t.range("backward", 0, 1000, tid=MAIN)
    t.range("block", 200, 300, tid=HELPER)
    t.launch("m", at=50, dur=5, tid=MAIN)
    t.launch("again", at=250, dur=5, tid=HELPER)
    t.launch("gradient", at=400, dur=5, tid=HELPER)
    assert found(t) == [("backward", "thread"), ("block", "thread"), ("backward", "time")]


def test_library_ranges_take_part_in_sums_but_never_hide_the_users() -> None:
    t = TraceBuilder()
    t.range("backward", 0, 1000, tid=MAIN)
    t.range("cub::DeviceScan", 200, 300, tid=HELPER, domain="CCCL")
    t.launch("scan", at=250, dur=5, tid=HELPER, kernel_dur=11)
    assert found(t) == [("backward", "time")]
    got = rows(t)
    assert (got["cub::DeviceScan"].gpu_ns, got["cub::DeviceScan"].gpu_by_time_ns) == (11, 0)
    assert (got["backward"].gpu_ns, got["backward"].gpu_by_time_ns) == (11, 11)


def test_a_library_range_inside_the_users() -> None:
    t = TraceBuilder()
    t.range("forward", 0, 1000)
    t.range("aten::addmm, op_id = 3", 100, 200)
    t.launch("gemm", at=150, dur=5, kernel_dur=9)
    assert found(t) == [("forward", "thread")]
    got = rows(t)
    assert [got[n].gpu_ns for n in ("forward", "aten::addmm, op_id = 3")] == [9, 9]


def test_two_processes_with_the_same_correlation_ids() -> None:
    t = TraceBuilder(1)
    t.range("mine", 0, 100)
    t.launch("a", at=10, dur=5, kernel_start=20)
    t.process(2)
    t.range("theirs", 0, 100)
    t.launch("b", at=10, dur=5, kernel_start=30)
    assert found(t) == [("mine", "thread"), ("theirs", "thread")]


def test_other_processes_ranges_are_no_candidates() -> None:
    t = TraceBuilder(1)
    t.range("theirs", 0, 100)
    t.process(2)
    t.launch("b", at=10, dur=5)
    assert found(t) == [(None, None)]


def test_a_graph_launch_is_one_call_with_many_kernels() -> None:
    t = TraceBuilder()
    t.range("replay", 0, 100)
    t.graph_launch(at=10, dur=10, kernels=[("a", 50, 60), ("b", 70, 90)])
    ops, nested = attributed(t)
    assert gpu_span(ops, nested).row(0) == (50, 90, 40, 1, 0)
    assert rows(t)["replay"].gpu_ns == 30


def test_a_recursive_family_is_charged_once() -> None:
    t = TraceBuilder()
    t.range("walk", 0, 100)
    t.range("walk", 10, 60)
    t.launch("a", at=20, dur=5, kernel_dur=8)
    assert rows(t)["walk"].gpu_ns == 8


def test_a_kernel_without_its_call_is_unattributed() -> None:
    t = TraceBuilder()
    t.range("work", 0, 100)
    t.kernel("a", 10, 20, correlation=99)
    assert found(t) == [(None, None)]


def test_overlapping_ranges_have_no_device_time_rather_than_none() -> None:
    t = TraceBuilder()
    t.range("request", 0, 100, style="start_end")
    t.range("request", 50, 150, style="start_end")
    t.range("work", 200, 300)
    t.launch("a", at=20, dur=5)
    got = rows(t)
    assert got["request"].gpu_ns is None
    assert got["work"].gpu_ns == 0


@quick
@given(
    st.lists(st.tuples(st.sampled_from([MAIN, HELPER, OTHER]), st.integers(0, 90), st.integers(1, 60)), max_size=8),
    st.lists(
        st.tuples(st.sampled_from([MAIN, HELPER, OTHER]), st.integers(0, 150), st.integers(1, 40)),
        min_size=1,
        max_size=12,
    ),
)
def test_all_device_time_is_attributed_or_not(
    ranges: list[tuple[int, int, int]], launches: list[tuple[int, int, int]]
) -> None:
    """Conservation: what the outermost ranges hold and what no range holds add up to all device time."""
    t = TraceBuilder()
    for i, (tid, start, length) in enumerate(ranges):
        t.range(f"r{i}", start, start + length, tid=tid)
    for tid, at, dur in launches:
        t.launch("k", at=at, dur=3, kernel_dur=dur, tid=tid)
    ops, nested = attributed(t)
    ns = pl.col("end") - pl.col("start")
    whole = ops.select(ns.sum()).item()
    none = ops.filter(pl.col("range").is_null()).select(ns.sum()).item()
    outermost = device_time(ops, nested).filter((nested["depth"] == 0).fill_null(value=False))["gpu_ns"].sum()
    assert outermost + none == whole == sum(dur for _, _, dur in launches)
    assert (ops["range"].is_null() == ops["by"].is_null()).all()


@pytest.mark.parametrize("call", [device_time, gpu_span])
def test_nothing_launched(call: object) -> None:
    t = TraceBuilder()
    t.range("work", 0, 100)
    ops, nested = attributed(t)
    assert call(ops, nested).height == 1  # type: ignore[operator]
