"""The pace of a run whose steps are not alike: their median, or their mean where they come in bursts.

In: times of steady steps in order, any unit. Out: one number of the same unit. Imports nothing of ours and nothing
heavy: the program that is timed uses it, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

LEAST = 8
FAR = 2.0
"""A step this many times longer or shorter than the median is none of its kind."""
AGAIN = 3
APART = 1.5
"""Mean over median (or the reverse) from which the median misleads: the rare long steps of an ordinary run (saving
every hundredth step, an outlier) move the mean by a few percent, a loader that cannot keep up by a factor."""


def bursty(samples: Sequence[float]) -> bool:
    """Whether the median says little of the pace, because steps of another kind come again and again.

    Typical: three steps from batches that lie ready, then one that waits for the loader. Such steps must stand on both
    sides of the middle, or it is a beginning or an end that differs.
    """
    n = len(samples)
    if n < LEAST:
        return False
    middle, mean = median(samples), sum(samples) / n
    if middle <= 0 or max(mean / middle, middle / mean) < APART:
        return False
    others = [i for i, x in enumerate(samples) if not middle / FAR < x < middle * FAR]
    return len(others) >= AGAIN and others[0] < n / 2 <= others[-1]


def pace(samples: Sequence[float]) -> float:
    """The time of a step at the pace of this run; at least one sample."""
    return sum(samples) / len(samples) if bursty(samples) else median(samples)
