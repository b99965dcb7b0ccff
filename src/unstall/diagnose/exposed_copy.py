"""Copies from pinned memory run while the GPU has nothing else to do.

## What it detects

Copies between the host's pinned memory and the device, or between devices, that no compute hides. They are fast, and
still in the way: they run in the compute stream, or are started when their data is needed at once.

## Why it costs time

A GPU copies and computes at the same time, on separate engines, if the two are in different streams and neither waits
for the other. In one stream they take turns, and the step lasts as long as both together.

## How safe

Safe for results if the first use waits for the copy (an event or `wait_stream`), and the buffer is not reused before.

## When it is a false alarm

- Data that is produced only just before it is needed cannot be copied earlier.
- Weights that do not fit on the device are streamed in: overlap helps up to the link's rate, no further.

## Thresholds

At least 2 % of the step exposed. The prediction keeps each copy's own speed and runs it a step ahead on a stream of its
own, so that the link remains the limit where the copies take longer than the compute.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from unstall.analyze.replay import Change
from unstall.diagnose import copies
from unstall.diagnose.case import Case
from unstall.diagnose.events import some_of
from unstall.diagnose.hit import Hit
from unstall.diagnose.texts import Fix, Texts, line
from unstall.diagnose.traces import GEMM, MS, US, Trace, steps

CODE = "exposed-copy"
TABLES = ("copies",)
STEPS = False
SIDE = "device"

SHARE = 0.02
LINK = 0.7
"""Copy time as a share of the step from which overlap can no longer halve what the step takes."""

TEXTS = {
    "en": Texts(
        title="Pinned copies run while the GPU has nothing to compute",
        titles={"link": "Copies from pinned memory limit: they take longer than everything else"},
        says={
            "exposed": "{value:ms} of a {step:ms} step ({share:pct}) the GPU only copies, from or to pinned memory",
            "moved": "Such copies a step: {count:n}, {value:bytes} in all, at {rate:rate}",
            "stream": "{value:pct} of them are in the stream that computes",
            "link": "The copies alone take {value:ms} of the step: overlap can gain no more than the rest",
        },
        fix=Fix(
            title="Copy ahead, on a stream of its own",
            pytorch="Start the copy of the next batch (or layer) before the current one is computed, inside "
            "torch.cuda.stream(side), with non_blocking=True; before use, "
            "torch.cuda.current_stream().wait_stream(side), "
            "and x.record_stream(torch.cuda.current_stream()).",
            jax="Call jax.device_put for the next batch before waiting for the current step.",
            cuda="Put the copy on a second stream a step ahead, record an event behind it, and let the compute "
            "stream wait "
            "for the event before use. Two buffers in turn keep one from being overwritten.",
        ),
        fixes={
            "link": Fix(
                title="Copy fewer bytes",
                pytorch="Keep on the GPU what fits (weights that are offloaded to the host are copied again for each "
                "use), send "
                "lower precision or compressed data and expand it on the GPU, raise the batch size so that each "
                "copied weight "
                "does more work; then overlap what is left.",
                jax="Keep on the device what fits, and send lower precision; then overlap what is left.",
                cuda="Keep on the device what fits, send lower precision or compressed data; then overlap what is "
                "left.",
                safety="manual",
            )
        },
    )
}


def check(case: Case) -> Iterator[Hit]:
    """Copies that are neither pageable nor hidden."""
    host_end = pl.when(pl.col("copy_kind") == "HtoD").then("source").otherwise(pl.lit("device"))
    rows = case.ops.filter(pl.col("copy_kind").is_in(["HtoD", "PtoP"]) & (host_end != "pageable"))
    when = copies.exposed(case, rows)
    cost = case.per_step(when)
    if case.share(cost) < SHARE:
        return
    count, moved = copies.by_size(rows, case)
    took = float(rows["dur"].sum()) / case.count
    link = "link" if case.share(took) > LINK else ""
    yield Hit(
        cost_ns=cost,
        lines=(
            line("exposed", cost, "ns", "breakdown", step=case.step_ns, share=case.share(cost)),
            line("moved", moved, "bytes", "copies", count=count, rate=moved / max(took, 1) * 1e9),
            line("stream", _in_compute_stream(case, rows), "", "copies"),
            *([line("link", took, "ns", "copies")] if link else []),
        ),
        title=link,
        fix=link,
        range=case.range_of_ops(rows),
        change=Change(side=some_of("op", rows["op"])),
        gain_ns=min(cost, max(case.step_ns - took, 0.0)),
        when=when,
        ops=rows["op"].to_numpy(),
        confidence="medium",
    )


def _in_compute_stream(case: Case, rows: pl.DataFrame) -> float:
    computing = case.ops.filter(pl.col("kind") == "kernel")["stream"]
    return rows.filter(some_of("stream", computing)).height / max(rows.height, 1)


def fires(t: Trace) -> None:
    """2 ms of pinned copying and 5 ms of work, in one stream."""
    _trace(t, stream=7)


def silent(t: Trace) -> None:
    """The same copy on a stream of its own, while the GPU computes."""
    _trace(t, stream=13)


def _trace(t: Trace, stream: int) -> None:
    def body(i: int, at: int) -> None:
        t.copy(
            "HtoD",
            at,
            10 * US,
            source="pinned",
            copy_start=at + 30 * US,
            copy_dur=2 * MS,
            bytes=100 << 20,
            stream=stream,
        )
        begin = at + 50 * US + (2 * MS if stream == 7 else 0)
        t.launch(GEMM, at + 40 * US, 10 * US, kernel_start=begin, kernel_dur=4900 * US)
        t.sync("stream", at + 60 * US, begin + 4900 * US + 5 * US)

    steps(t, 5 * MS + (2 * MS if stream == 7 else 0), body)
