"""The host cannot launch work as fast as the GPU does it.

## What it detects

A step of many short operations in which the GPU idles while the host is inside launch calls or between them, in
stretches too short to be work of its own (under 1 ms without a CUDA call): framework dispatch, Python, autograd.

## Why it costs time

Eager PyTorch needs 5 to 15 µs of one CPU core for each operation, however small. A kernel of 2 µs leaves the GPU idle
for the rest. The step then takes (launches) × (µs a launch), and a faster GPU changes nothing.

## How safe

A CUDA graph replays the same kernels on the same addresses: same results, but shapes must not change, inputs must be
copied into fixed buffers, and nothing in the graph may wait for the device. `torch.compile` fuses operations, which
changes rounding in the last bits.

## When it is a false alarm

- **The profiler itself**: tracing makes each call 2 to 9 µs longer, and launch-heavy steps 1.4 to 1.9 times. The
  figures in the evidence say how much of the step that is; give the real step time with `--unprofiled-ms` to be sure.
- A busy machine or a slow core: the same script launches faster elsewhere.

## Thresholds

At least 20 operations a step (fewer cannot add up: 20 × 15 µs is 0.3 ms) and 5 % of the step idle in short stretches.
The prediction launches each step as one CUDA graph: 0.33 µs between nodes, as measured for 1,033 nodes on an H200.
Host time inside the step that other findings explain (waits for the GIL, for locks or files, long stretches of
Python) stays in.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from unstall.analyze import intervals
from unstall.analyze.intervals import Union
from unstall.analyze.replay import Change
from unstall.diagnose.case import Case
from unstall.diagnose.hit import Hit
from unstall.diagnose.texts import Fix, Line, Texts, line
from unstall.diagnose.traces import ADD, US, Trace, launches, steps

CODE = "launch-bound"
TABLES = ("kernels", "api")

OPS = 20
SHARE = 0.05
OTHERS = ("alloc", "gil_wait", "data_loading", "checkpoint", "file_io")
"""What the host may also be doing between two launches of a step, each with a rule of its own."""

TEXTS = {
    "en": Texts(
        title="Launching limits: {count:n} operations a step, {each:us} of host time each",
        says={
            "idle": "The GPU is idle for {value:ms} of a {step:ms} step ({share:pct}) while the host launches work",
            "rate": "{count:n} operations a step: {each:us} of host time and {work:us} of GPU time each",
            "known": "Under the profiler the step takes {step:ms}, without it {value:ms}: predictions start there",
            "traced": "Tracing slows launching itself: of {step:ms} under the profiler about {value:ms} would remain "
            "without "
            "it ({low:ms} to {high:ms}); give the real step time with --unprofiled-ms",
            "syncs": "{value:n} waits a step stand in the way of one graph for the whole step",
            "hot": "Samples meanwhile are mostly in {symbols}",
        },
        fix=Fix(
            title="Launch less: CUDA graphs or torch.compile",
            pytorch="Try torch.compile(model, mode='reduce-overhead') first: it fuses and uses CUDA graphs. By hand: "
            "capture "
            "the step with torch.cuda.graph, or make_graphed_callables for parts. Larger batches, fused optimizers and "
            "one large matrix product instead of many small ones help as well. Waits (.item()) must go first.",
            jax="Put the whole step into one jax.jit, with donated buffers; use lax.scan over micro-steps, and keep "
            "Python "
            "out of the loop.",
            cuda="Capture the launches of a step into a CUDA graph (cudaStreamBeginCapture) and replay it; fuse small "
            "kernels.",
            safety="manual",
            trial="cuda-graph",
        ),
    )
}


def check(case: Case) -> Iterator[Hit]:
    """Idle time while the host launches a step of many operations."""
    count = case.ops.height / case.count
    when = _when(case)
    cost = case.per_step(when)
    if count < OPS or case.share(cost) < SHARE:
        return
    issuing = case.host_time["launch"], case.host_time["copy_call"], _short(case, case.host_time["python_cpu"])
    each = case.host_per_step(intervals.merge(*issuing)) / count
    yield Hit(
        cost_ns=cost,
        lines=tuple(_lines(case, when, cost, count, each)),
        range=case.range_of(when),
        change=Change(graph=True, keep_ns=_kept(case)),
        when=when,
        facts={"count": count, "each": each},
    )


def _when(case: Case) -> Union:
    return intervals.merge(case.part("launch"), _short(case, case.part("python_cpu")))


def _short(case: Case, when: Union) -> Union:
    """What of ``when`` lies in short stretches between CUDA calls."""
    return intervals.subtract(when, case.long_host)


def _kept(case: Case) -> int:
    """Host time a step, between its first and last launch, that other rules explain."""
    launched = case.calls.filter(pl.col("kind").is_in(["launch", "graph"])).group_by("step")
    body = launched.agg(pl.col("start").min(), pl.col("end").max())
    others = [case.host_time[name] for name in OTHERS]
    waiting = case.host_time["lock_wait"]
    others += [
        intervals.intersect(case.host_time["python_cpu"], case.long_host),
        case.locks(waiting),
        case.sleeps(waiting),
    ]
    inside = intervals.intersect(intervals.union(body["start"], body["end"]), intervals.merge(*others))
    return round(case.host_per_step(inside))


def _lines(case: Case, when: Union, cost: float, count: float, each: float) -> Iterator[Line]:
    yield line("idle", cost, "ns", "breakdown", step=case.step_ns, share=case.share(cost))
    work = float(case.ops["dur"].sum()) / max(case.ops.height, 1)
    yield line("rate", count, "operations", "kernels, copies, memsets", count=count, each=each, work=work)
    base = case.baseline
    if base is not None and case.unprofiled_ns is not None:
        yield line("known", base.step_ns, "ns", "replay", step=case.step_ns)
    elif base is not None and base.step_ns < 0.97 * case.step_ns:
        yield line("traced", base.step_ns, "ns", "replay", step=case.step_ns, low=base.low_ns, high=base.high_ns)
    syncs = case.calls.filter(pl.col("kind") == "sync").height / case.count
    if syncs >= 2:
        yield line("syncs", syncs, "calls", "api")
    threads = [int(t) for t in np.unique(case.calls["thread"].to_numpy())]
    hot = case.hot(when, threads)
    if hot:
        yield line("hot", hot[0][1], "", "samples", symbols=", ".join(s for s, _ in hot))


def fires(t: Trace) -> None:
    """300 kernels of 3 µs, one launched every 20 µs."""
    steps(t, 300 * 20 * US, lambda i, at: _issue(t, at, 300, 20 * US, 3 * US))


def silent(t: Trace) -> None:
    """300 kernels of 30 µs, one launched every 10 µs: the host runs ahead."""
    steps(t, 300 * 31 * US, lambda i, at: _issue(t, at, 300, 10 * US, 30 * US))


def _issue(t: Trace, at: int, count: int, every: int, dur: int) -> None:
    launches(t, at + US, count, every=every, dur=dur, name=ADD)
