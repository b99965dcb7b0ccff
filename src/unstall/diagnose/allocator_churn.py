"""Device memory is allocated and freed inside steady steps.

## What it detects

`cudaMalloc`, `cudaFree`, `cudaHostAlloc` and their kin in steps after warm-up, where they leave the GPU idle.

## Why it costs time

These calls go to the driver, and most of them wait for the device: `cudaFree` until everything queued has finished.
PyTorch and JAX keep freed memory in a cache exactly for this reason; calls in steady steps mean that the cache does
not fit: sizes that change from step to step, fragmentation near the memory limit, `empty_cache()` in the loop, or
pinned buffers made anew.

## How safe

Safe: the same memory from a cache. `expandable_segments` maps memory differently and costs nothing in steady state.

## When it is a false alarm

- The first steps, and the first time a larger shape comes by: that is how a cache fills. Warm-up is left out.
- Evaluation or checkpointing between steps that allocates on purpose.

## Thresholds

At least 2 % of the step on average over all steady steps, and in at least three of them: one step is no churn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import polars as pl

from unstall.analyze import intervals
from unstall.analyze.replay import Change
from unstall.diagnose.case import Case
from unstall.diagnose.events import some_of, spans
from unstall.diagnose.hit import Hit
from unstall.diagnose.texts import Fix, Texts, line
from unstall.diagnose.traces import GEMM, MS, US, Trace, steps

CODE = "allocator-churn"
TABLES = ("api",)

SHARE = 0.02
STEPS_HIT = 3

TEXTS = {
    "en": Texts(
        title="Memory is allocated and freed by the driver in steady steps",
        says={
            "idle": "The GPU is idle for {value:ms} of a {step:ms} step ({share:pct}) during or directly after such "
            "calls",
            "calls": "{call}: {value:n} calls a step, {mean:us} each",
            "seldom": "They come in {value:pct} of the steady steps, and add {cost:ms} to a step on average",
        },
        fix=Fix(
            title="Let the caching allocator keep the memory",
            pytorch="Remove torch.cuda.empty_cache() and gc.collect() from the loop; set "
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; pad or bucket shapes that change from batch to batch; "
            "reuse "
            "pinned buffers instead of calling pin_memory() in each step; leave some memory free.",
            jax="Keep XLA_PYTHON_CLIENT_PREALLOCATE on (or set XLA_PYTHON_CLIENT_MEM_FRACTION), and pad shapes so "
            "that one "
            "compiled step serves all batches.",
            cuda="Allocate once before the loop, or use cudaMallocAsync with a memory pool whose release threshold "
            "keeps the "
            "memory.",
            trial="expandable-segments",
        ),
    )
}


def check(case: Case) -> Iterator[Hit]:
    """Driver allocations in steady steps that leave the GPU idle."""
    calls = case.calls.filter(pl.col("kind") == "alloc")
    if calls["step"].n_unique() < min(STEPS_HIT, case.count):
        return
    stuck = intervals.merge(spans(calls), case.after_waits(calls))
    held = intervals.subtract(stuck, case.computing)
    usual, every = case.per_step(intervals.intersect(held, case.window)), case.per_steady_step(held)
    seldom = case.seldom(usual, every)
    cost = every if seldom else usual
    if case.share(cost) < SHARE:
        return
    by = calls.group_by("name").agg(pl.len(), (pl.col("end") - pl.col("start")).sum().alias("ns"))
    name, count, inside = by.sort("ns", "name", descending=[True, False]).row(0)
    first = (
        line("seldom", calls["step"].n_unique() / case.count, "", "api", cost=cost)
        if seldom
        else line("idle", cost, "ns", "breakdown", step=case.step_ns, share=case.share(cost))
    )
    yield Hit(
        cost_ns=cost,
        lines=(first, line("calls", count / case.count, "calls", "api", call=name, mean=inside / count)),
        range=case.range_of(intervals.intersect(held, case.steady_span)),
        call=name,
        change=None if seldom else Change(drop_calls=some_of("correlation", calls["correlation"])),
        seldom=seldom,
        when=intervals.intersect(held, case.window),
        confidence="medium",
    )


def fires(t: Trace) -> None:
    """Four allocations and frees of 250 µs each in every step of 3 ms of work."""
    _trace(t, lambda i: True)


def silent(t: Trace) -> None:
    """The same in the first step only."""
    _trace(t, lambda i: i == 0)


def _trace(t: Trace, churns: Callable[[int], bool]) -> None:
    def body(i: int, at: int) -> None:
        now = at
        for k in range(4) if churns(i) else ():
            t.api("cudaMalloc_v3020" if k % 2 else "cudaFree_v3020", now + US, now + 250 * US)
            now += 260 * US
        t.launch(GEMM, now + 10 * US, 10 * US, kernel_dur=3 * MS)
        t.sync("stream", now + 30 * US, now + 3 * MS + 30 * US)

    steps(t, 3 * MS + 1100 * US, body)
