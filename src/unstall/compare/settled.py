"""Where steady state begins in a series of step times: behind a slow start (warm-up) or a fast one (run-ahead).

In: step times in order. Out: how many leading ones to leave out, and why. Steps of a profile come without their
warm-up; this is for plain logs, and a second look for everything else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from unstall.model import Warning_

Floats = npt.NDArray[np.float64]

WARM = 1.3
"""A leading step longer than this times the steady median is warm-up: the bound that is used for steps of a profile."""
RUN_AHEAD = 1.5
"""A fast beginning is run-ahead where nearly every later step takes at least this many times longer. On an H200 the
launch queue (about a thousand entries) swallowed the first 10 to 25 steps in 2 to 20 % of the time of all others."""
TAIL = 5  # steps at the end that say what the late level is
LEAST = 3  # steady steps that must be left for a fast beginning to be told from a slow end

WHY = {
    "warm-up": "slower than steady state",
    "run-ahead": "issued while the GPU still had room in its queue: they say nothing of its speed",
}


@dataclass(frozen=True)
class Settled:
    """``samples[first:]`` are steady; ``reason`` says what came before them, empty where nothing is left out."""

    first: int
    reason: Literal["", "warm-up", "run-ahead"]

    def words(self, total: int, whose: str) -> list[Warning_]:
        """What was left out, for the reader; nothing where nothing was."""
        if not self.first:
            return []
        why = WHY[self.reason]
        return [Warning_(code=self.reason, text=f"{whose}: the first {self.first} of {total} steps left out, {why}")]


def settled(samples: npt.ArrayLike) -> Settled:
    """Find where steady state begins."""
    x = np.asarray(samples, dtype=np.float64)
    ahead = _run_ahead(x)
    if ahead:
        return Settled(ahead, "run-ahead")
    warm = _warm_up(x)
    return Settled(warm, "warm-up" if warm else "")


def _warm_up(x: Floats) -> int:
    """Length of the leading run of steps far above the median of the second half; at most half of all steps."""
    half = x.size // 2
    if not half:
        return 0
    slow = x[:half] > WARM * np.median(x[half:])
    return half if slow.all() else int(np.argmin(slow))


def _run_ahead(x: Floats) -> int:
    """First step of the late level where the beginning is one fast level, else 0.

    Both levels must be pure, tails apart, or a loop that alternates between two speeds would be cut. The step between
    them may take anything: in it the queue fills up.
    """
    if x.size < TAIL + LEAST:
        return 0
    late = float(np.median(x[-TAIL:]))
    fast = x < late / RUN_AHEAD
    if not fast[0]:
        return 0
    first = x.size - int(np.argmax(fast[::-1]))  # behind the last fast step
    first += int(first < x.size and x[first] < late / WARM)
    if x.size - first < LEAST or np.mean(fast[:first]) < 0.9 - 1 / first:
        return 0
    apart = np.quantile(x[first:], 0.1) > RUN_AHEAD * np.quantile(x[: first - 1], 0.9) if first > 1 else True
    return first if apart else 0
