"""Tables of one ``nsys stats`` text → a :class:`~unstall.model.Report`.

In: the tables in the order of the text. Out: rows for every section that they fill; a section without a table is absent
(``None``) and named under ``not_checked``, and whatever a table of sums cannot know is null.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import polars as pl

from unstall import _version
from unstall.calls import VERSION
from unstall.load._stats.fold import folded, percent, summary
from unstall.load._stats.frame import StatsTable
from unstall.load._stats.ranges import Ranges, ranges
from unstall.load._stats.steps import steps
from unstall.model import CallRow, CopyRow, KernelRow, MemsetRow, NotChecked, ProfileFacts, Report, Warning_

_SECTIONS = {  # section → reports that fill it, the best one first
    "ranges": ("nvtx_sum", "nvtx_pushpop_sum", "nvtx_startend_sum", "nvtx_gpu_proj_sum"),
    "kernels": ("cuda_gpu_kern_sum", "cuda_gpu_kern_gb_sum"),
    "copies": ("cuda_gpu_mem_time_sum",),
    "api": ("cuda_api_sum",),
    "osrt": ("osrt_sum",),
}
_ONLY_SUMS = "a table of sums holds no times; give the profile itself: `unstall report FILE.nsys-rep`, or its .sqlite"
_KINDS = {"Host-to-Device": "HtoD", "Device-to-Host": "DtoH", "Device-to-Device": "DtoD", "Host-to-Host": "HtoH"}
_LEAST_FOR_RATE = 10**6
"""Bytes. Sizes are printed in MB with three decimals: below one MB their rounding is more than 0.05 %."""


def report(tables: Sequence[StatsTable], path: str, warnings: Sequence[Warning_]) -> Report:
    """The report of one profile's tables."""
    chosen, notes = _chosen(tables)
    frames = {name: t.frame for name, t in chosen.items()}
    found = ranges(frames)
    nvtx = [n.code for name in _SECTIONS["ranges"] if name in chosen for n in chosen[name].notes]
    step_rows, step_notes = steps(found, truncated="truncated-row" in nvtx)
    copies, memsets = _memory(frames)
    out = Report(
        unstall_version=_version.VERSION,
        profile=_facts(tables, chosen, path),
        ranges=found.rows,
        kernels=_kernels(frames),
        copies=copies,
        memsets=memsets,
        api=_calls(frames.get("cuda_api_sum")),
        osrt=_calls(frames.get("osrt_sum")),
        steps=step_rows,
        warnings=[*warnings, *notes, *_table_notes(chosen), *found.warnings, *step_notes, *_sums(found)],
    )
    out.not_checked = _not_checked(out, tables)
    return out


def _chosen(tables: Sequence[StatsTable]) -> tuple[dict[str, StatsTable], list[Warning_]]:
    """The first table of each report, of the first profile that the text speaks of."""
    shown = [t for t in tables if t.skipped is None]
    first = next((t.source for t in shown if t.source), "")
    others = sorted({t.source for t in shown} - {first, ""})
    chosen: dict[str, StatsTable] = {}
    repeated = []
    for t in shown:
        if t.source not in (first, ""):
            continue
        if t.report in chosen and not t.frame.equals(chosen[t.report].frame):
            repeated.append(t.report)
        chosen.setdefault(t.report, t)
    notes = []
    if others:
        text = f"The text speaks of several profiles: {first} is reported, and not {', '.join(others)}."
        notes.append(Warning_(code="several-profiles", text=text))
    if repeated:
        text = f"Printed more than once, the first is reported: {', '.join(dict.fromkeys(repeated))}."
        notes.append(Warning_(code="repeated-report", text=text))
    return chosen, notes


def _facts(tables: Sequence[StatsTable], chosen: dict[str, StatsTable], path: str) -> ProfileFacts:
    version = next((t.version for t in tables if t.version), "")
    return ProfileFacts(
        path=path, producer="nsys-stats", producer_version=version, schema_version="", duration_ns=None,
        tables={name: t.frame.height for name, t in chosen.items() if name},
    )  # fmt: skip


def _table_notes(chosen: dict[str, StatsTable]) -> list[Warning_]:
    return [Warning_(code=n.code, text=f"{name or 'A table'}: {n.text}") for name, t in chosen.items() for n in t.notes]


def _sums(found: Ranges) -> list[Warning_]:
    if not found.rows:
        return []
    text = (
        "Shares are of the sum of the rows listed, wrappers left out: a table has no wall time and no nesting, so "
        "ranges inside other ranges count twice, and warm-up is included."
    )
    return [Warning_(code="shares-of-a-sum", text=text)]


def _not_checked(out: Report, tables: Sequence[StatsTable]) -> list[NotChecked]:
    skipped = {t.report: t.skipped for t in tables if t.skipped is not None}
    missing = []
    for section, reports in _SECTIONS.items():
        if getattr(out, section) is None:
            reason = next((skipped[r] for r in reports if r in skipped), "")
            wanted = f"no {reports[0]} in the text; add it with `nsys stats --report {reports[0]}`"
            missing.append(NotChecked(code=section, reason=f"nsys skipped it: {reason}" if reason else wanted))
    if not out.steps:
        reason = "no numbered step ranges in the text, and a table of sums holds no single times of others"
        missing.append(NotChecked(code="steps", reason=reason))
    return [*missing, NotChecked(code="breakdown", reason=_ONLY_SUMS), NotChecked(code="findings", reason=_ONLY_SUMS)]


# --------------------------------------------------------------------------------------------------------------------
# Sections that are one table each
# --------------------------------------------------------------------------------------------------------------------

_STATS = ("total_ns", "avg_ns", "median_ns", "min_ns", "max_ns", "stddev_ns")


def _summed(frame: pl.DataFrame | None, name: pl.Expr | None = None) -> pl.DataFrame | None:
    """One row a name with its ``percent``; names that the console cut off are not one name."""
    if frame is None or not {"name", "total_ns", "instances"} <= set(frame.columns):
        return None
    rows = summary(frame.with_columns(pl.col("name") if name is None else name)).with_row_index("row")
    apart = pl.when(pl.col("name").str.ends_with("…")).then("row").otherwise(None)
    table = percent(folded(rows.with_columns(apart=apart), ["name", "apart"]))
    return table.filter(pl.col("min_ns").is_not_null() & pl.col("max_ns").is_not_null())


def _kernels(frames: dict[str, pl.DataFrame]) -> list[KernelRow] | None:
    frame = next((frames[r] for r in _SECTIONS["kernels"] if r in frames), None)
    table = _summed(frame)
    return None if table is None else [KernelRow(**r) for r in _records(table, "name", "instances")]


def _calls(frame: pl.DataFrame | None) -> list[CallRow] | None:
    """Calls by name without version suffix, as everywhere."""
    table = _summed(frame, pl.col("name").str.replace(VERSION, ""))
    return (
        None
        if table is None
        else [CallRow(**r) for r in _records(table.rename({"instances": "calls"}), "name", "calls")]
    )


def _records(table: pl.DataFrame, *keys: str) -> list[dict[str, Any]]:
    return table.select(*keys, *_STATS, "percent").to_dicts()


def _memory(frames: dict[str, pl.DataFrame]) -> tuple[list[CopyRow] | None, list[MemsetRow] | None]:
    """Copies and memsets; their bytes come from the table of sizes, where there is one."""
    table = _summed(frames.get("cuda_gpu_mem_time_sum"))
    if table is None:
        return None, None
    sizes = _sizes(frames.get("cuda_gpu_mem_size_sum"))
    copies, memsets = [], []
    for name, instances, total in table.select("name", "instances", "total_ns").iter_rows():
        size = sizes.get(name)
        if "memset" in name:
            memsets.append(MemsetRow(memory="unknown", instances=instances, total_ns=total, bytes=size))
        else:
            copies.append(_copy(name, instances, total, size))
    return copies, memsets


def _copy(name: str, instances: int, total: int, size: int | None) -> CopyRow:
    kind = re.sub(r"^\[CUDA memcpy |\]$", "", name)
    unified = kind.removeprefix("Unified ")
    short = _KINDS.get(unified, "PtoP" if unified.startswith("P") else unified)
    rate = size / total if size is not None and size >= _LEAST_FOR_RATE and total else None
    return CopyRow(
        kind=short if unified == kind else f"UVM-{short}", source="unknown", destination="unknown", instances=instances,
        total_ns=total, bytes=size, gb_per_s=rate, exposed_ns=None,
    )  # fmt: skip


def _sizes(frame: pl.DataFrame | None) -> dict[str, int]:
    if frame is None or not {"name", "total_bytes"} <= set(frame.columns):
        return {}
    known = frame.filter(pl.col("total_bytes").is_between(0, 10**18))
    return {name: round(size) for name, size in known.select("name", "total_bytes").iter_rows()}
