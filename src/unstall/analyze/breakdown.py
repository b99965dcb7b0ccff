"""Where one steady step's wall time goes: exclusive categories that add up to the step period exactly.

In: steps, device operations, the host's activities. Out: one :class:`~unstall.model.BreakdownRow` a process.

Device side first, on the process's busiest device: ``gpu_compute`` (kernels, memsets and whole graphs, as a union over
streams), ``exposed_communication`` (collectives that no compute hides), ``exposed_copy`` (copies that neither hides),
``other_process`` (the device works for another process), ``device_latency`` (idle although the next operation was
already launched: gaps between queued operations and between the nodes of a graph, which no host change closes).
What is left is idle because of the host, and is split by ``analyze.host``.

Shares are taken over the *typical* steps (steady, period in the middle half), then scaled to what a step takes, so that
one odd step does not colour the picture; rounding goes to the largest remainder.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from unstall.analyze import host as host_side
from unstall.analyze import intervals
from unstall.analyze.device import busy, devices_of, known
from unstall.analyze.intervals import NOTHING, Union
from unstall.model import DEVICE_TABLES, BreakdownRow, Category, Profile, RangeShare, StepTable, pid_of

DEVICE_CATEGORIES = ("gpu_compute", "exposed_communication", "exposed_copy", "other_process", "device_latency")
CATEGORIES = (*DEVICE_CATEGORIES, *host_side.ACTIVITIES)
TOLD_BY = {
    "gpu_compute": ("kernels", "memsets", "graphs"), "exposed_communication": ("kernels",), "exposed_copy": ("copies",),
    "other_process": DEVICE_TABLES, "device_latency": ("api",), "sync": ("api",), "alloc": ("api",),
    "copy_call": ("api",), "launch": ("api",), "gil_wait": ("gil",), "data_loading": ("ranges", "copies"),
    "checkpoint": ("ranges",), "file_io": ("osrt",), "lock_wait": ("osrt",), "python_cpu": ("api", "ranges", "osrt"),
    "unknown": (),
}  # fmt: skip
"""Category → the tables of which one must be there, or that it takes no time is not known."""
COMPUTE = ("kernel", "memset", "graph")


def breakdown(
    profile: Profile, ranges: pl.DataFrame | None, ops: pl.DataFrame, steps: StepTable, step_ns: int | None = None
) -> BreakdownRow:
    """The breakdown of one process's typical step, scaled to ``step_ns`` (what these steps take by default)."""
    parts, host = split(profile, ranges, ops, steps)
    step_ns = steps.step_ns if step_ns is None else step_ns
    totals = {name: intervals.total(part) for name, part in parts.items()}
    scaled = _scaled(totals, step_ns)
    window_ns = sum(totals.values()) or 1
    rows = [
        Category(
            name=n,
            ns=scaled[n],
            percent=100.0 * scaled[n] / step_ns if step_ns else 0.0,
            ranges=_ranges(host, parts[n], step_ns / window_ns),
        )
        for n in CATEGORIES
        if scaled[n]
    ]
    device = known(next(iter(devices_of(ops, steps.process)), None))
    return BreakdownRow(process=pid_of(steps.process), step_ns=step_ns, categories=rows, device=device)


def split(
    profile: Profile, ranges: pl.DataFrame | None, ops: pl.DataFrame, steps: StepTable
) -> tuple[dict[str, Union], host_side.HostView]:
    """Category → when, inside the typical steps: exclusive unions that cover the windows entirely."""
    typical = steps.frame.filter(pl.col("typical"))
    window = intervals.union(typical["start"], typical["end"])
    parts = _device_parts(ops, steps.process, window)
    host = host_side.view(profile, ranges, steps)
    left = intervals.subtract(window, intervals.merge(*parts.values()))
    parts |= host_side.activities(host, left, before_first_copies(ops, steps))
    return parts, host


def _device_parts(ops: pl.DataFrame, process: int, window: Union) -> dict[str, Union]:
    devices = devices_of(ops, process)
    if not devices:
        return dict.fromkeys(DEVICE_CATEGORIES, NOTHING)
    on_device = ops.filter(pl.col("device") == devices[0])
    own = on_device.filter(pl.col("process") == process)
    layers = (
        busy(own, *COMPUTE),
        busy(own, "communication"),
        busy(own, "copy"),
        busy(on_device.filter(pl.col("process") != process)),
    )
    taken, parts = NOTHING, {}
    for name, layer in zip(DEVICE_CATEGORIES, (*layers, _queued(own)), strict=True):
        parts[name] = intervals.intersect(window, intervals.subtract(layer, taken))
        taken = intervals.merge(taken, layer)
    return parts


def _queued(own: pl.DataFrame) -> Union:
    """Instants between an operation's launch call (its end) and its start: idle then is not the host's doing."""
    known = own.filter(pl.col("api_end").is_not_null())
    return intervals.union(known["api_end"], known["start"])


def before_first_copies(ops: pl.DataFrame, steps: StepTable) -> Union:
    """Host time from the last launch of other work to the first host-to-device copy after it."""
    own = ops.filter((pl.col("process") == steps.process) & pl.col("api_start").is_not_null()).sort("api_start")
    first = own["h2d"] & ~own["h2d"].shift(1).fill_null(value=True)
    before = own.with_columns(previous=pl.col("api_end").cum_max().shift(1)).filter(first)
    return intervals.union(before["previous"].to_numpy(), before["api_start"].to_numpy())


def _scaled(totals: dict[str, int], step_ns: int) -> dict[str, int]:
    """Totals scaled to integers that add up to ``step_ns`` exactly (largest remainder)."""
    whole = sum(totals.values())
    if not whole:
        return {**dict.fromkeys(totals, 0), "unknown": step_ns}
    exact = {n: t * step_ns / whole for n, t in totals.items()}
    out = {n: int(x) for n, x in exact.items()}
    short = step_ns - sum(out.values())
    for name in sorted(exact, key=lambda n: exact[n] - out[n], reverse=True)[:short]:
        out[name] += 1
    return out


def _ranges(host: host_side.HostView, when: Union, scale: float, top: int = 4) -> list[RangeShare]:
    """The innermost ranges of the step's thread during ``when``, most time first."""
    if host.ranges is None or not len(when[0]):
        return []
    own = host.ranges.filter((pl.col("thread") == host.thread) & pl.col("trusted"))
    cuts = np.unique(np.concatenate((own["start"].to_numpy(), own["end"].to_numpy())))
    pieces = intervals.intersect(
        when, (np.concatenate(([np.iinfo(np.int64).min // 2], cuts)), np.append(cuts, np.iinfo(np.int64).max // 2))
    )
    from unstall.analyze.ranges import innermost_at

    ids = innermost_at(own, np.full(len(pieces[0]), host.thread), pieces[0])
    spent = pl.DataFrame({"id": ids, "ns": pieces[1] - pieces[0]}).join(
        own.select("id", "family"), on="id", how="inner"
    )
    by = spent.group_by("family").agg(pl.col("ns").sum()).sort("ns", "family", descending=[True, False]).head(top)
    return [RangeShare(name=str(f), ns=round(ns * scale)) for f, ns in by.iter_rows() if round(ns * scale)]
