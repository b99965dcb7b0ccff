"""Cells as text → a typed frame in our units: int64 nanoseconds, bytes, percent.

In: :class:`~unstall.load._stats.scan.RawTable`. Out: :class:`StatsTable`. A cell that is empty or no number is null.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from unstall.load._stats.columns import Column
from unstall.load._stats.scan import RawTable
from unstall.model import Warning_

_COARSE = 10**6  # ns: milliseconds and seconds are printed with four decimals, microseconds with three (exact)


@dataclass(frozen=True)
class StatsTable:
    """One report of ``nsys stats``.

    Attributes:
        report: its name in nsys 2023.4 and newer (``nvtx_sum``), whatever version printed it; empty if unknown.
        frame: one row a printed row, in printed order. Columns have one name in all versions: ``time_percent``,
            ``total_ns``, ``instances`` (also ``Num Calls``, ``Count``), ``avg_ns``, ``median_ns``, ``min_ns``,
            ``max_ns``, ``stddev_ns``, ``style``, ``name`` (also ``Range``, ``Operation``); ``…_bytes`` for sizes;
            others in lower case with underscores. Times are ns whatever the unit printed: totals, minima and maxima
            int64, the rest float64. Sizes are printed with three decimals: one that shows as 0.000 MB is not known,
            hence null. Names are as printed, leading ``:`` and ``domain:`` included.
        title: as printed above the table; may be empty.
        source: the database that it was made from, as printed; may be empty.
        version: of the nsys that printed it, where the path of its script tells; may be empty.
        skipped: nsys's reason where it printed no table; the frame then has no columns.
        notes: what was left out or is not exact (codes ``truncated-row``, ``damaged-rows``, ``rounded-times``,
            ``names-cut``).
    """

    report: str
    frame: pl.DataFrame
    title: str = ""
    source: str = ""
    version: str = ""
    skipped: str | None = None
    notes: tuple[Warning_, ...] = ()


def table(raw: RawTable) -> StatsTable:
    """The typed table of a scanned one."""
    cells = list(zip(*raw.rows, strict=True)) or [()] * len(raw.columns)
    frame = pl.DataFrame([_series(column, values) for column, values in zip(raw.columns, cells, strict=True)])
    notes = (*raw.notes, *_rounded(raw), *_names_cut(frame))
    return StatsTable(raw.report, frame, raw.title, raw.source, raw.version, raw.skipped, notes)


def _series(column: Column, cells: tuple[str, ...]) -> pl.Series:
    text = pl.Series(column.name, cells, dtype=pl.String)
    if column.kind == "name":
        return text
    figures = text.str.strip_chars().str.replace_all(",", "", literal=True)
    if column.kind == "other":
        return _guessed(text, figures)
    if column.whole and column.scale == 1:
        exact = figures.cast(pl.Int64, strict=False)
        return exact if exact.null_count() == 0 else exact.fill_null(_whole(_floats(figures)))
    scaled = _floats(figures) * column.scale
    if column.kind == "bytes" and column.scale > 1:
        scaled = scaled.set(scaled == 0, None)
    return _whole(scaled) if column.whole else scaled


def _guessed(text: pl.Series, figures: pl.Series) -> pl.Series:
    """A column that we know nothing of: integers or floats where every cell is one, else text."""
    blank = figures.str.len_chars() == 0
    for dtype in (pl.Int64, pl.Float64):
        numbers = figures.cast(dtype, strict=False)
        if len(text) and not blank.all() and (numbers.is_not_null() | blank).all():
            return numbers
    return text.str.strip_chars()


def _floats(figures: pl.Series) -> pl.Series:
    numbers = figures.cast(pl.Float64, strict=False)
    return numbers.set(~numbers.is_finite().fill_null(value=False), None)


def _whole(numbers: pl.Series) -> pl.Series:
    return numbers.round().cast(pl.Int64, strict=False)


def _rounded(raw: RawTable) -> list[Warning_]:
    if not any(c.kind == "ns" and c.scale >= _COARSE for c in raw.columns):
        return []
    text = f"{raw.report or 'A table'} was printed in milliseconds or seconds and is rounded; `--timeunit ns` is exact."
    return [Warning_(code="rounded-times", text=text)]


def _names_cut(frame: pl.DataFrame) -> list[Warning_]:
    if "name" not in frame.columns or not (cut := int(frame["name"].str.ends_with("…").sum())):
        return []
    text = f"{cut} names are cut off (…) as the console shows them: rows that look the same are kept apart."
    return [Warning_(code="names-cut", text=text)]
