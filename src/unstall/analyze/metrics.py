"""Sampled hardware counters of a GPU, put beside a steady step: how hard the GPU works while it is busy.

In: the ``gpu_metrics`` table (``--gpu-metrics``), the steps of a process and the parts of its breakdown. Out: means
over the steady steps and over each category of the breakdown, and a split of ``gpu_compute``; nothing where the capture
has no counters. ``docs/numbers.md`` defines the three parts.

A sample stands for the time since the one before it (nsys reads counters at a fixed rate, by default every 100 µs, and
each value is the mean over that interval). Counters are the whole device's, whoever uses it. The split asks of each
interval which unit was near its limit:

- ``waiting_on_memory`` where DRAM reads and writes together reach :data:`NEAR` of peak, and compute reaches less;
- ``computing_hard`` where tensor cores, or the instruction issue of the SMs, reach :data:`NEAR` of peak;
- ``computing_lightly`` where neither does: latency, small kernels, tails.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from unstall.analyze import breakdown, intervals
from unstall.analyze.device import devices_of, known
from unstall.analyze.focus import View
from unstall.analyze.intervals import Union
from unstall.model import BreakdownRow, CategoryPart, GpuMetricsRow, Profile, Report

NEAR = 60.0
"""Percent of peak. Nsight Compute's guided analysis uses the same figure: a kernel that drives neither compute nor
memory to 60 % of peak is limited by latency, above it by that unit."""
COUNTERS: Mapping[str, str] = {
    "sm_active": r"(?i)^sms? active",
    "sm_issue": r"(?i)^sm (issue|instruction)",
    "tensor_active": r"(?i)^tensor active",
    "dram_read": r"(?i)^(dram|hbm|vidmem) read",
    "dram_write": r"(?i)^(dram|hbm|vidmem) write",
    "clock": r"(?i)^gpc clock",
}
"""Ours → how its name begins in the exports of any GPU (``SMs Active [Throughput %]``)."""
HOLE = 10
"""A distance of this many usual ones is a hole in the samples, and stands for nothing."""
HARD, MEMORY, LIGHT, REST = "computing_hard", "waiting_on_memory", "computing_lightly", "not_sampled"

Floats = npt.NDArray[np.float64]


class Samples:
    """The counters of one device as arrays: interval starts and ends, and one array a counter (NaN where unknown)."""

    def __init__(self, start: npt.NDArray[np.int64], end: npt.NDArray[np.int64], values: dict[str, Floats]) -> None:
        self.start, self.end, self.values = start, end, values

    def weights(self, where: Union) -> npt.NDArray[np.int64]:
        """How many ns of ``where`` each sample stands for."""
        return intervals.covered(where, self.start, self.end)

    def mean(self, counter: str, weight: npt.NDArray[np.int64]) -> float | None:
        """Time-weighted mean of a counter, ``None`` where nothing was sampled."""
        values = self.values.get(counter)
        if values is None:
            return None
        known = ~np.isnan(values) & (weight > 0)
        return float(np.average(values[known], weights=weight[known])) if known.any() else None


def samples(profile: Profile, device: int) -> Samples | None:
    """The samples of one device; ``None`` without any."""
    frame = profile.gpu_metrics
    if frame is None or not frame.height:
        return None
    own = frame.filter((pl.col("device") == device) | pl.col("device").is_null())
    found = {ours: name for ours, pattern in COUNTERS.items() if (name := _name(own, pattern)) is not None}
    if not found:
        return None
    parts = [
        own.filter(pl.col("name").cast(pl.String) == name)
        .group_by("time").agg(pl.col("value").mean().alias(ours))
        for ours, name in found.items()
    ]  # fmt: skip
    wide = parts[0]
    for part in parts[1:]:
        wide = wide.join(part, on="time", how="full", coalesce=True)
    wide = wide.sort("time")
    end = wide["time"].to_numpy()
    before = np.append(end[:1], end[:-1])
    start = np.where(end - before > HOLE * np.median(np.diff(end)), end, before) if len(end) > 1 else end
    return Samples(start, end, {c: wide[c].cast(pl.Float64).fill_null(np.nan).to_numpy() for c in found})


def _name(own: pl.DataFrame, pattern: str) -> str | None:
    """The counter's own name; its share of peak where it comes in several units."""
    names = own["name"].unique().drop_nulls().cast(pl.String).sort().to_list()
    fitting = [n for n in names if pl.Series([n]).str.contains(pattern).item()]
    shares = [n for n in fitting if "%" in n]
    return next(iter(shares or fitting), None)


def split(found: Samples, compute: Union) -> dict[str, int]:
    """Part → ns of ``compute``; the four add up to it."""
    unknown = np.full(len(found.start), np.nan)
    tensor, issue, reads, writes = (
        found.values.get(c, unknown) for c in ("tensor_active", "sm_issue", "dram_read", "dram_write")
    )
    hard, memory = np.fmax(tensor, issue), reads + np.nan_to_num(writes)
    weight = np.where(np.isnan(hard) | np.isnan(memory), 0, found.weights(compute))
    waits = (memory >= NEAR) & (memory > hard)
    works = (hard >= NEAR) & ~waits
    out = {HARD: int(weight[works].sum()), MEMORY: int(weight[waits].sum())}
    out[LIGHT] = int(weight.sum()) - sum(out.values())
    return {**out, REST: intervals.total(compute) - int(weight.sum())}


def add(report: Report, looked_at: Sequence[View]) -> None:
    """Put the counters into a report: its ``gpu_metrics``, and the parts of each breakdown's ``gpu_compute``."""
    if not looked_at or looked_at[0][0].gpu_metrics is None:
        return
    report.gpu_metrics = []
    for (profile, nested, ops, steps), row in zip(looked_at, report.breakdown, strict=False):
        device = known(next(iter(devices_of(ops, steps.process)), None))
        found = None if device is None else samples(profile, device)
        if found is None or device is None:
            continue
        parts = breakdown.split(profile, nested, ops, steps)[0]
        report.gpu_metrics += rows(found, _peak(profile, device), row.process, device, parts)
        divide(row, split(found, parts["gpu_compute"]))


def rows(found: Samples, peak: int | None, pid: int, device: int, parts: Mapping[str, Union]) -> list[GpuMetricsRow]:
    """One row for the whole typical step and one for each category in which the device was sampled.

    Args:
        found: the device's samples.
        peak: its memory bandwidth, bytes/s, where known.
        pid: the process whose steps these are.
        device: the device.
        parts: category → when, inside the typical steps (``breakdown.split``).
    """
    scopes = {"step": intervals.merge(*parts.values()), **parts}
    made = [_row(found, peak, where, process=pid, device=device, scope=s) for s, where in scopes.items()]
    return [row for row in made if row is not None]


def _row(found: Samples, peak: int | None, where: Union, **scope: Any) -> GpuMetricsRow | None:
    weight = found.weights(where)
    count = int((weight > 0).sum())
    if not count:
        return None
    mean = {c: found.mean(c, weight) for c in COUNTERS}

    def rate(counter: str) -> float | None:
        share = mean[counter]
        return None if share is None or peak is None else share / 100 * peak / 1e9

    clock = mean["clock"]
    return GpuMetricsRow(
        **scope, samples=count, sm_active_percent=mean["sm_active"],
        sm_issue_percent=mean["sm_issue"], tensor_active_percent=mean["tensor_active"],
        dram_read_percent=mean["dram_read"], dram_write_percent=mean["dram_write"],
        dram_read_gb_per_s=rate("dram_read"), dram_write_gb_per_s=rate("dram_write"),
        clock_mhz=None if clock is None else clock / 1e6 if clock > 1e5 else clock,  # some exports hold Hz
    )  # fmt: skip


def _peak(profile: Profile, device: int) -> int | None:
    """The device's memory bandwidth, bytes/s."""
    known = None if profile.gpus is None else profile.gpus.filter(pl.col("device") == device)
    found = None if known is None or not known.height else known["memory_bandwidth_bytes_per_s"][0]
    return int(found) if found else None


def divide(row: BreakdownRow, spent: Mapping[str, int]) -> None:
    """Write the split into the breakdown's ``gpu_compute``, scaled so that its parts add up exactly."""
    category = next((c for c in row.categories if c.name == "gpu_compute"), None)
    whole = sum(spent.values())
    if category is None or not whole or spent[REST] == whole:
        return
    exact = {name: ns * category.ns / whole for name, ns in spent.items()}
    scaled = {name: int(ns) for name, ns in exact.items()}
    short = category.ns - sum(scaled.values())
    for name in sorted(exact, key=lambda n: scaled[n] - exact[n])[:short]:
        scaled[name] += 1
    percent = 100.0 / row.step_ns if row.step_ns else 0.0
    category.parts = [CategoryPart(name=n, ns=scaled[n], percent=percent * scaled[n]) for n in scaled if scaled[n]]
