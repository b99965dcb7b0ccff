"""Files are written or read inside the step.

## What it detects

Time in which the GPU is idle while the step's thread is in a range named after saving or logging (`checkpoint`, `save`,
`log` …), or inside a file, pipe or socket call of the OS runtime, outside of loading.

## Why it costs time

A checkpoint copies the weights to the host and writes gigabytes; nothing is launched meanwhile. Log lines flushed in
each step wait for a disk or a network file system, whose slow moments become slow steps.

## How safe

Saving in the background is safe if the weights are copied before the optimizer changes them.

## When it is a false alarm

- A pipe or socket call in which the main thread waits for data is loading; name the range (`data_load`) and it is
  counted as that.
- A step that waits for a debugger, a progress bar or a slow terminal while profiling.

## Thresholds

At least 2 % of the step, averaged over all steady steps: a checkpoint in every 50th step counts with its share. The
prediction is the step that does not do it.
"""

from __future__ import annotations

from collections.abc import Iterator

from unstall.analyze import intervals
from unstall.analyze.replay import Change
from unstall.diagnose.case import Case
from unstall.diagnose.hit import Hit
from unstall.diagnose.texts import Fix, Line, Texts, line
from unstall.diagnose.traces import GEMM, MS, US, Trace, steps

CODE = "host-io"
TABLES = ()
GPU = False

SHARE = 0.02
PARTS = ("checkpoint", "file_io")

TEXTS = {
    "en": Texts(
        title="Files are written or read inside the step",
        titles={"saving": "Saving or logging holds up the step"},
        says={
            "idle": "The GPU is idle for {value:ms} of a {step:ms} step ({share:pct}) while the host reads or writes",
            "cpu": "Reading and writing take {value:ms} of a {step:ms} step ({share:pct}); this capture holds no GPU "
            "work",
            "seldom": "{value:pct} of the steady steps do it, {each:ms} each; over all of them it adds {cost:ms} a "
            "step",
            "call": "{value:pct} of that time is spent in {call}",
        },
        fix=Fix(
            title="Write in the background, less often, or after launching",
            pytorch="Save with torch.distributed.checkpoint.async_save, or copy the state dict to pinned host memory "
            "and "
            "torch.save it in a thread; log every 50th step and buffer the file; keep TensorBoard and similar "
            "writers in "
            "their own thread.",
            jax="Save with orbax's AsyncCheckpointer; log every 50th step.",
            cuda="Copy to pinned memory on a side stream and let another thread write it.",
            safety="manual",
        ),
    )
}


def check(case: Case) -> Iterator[Hit]:
    """Idle time in saving, logging and file calls."""
    usual_at = case.part(*PARTS)
    every_at = intervals.merge(*(case.steady_parts.get(n, intervals.NOTHING) for n in PARTS))
    usual, every = case.per_step(usual_at), case.per_steady_step(every_at)
    seldom = case.seldom(usual, every)
    cost, at = (every, every_at) if seldom else (usual, usual_at)
    if case.share(cost) < SHARE:
        return
    removed = intervals.merge(*(case.host_time[n] for n in PARTS))
    saving = intervals.intersect(at, case.host_time["checkpoint"])
    named = intervals.total(saving) > 0.5 * intervals.total(at)
    yield Hit(
        cost_ns=cost,
        lines=tuple(_lines(case, at, cost, seldom)),
        range=case.range_of(at),
        call=None if named else case.waits_in(at)[1] or None,
        change=None if seldom else Change(cut=removed),
        seldom=seldom,
        when=usual_at,
        title="saving" if named else "",
    )


def _lines(case: Case, at: intervals.Union, cost: float, seldom: bool) -> Iterator[Line]:
    if seldom:
        frame = case.steps.steady
        spent = intervals.covered(at, frame["start"], frame["end"])
        hit = spent > cost
        yield line("seldom", hit.mean(), "", "breakdown", each=spent[hit].mean() if hit.any() else cost, cost=cost)
    else:
        key = "idle" if case.device is not None else "cpu"
        yield line(key, cost, "ns", "breakdown", step=case.step_ns, share=case.share(cost))
    share, call = case.waits_in(at)
    if call:
        yield line("call", share, "", "osrt", call=call)


def fires(t: Trace) -> None:
    """Every step writes a log for 1.5 ms, with the GPU idle, beside 5 ms of work."""
    _trace(t, 1500 * US)


def silent(t: Trace) -> None:
    """Every step writes a line in 20 µs."""
    _trace(t, 20 * US)


def _trace(t: Trace, writing: int) -> None:
    def body(i: int, at: int) -> None:
        t.launch(GEMM, at + 10 * US, 10 * US, kernel_dur=5 * MS)
        t.sync("stream", at + 30 * US, at + 5 * MS + 30 * US)
        done = at + 5 * MS + 40 * US
        t.range("write_log", done, done + writing)
        t.osrt("write", done, done + writing)
        t.osrt("fsync", done, done + writing)

    steps(t, 5 * MS + 60 * US + writing, body)
