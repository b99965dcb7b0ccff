"""Metrics are computed on the host inside every step.

## What it detects

GPU idle time in ranges named `metrics`, which is what our trainer calls its evaluation of a batch.

## Why it costs time

The next batch waits for figures that nobody looks at before the end of the epoch.

## How safe

Safe: the model sees nothing of it.

## When it is a false alarm

When the figures steer the training, as early stopping within an epoch does.

## Thresholds

At least 5 % of the step: below that the change is not worth a review.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from unstall.analyze import intervals
from unstall.analyze.replay import Change
from unstall.diagnose.case import Case
from unstall.diagnose.hit import Hit
from unstall.diagnose.texts import Fix, Texts, line
from unstall.diagnose.traces import GEMM, MS, US, Trace, steps

CODE = "metrics-in-step"
TABLES = ("ranges",)
SHARE = 0.05
TEXTS = {
    "en": Texts(
        title="The GPU waits while the step computes metrics",
        says={"idle": "The GPU is idle for {value:ms} of a {step:ms} step ({share:pct}) in the range metrics"},
        fix=Fix(
            title="Compute metrics every 50th step",
            pytorch="Give MetricsHook(every=50) to the trainer, or keep the outputs on the GPU until the epoch ends.",
        ),
    )
}


def check(case: Case) -> Iterator[Hit]:
    """Idle time in the trainer's metrics."""
    named = case.profile.ranges.filter(pl.col("name").cast(pl.String) == "metrics")
    when = intervals.union(named["start"], named["end"])
    idle = case.idle(when)
    cost = case.per_step(idle)
    if case.share(cost) < SHARE:
        return
    said = line("idle", cost, "ns", "breakdown", step=case.step_ns, share=case.share(cost))
    yield Hit(cost_ns=cost, lines=(said,), range="metrics", change=Change(cut=when), when=idle)


def fires(t: Trace) -> None:
    """2 ms of metrics after 5 ms of work."""
    _trace(t, 2 * MS)


def silent(t: Trace) -> None:
    """50 µs of metrics."""
    _trace(t, 50 * US)


def _trace(t: Trace, metrics: int) -> None:
    def body(i: int, at: int) -> None:
        t.launch(GEMM, at + 10 * US, 10 * US, kernel_dur=5 * MS)
        t.sync("stream", at + 30 * US, at + 5030 * US)
        t.range("metrics", at + 5040 * US, at + 5040 * US + metrics)

    steps(t, 5050 * US + metrics, body)
