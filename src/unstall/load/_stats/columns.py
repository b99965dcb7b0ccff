"""Header cells of every version → columns with one name, one unit and one way to read them.

In: header cells as printed (``Time(%)``, ``Avg (ns)``, ``Average``, ``Total (MB)``). Out: :class:`Column`.
Headers are matched loosely: case, spaces and the words of older versions do not matter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

_TIME = {
    "ns": 1, "nsec": 1, "nanoseconds": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "usec": 10**3, "microseconds": 10**3,
    "ms": 10**6, "msec": 10**6, "milliseconds": 10**6, "s": 10**9, "sec": 10**9, "seconds": 10**9,
}  # fmt: skip
_SIZE = {
    "b": 1, "bytes": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30,
}  # fmt: skip
_WORDS = {
    "average": "avg", "minimum": "min", "maximum": "max", "med": "median", "std": "stddev", "deviation": "",
    "standard": "stddev", "inst": "instances", "kern": "kernel",
}  # fmt: skip
_COUNTS = {"instances", "num_calls", "calls", "count", "operations", "range_instances"}
_STATS = {"total", "avg", "median", "min", "max", "stddev"}
_NAMES = {"range", "operation", "name"}
_CELL = re.compile(r"\s*(?P<text>.*?)\s*(?:\((?P<unit>[^()]*)\))?\s*", re.DOTALL)
_NUMBER = r"[ \t]*[+-]?(?:[0-9][0-9,]*\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?[ \t]*"
_MOST = 100  # columns: nsys prints fewer than 40


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        name: ours, unit included: ``total_ns``, ``time_percent``, ``instances``, ``name``.
        kind: ``ns``, ``bytes``, ``percent``, ``count`` (numbers in every row), ``name`` (free text, commas and line
            breaks possible) or ``other`` (anything that holds no comma).
        scale: factor from the printed unit to ours.
        whole: integers once scaled; averages, medians and deviations are not.
        optional: a cell may be empty: in traces (no counts), all figures but the first.
    """

    name: str
    kind: str
    scale: int = 1
    whole: bool = False
    optional: bool = False

    @property
    def numeric(self) -> bool:
        return self.kind in ("ns", "bytes", "percent", "count")

    @property
    def pattern(self) -> str:
        """What a cell of a numeric column looks like, as a regular expression."""
        return f"(?:{_NUMBER}|[ \\t]*)" if self.optional else _NUMBER


def acceptor(columns: Sequence[Column]) -> Callable[[Sequence[str]], bool]:
    """A test whether cells, one a column, hold numbers where numbers belong: one match a row."""
    which = [i for i, c in enumerate(columns) if c.numeric]
    pattern = re.compile("\x1f".join(columns[i].pattern for i in which))
    return lambda cells: pattern.fullmatch("\x1f".join([cells[i] for i in which])) is not None


def parse_header(cells: Sequence[str], title: str = "") -> list[Column] | None:
    """The columns that a header names, or ``None`` where fewer than two of them hold a measured quantity.

    Old headers print ``Average`` without a unit: it is that of the total, or the title's (``… (by size in KiB)``).
    """
    if len(cells) > _MOST:
        return None
    columns = [_column(cell) for cell in cells]
    default = next((c for c in columns if c.kind in ("ns", "bytes")), None) or _unit_in(title)
    if default is not None:
        columns = [_with_unit(c, default) for c in columns]
    if not any(c.kind == "count" for c in columns):
        columns = [replace(c, optional=i > 0) for i, c in enumerate(columns)]
    return _unique(columns) if sum(c.numeric for c in columns) >= 2 else None


def any_header(cells: Sequence[str]) -> list[Column]:
    """The columns of a header that nsys is known to have printed, measured or not."""
    return parse_header(cells) or _unique([_column(cell) for cell in cells[:_MOST]])


def _column(cell: str) -> Column:
    match = _CELL.fullmatch(cell)
    text, unit = (match["text"], (match["unit"] or "").strip().lower()) if match else (cell, "")
    slug = _slug(text)
    if unit == "%" or slug == "time_percent":
        return Column("time_percent" if slug == "time" else f"{slug}_percent", "percent")
    if unit in _TIME:
        stem = slug.removesuffix("_time") or "time"
        return Column(f"{stem}_ns", "ns", _TIME[unit], whole=stem.split("_")[-1] not in ("avg", "median", "stddev"))
    if unit in _SIZE:
        return Column("bytes" if slug == "bytes" else f"{slug}_bytes", "bytes", _SIZE[unit])
    if slug in _COUNTS:
        return Column("instances", "count", whole=True)
    if slug in _NAMES or slug.endswith(("_name", "nametree")) or slug == "nvtx_range":
        return Column("name" if slug in _NAMES else slug, "name")
    return Column(slug or "column", "other")


def _slug(text: str) -> str:
    words = re.findall(r"[^\W_]+", text.lower())
    return "_".join(w for w in (_WORDS.get(w, w) for w in words) if w)


def _unit_in(title: str) -> Column | None:
    found = re.search(r"\bin (\w+)", title)
    column = _column(f"total ({found[1]})") if found else None
    return column if column is not None and column.kind in ("ns", "bytes") else None


def _with_unit(column: Column, default: Column) -> Column:
    if column.kind != "other" or column.name not in _STATS:
        return column
    whole = default.kind == "ns" and column.name in ("total", "min", "max")
    return Column(f"{column.name}_{default.kind}", default.kind, default.scale, whole)


def _unique(columns: Sequence[Column]) -> list[Column]:
    seen: dict[str, int] = {}
    out = []
    for column in columns:
        seen[column.name] = seen.get(column.name, 0) + 1
        again = seen[column.name]
        out.append(column if again == 1 else replace(column, name=f"{column.name}__{again}"))
    return out
