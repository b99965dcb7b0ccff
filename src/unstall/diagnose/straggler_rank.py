"""One rank arrives late at the collectives, and the others wait for it.

## What it detects

Several ranks in one capture (several processes, or devices of one process): the k-th collective of each is matched,
and the rank whose kernel starts last is the one that the others wait for. Reported where it is the same rank most of
the time.

## Why it costs time

A collective ends for nobody before the last rank has joined. The others' kernels spin until then: it looks like
communication, and is waiting. One slow input pipeline, a hot GPU or an uneven share of the work slows all ranks.

## How safe

Nothing is changed by finding the reason on the late rank: compare its breakdown with the others'.

## When it is a false alarm

- Pipeline parallelism: ranks are meant to start at different times.
- Ranks on different hosts in separate captures: compare their reports; their clocks are not aligned here.

## Thresholds

The same rank last in at least 60 % of the collectives (by chance, two ranks would each be last in half), and a mean
wait of 2 % of the step or more.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from unstall.analyze.intervals import Ints
from unstall.diagnose.case import Case
from unstall.diagnose.hit import Hit, Skip
from unstall.diagnose.texts import Fix, Texts, line
from unstall.diagnose.traces import GEMM, MS, US, Trace, steps
from unstall.model import pid_of

CODE = "straggler-rank"
TABLES = ("kernels",)
STEPS = False
SIDE = "device"
ONCE = True

SHARE = 0.02
LAST = 0.6
COLLECTIVES = 10
"""Fewer matched collectives cannot tell a habit from an accident."""
NOT_RANKS = (
    "needs at least two ranks with collectives in one capture; with a capture for each rank, compare two of them "
    "(`unstall compare`)"
)

TEXTS = {
    "en": Texts(
        title="The other ranks wait for the rank of process {late} on GPU {gpu_index}",
        says={
            "last": "It starts last in {value:pct} of {count:n} collectives",
            "wait": "The others wait {value:ms} a step for it ({share:pct} of the step)",
        },
        fix=Fix(
            title="Find what is different on the late rank",
            pytorch="Compare its breakdown with another rank's (unstall compare): uneven batch "
            "sizes or "
            "sequence lengths (bucket them, DistributedSampler), a slower loader or disk, logging and checkpoints on "
            "rank 0 "
            "only, another process on its GPU, CPU affinity.",
            safety="manual",
        ),
    )
}


def check(case: Case) -> Iterator[Hit | Skip]:
    """The rank that starts its collectives last."""
    starts = _starts(case)
    if starts is None:
        yield Skip(NOT_RANKS)
        return
    ranks, at = starts
    last = at.argmax(axis=0)
    late = int(np.bincount(last, minlength=len(ranks)).argmax())
    share = float((last == late).mean())
    waits = at[late] - np.delete(at, late, axis=0).mean(axis=0)
    steps_seen = _steps(case, at)
    cost = float(np.maximum(waits, 0).sum()) / steps_seen
    if share < LAST or case.share(cost) < SHARE:
        return
    process, device = ranks[late]
    yield Hit(
        cost_ns=cost,
        lines=(
            line("last", share, "", "kernels", count=at.shape[1]),
            line("wait", cost, "ns", "kernels", share=case.share(cost)),
        ),
        gain_ns=cost,
        facts={"late": pid_of(process), "gpu_index": device},
        confidence="medium",
    )


def _starts(case: Case) -> tuple[list[tuple[int, int]], Ints] | None:
    """Ranks, and the start of each one's k-th collective, shape (ranks, collectives); ``None`` if they do not match."""
    rows = case.analysis.ops.filter(pl.col("kind") == "communication").sort("start")
    found = rows.group_by("process", "device", maintain_order=True).agg("start", "code")
    if found.height < 2 or found["start"].list.len().min() < COLLECTIVES:  # type: ignore[operator]
        return None
    codes, starts = found["code"].to_list(), found["start"].to_list()
    if any(c != codes[0] for c in codes):  # not the same collectives in the same order: they cannot be matched
        return None
    ranks = [(int(p), int(d)) for p, d in found.select("process", "device").iter_rows()]
    return ranks, np.array(starts, np.int64)


def _steps(case: Case, at: Ints) -> float:
    """How many steps the matched collectives span."""
    if case.whole:
        return 1.0
    return max(float(at.max() - at.min()) / case.step_ns, 1.0)


_ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)"


def fires(t: Trace) -> None:
    """Two processes; the second computes 2 ms longer, and the first waits in its all-reduce."""
    _trace(t, 2 * MS)


def silent(t: Trace) -> None:
    """Both are ready at the same time, give or take 5 µs."""
    _trace(t, 0)


def _trace(t: Trace, later: int) -> None:
    for pid, device, extra in ((100, 0, 0), (200, 1, later)):
        t.process(pid)

        def body(i: int, at: int, extra: int = extra, device: int = device) -> None:
            begin = at + 5 * MS + extra + 20 * US + (5 * US if (i + device) % 2 else 0)
            t.launch(GEMM, at, 10 * US, kernel_dur=5 * MS + extra, device=device)
            end = at + 6 * MS + later + 20 * US
            t.launch(_ALL_REDUCE, at + 20 * US, 10 * US, kernel_start=begin, kernel_dur=end - begin, device=device)

        steps(t, 6 * MS + later + 50 * US, body, count=20)
