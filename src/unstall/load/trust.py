"""Rows that cannot be right: left out, counted, and said.

Comes in: a frame of one of our tables, as read. Goes out: the rows that can be trusted, a count of the others by reason
(:class:`Doubts`), and at the end one warning a reason. A range that was never closed stays, its ``end`` null.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import polars as pl

from unstall.load.database import text_of
from unstall.load.tables import time_column
from unstall.model import DEVICE_TABLES, TABLES, Warning_

REASONS = {
    "rows-without-time": "without a time",
    "negative-time": "before the capture began (negative time)",
    "impossible-time": "with a time or a length that no capture can have",
    "end-before-start": "that end before they start",
    "bad-values": "with something other than a possible number where one belongs (kept, that value unknown)",
    "unnamed-rows": "whose name the file does not hold (kept as [unknown])",
    "nvtx-unknown-events": "of an NVTX event type unknown here",
}
WITHOUT_CLOCK = frozenset({"diagnostics"})  # written before the capture begins as well: negative times are right
UNKNOWN = "[unknown]"

LATEST_NS = 1 << 62
"""The year 2116, for clocks that count from 1970: a later time is damage, and sums of such would overflow."""
LONGEST_NS = 1 << 52
"""52 days: nothing in a capture lasts longer."""
MOST_BYTES = 1 << 50
"""A pebibyte: no copy moves more."""

Doubts = Counter[tuple[str, str]]
"""(reason, table) → rows."""


def trusted(table: str, frame: pl.DataFrame, doubts: Doubts) -> pl.DataFrame:
    """The rows of ``frame`` whose times can be right; the others are counted in ``doubts``."""
    frame = _possible_bytes(table, frame, doubts)
    order = time_column(table)
    if order is None or table in WITHOUT_CLOCK or not len(frame):
        return frame
    tests = {
        "rows-without-time": pl.col(order).is_null(),
        "negative-time": pl.col(order) < 0,
        "impossible-time": pl.col(order) > LATEST_NS,
    }
    if "end" in TABLES[table]:
        if table != "ranges":
            tests["rows-without-time"] |= pl.col("end").is_null()
        if table in DEVICE_TABLES:  # CUPTI's way of saying that it has no times for this operation
            tests["rows-without-time"] |= (pl.col("start") == 0) & (pl.col("end") == 0)
        tests["end-before-start"] = pl.col("end") < pl.col("start")
        tests["impossible-time"] |= (pl.col("end") > LATEST_NS) | (pl.col("end") - pl.col("start") > LONGEST_NS)
    found = frame.select(t.fill_null(False).sum().alias(r) for r, t in tests.items()).row(0)
    doubts.update({(r, table): n for r, n in zip(tests, found, strict=True) if n})
    return frame.filter(~pl.any_horizontal(t.fill_null(False) for t in tests.values())) if any(found) else frame


def _possible_bytes(table: str, frame: pl.DataFrame, doubts: Doubts) -> pl.DataFrame:
    """Sizes that no copy can have become unknown."""
    if "bytes" not in frame.columns:
        return frame
    odd = int(((frame["bytes"] < 0) | (frame["bytes"] > MOST_BYTES)).sum())
    if not odd:
        return frame
    doubts.update({("bad-values", table): odd})
    return frame.with_columns(pl.when(pl.col("bytes").is_between(0, MOST_BYTES)).then("bytes").alias("bytes"))


def as_integers(table: str, frame: pl.DataFrame, text: Iterable[str], doubts: Doubts) -> pl.DataFrame:
    """Every column but ``text`` as int64. SQLite lets anything stand in an INTEGER column: such values become null."""
    odd = [c for c in frame.columns if c not in set(text) and frame[c].dtype != pl.Int64]
    for column in odd:
        values = frame[column]
        numbers = (text_of(values) if values.dtype == pl.Binary else values).cast(pl.Int64, strict=False)
        doubts.update({("bad-values", table): numbers.null_count() - values.null_count()})
        frame = frame.with_columns(numbers.alias(column))
    return frame


def named(table: str, frame: pl.DataFrame, doubts: Doubts) -> pl.DataFrame:
    """Calls and kernels without a name are called so."""
    missing = frame["name"].null_count()
    if not missing or table in ("ranges", "marks"):
        return frame
    doubts.update({("unnamed-rows", table): missing})
    return frame.with_columns(pl.col("name").fill_null(pl.lit(UNKNOWN)))


def warnings_of(doubts: Doubts) -> list[Warning_]:
    """One warning a reason, its tables with their counts."""
    said = []
    for reason, words in REASONS.items():
        counts = [f"{n:,} in {table}" for (r, table), n in sorted(doubts.items()) if r == reason and n]
        if counts:
            fate = "" if "kept" in words else ", left out"
            said.append(Warning_(code=reason, text=f"Rows {words}{fate}: {', '.join(counts)}."))
    return said
