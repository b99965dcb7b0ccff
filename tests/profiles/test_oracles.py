"""Our figures against what Nsight Systems 2025.3 itself computes from the same captures, cell by cell.

``tests/data/oracles/PROFILE_REPORT.csv.xz`` is from ``nsys stats``. Sums, counts, minima and maxima must be equal
to the nanosecond, averages, medians, deviations and percentages to the printed digit. ``docs/numbers.md`` says where we
mean something else; what follows brings ours to nsys's definition only there, and says so.
"""

from __future__ import annotations

import csv
import io
import lzma
from collections.abc import Callable, Iterable
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from pathlib import Path

import polars as pl
import pytest

from unstall.analyze import project, ranges, summary
from unstall.analyze.device import device_ops
from unstall.load import load
from unstall.model import CallRow, KernelRow, Profile

ORACLES = Path(__file__).parents[1] / "data" / "oracles"
COPIES = {
    "HtoD": "[CUDA memcpy Host-to-Device]", "DtoH": "[CUDA memcpy Device-to-Host]",
    "DtoD": "[CUDA memcpy Device-to-Device]", "HtoH": "[CUDA memcpy Host-to-Host]",
}  # fmt: skip
STYLES = {"push_pop": "PushPop", "start_end": "StartEnd"}
GIL = {"holding": "GIL Trace:Holding GIL", "waiting": "GIL Trace:Waiting for GIL"}
FIGURES = ("Avg (ns)", "Med (ns)", "Min (ns)", "Max (ns)", "StdDev (ns)")

ProfilePath = Callable[[str], Path]
Cells = dict[str, tuple[str, ...]]


def captures(report: str) -> list[str]:
    return sorted(p.name.removesuffix(f"_{report}.csv.xz") for p in ORACLES.glob(f"*_{report}.csv.xz"))


def oracle(capture: str, report: str) -> list[dict[str, str]]:
    with lzma.open(ORACLES / f"{capture}_{report}.csv.xz", "rt", encoding="utf-8") as text:
        return list(csv.DictReader(io.StringIO(text.read())))


def cells(rows: list[dict[str, str]], key: str, *columns: str) -> Cells:
    return {r[key]: tuple(r[c] for c in columns) for r in rows}


@lru_cache(maxsize=1)
def loaded(path: Path) -> Profile:
    return load(path, cache=False)


@lru_cache(maxsize=1)
def projected(path: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Nested ranges with their names as nsys writes them, and the projection of each."""
    profile = loaded(path)
    nested = ranges.nest(present(profile.ranges))
    return nested, project.gpu_span(project.attribute(device_ops(profile), nested), nested)


def present(frame: pl.DataFrame | None) -> pl.DataFrame:
    assert frame is not None
    return frame


def digit(value: float | None) -> str:
    """As nsys prints: one decimal, half up on the exact binary double."""
    assert value is not None
    return str(Decimal(value).quantize(Decimal("0.1"), ROUND_HALF_UP))


def printed(rows: Iterable[KernelRow | CallRow]) -> Cells:
    """The report's rows as nsys prints them, percentage last."""
    return {
        r.name: (
            str(r.total_ns), str(r.instances if isinstance(r, KernelRow) else r.calls), digit(r.avg_ns),
            digit(r.median_ns), str(r.min_ns), str(r.max_ns), digit(r.stddev_ns), digit(r.percent),
        )
        for r in rows
    }  # fmt: skip


def printed_table(frame: pl.DataFrame, name: str) -> Cells:
    """Statistics of intervals by name, as nsys prints them, without the percentage."""
    return {
        r[name]: (
            str(r["total_ns"]), str(r["count"]), digit(r["avg_ns"]), digit(r["median_ns"]), str(r["min_ns"]),
            str(r["max_ns"]), digit(r["stddev_ns"]),
        )
        for r in summary.statistics(frame, name).to_dicts()
    }  # fmt: skip


def qualified(frame: pl.DataFrame) -> pl.DataFrame:
    """nsys names a range ``domain:name``, the default domain being empty."""
    named = pl.concat_str(pl.col("domain").cast(pl.String), pl.lit(":"), pl.col("name").cast(pl.String))
    return frame.with_columns(named.alias("range"), pl.col("style").cast(pl.String).replace_strict(STYLES))


def nsys_ranges(profile: Profile) -> pl.DataFrame:
    """Ours, and the GIL's rows, which nsys counts as ranges and we keep apart."""
    columns = ["range", "style", "start", "end"]
    own = qualified(present(profile.ranges)).select(columns)
    if profile.gil is None:
        return own
    state = pl.col("state").cast(pl.String).replace_strict(GIL)
    return pl.concat([own, profile.gil.select(state.alias("range"), pl.lit("PushPop").alias("style"), "start", "end")])


@pytest.mark.parametrize("capture", captures("cuda_gpu_kern_sum"))
def test_kernels(capture: str, profile_path: ProfilePath) -> None:
    ours = summary.kernel_rows(loaded(profile_path(capture)))
    theirs = cells(oracle(capture, "cuda_gpu_kern_sum"), "Name", "Total Time (ns)", "Instances", *FIGURES, "Time (%)")
    assert printed(ours or []) == theirs


@pytest.mark.parametrize("capture", captures("cuda_api_sum"))
def test_cuda_calls(capture: str, profile_path: ProfilePath) -> None:
    """nsys leaves a suffix of five digits on; ours is without any, so rows are compared under nsys's names."""
    profile = loaded(profile_path(capture))
    name = pl.col("name").cast(pl.String).str.replace(r"_v\d{4}$", "")
    theirs = cells(oracle(capture, "cuda_api_sum"), "Name", "Total Time (ns)", "Num Calls", *FIGURES, "Time (%)")
    assert printed(summary.call_rows(present(profile.api).with_columns(name)) or []) == theirs
    short = {k.partition("_v")[0]: v for k, v in theirs.items()}
    assert len(short) == len(theirs)
    assert printed(summary.api_rows(profile) or []) == short


@pytest.mark.parametrize("capture", captures("osrt_sum"))
def test_os_runtime_calls(capture: str, profile_path: ProfilePath) -> None:
    ours = summary.osrt_rows(loaded(profile_path(capture)))
    theirs = cells(oracle(capture, "osrt_sum"), "Name", "Total Time (ns)", "Num Calls", *FIGURES, "Time (%)")
    assert printed(ours or []) == theirs


@pytest.mark.parametrize("capture", captures("cuda_gpu_mem_time_sum"))
def test_copies_and_memsets(capture: str, profile_path: ProfilePath) -> None:
    """nsys has them in one table; ours are two, and copies are told apart by the memory at their ends as well."""
    profile = loaded(profile_path(capture))
    copies = present(profile.copies).with_columns(pl.col("kind").cast(pl.String).replace_strict(COPIES))
    memsets = present(profile.memsets).select("start", "end", pl.lit("[CUDA memset]").alias("kind"))
    ours = printed_table(copies, "kind") | printed_table(memsets, "kind")
    rows = oracle(capture, "cuda_gpu_mem_time_sum")
    assert ours == cells(rows, "Operation", "Total Time (ns)", "Count", *FIGURES)
    totals = {COPIES[r.kind]: 0 for r in summary.copy_rows(profile) or []}
    for r in summary.copy_rows(profile) or []:
        totals[COPIES[r.kind]] += r.total_ns
    totals |= {"[CUDA memset]": sum(r.total_ns for r in summary.memset_rows(profile) or [])} if len(memsets) else {}
    assert totals == {r["Operation"]: int(r["Total Time (ns)"]) for r in rows}


@pytest.mark.parametrize("capture", captures("nvtx_sum"))
def test_ranges(capture: str, profile_path: ProfilePath) -> None:
    frame, rows = nsys_ranges(loaded(profile_path(capture))), oracle(capture, "nvtx_sum")
    assert printed_table(frame, "range") == cells(rows, "Range", "Total Time (ns)", "Instances", *FIGURES)
    assert dict(frame.select("range", "style").unique().iter_rows()) == {r["Range"]: r["Style"] for r in rows}


@pytest.mark.parametrize("capture", captures("nvtx_pushpop_sum"))
def test_push_pop_ranges(capture: str, profile_path: ProfilePath) -> None:
    frame = nsys_ranges(loaded(profile_path(capture))).filter(pl.col("style") == "PushPop")
    theirs = cells(oracle(capture, "nvtx_pushpop_sum"), "Range", "Total Time (ns)", "Instances", *FIGURES)
    assert printed_table(frame, "range") == theirs


@pytest.mark.parametrize("capture", captures("nvtx_sum"))
def test_range_rows_are_the_same_ranges_in_families(capture: str, profile_path: ProfilePath) -> None:
    """A row of ours is one family and one process: sums, counts and extremes of its members."""
    profile = loaded(profile_path(capture))
    nested = projected(profile_path(capture))[0]
    family = dict(qualified(nested).select("range", pl.col("family").cast(pl.String)).unique().iter_rows())
    theirs: dict[str, list[int]] = {}
    for row in oracle(capture, "nvtx_sum"):
        if row["Range"] not in GIL.values():
            figures = [int(row[c]) for c in ("Total Time (ns)", "Instances", "Min (ns)", "Max (ns)")]
            theirs[family[row["Range"]]] = merged(theirs.get(family[row["Range"]]), figures)
    ours: dict[str, list[int]] = {}
    for r in ranges.range_rows(profile, nested, None, None):
        ours[r.name] = merged(ours.get(r.name), [r.total_ns, r.instances, r.min_ns or 0, r.max_ns or 0])
    assert ours == theirs


def merged(one: list[int] | None, other: list[int]) -> list[int]:
    if one is None:
        return other
    return [one[0] + other[0], one[1] + other[1], min(one[2], other[2]), max(one[3], other[3])]


@pytest.mark.parametrize("capture", captures("nvtx_gpu_proj_sum"))
def test_projection(capture: str, profile_path: ProfilePath) -> None:
    """On the launching thread only, as nsys does it; ours adds what other threads launch (``gpu_by_time_ns``)."""
    nested, spans = projected(profile_path(capture))
    both = qualified(nested.hstack(spans)).filter(pl.col("calls").is_not_null())
    projection = both.with_columns(start=pl.col("gpu_start"), end=pl.col("gpu_end"))
    rows = oracle(capture, "nvtx_gpu_proj_sum")
    theirs = cells(rows, "Range", "Total Proj Time (ns)", "Range Instances", *(f"Proj {c}" for c in FIGURES))
    assert printed_table(projection, "range") == theirs
    extra = both.group_by("range").agg(
        (pl.col("end") - pl.col("start")).sum(), pl.col("calls").sum(),
        *(pl.col(c).cast(pl.Float64).mean().alias(f"mean_{c}") for c in ("calls", "depth", "children")),
    )  # fmt: skip
    columns = ["Total Range Time (ns)", "Total GPU Ops", "Avg GPU Ops", "Avg Range Lvl", "Avg Num Child"]
    assert {r[0]: (str(r[1]), str(r[2]), *map(digit, r[3:])) for r in extra.iter_rows()} == cells(
        rows, "Range", *columns
    )
