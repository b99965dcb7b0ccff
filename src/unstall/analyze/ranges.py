"""NVTX range families as the report's rows: one :class:`~unstall.model.RangeRow` a name, domain, style and process.

In: nested ranges (``nesting.nest``), device work attributed to them (``project.attribute``), steady steps.
Out: rows, longest total first. ``docs/numbers.md`` defines every column.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from unstall.analyze import project
from unstall.analyze.intervals import Ints
from unstall.analyze.nesting import ancestors, inclusive, innermost, innermost_at, nest, parents_of, users, warnings
from unstall.analyze.tree import Innermost, Mask
from unstall.model import DEVICE_TABLES, Profile, RangeRow, pid_of

__all__ = [
    "Innermost", "ancestors", "inclusive", "innermost", "innermost_at", "nest", "range_rows", "users", "warnings",
]  # fmt: skip

FAMILY = ["family", "domain", "style", "process"]
FILL = 0.8
"""The user's ranges directly inside a wrapper fill at least this much of it: a phase has work of its own."""
COVER = 0.9
"""Where no step range is known, a wrapper covers this much of the time in which its thread has ranges at all; with a
second phase of any size beside it, a phase does not."""


def range_rows(
    profile: Profile,
    nested: pl.DataFrame,
    ops: pl.DataFrame | None,
    step_windows: Mapping[int, tuple[int, int]] | None,
    wrappers: Mapping[int, str] | None = None,
) -> list[RangeRow]:
    """The rows of all range families.

    Args:
        profile: the capture.
        nested: its nested ranges.
        ops: attributed device operations; ``None`` where the capture has no device tables.
        step_windows: process → the host span (start, end; ns) of its steady steps; ``None`` where none are known.
        wrappers: process → the family that its steps were found on.
    """
    table = _families(nested, ops, step_windows or {})
    outer = _wrappers(nested, wrappers or {})
    spans = _active_spans(profile)
    listed = [r for r in table.iter_rows(named=True)]
    whole = sum(r["total_ns"] for r in listed if (r["process"], r["family"]) not in outer)
    return [_row(r, (r["process"], r["family"]) in outer, spans.get(r["process"]), whole) for r in listed]


def _row(row: dict[str, Any], wrapper: bool, span: int | None, whole: int) -> RangeRow:
    name, process = row.pop("family"), row.pop("process")
    total = row["total_ns"]
    return RangeRow(
        **row, name=name, process=pid_of(process), wrapper=wrapper,
        percent_of_wall=100.0 * total / span if span else None,
        share=None if wrapper or not whole else 100.0 * total / whole,
    )  # fmt: skip


# --------------------------------------------------------------------------------------------------------------------
# Totals
# --------------------------------------------------------------------------------------------------------------------


def _families(nested: pl.DataFrame, ops: pl.DataFrame | None, windows: Mapping[int, tuple[int, int]]) -> pl.DataFrame:
    frame = nested.with_columns(_device_columns(nested, ops)).with_columns(
        ns=pl.col("end") - pl.col("start"), steady=pl.Series(_steady(nested, windows))
    )
    table = frame.group_by(FAMILY).agg(*_counts(), *_times(), *_device_times())
    some = pl.col("instances") > 0
    return table.with_columns(
        pl.col("family", "domain", "style").cast(pl.String),
        pl.when(pl.col("process").is_in(list(windows))).then("steady_total_ns"),
        pl.when(some).then(pl.col("stddev_ns").fill_null(0.0)),
        avg_ns=pl.when(some).then(pl.col("total_ns") / pl.col("instances")),
    ).sort("total_ns", "family", "process", descending=[True, False, False])


def _counts() -> list[pl.Expr]:
    return [
        pl.col("name").n_unique().cast(pl.Int64).alias("members"),
        pl.col("closed").sum().cast(pl.Int64).alias("instances"),
        (~pl.col("closed")).sum().cast(pl.Int64).alias("unclosed"),
        pl.col("library").all(),
    ]


def _times() -> list[pl.Expr]:
    ns = pl.col("ns")
    return [
        ns.sum().alias("total_ns"), ns.filter("steady").sum().alias("steady_total_ns"),
        pl.when(_all_known()).then(pl.col("self_ns").sum()).alias("self_ns"),
        ns.median().alias("median_ns"), ns.min().alias("min_ns"), ns.max().alias("max_ns"), ns.std().alias("stddev_ns"),
    ]  # fmt: skip


def _device_times() -> list[pl.Expr]:
    """Null without device tables, or where an instance's share of them is not known."""
    known = _all_known() & pl.col("gpu_ns").is_not_null().any()
    once = [pl.col(c).filter("outermost").sum().alias(c) for c in ("gpu_ns", "gpu_by_time_ns")]
    return [pl.when(known).then(e) for e in (*once, pl.col("gpu_span_ns").sum())]


def _all_known() -> pl.Expr:
    """Whether every closed instance is trusted, and one is there: part of a sum would pass for the whole."""
    return ~(pl.col("closed") & ~pl.col("trusted")).any() & pl.col("closed").any()


def _device_columns(nested: pl.DataFrame, ops: pl.DataFrame | None) -> list[pl.Series]:
    """Device time of each range, and whether it is the outermost of its family (a recursive one counts once)."""
    if ops is None:
        null = pl.repeat(None, len(nested), dtype=pl.Int64, eager=True)
        return [null.alias(c) for c in ("gpu_ns", "gpu_by_time_ns", "gpu_span_ns")] + [
            null.is_null().alias("outermost")
        ]
    time, span = project.device_time(ops, nested), project.gpu_span(ops, nested)
    return [*time.get_columns(), span["gpu_span_ns"], pl.Series("outermost", ~_recursive(nested))]


def _recursive(nested: pl.DataFrame) -> Mask:
    """Whether a range lies inside another one of the same family."""
    family = nested.select(pl.struct("family", "domain").hash()).to_series().to_numpy()
    parent, out = parents_of(nested), np.zeros(len(nested), np.bool_)
    ids = np.flatnonzero(parent >= 0)
    above = parent[ids]
    while len(ids):
        out[ids] |= family[ids] == family[above]
        up = parent[above]
        ids, above = ids[up >= 0], up[up >= 0]
    return out


def _steady(nested: pl.DataFrame, windows: Mapping[int, tuple[int, int]]) -> Mask:
    """Ranges that start in the span of the steady steps; what lies between steps is in."""
    start, process = nested["start"].to_numpy(), nested["process"].to_numpy()
    out = np.zeros(len(nested), np.bool_)
    for name, (first, last) in windows.items():
        out |= (process == name) & (start >= first) & (start < last)
    return out


def _active_spans(profile: Profile) -> dict[int, int]:
    """Process → ns from its first to its last range, CUDA call or device operation."""
    last = pl.max_horizontal(pl.col("start").max(), pl.col("end").max())
    tables = (profile.table(t) for t in ("ranges", "api", *DEVICE_TABLES))
    frames = [f.group_by("process").agg(pl.col("start").min(), end=last) for f in tables if f is not None]
    if not frames:
        return {}
    spans = pl.concat(frames).group_by("process").agg(pl.col("end").max() - pl.col("start").min())
    return dict(spans.iter_rows())


# --------------------------------------------------------------------------------------------------------------------
# Wrappers
# --------------------------------------------------------------------------------------------------------------------


def _wrappers(nested: pl.DataFrame, steps: Mapping[int, str]) -> set[tuple[int, str]]:
    """Families of the user that enclose the loop body, as (process, family).

    Where the step's family is known: it, and what encloses it. Elsewhere: what covers nearly all the time of its thread
    and is filled by ranges of the user. Neither without a range of the user inside: then it is all there is to show.
    """
    user = nested.filter(pl.col("trusted") & ~pl.col("library")).with_columns(pl.col("family").cast(pl.String))
    ns = pl.col("end") - pl.col("start")
    inside = user.filter(pl.col("parent").is_not_null()).group_by("parent").agg(ns.sum().alias("inside"))
    user = user.select(
        "id", "family", "process", "thread", "parent", ns=ns,
        outermost=~pl.Series(_recursive(nested)).gather(user["id"]),
    ).join(inside, left_on="id", right_on="parent", how="left")  # fmt: skip
    found: set[tuple[int, str]] = set()
    for (process,), rows in user.group_by("process"):
        named = rows.filter(pl.col("family") == steps.get(process, ""))
        around = _enclosing(rows, named["id"].to_numpy(), parents_of(nested)) if len(named) else _covering(rows)
        found |= {(process, family) for family in around}
    return found


def _enclosing(rows: pl.DataFrame, ids: Ints, parent: Ints) -> list[str]:
    around = [ids]
    while len(ids := np.unique(parent[ids][parent[ids] >= 0])):
        around.append(ids)
    chosen = rows.filter(
        pl.col("id").is_in(pl.Series(np.concatenate(around)).implode()) & pl.col("inside").is_not_null()
    )
    return chosen["family"].unique().to_list()


def _covering(rows: pl.DataFrame) -> list[str]:
    spans = rows.filter(pl.col("parent").is_null()).group_by("thread").agg(pl.col("ns").sum().alias("span"))
    sums = rows.group_by("family", "thread").agg(
        pl.col("ns").filter("outermost").sum().alias("covered"), pl.col("ns").sum(), pl.col("inside").sum()
    )
    wide = (
        (pl.col("covered") >= COVER * pl.col("span"))
        & (pl.col("inside") >= FILL * pl.col("ns"))
        & (pl.col("inside") > 0)
    )
    return sums.join(spans, on="thread").filter(wide)["family"].unique().to_list()
