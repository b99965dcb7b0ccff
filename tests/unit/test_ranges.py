"""Nesting, self time and "who is open when" against naive references; the report's rows of ranges."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unstall.analyze import ranges
from unstall.analyze.library import library_domains, library_names
from unstall.analyze.ranges import ancestors, inclusive, innermost, innermost_at, nest, range_rows
from unstall.model import Profile, RangeRow, empty
from unstall.testing import TraceBuilder

quick = settings(deadline=None, max_examples=60)
STYLES = ("push_pop", "start_end")
PROCESS = 7 << 24


class Row(NamedTuple):
    """A range as the references see it."""

    id: int
    start: int
    end: int | None
    style: str
    thread: int
    end_thread: int

    @property
    def candidate(self) -> bool:
        return self.end is not None and self.end >= self.start and self.thread == self.end_thread

    @property
    def length(self) -> int:
        return (self.end or 0) - self.start


def frame(rows: list[Row], names: list[str] | None = None) -> pl.DataFrame:
    table = empty("ranges")
    if not rows:
        return table
    data = {
        "start": [r.start for r in rows], "end": [r.end for r in rows], "name": names or ["x"] * len(rows),
        "domain": [""] * len(rows), "style": [r.style for r in rows], "process": [PROCESS] * len(rows),
        "thread": [r.thread for r in rows], "end_thread": [r.end_thread for r in rows], "cpu_ns": [None] * len(rows),
    }  # fmt: skip
    return pl.DataFrame(data, schema=table.schema)


@st.composite
def rows_(draw: st.DrawFn, styles: tuple[str, ...] = STYLES, scale: int = 1) -> list[Row]:
    """Ranges on two threads and few instants, so that ties, crossings and empty ranges are common; some are broken."""
    length = st.sampled_from([None, -1, 0, 1, 2, 3, 4, 5, 6, 8, 10])
    thread = st.integers(PROCESS + 1, PROCESS + 2)
    row = st.tuples(st.integers(-3, 9), length, st.sampled_from(styles), thread, st.integers(0, 9))
    return [
        Row(i, s * scale, None if n is None else (s + n) * scale, style, t, t + (m == 9 and style == "start_end"))
        for i, (s, n, style, t, m) in enumerate(draw(st.lists(row, max_size=14)))
    ]


@st.composite
def trees(draw: st.DrawFn) -> list[Row]:
    """Ranges that nest, as push and pop leave them: a random walk on a stack, on two threads."""
    rows: list[Row] = []
    for thread in (PROCESS + 1, PROCESS + 2):
        now, stack = 0, []
        for push, wait in draw(st.lists(st.tuples(st.booleans(), st.integers(1, 9)), max_size=30)):
            now += wait
            if push:
                stack.append(now)
            elif stack:
                rows.append(Row(len(rows), stack.pop(), now, "push_pop", thread, thread))
    return rows


def naive_trusted(rows: list[Row]) -> list[Row]:
    def crosses(a: Row, b: Row) -> bool:
        return a.thread == b.thread and a.length > 0 and b.length > 0 and (
            a.start < b.start < a.end < b.end or b.start < a.start < b.end < a.end  # type: ignore[operator]
        )  # fmt: skip

    candidates = [r for r in rows if r.candidate]
    pushed = [r for r in candidates if r.style == "push_pop"]
    pushed = [r for r in pushed if not any(crosses(r, other) for other in pushed)]
    rest = [r for r in candidates if r.style == "start_end"]
    return pushed + [r for r in rest if not any(crosses(r, other) for other in pushed + rest)]


def naive_containers(row: Row, trusted: list[Row]) -> list[Row]:
    """What encloses ``row``, innermost last: half-open, the longer first, the earlier row first."""

    def key(r: Row) -> tuple[int, int, int]:
        return r.start, -(r.end or 0), r.id

    inside = [
        r for r in trusted
        if r.thread == row.thread and r.length > 0 and key(r) < key(row) and row.start < r.end and row.end <= r.end  # type: ignore[operator]
    ]  # fmt: skip
    return sorted(inside, key=key)


def check(rows: list[Row]) -> None:
    nested, trusted = nest(frame(rows)), naive_trusted(rows)
    assert set(nested.filter("trusted")["id"]) == {r.id for r in trusted}
    assert nested["id"].to_list() == list(range(len(rows)))
    for r in rows:
        depth, parent, self_ns = nested.row(r.id, named=True)["depth"], nested["parent"][r.id], nested["self_ns"][r.id]
        if r not in trusted:
            assert (depth, parent, self_ns) == (None, None, None)
            continue
        around = naive_containers(r, trusted)
        assert depth == len(around)
        assert parent == (around[-1].id if around else None)
        children = [c for c in trusted if [a.id for a in naive_containers(c, trusted)][-1:] == [r.id]]
        assert self_ns == r.length - sum(c.length for c in children)


@quick
@given(rows_())
def test_nesting_equals_the_naive_one(rows: list[Row]) -> None:
    check(rows)


@quick
@given(rows_(styles=("push_pop",)))
def test_nesting_of_push_pop_alone(rows: list[Row]) -> None:
    check(rows)


@quick
@given(trees())
def test_what_push_and_pop_leave_is_trusted_entirely(rows: list[Row]) -> None:
    check(rows)
    assert nest(frame(rows))["trusted"].all()


@quick
@given(trees())
def test_self_times_add_up_to_the_outermost_ranges(rows: list[Row]) -> None:
    nested = nest(frame(rows))
    outermost = nested.filter(pl.col("depth") == 0)
    assert nested["self_ns"].sum() == (outermost["end"] - outermost["start"]).sum()
    assert (nested["self_ns"] >= 0).all()


@quick
@given(rows_(scale=2**56))
def test_times_too_wide_for_one_axis(rows: list[Row]) -> None:
    """Nonsense times in a broken capture: depth and parent hold even where thread and time do not fit into 63 bits."""
    nested, small = (
        nest(frame(rows)),
        nest(frame([r._replace(start=r.start >> 56, end=r.end and r.end >> 56) for r in rows])),
    )
    assert nested.select("trusted", "depth", "parent").equals(small.select("trusted", "depth", "parent"))
    threads = np.repeat([PROCESS + 1, PROCESS + 2], 9)
    times = np.tile(np.arange(-2, 16, 2), 2)
    assert innermost_at(nested, threads, times * 2**56).tolist() == innermost_at(small, threads, times).tolist()


@quick
@given(
    rows_(), st.lists(st.tuples(st.integers(PROCESS, PROCESS + 4), st.integers(-5, 16), st.integers(0, 6)), min_size=1)
)
def test_innermost_equals_the_naive_one(rows: list[Row], asked: list[tuple[int, int, int]]) -> None:
    nested, trusted = nest(frame(rows)), naive_trusted(rows)
    threads, times, lengths = (np.array(column) for column in zip(*asked, strict=True))
    at, wholly = innermost_at(nested, threads, times), innermost(nested).containing(threads, times, times + lengths)
    for i, (thread, time, length) in enumerate(asked):
        open_then = [r for r in trusted if r.thread == thread and r.start <= time < r.end]  # type: ignore[operator]
        open_then.sort(key=lambda r: (r.start, -(r.end or 0), r.id))
        holding = [r for r in open_then if time + length <= r.end]  # type: ignore[operator]
        assert at[i] == (open_then[-1].id if open_then else -1)
        assert wholly[i] == (holding[-1].id if holding else -1)


@quick
@given(trees(), st.integers(0, 3))
def test_innermost_of_a_subset_needs_no_parents(rows: list[Row], drop: int) -> None:
    """Others ask about the user's ranges only: what lies between in the hierarchy is not there then."""
    nested = nest(frame(rows)).filter(pl.col("id") % 4 != drop)
    threads, times = np.full(60, PROCESS + 1), np.arange(60)
    kept = [r for r in rows if r.id % 4 != drop and r.thread == PROCESS + 1]
    for time, found in enumerate(innermost_at(nested, threads, times)):
        open_then = [r for r in kept if r.start <= time < r.end]  # type: ignore[operator]
        assert found == (max(open_then, key=lambda r: r.start).id if open_then else -1)


@quick
@given(trees())
def test_ancestors_and_inclusive_sums_agree(rows: list[Row]) -> None:
    nested = nest(frame(rows))
    values = np.arange(1, len(rows) + 1)
    pairs = ancestors(nested).join(pl.DataFrame({"id": nested["id"], "value": values}), on="id")
    sums = dict(pairs.group_by("ancestor").agg(pl.col("value").sum()).iter_rows())
    assert inclusive(nested, values).tolist() == [sums[i] for i in range(len(rows))]
    assert (nested["self_ns"].len() == 0) or inclusive(nested, nested["self_ns"].to_numpy()).tolist() == [
        r.length for r in rows
    ]


def test_an_unclosed_range_swallows_nothing() -> None:
    t = TraceBuilder()
    t.range("lost", 0, None)
    t.range("step", 10, 30)
    t.range("work", 12, 20)
    nested = nest(t.profile().ranges)  # type: ignore[arg-type]
    assert nested["trusted"].to_list() == [False, True, True]
    assert nested["depth"].to_list() == [None, 0, 1]
    assert ranges.warnings(nested) == []


def test_a_start_end_range_never_costs_a_push_pop_range_its_place() -> None:
    t = TraceBuilder()
    t.range("request", 0, 50, style="start_end")
    t.range("work", 20, 100)
    t.range("part", 30, 40)
    nested = nest(t.profile().ranges)  # type: ignore[arg-type]
    assert nested["depth"].to_list() == [None, 0, 1]


def test_ranges_that_cross_are_said() -> None:
    t = TraceBuilder()
    t.range("lost", 0, None)
    t.range("request", 0, 10, style="start_end")
    t.range("answer", 5, 15, style="start_end")
    t.range("job", 20, 30, style="start_end", end_tid=5)
    t.range("fine", 40, 50, style="start_end")
    (said,) = ranges.warnings(nest(t.profile().ranges))  # type: ignore[arg-type]
    assert said.code == "overlapping-ranges"
    assert ": 2 (request, answer)." in said.text


LIBRARY = (
    "ncclAllReduce", "cub::DeviceReduce", "aten::addmm, seq = 12, op_id = 7", "aten::to, op_id = 3", "nccl:all_reduce",
    "mylib::op, op_id = 5", "AddmmBackward0, seq = 3", "autograd::engine::evaluate_function: AddmmBackward0",
    "cudnnConvolutionForward", "cublasLtMatmul", "Torch-Compiled Region: 0/0", "detach_, op_id = 317134",
    "FSDP::pre_forward (encoder.block.14.layer.1), op_id = 314311",
)  # fmt: skip
USER = (
    "backward", "cublas vs cutlass", "nccl warm-up", "ProfilerStep#3", "Optimizer.step#AdamW.step", "스텝 1", "",
    "my_region, op_id = 5", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
)  # fmt: skip


@pytest.mark.parametrize(
    ("domain", "name", "library"),
    [
        *(("", n, True) for n in LIBRARY),
        *(("", n, False) for n in USER),
        ("NCCL", "x", True),
        ("model", "forward", False),
    ],
)
def test_whose_range_it_is(domain: str, name: str, library: bool) -> None:
    told = library_domains(pl.Series([domain])) | library_names(pl.Series([name]))
    assert told.to_list() == [library]


# --------------------------------------------------------------------------------------------------------------------
# Rows
# --------------------------------------------------------------------------------------------------------------------


def rows_of(
    profile: Profile, steps: dict[int, str] | None = None, **windows: list[tuple[int, int]]
) -> dict[str, RangeRow]:
    nested = nest(profile.ranges)  # type: ignore[arg-type]
    process = nested["process"][0]
    given_ = {process: (windows["steady"][0][0], windows["steady"][-1][1])} if windows else None
    return {r.name: r for r in range_rows(profile, nested, None, given_, steps)}


def loop() -> TraceBuilder:
    """Four steps in one epoch: ``load`` outside the step, ``forward`` (with two layers) and ``backward`` inside."""
    t = TraceBuilder()
    t.range("epoch", 0, 4000)
    for i in range(4):
        at = 1000 * i
        t.range("load", at, at + 200)
        t.range(f"step_{i}", at + 200, at + 1000)
        t.range("forward", at + 200, at + 600)
        t.range("layer", at + 200, at + 400)
        t.range("layer", at + 400, at + 595)
        t.range("backward", at + 600, at + 990)
    return t


def test_wrappers_are_the_steps_and_what_encloses_them() -> None:
    t = loop()
    rows = rows_of(t.profile(), {t.global_process: "step_*"})
    assert {n for n, r in rows.items() if r.wrapper} == {"epoch", "step_*"}
    assert rows["step_*"].share is None
    assert sum(r.share for r in rows.values() if r.share is not None) == pytest.approx(100)
    assert rows["load"].share == pytest.approx(100 * 800 / (800 + 1600 + 1560 + 1580))


def test_without_a_known_step_only_what_covers_nearly_everything_is_a_wrapper() -> None:
    rows = rows_of(loop().profile())
    assert {n for n, r in rows.items() if r.wrapper} == {"epoch"}


def test_a_lone_step_range_is_all_there_is_to_show() -> None:
    t = TraceBuilder()
    for i in range(5):
        t.range(f"step_{i}", 100 * i, 100 * i + 90)
    rows = rows_of(t.profile(), {t.global_process: "step_*"})
    assert not rows["step_*"].wrapper
    assert rows["step_*"].share == pytest.approx(100)


def test_warm_up_is_left_out_of_the_steady_total_and_only_of_that() -> None:
    rows = rows_of(loop().profile(), steady=[(1200, 2000), (2200, 3000), (3200, 4000)])
    assert rows["forward"].total_ns == 1600
    assert rows["forward"].steady_total_ns == 1200
    assert rows["load"].steady_total_ns == 400  # between two steady steps; the one before the first is not
    assert rows_of(loop().profile())["forward"].steady_total_ns is None


def test_family_statistics() -> None:
    t = TraceBuilder()
    for i, ns in enumerate((10, 20, 40, 50)):
        t.range(f"step_{i}", 100 * i, 100 * i + ns)
    row = rows_of(t.profile())["step_*"]
    assert (row.members, row.instances, row.total_ns, row.min_ns, row.max_ns) == (4, 4, 120, 10, 50)
    assert (row.avg_ns, row.median_ns) == (30.0, 30.0)
    assert row.stddev_ns == pytest.approx(np.std([10, 20, 40, 50], ddof=1))
    assert row.process == 100


def test_one_instance_has_no_deviation_and_recursion_counts_self_once() -> None:
    t = TraceBuilder()
    t.range("walk", 0, 100)
    t.range("walk", 10, 60)
    t.range("once", 200, 210)
    rows = rows_of(t.profile())
    assert rows["once"].stddev_ns == 0.0
    assert (rows["walk"].total_ns, rows["walk"].self_ns) == (150, 100)  # as nsys: every instance; self time only once


def test_a_family_that_was_never_closed_has_no_figures() -> None:
    t = TraceBuilder()
    t.range("lost", 0, None)
    t.range("work", 10, 20)
    row = rows_of(t.profile())["lost"]
    assert (row.instances, row.unclosed, row.total_ns, row.avg_ns) == (0, 1, 0, None)
    assert (row.min_ns, row.median_ns, row.stddev_ns, row.self_ns, row.gpu_ns) == (None, None, None, None, None)


def test_processes_domains_and_styles_stay_apart() -> None:
    t = TraceBuilder()
    t.range("work", 0, 10)
    t.range("work", 20, 50, domain="model")
    t.range("work", 60, 61, style="start_end")
    t.process(200)
    t.range("work", 0, 5)
    profile = t.profile()
    rows = range_rows(profile, nest(profile.ranges), None, None)  # type: ignore[arg-type]
    assert [(r.domain, r.style, r.process, r.total_ns) for r in rows] == [
        ("model", "push_pop", 100, 30), ("", "push_pop", 100, 10), ("", "push_pop", 200, 5), ("", "start_end", 100, 1),
    ]  # fmt: skip


def test_ranges_that_overlap_are_totalled_but_have_no_self_time() -> None:
    t = TraceBuilder()
    t.range("request", 0, 10, style="start_end")
    t.range("request", 5, 15, style="start_end")
    row = rows_of(t.profile())["request"]
    assert (row.instances, row.total_ns, row.self_ns) == (2, 20, None)


def test_no_ranges_at_all() -> None:
    profile = TraceBuilder().profile()
    nested = nest(profile.ranges)  # type: ignore[arg-type]
    assert nested.is_empty()
    assert range_rows(profile, nested, None, None) == []
    assert innermost_at(nested, np.array([1]), np.array([1])).tolist() == [-1]
