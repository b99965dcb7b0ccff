"""Tables in, figures out: a :class:`Profile` becomes an :class:`Analysis`, whose ``report`` lacks only findings.

``analyze`` is the whole stage, in the order of the data's way: nest the ranges → join device work with the calls that
launched it → attribute it to ranges → find the steps → account for a steady step → summarise every table.
No I/O here, and no file format.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from unstall.analyze import intervals, metrics, project, ranges, summary
from unstall.analyze.breakdown import breakdown
from unstall.analyze.collecting import in_place_of, in_terms_of
from unstall.analyze.device import device_ops, devices_of, devices_used, known
from unstall.analyze.focus import View, focus
from unstall.analyze.intervals import Ints
from unstall.analyze.place import placed
from unstall.analyze.steps import confidence, find_steps
from unstall.model import (
    DEVICE_TABLES,
    TABLES,
    Analysis,
    Gpu,
    NotChecked,
    Period,
    Process,
    Profile,
    ProfileFacts,
    RangeRow,
    Report,
    StepGpu,
    StepsRow,
    StepTable,
    Warning_,
    pid_of,
)
from unstall.pace import bursty

__all__ = ["analyze"]

MOST_PROCESSES = 16
"""Processes whose steps are taken apart, at 0.15 s each. A capture of more (hundreds of loader workers that annotate
themselves) repeats itself, and three hundred took 43 s."""
MOST_OF_TRACED, LEAST_OF_BUSY = 2.0, 0.75
"""A step without the profiler is not twice as long as the traced one, and hardly shorter than the GPU's work in it: on
the planted captures it took 0.63 to 1.15 times the traced step (4.1 times where threads contend for the GIL), and work
on the GPU repeats within a few percent."""
NOTICED = 0.01
"""Share of a process's steady steps in which others must work on its GPU before its times are said to hold their
kernels."""
MEET = "each one's step includes waiting for the other's kernels"
APART = "not at the same time, though: no steady step of one meets work of another"


def analyze(profile: Profile, *, step: str | None = None, unprofiled_ns: int | None = None) -> Analysis:
    """Everything that can be said of a capture before asking why.

    Args:
        profile: a loaded capture.
        step: regular expression that names the step ranges; found automatically without it.
        unprofiled_ns: the step time without the profiler, ns, where known; overrides what the capture stores.

    Raises:
        UsageError: ``step`` is no regular expression or matches nothing.
    """
    profile = placed(profile)
    nested = None if profile.ranges is None else ranges.nest(profile.ranges)
    ops = device_ops(profile)
    if nested is not None:
        ops = project.attribute(ops, nested)
    steps = find_steps(nested, profile.marks, ops, pattern=step)
    looked_at = [focus(profile, nested, ops, s) for s in steps[:MOST_PROCESSES]]
    report = _report(
        profile, nested, ops, steps, looked_at=looked_at, unprofiled_ns=unprofiled_ns or profile.meta.unprofiled_ns
    )
    narrow = tuple(Analysis(p, n, o, (s,), report) for p, n, o, s in looked_at)
    return Analysis(profile, nested, ops, steps, report, narrow)


def _report(
    profile: Profile,
    nested: pl.DataFrame | None,
    ops: pl.DataFrame,
    steps: tuple[StepTable, ...],
    *,
    looked_at: list[View],
    unprofiled_ns: int | None,
) -> Report:
    from unstall import _version

    has_device = any(profile.table(t) is not None for t in DEVICE_TABLES)
    near = [v[2] for v in looked_at]  # what the breakdown is made from also says which GPU is the busiest
    step_rows = [
        _steps_row(s, ops, devices_of(near[i] if i < len(near) else ops, s.process), unprofiled_ns if i == 0 else None)
        for i, s in enumerate(steps)
    ]
    in_range = pl.col("range").is_not_null() if "range" in ops.columns else pl.lit(False)
    attributed = ops.lazy().filter(in_range).select("start", "end").collect()
    report = Report(
        unstall_version=_version.VERSION,
        profile=facts(profile, steps),
        ranges=None if nested is None else _range_rows(profile, nested, ops if has_device else None, steps),
        kernels=summary.kernel_rows(profile),
        copies=summary.copy_rows(profile, ops, steps),
        memsets=summary.memset_rows(profile),
        api=summary.api_rows(profile, nested),
        osrt=summary.osrt_rows(profile, nested),
        library=summary.library_rows(profile),
        samples=summary.sample_rows(profile),
        steps=step_rows,
        breakdown=[breakdown(*v, r.step_ns) for v, r in zip(looked_at, step_rows, strict=False)],
        not_checked=[*not_collected(profile), *_too_many(len(steps))],
        warnings=[
            *profile.notes,
            *_warnings(profile, nested, ops, steps),
            *_several_gpus(step_rows),
            *_doubtful(step_rows, profile.meta.unprofiled_ns),
        ],
        device_total_ns=_spent(ops) if has_device else None,
        device_attributed_ns=_spent(attributed) if has_device and nested is not None else None,
    )
    metrics.add(report, looked_at)
    return report


def _too_many(processes: int) -> list[NotChecked]:
    """Processes of which only ranges and step times are told."""
    left = processes - MOST_PROCESSES
    if left <= 0:
        return []
    text = f"{left} of {processes} processes with steps: only the {MOST_PROCESSES} with most work were examined"
    return [NotChecked(code="processes", reason=f"{text}; capture fewer at once for the others")]


def _spent(ops: pl.DataFrame) -> int:
    return int((ops["end"] - ops["start"]).sum())


def _range_rows(
    profile: Profile, nested: pl.DataFrame, ops: pl.DataFrame | None, steps: tuple[StepTable, ...]
) -> list[RangeRow]:
    windows = {s.process: s.steady_span for s in steps}
    families = {s.process: s.source.partition(":")[2] for s in steps if not s.source.startswith(("phase", "marker"))}
    return ranges.range_rows(profile, nested, ops, windows or None, wrappers=families)


def facts(profile: Profile, steps: tuple[StepTable, ...] = ()) -> ProfileFacts:
    """What was captured: file, producer, GPUs, processes, and which tables are there with how many rows."""
    meta = profile.meta
    return ProfileFacts(
        path=meta.path,
        producer=meta.producer,
        producer_version=meta.producer_version,
        schema_version=meta.schema_version,
        duration_ns=meta.duration_ns,
        gpus=_gpus(profile),
        processes=_processes(profile, steps),
        tables={t: frame.height for t in TABLES if (frame := profile.table(t)) is not None},
        rank=meta.rank,
        host=meta.host,
    )


def _gpus(profile: Profile) -> list[Gpu]:
    if profile.gpus is None:
        return []
    return [
        Gpu(
            device=g["device"],
            name=str(g["name"]),
            sm_count=g["sm_count"],
            memory_bytes=g["memory_bytes"],
            memory_bandwidth_bytes_per_s=g["memory_bandwidth_bytes_per_s"],
            compute_capability=f"{g['compute_major']}.{g['compute_minor']}" if g["compute_major"] is not None else None,
        )
        for g in profile.gpus.iter_rows(named=True)
    ]


def _processes(profile: Profile, steps: tuple[StepTable, ...]) -> list[Process]:
    """Processes that left rows (nsys lists its own helpers too, which did not)."""
    launched = {} if profile.kernels is None else dict(profile.kernels.group_by("process").len().iter_rows())
    seen = set(launched)
    for table in ("ranges", "api", "osrt"):
        frame = profile.table(table)
        seen |= set() if frame is None else set(frame["process"].unique().drop_nulls().to_list())
    names = {} if profile.processes is None else dict(profile.processes.select("process", "name").iter_rows())
    stepping, devices = {s.process for s in steps}, devices_used(profile)
    rows = [
        Process(
            process=pid_of(p),
            name=str(names.get(p) or ""),
            has_steps=p in stepping,
            kernels=launched.get(p, 0),
            devices=devices.get(p, []),
        )
        for p in seen
    ]
    return sorted(rows, key=lambda r: (not r.has_steps, -r.kernels, r.process))


def _steps_row(steps: StepTable, ops: pl.DataFrame, devices: list[int], unprofiled_ns: int | None) -> StepsRow:
    frame, steady = steps.frame, steps.steady
    period = steady["period_ns"].to_numpy()
    uneven = bursty(period.tolist())
    middle = np.mean if uneven else np.median
    warm = frame.filter(pl.col("warmup"))
    has_ops = bool(frame["ops"].sum())
    busy = {d: int(middle(ns)) for d, ns in _busy(steps, ops, devices).items()} if has_ops else {}
    return StepsRow(
        process=pid_of(steps.process),
        source=steps.source,
        count=frame.height,
        warmup=warm.height,
        period_ns=Period(
            median=int(np.median(period)),
            p10=int(np.percentile(period, 10)),
            p90=int(np.percentile(period, 90)),
            mean=int(period.mean()),
        ),
        samples_ns=period.tolist(),
        unprofiled_ns=unprofiled_ns,
        host_ns=int(middle((steady["host_end"] - steady["host_start"]).to_numpy())),
        gpu_busy_ns=next(iter(busy.values()), None),
        kernels_per_step=float(middle(steady["ops"].to_numpy())) if has_ops else None,
        warmup_steps=warm["name"].to_list(),
        warmup_ns=int(warm["period_ns"].sum()),
        warmup_samples_ns=warm["period_ns"].to_list(),
        limit=steps.limit,
        host_period_ns=_period(steady, "host_start"),
        gpu_period_ns=_period(steady, "gpu_start"),
        confidence=confidence(steps),
        gpus=[StepGpu(device=known(d), busy_ns=ns) for d, ns in busy.items()],
        bursty=uneven,
    )


def _busy(steps: StepTable, ops: pl.DataFrame, devices: list[int]) -> dict[int, Ints]:
    """Device → how long the process's work keeps it busy in each steady step, ns."""
    start, end = steps.steady["start"].to_numpy(), steps.steady["end"].to_numpy()
    if len(devices) == 1:
        return {devices[0]: steps.steady["busy_ns"].to_numpy()}
    out = {}
    for device in devices:
        own = (pl.col("process") == steps.process) & (pl.col("device") == device)
        rows = ops.lazy().filter(own).select("start", "end").collect()
        out[device] = intervals.covered(intervals.union(rows["start"], rows["end"]), start, end)
    return out


def _period(steady: pl.DataFrame, column: str) -> int | None:
    if steady.height < 2 or steady[column].null_count():
        return None
    return int(np.median(np.diff(steady[column].to_numpy())))


def not_collected(profile: Profile) -> list[NotChecked]:
    """Sections that this capture cannot fill, and how to collect them."""
    wanted = {
        "kernels": "GPU work: no CUDA rows in this capture; collect with `--trace=cuda` on a machine with a GPU",
        "api": "CUDA calls: not traced; collect with `--trace=cuda`",
        "ranges": "NVTX ranges: none traced; collect with `--trace=nvtx`, or `unstall run --auto` when it has none",
        "osrt": "OS runtime calls (file I/O, locks): not traced; collect with `--trace=osrt`",
        "gil": "GIL waits: not traced; collect with `--trace=python-gil` (nsys 2023.4 or newer)",
        "samples": "CPU samples: none; collect with `--sample=process-tree` where the kernel allows it",
    }
    missing = ((t, text) for t, text in wanted.items() if profile.table(t) is None)
    return [NotChecked(code=t, reason=in_terms_of(profile, t, text)) for t, text in missing]


NO_STEPS = (
    "No repeating step was found: totals cover the whole capture, warm-up included. "
    "Name the steps with --step REGEX, or annotate them (unstall.step, or `unstall run --auto`)."
)
NO_STEPS_AUTO = (
    "No repeating step was found, although --auto was on: totals cover the whole capture, warm-up included. "
    "Write `with unstall.step(i):` in the loop, or name a range that comes once a step with --step REGEX."
)


def _warnings(
    profile: Profile, nested: pl.DataFrame | None, ops: pl.DataFrame, steps: tuple[StepTable, ...]
) -> list[Warning_]:
    out = [] if nested is None else list(ranges.warnings(nested))
    if not steps:
        text = NO_STEPS_AUTO if "auto" in profile.meta.options else NO_STEPS
        out.append(Warning_(code="no-steps", text=in_place_of(profile, text)))
    shared = _shared_devices(ops, steps)
    if shared:
        out.append(Warning_(code="shared-gpu", text=shared))
    if profile.graphs is not None and profile.graphs.height:
        out.append(
            Warning_(
                code="opaque-graphs",
                text=f"{profile.graphs.height} CUDA graph replays are recorded as one row each: "
                "what runs inside is not visible. Collect with `--cuda-graph-trace=node` to see the kernels.",
            )
        )
    return out


def _several_gpus(rows: list[StepsRow]) -> Iterator[Warning_]:
    """One process that drives several GPUs: which of them the figures are of."""
    for row in rows:
        if len(row.gpus) < 2:
            continue
        work = ", ".join(f"GPU {'?' if g.device is None else g.device} {g.busy_ns / 1e6:.3g} ms" for g in row.gpus)
        text = (
            f"Process {row.process} drives {len(row.gpus)} GPUs (busy in a step: {work}): GPU busy, GPU idle and where "
            "a step goes are of the first of them"
        )
        yield Warning_(code="several-gpus", text=text)


def _doubtful(rows: list[StepsRow], stored_ns: int | None) -> Iterator[Warning_]:
    """A step time without the profiler that does not go with the traced one: a slip of units, or another run's.

    Where the run itself stored it, a longer one is true: threads that contend wait less while they are traced.
    """
    first = next(iter(rows), None)
    if first is None or first.unprofiled_ns is None or not first.step_ns:
        return
    given, traced, busy = first.unprofiled_ns, first.step_ns, first.gpu_busy_ns or 0
    if LEAST_OF_BUSY * busy <= given <= MOST_OF_TRACED * traced:
        return
    if given <= traced:
        text = (
            f"The step takes {traced / 1e6:.3g} ms under the profiler, of which the GPU works {busy / 1e6:.3g} ms: "
            f"{given / 1e6:.3g} ms without the profiler cannot be of this run, and predictions start there. "
            "Is it in milliseconds?"
        )
    elif given == stored_ns:
        text = (
            f"The step takes {traced / 1e6:.3g} ms under the profiler and {given / 1e6:.3g} ms without it, as the run "
            "itself measured: something waits less while it is traced, as threads that contend for the GIL do. Such "
            "waits are longer than shown here, and what their remedy brings is best measured (unstall try)."
        )
    else:
        text = (
            f"The step takes {traced / 1e6:.3g} ms under the profiler: {given / 1e6:.3g} ms without it is another "
            "run's or not in milliseconds, unless threads contend (for the GIL, for a lock) and wait less while they "
            "are traced. Predictions start there."
        )
    yield Warning_(code="unprofiled-doubtful", text=text)


def _shared_devices(ops: pl.DataFrame, steps: tuple[StepTable, ...]) -> str:
    """Devices that several processes use, and whether their work meets there."""
    by = ops.group_by("device").agg(pl.col("process").unique()).filter(pl.col("process").list.len() > 1)
    spans = {s.process: s.steady_span for s in steps}
    texts = []
    for device, processes in by.sort("device").iter_rows():
        own = ops.lazy().filter(pl.col("device") == device).select("process", "start", "end").collect()
        how = MEET if any(_meets(own, p, spans.get(p)) for p in processes) else APART
        texts.append(f"{len(processes)} processes ({_pids(processes)}) share GPU {device}: {how}")
    return "; ".join(texts)


def _meets(ops: pl.DataFrame, process: int, span: tuple[int, int] | None) -> bool:
    """Whether others keep the device busy in a noticeable part of this process's steady steps, or of all its work."""
    mine = pl.col("process") == process
    first, last = span or ops.filter(mine).select(pl.col("start").min(), pl.col("end").max()).row(0)
    others = ops.filter(~mine)
    busy = intervals.total(intervals.clip(intervals.union(others["start"], others["end"]), first, last))
    return busy > NOTICED * float(last - first)


def _pids(processes: list[int], most: int = 8) -> str:
    named = [str(pid_of(p)) for p in sorted(processes)]
    return ", ".join([*named[:most], "…"] if len(named) > most else named)
