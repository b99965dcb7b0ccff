"""Frames into the shape of :data:`unstall.model.TABLES`.

Comes in: a frame with some of a table's columns, in any order. Goes out: exactly the table's columns, in its dtypes,
sorted by time. Names become ``Categorical``: four bytes a row whatever the name's length, grouped and compared as
integers, and (unlike ``Enum``) mixed freely between tables and with plain strings.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from unstall.memory import squeeze
from unstall.model import TABLES

NAME = pl.Categorical
PROCESS_MASK = ~0xFFFFFF


def share_categories() -> None:
    """Let categoricals of different tables be compared: global by nature since polars 1.32, by request before."""
    if tuple(int(x) for x in pl.__version__.split(".")[:2]) < (1, 32):
        pl.enable_string_cache()


def schema_of(table: str) -> dict[str, Any]:
    """Column → dtype as a loaded frame has them."""
    return {c: NAME if d == pl.String else d for c, d in TABLES[table].items()}


def time_column(table: str) -> str | None:
    """The column that a table is sorted by, if it has one."""
    return next((c for c in ("start", "time") if c in TABLES[table]), None)


def tidy(table: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Exactly the columns of ``table``: missing ones null, ``process`` from ``thread`` where only that is known."""
    if "process" in TABLES[table] and "process" not in frame.columns and "thread" in frame.columns:
        frame = frame.with_columns(process=pl.col("thread") & PROCESS_MASK)
    have = set(frame.columns)
    return frame.select(
        pl.col(c).cast(dtype) if c in have else pl.lit(None, dtype=dtype).alias(c)
        for c, dtype in schema_of(table).items()
    )


def empty(table: str) -> pl.DataFrame:
    """An empty frame as a loaded one would be."""
    return pl.DataFrame(schema=schema_of(table))


def merge(table: str, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """One table out of several parts, in time order (stable: rows of one time keep the file's order)."""
    frame = pl.concat(frames) if len(frames) > 1 else frames[0]
    order = time_column(table)
    if order is not None and not frame[order].is_sorted():
        frame = frame.sort(order, maintain_order=True)
    return squeeze(frame)


def from_rows(table: str, rows: list[dict[str, Any]]) -> pl.DataFrame:
    """A table out of plain dicts (tests and small sources)."""
    columns = {c: [r.get(c) for r in rows] for c in TABLES[table]}
    return merge(table, [tidy(table, pl.DataFrame(columns, schema=TABLES[table]))])
