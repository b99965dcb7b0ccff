"""Totals of kernels, copies, memsets, CUDA calls, OS runtime calls, library calls and samples.

In: the tables of a profile. Out: the report's rows, most time first; ``None`` where the capture lacks the table.
Statistics are those of ``nsys stats``: the median of an even count is the mean of the middle two, the deviation divides
by n − 1 and is 0.0 for one. A call that was never closed has no duration and is left out.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from unstall.analyze import intervals
from unstall.analyze.device import launched_at
from unstall.analyze.intervals import NOTHING, Union
from unstall.analyze.nesting import innermost_at
from unstall.calls import VERSION
from unstall.model import CallRow, CopyRow, KernelRow, MemsetRow, Profile, SampleRow, StepTable

UNNAMED = "(unnamed)"
PIECE = 1 << 19
"""Calls looked up at once: of millions, only sums are kept."""


def statistics(frame: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """One row a group, longest total first: ``count``, ``total_ns``, ``avg_ns``, ``median_ns``, ``min_ns``, ``max_ns``,
    ``stddev_ns`` and ``percent`` (of the total of all rows). Rows whose ``end`` is null are left out."""
    ns = pl.col("ns")
    table = _took(frame, *keys).group_by(*keys).agg(
        pl.len().cast(pl.Int64).alias("count"), ns.sum().alias("total_ns"), ns.median().alias("median_ns"),
        ns.min().alias("min_ns"), ns.max().alias("max_ns"), ns.std().fill_null(0.0).alias("stddev_ns"),
    )  # fmt: skip
    whole = pl.col("total_ns").sum()
    return table.with_columns(
        pl.col(*keys).cast(pl.String).fill_null(UNNAMED),
        avg_ns=pl.col("total_ns") / pl.col("count"),
        percent=pl.when(whole > 0).then(100.0 * pl.col("total_ns") / whole).otherwise(0.0),
    ).sort("total_ns", *keys, descending=[True, *(False for _ in keys)])


def _took(frame: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """The keys and ``ns`` of the rows that ended; a filter, which copies what it keeps, only where some did not."""
    took = frame.select(*keys, ns=pl.col("end") - pl.col("start"))
    return took.filter(pl.col("ns").is_not_null()) if took["ns"].null_count() else took


def kernel_rows(profile: Profile) -> list[KernelRow] | None:
    """Kernels by demangled name. A CUDA-graph launch counts each kernel that it ran."""
    if profile.kernels is None:
        return None
    return [KernelRow(**r) for r in statistics(profile.kernels, "name").rename({"count": "instances"}).to_dicts()]


def call_rows(frame: pl.DataFrame | None, nested: pl.DataFrame | None = None) -> list[CallRow] | None:
    """Host calls by name, with the user's ranges in which they were made where ranges are given."""
    if frame is None:
        return None
    callers = {} if nested is None else _callers(frame, nested)
    rows = statistics(frame, "name").rename({"count": "calls"})
    return [CallRow(**r, callers=callers.get(r["name"], [])) for r in rows.to_dicts()]


def _callers(frame: pl.DataFrame, nested: pl.DataFrame) -> dict[str, list[str]]:
    """Name → families of the innermost ranges of the user in which it was called, most time first."""
    user = nested.filter(pl.col("trusted") & ~pl.col("library"))
    parts = [_time_in(user, part) for part in frame.select("name", "thread", "start", "end").iter_slices(PIECE)]
    if not parts:
        return {}
    named = pl.concat(parts).group_by("name", "family").agg(pl.col("ns").sum())
    named = named.select(pl.col("name", "family").cast(pl.String), "ns").sort("ns", "family", descending=[True, False])
    return dict(named.group_by("name", maintain_order=True).agg("family").iter_rows())


def _time_in(user: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Time of some calls by ``name`` and ``family`` of the innermost range around them: ``ns``."""
    calls = calls.filter(pl.col("thread").is_in(user["thread"].unique().implode()) & pl.col("end").is_not_null())
    inside = calls.select("name", ns=pl.col("end") - pl.col("start")).with_columns(
        id=pl.Series(innermost_at(user, calls["thread"].to_numpy(), calls["start"].to_numpy()), dtype=pl.Int64)
    )
    return inside.join(user.select("id", "family"), on="id").group_by("name", "family").agg(pl.col("ns").sum())


def api_rows(profile: Profile, nested: pl.DataFrame | None = None) -> list[CallRow] | None:
    """CUDA runtime and driver calls, by name without version suffix."""
    return call_rows(None if profile.api is None else without_version(profile.api), nested)


def without_version(api: pl.DataFrame) -> pl.DataFrame:
    """API calls with plain names, worked out once a distinct name."""
    names = api.select(pl.col("name").unique())
    plain = names["name"].cast(pl.String).str.replace(VERSION, "").cast(pl.Categorical).alias("plain")
    column = api.select("name").join(names.hstack([plain]), on="name", how="left", maintain_order="left")["plain"]
    return api.select("start", "end", "thread").with_columns(column.alias("name"))


def osrt_rows(profile: Profile, nested: pl.DataFrame | None = None) -> list[CallRow] | None:
    """OS runtime calls (locks, waits, files), with their callers."""
    return call_rows(profile.osrt, nested)


def library_rows(profile: Profile, nested: pl.DataFrame | None = None) -> list[CallRow] | None:
    """cuBLAS, cuDNN … calls, where traced."""
    return call_rows(profile.library, nested)


def copy_rows(
    profile: Profile, ops: pl.DataFrame | None = None, steps: tuple[StepTable, ...] = ()
) -> list[CopyRow] | None:
    """Copies by kind and by the memory at both ends.

    ``exposed_ns`` is the time in which at least one of them runs and no kernel or graph does on the same device, of
    whichever process; copies that overlap each other count once. The steady part is what is launched in the span of the
    steady steps: a model that goes to the GPU at the start is not in it.
    """
    if profile.copies is None:
        return None
    keys = ["kind", "source", "destination"]
    totals = _totals(profile.copies, keys)
    if steps and ops is not None:
        steady = _totals(profile.copies[_in_steady_steps(ops, steps)], keys)
        steady = steady.select(*keys, steady_total_ns="total_ns", steady_bytes="bytes", steady=pl.lit(value=True))
        none = pl.col("steady").is_null()
        totals = (
            totals.join(steady, on=keys, how="left", maintain_order="left")
            .with_columns(
                pl.when(none).then(0).otherwise(pl.col(c)).alias(c) for c in ("steady_total_ns", "steady_bytes")
            )
            .drop("steady")
        )
    exposed = _exposed(profile, profile.copies, keys)
    return [
        CopyRow(**r, gb_per_s=r["bytes"] / r["total_ns"] if r["bytes"] is not None and r["total_ns"] else None,
                exposed_ns=exposed.get((r["kind"], r["source"], r["destination"]), 0))
        for r in totals.to_dicts()
    ]  # fmt: skip


def _in_steady_steps(ops: pl.DataFrame, steps: tuple[StepTable, ...]) -> pl.Series:
    """Numbers of the copies that the host launched in the steady part of its process."""
    own = ops.filter(pl.col("table").cast(pl.String) == "copies")
    at, process = launched_at(own), own["process"].to_numpy()
    inside = np.zeros(len(at), np.bool_)
    for s in steps:
        first, last = s.steady_span
        inside |= (process == s.process) & (at >= first) & (at < last)
    return own["row"].filter(pl.Series(inside, dtype=pl.Boolean))


def _totals(frame: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Instances, time and bytes; bytes are null where any row's are unknown."""
    ns, size = pl.col("end") - pl.col("start"), pl.col("bytes")
    table = frame.group_by(keys).agg(
        pl.len().cast(pl.Int64).alias("instances"), ns.sum().alias("total_ns"),
        pl.when(size.null_count() == 0).then(size.sum()).alias("bytes"),
    )  # fmt: skip
    return table.with_columns(pl.col(keys).cast(pl.String).fill_null("unknown")).sort(
        "total_ns", *keys, descending=[True, *[False] * len(keys)]
    )


def _exposed(profile: Profile, copies: pl.DataFrame, keys: list[str]) -> dict[tuple[str, ...], int]:
    out: dict[tuple[str, ...], int] = {}
    for (device, *_), group in copies.group_by("device"):
        compute = _compute(profile, device)
        for names, rows in group.group_by(keys):
            name = tuple("unknown" if n is None else str(n) for n in names)
            left = intervals.subtract(intervals.union(rows["start"], rows["end"]), compute)
            out[name] = out.get(name, 0) + intervals.total(left)
    return out


def _compute(profile: Profile, device: object) -> Union:
    """When a kernel or a whole graph runs on a device."""
    frames = [f for t in ("kernels", "graphs") if (f := profile.table(t)) is not None]
    rows = [f.filter(pl.col("device").eq_missing(pl.lit(device, pl.Int64))).select("start", "end") for f in frames]
    return intervals.merge(*(intervals.union(r["start"], r["end"]) for r in rows)) if rows else NOTHING


def memset_rows(profile: Profile) -> list[MemsetRow] | None:
    """Memsets by kind of memory."""
    return (
        None if profile.memsets is None else [MemsetRow(**r) for r in _totals(profile.memsets, ["memory"]).to_dicts()]
    )


def sample_rows(profile: Profile) -> list[SampleRow] | None:
    """Innermost frames of the CPU and Python samples; the percentage is of the samples of the same kind."""
    if profile.samples is None or profile.frames is None:
        return None
    leaves = profile.frames.filter(pl.col("depth") == 0).select(
        "callchain", "symbol", frame_kind=pl.col("kind").cast(pl.String)
    )
    samples = profile.samples.select("callchain", kind=pl.col("kind").cast(pl.String))
    joined = samples.join(leaves, left_on=["callchain", "kind"], right_on=["callchain", "frame_kind"], how="left")
    rows = joined.group_by("kind", "symbol").agg(pl.len().cast(pl.Int64).alias("samples"))
    rows = rows.with_columns(
        pl.col("symbol").cast(pl.String).fill_null("(no stack)"),
        percent=100.0 * pl.col("samples") / pl.col("samples").sum().over("kind"),
    ).sort("kind", "samples", "symbol", descending=[False, True, False])
    return [SampleRow(**r) for r in rows.to_dicts()]
