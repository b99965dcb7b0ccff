"""Events of one kind → columns: numbers from anything, times in nanoseconds, names as categories.

Comes in: decoded events. Goes out: Polars series. Whatever is no possible number becomes null and is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import polars as pl

from unstall.load._kineto.decode import Args, Event
from unstall.load.tables import NAME

NO_ARGS = Args()
MOST = Decimal(2) ** 62
"""ns: more is damage, and an exponent of a million digits must not be written out."""
LEAST_NS = Decimal(10) ** 17
"""A time stamp beyond this is nanoseconds since 1970 (1.7e18 today); in microseconds it would be the year 5138."""


def unit_of(events: Sequence[Event]) -> int:
    """Nanoseconds in one unit of ``ts``: 1000, as Chrome's format has it, or 1 where a writer kept nanoseconds."""
    first = next((e.ts for e in events if e.ph == "X" and e.ts is not None), Decimal(0))
    return 1 if first.is_finite() and first > LEAST_NS else 1000


def times(events: Sequence[Event], unit: int) -> tuple[pl.Series, pl.Series]:
    """Start and end, ns."""
    start = _ns([e.ts for e in events], unit)
    dur = _ns([e.dur for e in events], unit)
    return start.alias("start"), (start + dur).alias("end")


def _ns(values: list[Decimal | None], unit: int) -> pl.Series:
    most = MOST / unit
    try:
        found = [int(v * unit) if v is not None and -most < v < most else None for v in values]
    except (InvalidOperation, ValueError):  # NaN, which compares with nothing
        found = [int(v * unit) if v is not None and v.is_finite() and -most < v < most else None for v in values]
    return pl.Series(found, dtype=pl.Int64)


def integers(values: list[Any]) -> pl.Series:
    """Any values as int64; what is no whole number is null. Digits in quotes count as numbers."""
    return pl.Series([_integer(v) for v in values], dtype=pl.Int64)


def _integer(value: Any) -> int | None:
    if type(value) is int:
        return value if -(2**63) <= value < 2**63 else None
    if type(value) is float:
        return int(value) if abs(value) < 2**53 and value.is_integer() else None  # NaN compares false
    if type(value) is str and value.removeprefix("-").isdecimal() and len(value) < 19:
        return int(value)
    return None


def names(values: list[str]) -> pl.Series:
    """Text as categories."""
    return pl.Series(values, dtype=pl.String).cast(NAME)


def args(events: Sequence[Event]) -> list[Args]:
    """Each event's arguments; an empty set where it has none."""
    return [e.args or NO_ARGS for e in events]


def triple(values: list[Any]) -> list[list[Any]]:
    """``[x, y, z]`` of each, turned into three lists; unknown where it is something else."""
    rows = [v if isinstance(v, list) and len(v) == 3 else (None, None, None) for v in values]
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[], [], []]
