"""Interval arithmetic against a naive set of integers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from unstall.analyze import intervals

SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=12)


def points(spans: list[tuple[int, int]]) -> set[int]:
    return {x for s, e in spans for x in range(s, e)}


def make(spans: list[tuple[int, int]]) -> intervals.Union:
    return intervals.union([s for s, _ in spans], [e for _, e in spans])


def spread(u: intervals.Union) -> set[int]:
    return points(list(zip(u[0].tolist(), u[1].tolist(), strict=True)))


@given(SPANS)
def test_union_is_sorted_disjoint_and_covers_the_same_points(spans: list[tuple[int, int]]) -> None:
    u = make(spans)
    assert spread(u) == points(spans)
    assert (u[1] > u[0]).all()
    assert (u[0][1:] > u[1][:-1]).all()
    assert intervals.total(u) == len(points(spans))


@given(SPANS, SPANS)
def test_set_operations(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> None:
    x, y = make(a), make(b)
    assert spread(intervals.intersect(x, y)) == points(a) & points(b)
    assert spread(intervals.subtract(x, y)) == points(a) - points(b)
    assert spread(intervals.merge(x, y)) == points(a) | points(b)


@given(SPANS, st.integers(0, 60), st.integers(0, 60))
def test_clip_gaps_and_coverage(spans: list[tuple[int, int]], start: int, end: int) -> None:
    u, window = make(spans), set(range(start, end))
    assert spread(intervals.clip(u, start, end)) == points(spans) & window
    if end >= start:
        assert spread(intervals.gaps(u, start, end)) == window - points(spans)
    assert intervals.covered(u, [start], [end]).tolist() == [len(points(spans) & window)]


def test_nothing_stays_nothing() -> None:
    assert intervals.total(intervals.merge()) == 0
    assert intervals.covered(intervals.NOTHING, [0], [10]).tolist() == [0]
    assert len(intervals.intersect(intervals.NOTHING, make([(0, 5)]))[0]) == 0


def test_touching_windows_may_be_intersected() -> None:
    pieces = (np.array([0, 5]), np.array([5, 9]))
    got = intervals.intersect(make([(2, 8)]), pieces)
    assert got[0].tolist() == [2, 5]
    assert got[1].tolist() == [5, 8]
