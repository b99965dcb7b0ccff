"""The nesting of ranges on a thread: crossings found, depth, parent, and the innermost range at any instant.

In: starts, ends and threads of ranges, any order, int64 ns. Out: positions, masks and ids. Everything is a sort and a
search, ``O(n log n)`` in numpy; no loop over rows.

Ranges are half-open, ``[start, end)``. Of two with the same start the longer encloses the shorter; of two identical
ones the earlier row encloses the later; a range of no length encloses nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unstall.analyze.intervals import Ints

Mask = npt.NDArray[np.bool_]
MAX_KEY = 2**62
"""Keys stay below, so that adding two of them cannot overflow."""


@dataclass(frozen=True)
class Axis:
    """Lays the time of all threads end to end, so that one sort or one search serves all of them.

    Attributes:
        threads: the threads, sorted.
        low, high: first and last instant that is told apart.
        ticks: distinct instants, where real times would not fit into int64 (nonsense times in a broken capture).
    """

    threads: Ints
    low: int
    high: int
    ticks: Ints | None = None

    @classmethod
    def of(cls, threads: Ints, start: Ints, end: Ints) -> Axis:
        """The axis of some ranges."""
        names = np.unique(threads)
        if not len(names):
            return cls(names, 0, 0)
        low, high = int(start.min()) - 1, int(end.max()) + 1
        if (high - low + 1) * len(names) < MAX_KEY:
            return cls(names, low, high)
        ticks = np.unique(np.concatenate((start, end)))
        return cls(names, 0, len(ticks), ticks)

    def key(self, threads: Ints, times: Ints) -> Ints:
        """Position of each instant on the axis; -1 for a thread that is not on it."""
        if not len(self.threads):
            return np.full(len(threads), -1)
        at = times if self.ticks is None else np.searchsorted(self.ticks, times, side="right")
        code = np.minimum(np.searchsorted(self.threads, threads), len(self.threads) - 1)
        key = code * (self.high - self.low + 1) + (np.clip(at, self.low, self.high) - self.low)
        return np.where(self.threads[code] == threads, key, -1)


@dataclass(frozen=True)
class Tree:
    """Ranges in pre-order (parents before children), by position in the arrays that came in.

    Attributes:
        order: positions in pre-order.
        start, end: keys on the axis, in pre-order.
        closing: ends in order of time, children before parents, as indices into the pre-order.
    """

    order: Ints
    start: Ints
    end: Ints
    closing: Ints

    @classmethod
    def of(cls, start: Ints, end: Ints) -> Tree:
        """From keys on an :class:`Axis`."""
        order = np.lexsort((-end, start))
        start, end = start[order], end[order]
        backwards = np.arange(len(end) - 1, -1, -1)
        return cls(order, start, end, backwards[np.argsort(end[::-1], kind="stable")])

    def crossing(self) -> Mask:
        """Which ranges cross another one, in pre-order.

        A range crosses none exactly when what opens inside it is what closes inside it. Both sets are compared by the
        XOR of a 64-bit hash of their members, from prefix XORs; a false match has a chance of 2⁻⁶⁴ a range.
        """
        long = self.end > self.start
        here: Ints = np.cumsum(long) - long  # index among the ranges of some length
        start, end = self.start[long], self.end[long]
        closing: Ints = here[self.closing[long[self.closing]]]
        mark = _hash(len(start))
        opened, closed = _prefix_xor(mark), _prefix_xor(mark[closing])
        place: Ints = np.empty_like(closing)
        place[closing] = np.arange(len(closing))
        inside_open = opened[np.searchsorted(start, end, side="left")] ^ opened[np.arange(1, len(start) + 1)]
        inside_close = closed[place] ^ closed[np.searchsorted(end[closing], start, side="right")]
        out = np.zeros(len(long), np.bool_)
        out[long] = inside_open != inside_close
        return out

    def laminar(self, parent: Ints) -> bool:
        """Whether no two ranges cross: each ends no later than its parent.

        (The first range in pre-order that crosses an earlier one would have the innermost one then open as its parent.)
        """
        inside = parent >= 0
        return bool((self.end[inside] <= self.end[parent[inside]]).all())

    def depth(self) -> Ints:
        """Number of ranges that enclose each, in pre-order: those opened before it less those closed by then."""
        long = self.end > self.start
        closed = self.end[self.closing[long[self.closing]]]
        return np.cumsum(long) - long - np.searchsorted(closed, self.start, side="right")

    def parent(self, depth: Ints) -> Ints:
        """Pre-order index of each range's parent, -1 for none: the last one before it that is a level up."""
        long = self.end > self.start
        by_level = np.argsort(depth, kind="stable")
        by_level = by_level[long[by_level]]
        size = len(depth)
        found = np.searchsorted(depth[by_level] * size + by_level, (depth - 1) * size + np.arange(size)) - 1
        return np.where(depth > 0, by_level[np.maximum(found, 0)] if len(by_level) else -1, -1)


PIECE = 1 << 19
"""Instants looked up at once: every step of a look-up needs arrays as long as its input."""


def _in_pieces(look_up: Callable[..., Ints], *columns: npt.ArrayLike) -> Ints:
    """``look_up`` on aligned columns, a piece at a time."""
    arrays = [np.asarray(c, np.int64) for c in columns]
    out = np.empty(len(arrays[0]), np.int64)
    for at in range(0, len(out), PIECE):
        out[at : at + PIECE] = look_up(*(a[at : at + PIECE] for a in arrays))
    return out


class Innermost:
    """The innermost range open on a thread at an instant, and the innermost that contains an interval wholly.

    Built from ranges that cross no other; any subset of such ranges will do.
    """

    def __init__(self, ids: Ints, threads: Ints, start: Ints, end: Ints) -> None:
        self.axis = Axis.of(threads, start, end)
        tree = Tree.of(self.axis.key(threads, start), self.axis.key(threads, end))
        self.ids, self.ends = ids[tree.order], end[tree.order]
        self.parents = tree.parent(tree.depth())
        index = np.arange(len(ids))
        closes = index + np.searchsorted(tree.start, tree.end[tree.closing], side="left")
        opens = index + np.searchsorted(tree.end[tree.closing], tree.start, side="right")
        # At one instant: first everything closes, then everything opens; a range of no length never counts as open.
        self.keys, self.open = np.empty(2 * len(ids), np.int64), np.empty(2 * len(ids), np.int64)
        self.keys[closes], self.open[closes] = tree.end[tree.closing], self.parents[tree.closing]
        self.keys[opens], self.open[opens] = tree.start, np.where(tree.end > tree.start, index, self.parents)

    def at(self, threads: npt.ArrayLike, times: npt.ArrayLike) -> Ints:
        """Id of the innermost range open on each thread at each time (ns); -1 for none."""
        return _in_pieces(lambda t, x: self._name(self._index(t, x)), threads, times)

    def containing(self, threads: npt.ArrayLike, starts: npt.ArrayLike, ends: npt.ArrayLike) -> Ints:
        """Id of the innermost range that holds each ``[start, end]`` (ns) wholly; -1 for none.

        What straddles two siblings is in neither: it is their parent's.
        """
        return _in_pieces(self._containing, threads, starts, ends)

    def _containing(self, threads: Ints, starts: Ints, ends: Ints) -> Ints:
        index = self._index(threads, starts)
        while (out := (index >= 0) & (self._end(index) < ends)).any():
            index[out] = self.parents[index[out]]
        return self._name(index)

    def _index(self, threads: Ints, times: Ints) -> Ints:
        if not len(self.keys):
            return np.full(len(threads), -1)
        last = np.searchsorted(self.keys, self.axis.key(threads, times), side="right") - 1
        return np.where(last >= 0, self.open[np.maximum(last, 0)], -1)

    def _end(self, index: Ints) -> Ints:
        return self.ends[np.maximum(index, 0)] if len(self.ends) else index

    def _name(self, index: Ints) -> Ints:
        return np.where(index >= 0, self.ids[np.maximum(index, 0)], -1) if len(self.ids) else index


def _hash(count: int) -> npt.NDArray[np.uint64]:
    """A well-mixed 64-bit number for each of 1 … count (splitmix64)."""
    x = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _prefix_xor(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """XOR of the values before each place, shape ``(n + 1,)``."""
    out = np.zeros(len(values) + 1, np.uint64)
    np.bitwise_xor.accumulate(values, out=out[1:])
    return out
