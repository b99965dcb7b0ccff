"""How much faster, and how sure: step times of several runs a side → a ratio with its interval.

In: steady step times of plain and changed runs. Out: :class:`Gain`. Steps inside a run say little about how runs
differ from each other, so the interval holds both: the bootstrap's over all steps (:mod:`unstall.stats`) and the ratio
of every plain run to every changed one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from statistics import median
from typing import Literal

from unstall import stats

TIGHT = 0.05
"""Relative width of an interval that needs no further run."""
CLEAR = 0.25
"""… or its width relative to the gain itself: 4.0x to 5.0x needs no third decimal."""
SMALL = 0.02  # a gain below 2 % is not worth an edit, and below what runs of one program differ by


@dataclass(frozen=True)
class Gain:
    """plain / changed: above 1 is faster."""

    ratio: float
    low: float
    high: float

    @property
    def verdict(self) -> Literal["faster", "slower", "no difference", "inconclusive"]:
        if self.low > 1:
            return "faster" if self.ratio > 1 + SMALL else "no difference"
        if self.high < 1:
            return "slower" if self.ratio < 1 - SMALL else "no difference"
        return "no difference" if self.high - self.low <= 2 * TIGHT else "inconclusive"

    @property
    def tight(self) -> bool:
        width = self.high - self.low
        return width <= TIGHT * self.ratio or width <= CLEAR * abs(self.ratio - 1)


def measure(plain: Sequence[Sequence[float]], changed: Sequence[Sequence[float]]) -> Gain | None:
    """The gain; ``None`` where one side has nothing to show."""
    before, after = [p for p in map(_steady, plain) if p], [c for c in map(_steady, changed) if c]
    if not before or not after:
        return None
    ratio = stats.ratio(stats.spread(sum(before, [])), stats.spread(sum(after, [])))
    pairs = [median(p) / median(c) for p, c in product(before, after)]
    return Gain(ratio.value, min(ratio.low, *pairs), max(ratio.high, *pairs))


def _steady(samples: Sequence[float]) -> list[float]:
    return list(samples[stats.steady(samples).first :]) if len(samples) else []
