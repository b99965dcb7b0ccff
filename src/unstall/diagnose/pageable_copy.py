"""Copies from pageable host memory hold up the step.

## What it detects

Host-to-device copies whose source is pageable memory (ordinary `malloc` memory, an unpinned tensor), where nothing
hides them: time in which the device only copies, and time in which it idles while the host is inside the copy call.

## Why it costs time

The GPU can only read pinned memory by itself. Pageable memory is first copied by the CPU, piece by piece, into a
pinned staging buffer: slower than the link, and the call returns only when the last piece has left.
`non_blocking=True` changes nothing about that. A pinned copy runs at the link's rate, returns at once, and can run
while the GPU computes.

## How safe

Safe for results. Pinned memory cannot be swapped out: pin buffers of a few batches, not the data set. A copy on a side
stream needs an event between the copy and its first use, or the kernel reads a half-filled buffer.

## When it is a false alarm

- The copy is hidden behind compute: then it is not shown here, however many bytes it moves.
- Input so small that the copy is a few microseconds: there launching limits, not the copy.

## Thresholds

At least 2 % of the step exposed. The pinned rate in the prediction is that of the capture's own pinned copies of 4 MB
and more; without any, what ×16 links reach in practice: 55 GB/s on PCIe 5, 25 on PCIe 4, 12 on PCIe 3, down to 1/1.6
of it in the pessimistic bound.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from unstall.analyze.replay import Change
from unstall.diagnose import copies
from unstall.diagnose.case import Case
from unstall.diagnose.hit import Hit
from unstall.diagnose.texts import Fix, Texts, line
from unstall.diagnose.traces import GEMM, MS, US, Trace, steps

CODE = "pageable-copy"
TABLES = ("copies", "api")
STEPS = False

SHARE = 0.02

TEXTS = {
    "en": Texts(
        title="Copies from pageable memory hold up the step",
        says={
            "exposed": "{value:ms} of a {step:ms} step ({share:pct}) the GPU waits for copies from pageable memory",
            "moved": "Such copies a step: {count:n}, {value:bytes} in all, at {rate:rate}",
            "seen": "Pinned copies in this capture run at {value:rate}",
            "link": "A pinned copy to {gpu} usually reaches about {value:rate}",
        },
        fix=Fix(
            title="Pin the source memory and copy the next batch while this one is computed",
            pytorch="Pass pin_memory=True to the DataLoader (or allocate with tensor.pin_memory() once and reuse "
            "it), copy "
            "with .to(device, non_blocking=True) on a side torch.cuda.Stream one step ahead, and let the compute "
            "stream "
            "wait for it (wait_stream) before use.",
            jax="Call jax.device_put on the next batch before the current step is waited for; keep inputs in buffers "
            "that "
            "are reused, and prefer a loader that yields device arrays.",
            cuda="Allocate the source with cudaHostAlloc (or cudaHostRegister it once), copy with cudaMemcpyAsync on a "
            "second stream, record an event behind the copy and let the compute stream wait for it.",
            trial="pin-memory",
            patch="pin-memory",
        ),
    )
}


def check(case: Case) -> Iterator[Hit]:
    """Pageable host-to-device copies that nothing hides."""
    rows = case.ops.filter((pl.col("copy_kind") == "HtoD") & (pl.col("source") == "pageable"))
    when = copies.exposed(case, rows)
    cost = case.per_step(when)
    if case.share(cost) < SHARE:
        return
    rate = copies.pinned_rate(case)
    count, moved = copies.by_size(rows, case)
    took = float(rows["dur"].sum()) / case.count
    yield Hit(
        cost_ns=cost,
        lines=(
            line("exposed", cost, "ns", "breakdown", step=case.step_ns, share=case.share(cost)),
            line("moved", moved, "bytes", "copies", count=count, rate=moved / max(took, 1) * 1e9),
            line(
                "seen" if rate.seen else "link", rate.usual, "bytes/s", "copies" if rate.seen else "", gpu=case.gpu_name
            ),
        ),
        range=case.range_of_ops(rows),
        change=Change(**copies.ahead(case, rows, rate)),
        gain_ns=max(cost - moved / rate.usual * 1e9, 0.0),
        when=when,
        ops=rows["op"].to_numpy(),
        confidence="high" if rate.seen or case.peaks.known else "low",
    )


def fires(t: Trace) -> None:
    """A 100 MB pageable copy of 10 ms before 5 ms of work; the call returns when it is over."""
    _trace(t, "pageable", call=10 * MS, dur=10 * MS)


def silent(t: Trace) -> None:
    """The same bytes from pinned memory, in 2 ms while the step before is computed."""

    def body(i: int, at: int) -> None:
        t.copy(
            "HtoD", at, 10 * US, source="pinned", copy_start=at + 100 * US, copy_dur=2 * MS, bytes=100 << 20, stream=13
        )
        t.launch(GEMM, at + 50 * US, 10 * US, kernel_dur=4900 * US)

    steps(t, 5 * MS, body)


def _trace(t: Trace, source: str, call: int, dur: int) -> None:
    def body(i: int, at: int) -> None:
        t.range("copy_batch", at, at + call)
        t.copy("HtoD", at, call, source=source, copy_start=at + 10 * US, copy_dur=dur - 20 * US, bytes=100 << 20)
        t.launch(GEMM, at + call + 50 * US, 10 * US, kernel_dur=4900 * US)
        t.sync("stream", at + call + 70 * US, at + call + 4980 * US)

    steps(t, call + 5 * MS, body)
