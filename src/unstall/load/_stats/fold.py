"""Rows of sums → fewer rows of sums: members of a family, or one kernel's launch shapes, added up.

In: frames with the columns of a summary report, one row a printed name. Out: one row a group, with the statistics that
follow from the members' own; a median that does not follow is null.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

STATISTICS = {
    "instances": pl.Int64, "total_ns": pl.Int64, "avg_ns": pl.Float64, "median_ns": pl.Float64, "min_ns": pl.Int64,
    "max_ns": pl.Int64, "stddev_ns": pl.Float64,
}  # fmt: skip
LONGEST = 10**16
"""ns, about 115 days: a longer total is a damaged figure, and sums of it would leave int64."""


def summary(frame: pl.DataFrame) -> pl.DataFrame:
    """The statistics of a summary report under fixed types, unknown ones null; impossible rows left out."""
    missing = [pl.lit(None, dtype).alias(c) for c, dtype in STATISTICS.items() if c not in frame.columns]
    full = frame.with_columns(missing).with_columns(pl.col(c).cast(t, strict=False) for c, t in STATISTICS.items())
    return full.filter(pl.col("total_ns").is_between(0, LONGEST) & pl.col("instances").is_between(1, LONGEST))


def folded(rows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """One row a group of ``keys``, longest total first, with ``members`` (distinct names)."""
    n, total, deviation = pl.col("instances"), pl.col("total_ns"), pl.col("stddev_ns")
    mean = total.sum() / n.sum()
    # Squares around the group's mean: those around each member's, and the members' own distances from it.
    within = pl.when(n > 1).then((n - 1) * deviation.pow(2)).otherwise(0.0)
    squares = within.sum() + (n * (total / n - mean).pow(2)).sum()
    table = rows.group_by(*keys, maintain_order=True).agg(
        pl.col("name").n_unique().cast(pl.Int64).alias("members"),
        n.sum(), total.sum(), mean.alias("avg_ns"), _median().alias("median_ns"),
        _known("min_ns", pl.col("min_ns").min()),
        _known("max_ns", pl.col("max_ns").max()),
        pl.when(pl.len() == 1).then(deviation.first())
        .when((deviation.is_null() & (n > 1)).any()).then(None)
        .when(n.sum() > 1).then((squares / (n.sum() - 1)).sqrt()).otherwise(0.0).alias("stddev_ns"),
        pl.col("name").first().alias("first_name"),
    )  # fmt: skip
    return table.sort("total_ns", *keys, descending=[True, *(False for _ in keys)])


def _median() -> pl.Expr:
    """Known for a single member, and where each member is one instance: the totals are then the samples."""
    total, n = pl.col("total_ns"), pl.col("instances")
    only = pl.when(pl.len() == 1).then(pl.col("median_ns").first())
    return only.when((n == 1).all()).then(total.median()).otherwise(None)


def _known(column: str, total: pl.Expr) -> pl.Expr:
    """``total`` where every member has the figure: part of it would pass for the whole."""
    return pl.when(pl.col(column).null_count() == 0).then(total).alias(column)


def percent(table: pl.DataFrame) -> pl.DataFrame:
    """Adds ``percent`` of the sum of all rows."""
    whole = pl.col("total_ns").sum()
    return table.with_columns(percent=pl.when(whole > 0).then(100.0 * pl.col("total_ns") / whole).otherwise(0.0))
