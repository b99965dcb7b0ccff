"""The step's thread waits for a lock, and the GPU has nothing to do.

## What it detects

Time in which the GPU is idle while the thread that drives the step is inside a mutex, condition, semaphore, barrier
or join call of the OS runtime: it waits for another thread of the process. Sleeps are `host-python-work`; the
interpreter's own lock is `gil-contention`.

## Why it costs time

While it waits, nothing is launched. Typical: a queue whose producer is slow, a lock shared with a logging or monitoring
thread, oversubscribed OpenMP threads that spin against each other, a memory allocator under contention.

## How safe

Depends on what the lock protects: shorten what is done while holding it rather than removing it.

## When it is a false alarm

- Autograd: the main thread waits while a second thread launches backward. Waits during which another thread launches
  are left out.
- A queue between loader and step: name the range (`data_load`), and it is counted as loading.

## Thresholds

At least 2 % of the step.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from unstall.analyze.intervals import Union
from unstall.analyze.replay import Change
from unstall.diagnose.case import Case
from unstall.diagnose.hit import Hit
from unstall.diagnose.texts import Fix, Line, Texts, line
from unstall.diagnose.traces import GEMM, MS, US, Trace, steps

CODE = "host-lock-contention"
TABLES = ("osrt", "api")  # without calls nobody can tell who launches meanwhile

SHARE = 0.02

TEXTS = {
    "en": Texts(
        title="The thread that runs the step waits for another thread",
        says={
            "idle": "The GPU is idle for {value:ms} of a {step:ms} step ({share:pct}) while the step's thread waits "
            "in {call}",
            "where": "{value:pct} of it is in {range}",
            "hot": "Samples of the other threads are mostly in {symbols}",
        },
        fix=Fix(
            title="Find who holds the lock, and hold it shorter",
            pytorch="Look at the waiting call's backtrace (collect with --osrt-file-access or --cudabacktrace, and "
            "CPU samples): "
            "a queue's producer needs more workers; a lock shared with logging or metrics should protect less; set "
            "OMP_NUM_THREADS and torch.set_num_threads to the cores that each process really has.",
            jax="Look at the waiting call's backtrace; let the input pipeline produce ahead, and limit the host "
            "threads "
            "(OMP_NUM_THREADS) to the cores that are there.",
            cuda="Look at the waiting call's backtrace; give each thread buffers of its own, and hold locks only for "
            "the "
            "hand-over.",
            safety="manual",
        ),
    )
}


def check(case: Case) -> Iterator[Hit]:
    """Idle time in lock waits of the thread that drives the step."""
    when = case.locks(case.part("lock_wait"))
    cost = case.per_step(when)
    if case.share(cost) < SHARE:
        return
    call = case.waits_in(when)[1]
    yield Hit(
        cost_ns=cost,
        lines=tuple(_lines(case, when, cost, call)),
        range=case.range_of(when),
        call=call,
        change=Change(cut=case.locks(case.host_time["lock_wait"])),
        when=when,
        confidence="medium",
    )


def _lines(case: Case, when: Union, cost: float, call: str) -> Iterator[Line]:
    yield line("idle", cost, "ns", "breakdown", step=case.step_ns, share=case.share(cost), call=call)
    ranges = case.where(when)
    if ranges:
        yield line("where", ranges[0][1], "", "ranges", range=ranges[0][0])
    samples = case.profile.samples
    if samples is not None:
        others = samples.filter((pl.col("process") == case.process) & (pl.col("thread") != case.host.thread))
        hot = case.hot(when, others["thread"].unique().sort().to_list()) if others.height else []
        if hot:
            yield line("hot", hot[0][1], "", "samples", symbols=", ".join(s for s, _ in hot))


def fires(t: Trace) -> None:
    """2 ms in a condition wait before 5 ms of work."""
    _trace(t, 2 * MS)


def silent(t: Trace) -> None:
    """The condition is signalled at once."""
    _trace(t, 10 * US)


def _trace(t: Trace, wait: int) -> None:
    def body(i: int, at: int) -> None:
        t.range("acquire", at, at + wait)
        t.osrt("pthread_cond_wait", at, at + wait)
        t.launch(GEMM, at + wait + 10 * US, 10 * US, kernel_dur=5 * MS)
        t.sync("stream", at + wait + 30 * US, at + wait + 5 * MS + 30 * US)

    steps(t, wait + 5 * MS + 50 * US, body)
