"""What moved: per step, folded, new and vanished told from zero."""

from __future__ import annotations

from compare_sides import a_breakdown, a_call, a_copy, a_kernel, a_range, noisy, profile

import unstall
from unstall.model import Moved, Report

MS = 1_000_000


def rows(before: Report, after: Report, kind: str) -> dict[str, Moved]:
    return {m.name: m for m in unstall.compare(before, after).moved if m.kind == kind}


def test_ranges_are_steady_time_a_step_whatever_the_counts() -> None:
    short = profile(noisy(30, seed=1), ranges=[a_range("load", 20, 30), a_range("step_*", 25, 30, wrapper=True)])
    long = profile(noisy(300, seed=2), ranges=[a_range("load", 2, 300), a_range("step_*", 7, 300, wrapper=True)])
    moved = rows(short, long, "range")
    assert list(moved) == ["load"], "the step itself is the comparison, not something that moved"
    assert (moved["load"].before_ns, moved["load"].after_ns, moved["load"].change_ns) == (20 * MS, 2 * MS, -18 * MS)


def test_new_and_vanished_are_null_not_zero() -> None:
    old = profile(noisy(seed=1), ranges=[a_range("gone", 3, 100), a_range("same", 1, 100)])
    new = profile(noisy(seed=2), ranges=[a_range("fresh", 2, 100), a_range("same", 1, 100)])
    moved = rows(old, new, "range")
    assert set(moved) == {"gone", "fresh"}
    assert (moved["gone"].after_ns, moved["gone"].change_ns) == (None, -3 * MS)
    assert (moved["fresh"].before_ns, moved["fresh"].change_ns) == (None, 2 * MS)


def test_what_one_side_did_not_collect_did_not_vanish() -> None:
    moved = unstall.compare(profile(noisy(seed=1), kernels=[a_kernel("k", 100, 100)]), profile(noisy(seed=2))).moved
    assert moved == []
    assert unstall.compare(noisy(seed=1), noisy(seed=2)).moved == []


def test_names_that_differ_in_numbers_alone_meet() -> None:
    old = profile(noisy(seed=1), ranges=[a_range("block_0", 1, 100), a_range("block_1", 1, 100)])
    new = profile(noisy(seed=2), ranges=[a_range("block_*", 3, 100)])
    moved = rows(old, new, "range")
    assert list(moved) == ["block_*"] and moved["block_*"].change_ns == 1 * MS


def test_kernel_names_with_other_numbers_are_other_kernels() -> None:
    old = profile(
        noisy(seed=1), kernels=[a_kernel("sgemm_128x64", 100, 101), a_kernel("triton_poi_fused_add_3", 9, 101)]
    )
    new = profile(
        noisy(seed=2), kernels=[a_kernel("sgemm_128x128", 90, 101), a_kernel("triton_poi_fused_add_7", 5, 101)]
    )
    assert set(rows(old, new, "kernel")) == {"sgemm_128x64", "sgemm_128x128", "triton_poi_fused_add_*"}


def test_start_up_work_is_not_part_of_a_step() -> None:
    once = a_kernel("init", 5000, 8)
    old = profile(noisy(30, seed=1), kernels=[once, a_kernel("k", 100, 31)], api=[a_call("cudaMalloc", 800, 5)])
    new = profile(noisy(300, seed=2), kernels=[once, a_kernel("k", 100, 301)], api=[a_call("cudaMalloc", 800, 5)])
    assert unstall.compare(old, new).moved == []


def test_calls_meet_without_their_version() -> None:
    old = profile(noisy(seed=1), api=[a_call("cudaLaunchKernel_v7000", 5, 101)])
    new = profile(noisy(seed=2), api=[a_call("cudaLaunchKernel", 7, 101)])
    assert rows(old, new, "api")["cudaLaunchKernel"].change_ns == 2000


def test_categories_and_copies() -> None:
    old = profile(noisy(seed=1), breakdown=[a_breakdown(gpu_compute=2, data_loading=20)], copies=[a_copy(1, 101)])
    new = profile(noisy(seed=2), breakdown=[a_breakdown(gpu_compute=2)], copies=[a_copy(0.5, 101, source="pinned")])
    assert set(rows(old, new, "category")) == {"data_loading"}
    assert set(rows(old, new, "copy")) == {"HtoD pageable → device", "HtoD pinned → device"}


def test_copies_are_those_of_steady_steps() -> None:
    """The weights go to the GPU once, as the batches do in every step: ten times the steps would dilute them."""
    short = profile(noisy(30, seed=1), copies=[a_copy(1, 30 + 40, steady=30)])
    long = profile(noisy(300, seed=2), copies=[a_copy(1, 300 + 40, steady=300)])
    assert rows(short, long, "copy") == {}
    sums = profile(noisy(30, seed=3), copies=[a_copy(1, 40, source="unknown", steady=None)])
    assert rows(short, sums, "copy") == {}, "of a table of sums it is not known what start-up took"


def test_the_largest_change_comes_first() -> None:
    old = profile(noisy(seed=1), ranges=[a_range("a", 1, 100), a_range("b", 10, 100), a_range("c", 5, 100)])
    new = profile(noisy(seed=2), ranges=[a_range("a", 2, 100), a_range("b", 4, 100), a_range("c", 8, 100)])
    assert [m.name for m in unstall.compare(old, new).moved] == ["b", "c", "a"]
