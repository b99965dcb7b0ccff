"""Results are copied back to the host inside the step.

## What it detects

Device-to-host copies of more than 4 kB (activations, predictions, metrics: `.cpu()`, `.numpy()`, `.tolist()`) that
hold up the step: time in which the GPU only copies, in which it idles while the host waits for the copy, or in which
it has run dry afterwards. Single values (`.item()`) are `blocking-sync`.

## Why it costs time

The host waits until everything queued before has been computed, and then until the bytes have arrived; into pageable
memory they come in pieces. Only then does it launch again, so the GPU is empty meanwhile.

## How safe

Reading results later or less often changes what you see, not what is trained. A non-blocking copy must be waited for
before its buffer is read, or the values are those of an earlier step.

## When it is a false alarm

- The copied values decide what is launched next (beam search, early exit): then they are needed at once.
- A copy at the end of a step whose GPU work fills the step anyway: it is shown with the small gain that it has.

## Thresholds

4 kB separate tensors from single values and small vectors, whose bytes cost nothing. At least 2 % of the step. The
prediction is the step that does not copy: log every 50th step, and 49 of 50 look like it.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from unstall.analyze import intervals
from unstall.analyze.replay import Change
from unstall.diagnose import copies
from unstall.diagnose.case import Case
from unstall.diagnose.events import lead_ins, some_of, spans
from unstall.diagnose.hit import Hit
from unstall.diagnose.texts import Fix, Line, Texts, line
from unstall.diagnose.traces import GEMM, MS, US, Trace, steps

CODE = "device-to-host-copy"
TABLES = ("copies", "api")

BYTES = 4096
SHARE = 0.02

TEXTS = {
    "en": Texts(
        title="Results are copied to the host inside the step",
        says={
            "idle": "{value:ms} of a {step:ms} step ({share:pct}) the GPU only copies, idles or has run dry because of "
            "copies to the host",
            "moved": "Such copies a step: {count:n}, {value:bytes} in all, at {rate:rate}, into {memory} memory",
            "seldom": "They happen in {value:pct} of the steady steps, and add {cost:ms} to a step on average",
        },
        fix=Fix(
            title="Keep results on the GPU; read them later, and less often",
            pytorch="Accumulate metrics in device tensors and call .cpu() every 50 or 100 steps, outside the step; "
            "where a "
            "copy is needed in each, copy into a pinned buffer with non_blocking=True and read it a step later.",
            jax="Keep metrics as device arrays (they are futures) and call jax.device_get on them every 50 or 100 "
            "steps.",
            cuda="Reduce on the device, copy with cudaMemcpyAsync into pinned memory on a stream of its own, record an "
            "event, and read the buffer when the event of an earlier step is done.",
            safety="manual",
        ),
    )
}


def check(case: Case) -> Iterator[Hit]:
    """Copies to the host that the step waits for."""
    rows = case.ops.filter((pl.col("copy_kind") == "DtoH") & (pl.col("bytes") > BYTES))
    if not rows.height:
        return
    calls = case.calls_of(rows)
    waits = case.syncs_after(calls)
    stuck = intervals.merge(spans(calls), spans(waits), case.after_waits(pl.concat([calls, waits])))
    stuck = intervals.merge(stuck, intervals.union(rows["start"], rows["end"]))
    held = intervals.subtract(stuck, case.computing)
    usual, every = case.per_step(intervals.intersect(held, case.window)), case.per_steady_step(held)
    seldom = case.seldom(usual, every)
    cost = every if seldom else usual
    if case.share(cost) < SHARE:
        return
    yield Hit(
        cost_ns=cost,
        lines=tuple(_lines(case, rows, cost, seldom)),
        range=case.range_of_ops(rows),
        change=None if seldom else _without(calls, waits, rows),
        seldom=seldom,
        when=intervals.intersect(held, case.window),
        ops=rows["op"].to_numpy(),
        confidence="medium",
    )


def _lines(case: Case, rows: pl.DataFrame, cost: float, seldom: bool) -> Iterator[Line]:
    count, moved = copies.by_size(rows, case)
    took = float(rows["dur"].sum()) / case.count
    if seldom:
        yield line("seldom", rows["step"].n_unique() / case.count, "", "copies", cost=cost)
    else:
        yield line("idle", cost, "ns", "breakdown", step=case.step_ns, share=case.share(cost))
    memory = str(rows["destination"].mode().sort()[0] or "host")
    yield line("moved", moved, "bytes", "copies", count=count, rate=moved / max(took, 1) * 1e9, memory=memory)


def _without(calls: pl.DataFrame, waits: pl.DataFrame, rows: pl.DataFrame) -> Change:
    gone = pl.concat([calls, waits])
    return Change(
        cut=lead_ins(gone),
        drop_calls=some_of("correlation", gone["correlation"]),
        drop_ops=some_of("op", rows["op"]),
    )


def fires(t: Trace) -> None:
    """20 MB copied back in 4 ms between two halves of the step."""
    _trace(t, 20 << 20, 4 * MS)


def silent(t: Trace) -> None:
    """A single value comes back."""
    _trace(t, 4, 2 * US)


def _trace(t: Trace, size: int, dur: int) -> None:
    def body(i: int, at: int) -> None:
        t.launch(GEMM, at, 10 * US, kernel_dur=3 * MS)
        began = at + 3 * MS + 20 * US
        t.copy("DtoH", at + 20 * US, began + dur - at - 10 * US, copy_start=began, copy_dur=dur, bytes=size)
        t.launch(GEMM, began + dur + 60 * US, 10 * US, kernel_dur=3 * MS)
        t.sync("stream", began + dur + 80 * US, began + dur + 3 * MS + 80 * US)

    steps(t, 6 * MS + dur + 200 * US, body)
