"""Small questions about frames of calls and operations, and about unions, that several rules ask.

In: frames of a :class:`~unstall.diagnose.case.Case` (``calls``, ``ops``) and unions. Out: unions, masks, expressions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from unstall.analyze import intervals
from unstall.analyze.intervals import Ints, Union
from unstall.diagnose import kernels
from unstall.model import Profile


def spans(calls: pl.DataFrame, *, prepared: bool = False) -> Union:
    """When these calls are open; with ``prepared``, from when on the host prepared them."""
    return intervals.union(calls["prepared" if prepared else "start"], calls["end"])


def lead_ins(calls: pl.DataFrame) -> Union:
    """The host time that prepared these calls, the calls themselves left out."""
    return intervals.union(calls["prepared"], calls["start"])


def contains(when: Union, at: Ints) -> Any:
    """For each instant, whether a union covers it."""
    if not len(when[0]):
        return np.zeros(len(at), np.bool_)
    i = np.searchsorted(when[0], at, side="right") - 1
    return (i >= 0) & (at < when[1][np.maximum(i, 0)])


def longer_than(when: Union, ns: int) -> Union:
    """The intervals of a union that are at least so long."""
    keep = when[1] - when[0] >= ns
    return when[0][keep], when[1][keep]


def some_of(column: str, values: pl.Series) -> pl.Expr:
    """The column's value is one of these."""
    return pl.col(column).is_in(values.drop_nulls().unique().implode())


def with_facts(own: pl.DataFrame, profile: Profile) -> pl.DataFrame:
    """Adds what the operations' own tables say of them."""
    parts = [_facts(rows, str(table), profile) for (table,), rows in own.group_by("table", maintain_order=True)]
    text, number = pl.String, pl.Int64
    schema: dict[str, Any] = {
        "name": text, "grid": number, "block": number, "graph_node": number, "bytes": number, "copy_kind": text,
        "source": text, "destination": text, "family": text,
    }  # fmt: skip
    if not parts:
        return own.with_columns(pl.lit(None, dtype).alias(name) for name, dtype in schema.items())
    rows = pl.concat(parts, how="diagonal").sort("start", "op", maintain_order=True)
    missing = [pl.lit(None, dtype).alias(name) for name, dtype in schema.items() if name not in rows.columns]
    return rows.with_columns(missing)


def _facts(rows: pl.DataFrame, table: str, profile: Profile) -> pl.DataFrame:
    source = profile.table(table)
    assert source is not None  # the operations came from there
    picked = source[rows["row"]]
    if table == "kernels":
        facts = picked.select(
            name=pl.col("name").cast(pl.String),
            grid=pl.col("grid_x") * pl.col("grid_y") * pl.col("grid_z"),
            block=pl.col("block_x") * pl.col("block_y") * pl.col("block_z"),
            graph_node="graph_node",
        ).with_columns(family=kernels.families(picked["name"]))
    elif table == "copies":
        kind = pl.col("kind").cast(pl.String)
        text = [pl.col(c).cast(pl.String) for c in ("source", "destination")]
        facts = picked.select(kind.alias("name"), "bytes", *text, copy_kind=kind)
    else:
        moved = pl.col("bytes") if "bytes" in picked.columns else pl.lit(None, pl.Int64)
        facts = picked.with_columns(name=pl.lit(table), bytes=moved).select("name", "bytes")
    return rows.hstack(facts)


def under(rows: pl.DataFrame, frames: pl.DataFrame, pattern: str) -> tuple[float, str]:
    """Share of samples with a Python stack that have a frame which matches, and the commonest such frame's symbol.

    The pattern is held against ``function (file.py) path``: profilers name the file in the one, the other or both.
    """
    chains = rows.group_by("callchain").len()
    text = (pl.col(c).cast(pl.String).fill_null("") for c in ("symbol", "module"))
    known = frames.join(chains, on="callchain", how="inner").with_columns(at=pl.concat_str(text, separator=" "))
    python = known.filter((pl.col("kind").cast(pl.String) == "python") | pl.col("at").str.contains(r"\.py\b"))
    whole = int(python.unique("callchain")["len"].sum())
    first = python.filter(pl.col("at").str.contains(pattern)).sort("depth").group_by("callchain").first()
    by = first.group_by(pl.col("symbol").cast(pl.String)).agg(pl.col("len").sum())
    by = by.sort("len", "symbol", descending=[True, False])
    return (int(by["len"].sum()) / whole, str(by["symbol"][0])) if by.height else (0.0, "")


def symbols(rows: pl.DataFrame, frames: pl.DataFrame, top: int) -> list[tuple[str, float]]:
    chains = rows.group_by("callchain").len()
    known = frames.join(chains, on="callchain", how="inner").with_columns(pl.col("symbol").cast(pl.String))
    python = known.filter(pl.col("kind").cast(pl.String) == "python")
    named = python if python.height else known.filter(~pl.col("symbol").str.contains(r"^0x|^\[|^$"))
    leaf = named.sort("depth").group_by("callchain").first()
    by = leaf.group_by("symbol").agg(pl.col("len").sum()).sort("len", "symbol", descending=[True, False]).head(top)
    whole = int(leaf["len"].sum()) or 1
    return [(s, n / whole) for s, n in by.iter_rows()]
