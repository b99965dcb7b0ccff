"""Collectives that no compute hides.

## What it detects

Time in which the GPU runs only communication kernels (NCCL all-reduce, all-gather, reduce-scatter, all-to-all, send and
receive), with no compute beside them.

## Why it costs time

A collective moves data over NVLink or the network, while the compute units idle. Gradients of late layers are ready
long before those of early ones: started at once, their reduction runs beside the rest of the backward pass. A
collective kernel also waits inside for the slowest rank, so part of this time may be a straggler's
(`straggler-rank`).

## How safe

Overlap does not change results. Compression and reducing less often (local steps) do.

## When it is a false alarm

- Waiting for another rank looks like communication; look at the reports of all ranks side by side.
- The first collective after start-up connects the ranks; warm-up steps are left out.

## Thresholds

At least 2 % of the step. The prediction runs the collectives beside compute as far as they fit, which is what is
reached if everything overlaps; the pessimistic bound leaves out half of that gain.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from unstall.analyze import intervals
from unstall.analyze.replay import Change
from unstall.diagnose import kernels
from unstall.diagnose.case import Case
from unstall.diagnose.events import some_of
from unstall.diagnose.hit import Hit
from unstall.diagnose.texts import Fix, Texts, line
from unstall.diagnose.traces import GEMM, MS, US, Trace, steps

CODE = "exposed-communication"
TABLES = ("kernels",)
STEPS = False
SIDE = "device"

SHARE = 0.02

TEXTS = {
    "en": Texts(
        title="Communication between GPUs is not hidden behind compute",
        says={
            "exposed": "{value:ms} of a {step:ms} step ({share:pct}) the GPU only communicates",
            "all": "Collectives take {value:ms} a step in {count:n} launches; {hidden:pct} of that is hidden behind "
            "compute",
            "top": "{kernel}: {value:ms} a step in {count:n} launches",
        },
        fix=Fix(
            title="Overlap communication with compute",
            pytorch="DistributedDataParallel overlaps by itself: use it instead of reducing by hand after backward; "
            "tune "
            "bucket_cap_mb, set gradient_as_bucket_view=True and static_graph=True; with gradient accumulation, "
            "no_sync() for "
            "all but the last micro-batch. FSDP: forward_prefetch and backward_prefetch. bf16 gradients halve the "
            "bytes.",
            jax="Turn on XLA's latency-hiding scheduler (--xla_gpu_enable_latency_hiding_scheduler=true), and "
            "combine small "
            "collectives (its combine-threshold flags).",
            cuda="Launch collectives on a stream of their own as soon as their input is ready, grouped "
            "(ncclGroupStart/End), and let compute wait for an event only where the result is used.",
            safety="manual",
        ),
    )
}


def check(case: Case) -> Iterator[Hit]:
    """Communication that nothing hides."""
    when = case.part("exposed_communication")
    cost = case.per_step(when)
    if case.share(cost) < SHARE:
        return
    rows = case.ops.filter((pl.col("kind") == "communication") & (pl.col("device") == case.device))
    total = intervals.total(intervals.union(rows["start"], rows["end"])) / case.count
    by = case.kernel_times().filter(pl.col("family") == kernels.COMMUNICATION)
    yield Hit(
        cost_ns=cost,
        lines=(
            line("exposed", cost, "ns", "breakdown", step=case.step_ns, share=case.share(cost)),
            line(
                "all", total, "ns", "kernels", count=rows.height / case.count, hidden=max(1 - cost / max(total, 1), 0.0)
            ),
            *(
                line("top", ns, "ns", "kernels", kernel=kernels.short(name), count=count)
                for name, ns, count in by.select("name", "ns", "count").head(2).iter_rows()
            ),
        ),
        range=case.range_of_ops(rows),
        kernel=by["name"][0] if by.height else None,
        change=Change(side=some_of("op", rows["op"])),
        gain_ns=cost,
        when=when,
        ops=rows["op"].to_numpy(),
        doubtful=0.5,
        confidence="low",
    )


_ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)"


def fires(t: Trace) -> None:
    """2 ms of all-reduce after 5 ms of compute."""
    _trace(t, at_end=True)


def silent(t: Trace) -> None:
    """The same all-reduce beside the compute."""
    _trace(t, at_end=False)


def _trace(t: Trace, at_end: bool) -> None:
    def body(i: int, at: int) -> None:
        t.launch(GEMM, at, 10 * US, kernel_dur=5 * MS)
        begin = at + 5 * MS + 20 * US if at_end else at + 2 * MS
        t.launch(_ALL_REDUCE, at + 20 * US, 10 * US, kernel_start=begin, kernel_dur=2 * MS, stream=20)
        end = begin + 2 * MS if at_end else at + 5 * MS + 10 * US
        t.sync("context", at + 40 * US, end + 5 * US)

    steps(t, 7 * MS + 50 * US if at_end else 5 * MS + 50 * US, body)
