"""How much faster, and how sure: step times of several runs a side → a ratio with its interval.

In: steady step times of plain and changed runs. Out: :class:`Gain`. Steps inside a run say little about how runs
differ from each other, so the interval holds both: a bootstrap over runs and the steps in them, and the ratio of every
plain run to every changed one. Runs alternate, so a drift of the machine meets both sides and shows as a wide interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
DRAWS = 1000
SEED = 20240601

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
    before, after = _runs(plain), _runs(changed)
    if not before or not after:
        return None
    generator = np.random.default_rng(SEED)
    ratios = _levels(generator, before) / _levels(generator, after)
    low, high = (float(q) for q in np.quantile(ratios, (0.025, 0.975)))
    pairs = [float(np.median(p) / np.median(c)) for p, c in product(before, after)]
    value = float(np.median(np.concatenate(before)) / np.median(np.concatenate(after)))
    return Gain(value, min(low, *pairs, value), max(high, *pairs, value))


def _runs(runs: Sequence[Sequence[float]]) -> list[Floats]:
    return [np.asarray(run, dtype=np.float64) for run in runs if len(run)]


def _levels(generator: np.random.Generator, runs: Sequence[Floats]) -> Floats:
    """Medians of resampled runs: first which runs, then which steps of each."""
    drawn = np.empty(DRAWS)
    for i in range(DRAWS):
        chosen = [runs[k] for k in generator.integers(0, len(runs), len(runs))]
        drawn[i] = np.median(np.concatenate([r[generator.integers(0, r.size, r.size)] for r in chosen]))
    return drawn
