"""The host works, or sleeps, in long stretches, and the GPU has nothing to do.

## What it detects

Time in which the GPU is idle while the host makes no CUDA call for at least 1 ms, and is not loading, saving, waiting
for a lock or for the interpreter: Python or NumPy work inside the step (metrics, augmentation, string handling,
building masks in a loop), or a `sleep`.

## Why it costs time

As long as the host computes, nothing is launched. Once the GPU has finished what was queued, it waits.

## How safe

Moving work to another thread, to the GPU or out of the step does not change the training, if its result is not needed
in the same step. Doing it less often changes what you see.

## When it is a false alarm

- Loading in a range whose name does not say so: name it (`data_load`), and it is counted as loading.
- Library start-up and compilation in early steps; warm-up steps are left out.
- A range that the profiler itself slows: Python sampling and backtraces make Python slower.

## Thresholds

1 ms without a CUDA call: an eager framework launches dozens of operations in that time, and the Python of an
optimizer step over a few hundred parameters stays below. Shorter pauses are counted as launching. At least 2 % of the
step.
"""

from __future__ import annotations

from collections.abc import Iterator

from unstall.analyze import intervals
from unstall.analyze.intervals import Union
from unstall.analyze.replay import Change
from unstall.diagnose.case import Case
from unstall.diagnose.hit import Hit
from unstall.diagnose.texts import Fix, Line, Texts, line
from unstall.diagnose.traces import GEMM, MS, US, Trace, steps

CODE = "host-python-work"
TABLES = ("api",)

SHARE = 0.02

TEXTS = {
    "en": Texts(
        title="Host work between launches leaves the GPU idle",
        titles={"sleep": "The host sleeps while the GPU is idle"},
        says={
            "idle": "The GPU is idle for {value:ms} of a {step:ms} step ({share:pct}) while the host works without "
            "launching, "
            "in stretches of 1 ms and more",
            "seldom": "{value:pct} of the steady steps do it; over all of them it adds {cost:ms} a step",
            "where": "{value:pct} of it is in {range}",
            "sleep": "{value:pct} of that time the host sleeps ({call})",
            "hot": "Samples there are mostly in {symbols}",
            "unsampled": "No CPU samples say in which function; collect with --sample=process-tree",
        },
        fix=Fix(
            title="Take the work out of the step",
            pytorch="Do it on the GPU (torch instead of NumPy), in the DataLoader's workers, in a thread, or every "
            "50th step; "
            "replace Python loops over tensors by tensor operations. What must stay can run after the launches of a "
            "step, "
            "while the GPU is busy.",
            jax="Move it into the jitted step, into the input pipeline, or run it every 50th step; JAX launches "
            "asynchronously, so do it after dispatching the step and before reading its results.",
            cuda="Launch first, compute on the host afterwards while the GPU works; move what another thread can do "
            "to a "
            "thread.",
            safety="manual",
        ),
    )
}


def check(case: Case) -> Iterator[Hit]:
    """Idle time in long stretches of host work."""
    when, always = _work(case, case.parts), _work(case, case.steady_parts)
    usual, every = case.per_step(when), case.per_steady_step(always)
    seldom = case.seldom(usual, every)
    cost, at = (every, always) if seldom else (usual, when)
    if case.share(cost) < SHARE:
        return
    slept = intervals.total(case.sleeps(at)) / max(intervals.total(at), 1)
    yield Hit(
        cost_ns=cost,
        lines=tuple(_lines(case, at, cost, seldom, slept)),
        range=case.range_of(at),
        change=None if seldom else Change(cut=_work(case, case.host_time)),
        seldom=seldom,
        when=when,
        title="sleep" if slept > 0.5 else "",
        confidence="medium",
    )


def _work(case: Case, parts: dict[str, Union]) -> Union:
    """Long stretches of host work, and sleeps."""
    return intervals.merge(intervals.intersect(parts["python_cpu"], case.long_host), case.sleeps(parts["lock_wait"]))


def _lines(case: Case, at: Union, cost: float, seldom: bool, slept: float) -> Iterator[Line]:
    if seldom:
        frame = case.steps.steady
        hit = intervals.covered(at, frame["start"], frame["end"]) > cost
        yield line("seldom", hit.sum() / case.count, "", "breakdown", cost=cost)
    else:
        yield line("idle", cost, "ns", "breakdown", step=case.step_ns, share=case.share(cost))
    ranges = case.where(at)
    if ranges:
        yield line("where", ranges[0][1], "", "ranges", range=ranges[0][0])
    if slept > 0.1:
        yield line("sleep", slept, "", "osrt", call=case.waits_in(at)[1])
    hot = case.hot(at)
    if hot:
        yield line("hot", hot[0][1], "", "samples", symbols=", ".join(s for s, _ in hot))
    elif case.profile.samples is None:
        yield line("unsampled", source="samples")


def fires(t: Trace) -> None:
    """Each step computes metrics on the host for 4 ms, with the GPU idle, and then works for 5 ms."""
    _trace(t, 4 * MS)


def silent(t: Trace) -> None:
    """0.1 ms of host work."""
    _trace(t, 100 * US)


def _trace(t: Trace, work: int) -> None:
    def body(i: int, at: int) -> None:
        t.range("metrics", at, at + work)
        t.launch(GEMM, at + work + 10 * US, 10 * US, kernel_dur=5 * MS)
        t.sync("stream", at + work + 30 * US, at + work + 5 * MS + 30 * US)

    steps(t, work + 5 * MS + 50 * US, body)
