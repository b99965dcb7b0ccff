"""The GPU waits for its next batch.

## What it detects

Time in which the GPU is idle while the step's thread is in a range that is named after loading (`data_load`,
`next_batch`, `dataloader` …) or, where the script has no such range, before the step's first host-to-device copy.
Loading in worker processes shows here as well: the main thread then waits in its queue. Two cases are told apart: the
main thread does the loading itself, or it waits for workers that do not keep up.

## Why it costs time

A step cannot start before its batch is there. Loading on the main thread happens strictly before the step; the GPU has
nothing to do meanwhile. Workers load several batches at once, while the GPU computes; then only the hand-over is left.

## How safe

Safe: the same samples in the same order for a map-style dataset. An iterable dataset must be split among the workers by
hand, and random augmentation draws from one generator a worker.

## When it is a false alarm

- A range whose name sounds like loading and that does something else. Compare with its place in your script.
- The first batches: workers are starting. Warm-up steps are left out, a capture of very few steps may still show it.
- The machine has no idle CPU cores: more workers then slow each other down. Faster decoding is the remedy there.

## Thresholds

At least 2 % of the step. Loading that the GPU hides costs nothing and is not shown. What remains of loading in the
prediction is 30 µs a step: taking a finished batch out of a queue took 10 to 30 µs in captures with workers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import polars as pl

from unstall.analyze import host
from unstall.analyze.intervals import Union
from unstall.analyze.replay import Change
from unstall.diagnose import copies
from unstall.diagnose.case import Case
from unstall.diagnose.hit import Hit
from unstall.diagnose.texts import Fix, Line, Texts, line
from unstall.diagnose.traces import GEMM, MS, US, Trace, steps

CODE = "host-data-loading"
TABLES = ()
GPU = False  # a training loop on the CPU loads as well

SHARE = 0.02
KEEP_NS = 30_000
QUEUE = re.compile(
    r"(?i)^(poll|ppoll|select|epoll_\w*wait|read|recv\w*|sem_\w*wait|pthread_cond_\w*wait|futex|connect|accept)"
)
"""OS calls in which a main thread waits for worker processes: multiprocessing reads a pipe or waits on a semaphore."""
WAITED = 0.5
"""Share of the loading time in such calls from which the main thread is said to wait for workers."""

TEXTS = {
    "en": Texts(
        title="The GPU waits while the main thread loads each batch",
        titles={
            "workers": "Batches come late: loading does not keep up",
            "cpu": "The step waits while the main thread loads each batch",
        },
        says={
            "idle": "The GPU is idle for {value:ms} of a {step:ms} step ({share:pct}) while the host is in {range}",
            "cpu": "{range} takes {value:ms} of a {step:ms} step ({share:pct}); this capture holds no GPU work",
            "unnamed": "The GPU is idle for {value:ms} of a {step:ms} step ({share:pct}) before the step's first copy; "
            "no range says what the host does there",
            "host": "{range} takes {value:ms} of host time a step; {hidden:ms} of it is hidden behind the GPU",
            "queue": "{value:pct} of that time the main thread waits in {call}, as a consumer of a queue does",
            "waits": "{value:pct} of that time the main thread waits in {call}",
            "hot": "Samples there are mostly in {symbols}",
        },
        fix=Fix(
            title="Load in worker processes and prefetch",
            pytorch="Pass num_workers (start with 4 to 8 a GPU), pin_memory=True and persistent_workers=True to the "
            "DataLoader, and copy with .to(device, non_blocking=True). In one line, for any iterable of batches: "
            "for batch in unstall.prefetch(loader, device='cuda') draws, pins and copies the next ones meanwhile.",
            jax="Feed the step from grain or tf.data with .prefetch(2) and parallel map calls, and put the next batch "
            "on the device (jax.device_put) before the current step is waited for.",
            cuda="Read and decode the next batch in other threads into pinned buffers, two or more of them in turn, "
            "and "
            "copy it with cudaMemcpyAsync on a stream of its own while the current batch is computed.",
            trial="dataloader-workers",
            patch="dataloader",
        ),
        fixes={
            "workers": Fix(
                title="Make loading keep up: more workers, or less work a sample",
                pytorch="Raise num_workers and prefetch_factor while CPU cores are idle; then make a sample cheaper: "
                "decode at the needed size, cache what does not change, move augmentation to the GPU, read fewer and "
                "larger files. Keep pin_memory=True and persistent_workers=True.",
                jax="Raise the parallelism of the map calls and the prefetch depth; then make a sample cheaper "
                "(smaller "
                "decodes, caching, fewer and larger files).",
                cuda="Add reader threads while CPU cores are idle; then make a sample cheaper (smaller decodes, "
                "caching, "
                "fewer and larger files, decoding on the GPU).",
                trial="dataloader-workers",
                patch="dataloader",
            )
        },
    )
}


def check(case: Case) -> Iterator[Hit]:
    """Loading that the GPU does not hide."""
    idle = case.part("data_loading")
    cost = case.per_step(idle)
    if case.share(cost) < SHARE:
        return
    loading = case.host_time["data_loading"]
    name = case.range_of(idle) if host.has_loading_names(case.host) else None
    waited, call = case.waits_in(idle)
    behind = "workers" if waited >= WAITED and QUEUE.search(call) else ""
    yield Hit(
        cost_ns=cost,
        lines=tuple(_lines(case, idle, case.host_per_step(loading), name, behind)),
        range=name,
        change=Change(cut=loading, keep_ns=KEEP_NS, **_pinned(case)),
        when=idle,
        title=behind or ("cpu" if case.device is None else ""),
        fix=behind,
        confidence="medium" if name is None or behind else "high",
    )


def _pinned(case: Case) -> dict[str, Any]:
    """The remedy's second half: the loader pins what it hands over, so pageable copies no longer block."""
    rows = case.ops.filter((pl.col("copy_kind") == "HtoD") & (pl.col("source") == "pageable"))
    return copies.ahead(case, rows, copies.pinned_rate(case)) if rows.height else {}


def _lines(case: Case, idle: Union, taken: float, name: str | None, behind: str) -> Iterator[Line]:
    waited, call = case.waits_in(idle)
    cost = case.per_step(idle)
    key = "unnamed" if name is None else "cpu" if case.device is None else "idle"
    yield line(key, cost, "ns", "breakdown", step=case.step_ns, share=case.share(cost), range=name)
    if name and taken > 1.1 * cost:
        yield line("host", taken, "ns", "ranges", range=name, hidden=taken - cost)
    if call and waited >= 0.1:
        yield line("queue" if behind else "waits", waited, "", "osrt", call=call)
    hot = case.hot(idle)
    if hot:
        yield line("hot", hot[0][1], "", "samples", symbols=", ".join(s for s, _ in hot))


def fires(t: Trace) -> None:
    """20 ms of loading on the main thread before 5 ms of work."""
    _trace(t, 20 * MS)


def silent(t: Trace) -> None:
    """The batch is ready: taking it takes 30 µs."""
    _trace(t, 30 * US)


def _trace(t: Trace, loading: int) -> None:
    def body(i: int, at: int) -> None:
        t.range("data_load", at, at + loading)
        t.copy("HtoD", at + loading, 20 * US, source="pinned", copy_dur=10 * US)
        t.launch(GEMM, at + loading + 40 * US, 10 * US, kernel_dur=4800 * US)
        t.sync("stream", at + loading + 60 * US, at + loading + 4950 * US)

    steps(t, loading + 5 * MS, body)
