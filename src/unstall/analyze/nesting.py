"""NVTX ranges nested on their thread, and folded into families.

In: the ``ranges`` table. Out: the same with depth, parent, self time and family; who is open when; sums over everything
inside.

A range is *trusted* for nesting when it was closed, on the thread that opened it, and crosses no other: a push/pop
range no other push/pop range (two domains can), a start/end range no range at all. The others are kept apart: totalled,
but without depth, parent, self time or device time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import polars as pl

from unstall.analyze.intervals import Ints
from unstall.analyze.library import library_domains, library_names
from unstall.analyze.names import families
from unstall.analyze.tree import Axis, Innermost, Mask, Tree
from unstall.model import Warning_

PUSH_POP = "push_pop"


def nest(ranges: pl.DataFrame) -> pl.DataFrame:
    """The ``ranges`` table with its nesting, rows in the same order.

    Added columns: ``id`` (row index), ``family`` (name with counting numbers folded), ``library`` (written by one, not
    by the user), ``closed``, ``trusted``, and for trusted rows (else null) ``depth`` (0 outermost), ``parent`` (id;
    null at depth 0) and ``self_ns`` (duration less the direct children). An ``end`` before the start becomes null.
    """
    frame = _named(ranges).with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias("id"))
    frame = frame.with_columns((pl.col("end") >= pl.col("start")).fill_null(value=False).alias("closed"))
    frame = frame.with_columns(pl.when("closed").then("end").alias("end"))
    stays = frame["closed"] & (frame["end_thread"].is_null() | (frame["end_thread"] == frame["thread"]))
    return frame.with_columns(_tree_columns(frame, np.flatnonzero(stays.to_numpy())))


def _named(ranges: pl.DataFrame) -> pl.DataFrame:
    """Adds ``family`` and ``library``."""
    frame = ranges.with_columns(pl.col("domain").fill_null(""), pl.col("name").fill_null(""))
    library = _by_text(frame["domain"], library_domains) | _by_text(frame["name"], library_names)
    family = _by_text(frame["name"], lambda names: families(names).cast(pl.Categorical))
    return frame.with_columns(family.alias("family"), library.alias("library"))


def _by_text(column: pl.Series, judge: Callable[[pl.Series], pl.Series]) -> pl.Series:
    """What ``judge`` says of each row's text, asked once a distinct one; without a join, which would cost memory."""
    codes = column.cast(pl.Categorical)
    distinct = codes.unique()
    place = np.zeros(int(distinct.to_physical().max() or 0) + 1, np.uint32)  # type: ignore[arg-type]
    place[distinct.to_physical()] = np.arange(len(distinct))
    return judge(distinct.cast(pl.String)).gather(place[codes.to_physical()])


def _tree_columns(frame: pl.DataFrame, rows: Ints) -> list[pl.Series]:
    start, end, thread = (frame[c].gather(rows).to_numpy() for c in ("start", "end", "thread"))
    axis = Axis.of(thread, start, end)
    push_pop = (frame["style"].gather(rows) == PUSH_POP).to_numpy()
    good, tree, depth, parent = _nested(axis.key(thread, start), axis.key(thread, end), push_pop)
    order = good[tree.order]
    spent, ids = (end - start)[order], rows[order]
    has = parent >= 0
    children = np.bincount(parent[has], spent[has], len(ids)).astype(np.int64)  # exact below 2⁵³ ns, 104 days
    return [
        _spread("trusted", len(frame), ids, 1).cast(pl.Boolean).fill_null(value=False),
        _spread("depth", len(frame), ids, depth),
        _spread("parent", len(frame), ids[has], ids[parent[has]]),
        _spread("self_ns", len(frame), ids, spent - children),
    ]


def _spread(name: str, size: int, rows: Ints, values: Ints | int) -> pl.Series:
    """A column with values in some rows and null in the others."""
    column, known = np.zeros(size, np.int64), np.zeros(size, np.bool_)
    column[rows], known[rows] = values, True
    return pl.select(pl.when(pl.Series(known)).then(pl.Series(column)).alias(name)).to_series()


def _nested(start: Ints, end: Ints, push_pop: Mask) -> tuple[Ints, Tree, Ints, Ints]:
    """The ranges that take part (positions), their tree, and in pre-order their depth and parent."""
    good = np.arange(len(start))
    tree, depth, parent = _tree(start, end)
    if not tree.laminar(parent):
        good = np.flatnonzero(_crossing_none(start, end, push_pop))
        tree, depth, parent = _tree(start[good], end[good])
    return good, tree, depth, parent


def _tree(start: Ints, end: Ints) -> tuple[Tree, Ints, Ints]:
    tree = Tree.of(start, end)
    depth = tree.depth()
    return tree, depth, tree.parent(depth)


def _crossing_none(start: Ints, end: Ints, push_pop: Mask) -> Mask:
    """Push/pop ranges that cross no other push/pop range; start/end ranges that cross neither these nor each other."""
    keep = np.ones(len(start), np.bool_)
    keep[push_pop] = ~_crossing(start[push_pop], end[push_pop])
    keep[keep] = ~_crossing(start[keep], end[keep]) | push_pop[keep]
    return keep


def _crossing(start: Ints, end: Ints) -> Mask:
    tree, out = Tree.of(start, end), np.zeros(len(start), np.bool_)
    out[tree.order] = tree.crossing()
    return out


def innermost(nested: pl.DataFrame) -> Innermost:
    """An index of the trusted ranges of a frame (or of any subset of its rows), for repeated questions."""
    rows = nested.filter("trusted").select("id", "thread", "start", "end")
    ids, thread, start, end = (rows[c].to_numpy() for c in rows.columns)
    return Innermost(ids, thread, start, end)


def innermost_at(nested: pl.DataFrame, threads: Ints, times: Ints) -> Ints:
    """Id of the innermost trusted range open on each thread at each time (ns), shape ``(n,)``; -1 for none."""
    return innermost(nested).at(threads, times)


def parents_of(nested: pl.DataFrame) -> Ints:
    """Parent id by id, -1 for none. ``nested`` is the whole frame that :func:`nest` gave."""
    return nested["parent"].fill_null(-1).to_numpy()


def ancestors(nested: pl.DataFrame) -> pl.DataFrame:
    """One row a trusted range and ancestor (``id``, ``ancestor``), itself included: joins become inclusive sums.

    It has as many rows as there are ranges times their depth; for sums over all ranges :func:`inclusive` is lighter.
    """
    parent = parents_of(nested)
    ids = nested.filter("trusted")["id"].to_numpy()
    here, parts = ids, []
    while len(ids):
        parts.append(pl.DataFrame({"id": ids, "ancestor": here}))
        above = parent[here]
        ids, here = ids[above >= 0], above[above >= 0]
    return pl.concat(parts) if parts else pl.DataFrame(schema={"id": pl.Int64, "ancestor": pl.Int64})


def levels(nested: pl.DataFrame) -> Iterator[Ints]:
    """Ids of trusted ranges that have a parent, a level at a time, the deepest first."""
    depth = nested["depth"].fill_null(0).to_numpy()
    order = np.argsort(depth, kind="stable")
    cuts = np.searchsorted(depth[order], np.arange(1, depth.max(initial=0) + 1))
    yield from reversed(np.split(order, cuts)[1:])


def inclusive(nested: pl.DataFrame, values: Ints, combine: np.ufunc = np.add) -> Ints:
    """Values by id, each combined (added, or ``np.minimum`` …) with those of all ranges inside it."""
    out, parent = values.copy(), parents_of(nested)
    for ids in levels(nested):
        combine.at(out, parent[ids], out[ids])
    return out


def users(nested: pl.DataFrame) -> Ints:
    """By id: the range itself if it is the user's, else its nearest ancestor that is; -1 for none."""
    ids, library = np.arange(len(nested)), nested["library"].to_numpy()
    out, parent = np.where(library, -1, ids), parents_of(nested)
    for level in reversed(list(levels(nested))):
        rows = level[library[level]]
        out[rows] = out[parent[rows]]
    return out


def warnings(nested: pl.DataFrame) -> list[Warning_]:
    """Ranges kept apart because they cross others. (Those unclosed or ended elsewhere are the loader's to tell.)"""
    apart = nested.filter(pl.col("closed") & ~pl.col("trusted"))
    crossing = apart.filter(pl.col("end_thread").is_null() | (pl.col("end_thread") == pl.col("thread")))
    if crossing.is_empty():
        return []
    names = crossing["name"].cast(pl.String).unique(maintain_order=True).head(3).to_list()
    text = (
        f"NVTX ranges that overlap others without nesting: {len(crossing):,} ({', '.join(names)}). "
        "They are totalled, but have no self time and no GPU time."
    )
    return [Warning_(code="overlapping-ranges", text=text)]
