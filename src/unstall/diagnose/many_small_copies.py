"""Many small copies where one would do.

## What it detects

At least eight host-to-device copies of up to 64 kB in one step whose calls, preparation and waits keep the GPU idle.

## Why it costs time

A small copy is all overhead: 64 kB need 1 to 5 µs on the link, while preparing and issuing the copy takes the host 10
to 30 µs, and from pageable memory it waits for the result as well. Fifty of them are a millisecond in which nothing
else is launched.

## How safe

Safe: the same bytes arrive, in one copy instead of many.

## When it is a false alarm

- The copies run while the GPU has queued work; then they are not shown.
- Values that the host learns one after another during the step cannot be gathered beforehand.

## Thresholds

64 kB is where a copy's own time on a PCIe link reaches the order of the call's: what is below is limited by calls.
(The `cuda_memcpy_sync` rule of `nsys analyze` draws its line for host-to-device copies at the same size.) Eight a
step leaves out the two to five tensors of an ordinary batch. At least 2 % of the step.
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
from unstall.diagnose.texts import Fix, Texts, line
from unstall.diagnose.traces import GEMM, MS, US, Trace, steps

CODE = "many-small-copies"
TABLES = ("copies", "api")

BYTES = 64_000
COUNT = 8
SHARE = 0.02

TEXTS = {
    "en": Texts(
        title="{count:n} small copies a step, where one would do",
        says={
            "idle": "{value:ms} of a {step:ms} step ({share:pct}) the GPU waits for small copies to be made and issued",
            "many": "Host-to-device copies of up to 64 kB: {value:n} a step, {bytes:bytes} in all",
            "host": "Each takes the host {value:us}, its preparation included",
        },
        fix=Fix(
            title="Gather small values and copy them once, or make them on the GPU",
            pytorch="Collate the batch on the host into few tensors (torch.stack, one packed buffer) and copy once "
            "with "
            ".to(device, non_blocking=True); create constants, masks and positions with device=... instead of "
            "copying them; "
            "keep scalars such as the learning rate on the host or in a device tensor that is updated in place.",
            jax="Pass one pytree per step and let jax.device_put move it at once; build constants inside the jitted "
            "function.",
            cuda="Pack the values into one pinned buffer and make one cudaMemcpyAsync, or pass small values as kernel "
            "arguments.",
        ),
    )
}


def check(case: Case) -> Iterator[Hit]:
    """Small host-to-device copies that the GPU waits for."""
    rows = case.ops.filter((pl.col("copy_kind") == "HtoD") & (pl.col("bytes") <= BYTES))
    if rows.height < COUNT * case.count:
        return
    calls = case.calls_of(rows)
    waits = case.syncs_after(calls)
    busy = intervals.merge(spans(calls, prepared=True), spans(waits, prepared=True))
    when = intervals.merge(copies.exposed(case, rows), case.idle(busy))
    cost = case.per_step(when)
    if case.share(cost) < SHARE:
        return
    count, moved = copies.by_size(rows, case)
    yield Hit(
        cost_ns=cost,
        lines=(
            line("idle", cost, "ns", "breakdown", step=case.step_ns, share=case.share(cost)),
            line("many", count, "copies", "copies", bytes=moved),
            line("host", case.host_per_step(busy) / count, "ns", "api"),
        ),
        range=case.range_of_ops(rows),
        change=_gathered(case, calls, waits),
        when=when,
        ops=rows["op"].to_numpy(),
        facts={"count": count},
        confidence="medium",
    )


def _gathered(case: Case, calls: pl.DataFrame, waits: pl.DataFrame) -> Change:
    """Only the first copy of each step is left, and a wait behind it."""
    dropped = calls.filter(pl.col("start") > pl.col("start").min().over("step"))
    waiting = waits.filter(some_of("after", dropped["correlation"]))
    gone = pl.concat([dropped, waiting])
    return Change(cut=lead_ins(gone), drop_calls=some_of("correlation", gone["correlation"]))


def fires(t: Trace) -> None:
    """Forty copies of 1 kB at the start of each step, 20 µs each, then 3 ms of work."""
    _trace(t, 40)


def silent(t: Trace) -> None:
    """Two copies."""
    _trace(t, 2)


def _trace(t: Trace, count: int) -> None:
    def body(i: int, at: int) -> None:
        for k in range(count):
            start = at + k * 20 * US
            t.copy("HtoD", start + 10 * US, 8 * US, copy_start=start + 12 * US, copy_dur=US, bytes=1024)
        begin = at + count * 20 * US
        t.launch(GEMM, begin + 10 * US, 10 * US, kernel_dur=3 * MS)
        t.sync("stream", begin + 30 * US, begin + 3 * MS + 30 * US)

    steps(t, count * 20 * US + 3 * MS + 100 * US, body)
