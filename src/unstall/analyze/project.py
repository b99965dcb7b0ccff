"""Device work attributed to the ranges in which the host launched it.

In: device operations with their launching calls (``device.device_ops``) and nested ranges (``nesting.nest``).
Out: each operation's range and how it was found; device time, operations and projected span of every range.

**On the launching thread** an operation belongs to the innermost range that holds its call wholly; a call that
straddles two siblings belongs to their parent.

**By time**, for threads that launch on behalf of another (autograd runs backward from its own): a call with no range of
the user open on its thread belongs to the innermost one that holds it on *another* thread of the process. Where several
threads have one open, the thread that last launched on the operation's own stream wins, provided it did so inside the
outermost range that it has open (autograd runs a backward operation on the stream of its forward operation); then the
range opened last; then the lower thread id. A thread that opens ranges of its own is only helped out this way when such
a launch is there: else its unnamed work would go to whoever happens to have a range open.

What has no call, no thread or no range is unattributed: the two parts add up to all device time.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from unstall.analyze import nesting
from unstall.analyze.device import STREAM, stream
from unstall.analyze.intervals import Ints
from unstall.analyze.tree import Axis, Innermost, Mask

BY = pl.Enum(["thread", "time"])
FAR = np.iinfo(np.int64).max
PIECE = 1 << 19
"""Rows summed at once: of millions, only sums are kept."""


def attribute(ops: pl.DataFrame, nested: pl.DataFrame) -> pl.DataFrame:
    """Adds each operation's range.

    Columns added: ``range`` (id of the innermost range of the user; null for none), ``by`` (``thread``, ``time`` or
    null) and ``leaf`` (id of the innermost range of anybody on the launching thread: ``range`` itself, or a library's).
    """
    called = np.flatnonzero((ops["thread"].is_not_null() & ops["api_end"].is_not_null()).to_numpy())
    calls = ops.select(*STREAM, "thread", "api_start", "api_end")
    if len(called) < len(ops):
        calls = calls[called]
    leaf = nesting.innermost(nested).containing(calls["thread"], calls["api_start"], calls["api_end"])
    own = _lookup(nesting.users(nested), leaf)
    other = _by_time(calls, nested, own)
    by = np.where(own >= 0, 0, np.where(other >= 0, 1, -1))
    columns = {"range": np.where(own >= 0, own, other), "leaf": leaf, "by": by}
    out = ops.with_columns(_column(n, v, called, len(ops)) for n, v in columns.items())
    return out.with_columns(
        pl.when(pl.col("by") == 0)
        .then(pl.lit("thread"))
        .when(pl.col("by") == 1)
        .then(pl.lit("time"))
        .cast(BY)
        .alias("by")
    )


def _column(name: str, values: Ints, rows: Ints, size: int) -> pl.Series:
    """Values at some rows of a column; -1 and all other rows are null."""
    full = np.full(size, -1, np.int64)
    full[rows] = values
    series = pl.Series(name, full)
    return series.set(series < 0, None)


def _lookup(table: Ints, ids: Ints) -> Ints:
    """``table[ids]``, and -1 for -1."""
    return np.where(ids >= 0, table[np.maximum(ids, 0)], -1) if len(table) else ids


# --------------------------------------------------------------------------------------------------------------------
# By time
# --------------------------------------------------------------------------------------------------------------------


def _by_time(calls: pl.DataFrame, nested: pl.DataFrame, own: Ints) -> Ints:
    """For each call without a range of its own: the range on the thread that waits for it, -1 for none."""
    out = np.full(len(calls), -1, np.int64)
    user = nested.filter(pl.col("trusted") & ~pl.col("library"))
    lost = own < 0
    if not len(user) or not lost.any():
        return out
    roots, process = _roots(nested), calls["process"].to_numpy()
    for (name,), theirs in user.group_by("process"):
        rows = np.flatnonzero(lost & (process == name))
        if len(rows):
            out[rows] = _waiting(calls, calls[rows], theirs, roots)
    return out


def _roots(nested: pl.DataFrame) -> Ints:
    """By id: start of the outermost range of the user around each range, ns."""
    start, user, parent = nested["start"].to_numpy(), ~nested["library"].to_numpy(), nesting.parents_of(nested)
    out = np.where(user, start, FAR)
    for level in reversed(list(nesting.levels(nested))):
        out[level] = np.minimum(out[level], out[parent[level]])
    return out


def _waiting(calls: pl.DataFrame, lost: pl.DataFrame, user: pl.DataFrame, roots: Ints) -> Ints:
    """The rule of the module's text, for one process: candidates are its threads with ranges, one after another."""
    view, opened = nesting.innermost(user), _starts(user, len(roots))
    threads = np.sort(user["thread"].unique().to_numpy())
    thread, helped = lost["thread"].to_numpy(), ~np.isin(lost["thread"].to_numpy(), threads)
    best, best_launch, best_open = (np.full(len(lost), -1, np.int64) for _ in range(3))
    for candidate in threads:
        found = _open_on(view, candidate, lost)
        launch = _last_launch(_launches(calls, candidate), lost)
        launch = np.where(launch >= _lookup(roots, found), launch, -1)
        start = _lookup(opened, found)
        allowed = (found >= 0) & (thread != candidate) & (helped | (launch >= 0))
        better = allowed & ((best < 0) | (launch > best_launch) | ((launch == best_launch) & (start > best_open)))
        best, best_launch, best_open = _take(better, (found, best), (launch, best_launch), (start, best_open))
    return best


def _take(better: Mask, *pairs: tuple[Ints, Ints]) -> list[Ints]:
    return [np.where(better, new, old) for new, old in pairs]


def _starts(user: pl.DataFrame, size: int) -> Ints:
    out = np.zeros(size, np.int64)
    out[user["id"].to_numpy()] = user["start"].to_numpy()
    return out


def _open_on(view: Innermost, thread: int, lost: pl.DataFrame) -> Ints:
    return view.containing(np.full(len(lost), thread), lost["api_start"], lost["api_end"])


def _launches(calls: pl.DataFrame, thread: int) -> pl.DataFrame:
    return calls.select("thread", *STREAM, "api_start").filter(pl.col("thread") == thread)


def _signed() -> pl.Expr:
    return stream().reinterpret(signed=True)


def _last_launch(calls: pl.DataFrame, lost: pl.DataFrame) -> Ints:
    """When a thread's last launch on the stream of each call began, up to that call; -1 for never."""
    where, at = calls.select(_signed()).to_series().to_numpy(), calls["api_start"].to_numpy()
    axis = Axis.of(where, at, at)
    order = np.argsort(axis.key(where, at), kind="stable")
    asked = lost.select(_signed()).to_series().to_numpy()
    last = np.searchsorted(axis.key(where, at)[order], axis.key(asked, lost["api_start"].to_numpy()), side="right") - 1
    if not len(order):
        return last
    pick = order[np.maximum(last, 0)]
    return np.where((last >= 0) & (where[pick] == asked), at[pick], -1)


# --------------------------------------------------------------------------------------------------------------------
# Sums by range
# --------------------------------------------------------------------------------------------------------------------


def device_time(ops: pl.DataFrame, nested: pl.DataFrame) -> pl.DataFrame:
    """Device time launched inside each range, children included.

    Args:
        ops: what :func:`attribute` gave.
        nested: the same ranges.

    Returns:
        ``gpu_ns`` (all of it) and ``gpu_by_time_ns`` (the part launched by other threads), in the rows of ``nested``;
        null where a range is not trusted.
    """
    by_time = ops.select("by", "range", "start", "end").filter(pl.col("by") == "time")
    late = nesting.inclusive(nested, _sums(by_time, "range", len(nested)))
    whole = nesting.inclusive(nested, _sums(ops, "leaf", len(nested))) + late
    frame = pl.DataFrame({"gpu_ns": whole, "gpu_by_time_ns": late})
    return frame.select(pl.when(nested["trusted"]).then(pl.all()))


def _sums(ops: pl.DataFrame, column: str, size: int) -> Ints:
    out = np.zeros(size, np.int64)
    for rows in _known(ops, column, "start", "end"):
        np.add.at(out, rows[column].to_numpy(), (rows["end"] - rows["start"]).to_numpy())
    return out


def _known(ops: pl.DataFrame, column: str, *others: str) -> Iterator[pl.DataFrame]:
    """Some columns of the rows where the first is known, a piece at a time: whole rows are 120 bytes each."""
    for piece in ops.select(column, *others).iter_slices(PIECE):
        yield piece.filter(pl.col(column).is_not_null())


def _first_of_each_call(ops: pl.DataFrame) -> Ints:
    """Rows that are the first of their call: a sort of one key needs a third of the memory of a hash of two columns."""
    process = ops["process"].rank("dense").to_numpy().astype(np.int64)
    rows: Ints = np.unique((process << 32) + ops["correlation"].fill_null(-1).to_numpy(), return_index=True)[1]
    return rows


def gpu_span(ops: pl.DataFrame, nested: pl.DataFrame) -> pl.DataFrame:
    """The projection of ranges onto the device as ``nvtx_gpu_proj_sum`` of nsys defines it: same thread only.

    Args:
        ops: what :func:`attribute` gave.
        nested: the same ranges.

    Returns:
        In the rows of ``nested``: ``gpu_start`` (first start), ``gpu_end`` (last end), ``gpu_span_ns`` (gaps included),
        ``calls`` (distinct launching calls; nsys calls them GPU operations), ``children`` (direct ones inside which
        something was launched); null where nothing was launched inside or the range is not trusted.
    """
    size = len(nested)
    first, last, calls = np.full(size, FAR), np.full(size, -1), np.zeros(size, np.int64)
    for rows in _known(ops, "leaf", "start", "end"):
        np.minimum.at(first, rows["leaf"].to_numpy(), rows["start"].to_numpy())
        np.maximum.at(last, rows["leaf"].to_numpy(), rows["end"].to_numpy())
    inside = ops.select("leaf", "process", "correlation").filter(pl.col("leaf").is_not_null())
    np.add.at(calls, inside["leaf"].gather(_first_of_each_call(inside)).to_numpy(), 1)
    first, last = nesting.inclusive(nested, first, np.minimum), nesting.inclusive(nested, last, np.maximum)
    parent, calls = nesting.parents_of(nested), nesting.inclusive(nested, calls)
    frame = pl.DataFrame({
        "gpu_start": first, "gpu_end": last, "gpu_span_ns": last - first, "calls": calls,
        "children": np.bincount(parent[(parent >= 0) & (calls > 0)], minlength=size),
    })  # fmt: skip
    return frame.select(pl.when(pl.Series(calls > 0)).then(pl.all()))
