"""The repeating sequence in a stream of device operations: steps of a script that has no NVTX.

In: device operations in order of start. Out: indices of the operations that open each period, or none.

Each operation becomes a code (what it is, not when). For every lag the share of operations that equal the one a lag
later is counted; the period is the smallest lag within half a percent of the best share. Layers repeat inside a step
with a shorter lag, but only in a part of it, so their share is lower.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

WINDOW = 16384
"""Operations looked at (the last ones, which are steady); lags are tried up to a third of them."""
AGREE = 0.9
"""Least share of equal operations a lag apart. Planted captures reach 0.99 and more; unrelated kernels stay under
0.6.
"""
MIN_PERIODS = 4
EVEN = 2.0
"""Largest ratio of the upper to the lower quartile of the periods. A JAX loop on the H200 that only the host paces,
0.2 ms a period, has 1.6; the layers of a model under inference have 2.9."""
EVEN_ALONE = 1.5
"""The same where a period is one operation: that it equals the one before is no evidence, so its rhythm must be."""
PAUSE = 3.0
"""A period this many times the median is a pause between bursts."""
PAUSES = 0.02
"""More pauses than this, in which most of the time passes, and the bursts are the steps: five equal kernels a step
repeat too, at a hundredth of its time. An evaluation now and then stays below."""
REGULAR = 0.8
"""Share of periods that must have the same length in operations; the rest is room for warm-up and evaluation."""


def anchors(ops: pl.DataFrame) -> npt.NDArray[np.int64]:
    """Row indices of the operations that open each period; empty where nothing repeats."""
    none = np.empty(0, np.int64)
    if ops.height < MIN_PERIODS:
        return none
    code = _codes(ops)
    tail = code[-WINDOW:]
    lag = _lag(tail)
    if lag is None:
        return none
    at = _opening(ops, code, lag)
    return at if _regular(at, lag, ops["start"].to_numpy()) else none


def _regular(at: npt.NDArray[np.int64], lag: int, start: npt.NDArray[np.int64]) -> bool:
    """Most periods hold as many operations as the lag, and last about as long.

    The layers of a model repeat like steps do, but not in time: in a two-GPU inference capture the middle half of the
    periods runs from 10 to 29 ms, in the planted training loops it stays within a factor of 1.1.
    """
    if len(at) < MIN_PERIODS:
        return False
    period = np.diff(start[at])
    late = period[len(period) // 3 :]
    low, high = np.percentile(late, [25, 75])
    same = np.abs(np.diff(at) - lag) <= max(1.0, 0.02 * lag)
    pause = late > PAUSE * np.median(late)
    bursts = pause.mean() > PAUSES and late[pause].sum() > late.sum() / 2
    even = EVEN if lag > 1 else EVEN_ALONE
    return bool(same.mean() >= REGULAR and high <= even * low and not bursts)


def _codes(ops: pl.DataFrame) -> npt.NDArray[np.int64]:
    """A small integer for each distinct operation."""
    return ops.select(pl.struct("kind", "code").rank("dense").cast(pl.Int64)).to_series().to_numpy()


def _lag(code: npt.NDArray[np.int64]) -> int | None:
    longest = len(code) // 3
    if longest < 1:
        return None
    share = np.array([np.mean(code[lag:] == code[:-lag]) for lag in range(1, longest + 1)])
    best = share.max()
    if best < AGREE:
        return None
    return int(np.flatnonzero(share >= best - 0.005)[0]) + 1


def _opening(ops: pl.DataFrame, code: npt.NDArray[np.int64], lag: int) -> npt.NDArray[np.int64]:
    """Occurrences of the operation that comes once a period, after the longest typical idle gap."""
    tail = slice(max(len(code) - WINDOW, 0), None)
    values, counts = np.unique(code[tail], return_counts=True)
    expected = len(code[tail]) / lag
    once = values[np.abs(counts - expected) <= max(1.0, 0.02 * expected)]
    if not len(once) or expected < MIN_PERIODS:
        return _by_index(len(code), lag)
    start, end = ops["start"].to_numpy(), np.maximum.accumulate(ops["end"].to_numpy())
    gap = np.concatenate(([0], np.maximum(start[1:] - end[:-1], 0)))
    best = max(once, key=lambda v: float(np.median(gap[code == v])))
    return np.flatnonzero(code == best)


def _by_index(count: int, lag: int) -> npt.NDArray[np.int64]:
    """No operation comes once a period: count back from the end in whole periods."""
    at = np.arange(count - lag, -1, -lag)[::-1]
    return at if len(at) >= MIN_PERIODS else np.empty(0, np.int64)
