"""Interval arithmetic on int64 nanoseconds: the one place where overlaps are resolved.

In: arrays of starts and ends, any order, overlaps allowed, rows with ``end <= start`` ignored.
Out: *unions*: a pair ``(starts, ends)`` sorted, disjoint and non-touching, on which everything else works in
``O(n log n)`` without a Python loop. Half-open: ``[start, end)``.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Union: TypeAlias = tuple[Ints, Ints]
"""Sorted, disjoint, non-touching intervals: ``(starts, ends)``, each of shape ``(n,)``, in ns."""

NOTHING: Union = (np.empty(0, np.int64), np.empty(0, np.int64))


def union(starts: npt.ArrayLike, ends: npt.ArrayLike) -> Union:
    """The union of intervals, as disjoint sorted ones."""
    s, e = np.asarray(starts, np.int64), np.asarray(ends, np.int64)
    keep = e > s
    s, e = s[keep], e[keep]
    if not len(s):
        return NOTHING
    order = np.argsort(s, kind="stable")
    s, reach = s[order], np.maximum.accumulate(e[order])
    first = np.concatenate(([True], s[1:] > reach[:-1]))
    last = np.concatenate((first[1:], [True]))
    return s[first], reach[last]


def total(u: Union) -> int:
    """Length of a union in ns."""
    return int((u[1] - u[0]).sum())


def merge(*unions: Union) -> Union:
    """The union of several unions."""
    return union(
        np.concatenate([u[0] for u in unions] or [NOTHING[0]]), np.concatenate([u[1] for u in unions] or [NOTHING[1]])
    )


def gaps(u: Union, start: int, end: int) -> Union:
    """What of ``[start, end)`` the union leaves uncovered."""
    s, e = clip(u, start, end)
    return union(np.concatenate(([start], e)), np.concatenate((s, [end])))


def subtract(a: Union, b: Union) -> Union:
    """What of ``a`` is not in ``b``."""
    if not len(a[0]) or not len(b[0]):
        return a
    low, high = int(min(a[0][0], b[0][0])), int(max(a[1][-1], b[1][-1]))
    return intersect(a, gaps(b, low, high))


def intersect(a: Union, b: Union) -> Union:
    """What is in both: pairs that overlap are listed by searching ``b`` for the reach of each row of ``a``."""
    first = np.searchsorted(b[1], a[0], side="right")
    last = np.searchsorted(b[0], a[1], side="left")
    count = np.maximum(last - first, 0)
    rows = np.repeat(np.arange(len(a[0])), count)
    offset = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    other = first[rows] + offset
    return np.maximum(a[0][rows], b[0][other]), np.minimum(a[1][rows], b[1][other])


def clip(u: Union, start: int, end: int) -> Union:
    """The part of a union inside ``[start, end)``."""
    s, e = np.maximum(u[0], start), np.minimum(u[1], end)
    keep = e > s
    return s[keep], e[keep]


def covered(u: Union, starts: npt.ArrayLike, ends: npt.ArrayLike) -> Ints:
    """For each window ``[start, end)``, how many ns of it the union covers. Windows may overlap, shape ``(m,)``."""
    s, e = np.asarray(starts, np.int64), np.asarray(ends, np.int64)
    filled: Ints = np.maximum(_filled(u, e) - _filled(u, np.minimum(s, e)), 0)
    return filled


def _filled(u: Union, at: Ints) -> Ints:
    """Covered ns before each instant."""
    if not len(u[0]):
        return np.zeros(len(at), np.int64)
    before = np.concatenate(([0], np.cumsum(u[1] - u[0])))
    i = np.searchsorted(u[0], at, side="right")
    over = np.where(i > 0, np.maximum(u[1][i - 1] - at, 0), 0)
    out: Ints = before[i] - over
    return out
