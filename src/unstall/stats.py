"""Statistics for step times: what is steady, how sure a level is, how sure the ratio of two levels is.

In: step times of one run in the order in which they happened, any unit, as numbers above zero. Out: small dataclasses
of floats. Pure: nothing is drawn at random, and no figure depends on which side came first.

Step times are not a textbook's independent draws: they drift (clocks, caches, other tenants), hang together over many
steps, jump between levels and have long outliers. So medians carry the level, and their intervals are read off the
samples themselves: half of all steps lie below the true median, so the share of samples below it is one half, give or
take what chance does to as many independent steps as there are; the samples at the ends of that range of shares are the
interval (Woodruff 1952). It needs no bell, and it cannot miss a second level that is nearly as frequent. Means, where
they count, come from the scatter of the means of stretches (batch means). A trend inside a side widens the interval by
what it could have moved the other side. ``benchmarks/compare_aa.py`` measures what comes of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

DIGITS = 12
"""Of the logarithms: what differs by the rounding of its unit alone is equal, and ties stay ties among ranks."""
SURE = 2.241403
"""Standard errors each way that the interval of a median reaches: 97.5 % of a bell, so that 95 % is kept although
correlation is estimated as well. With 1.96, 6 in 100 A/A pairs of two speeds were called different."""
STRETCHES = 10
"""At most, for the scatter of means: few enough that each one holds several bursts, and Student's t is still short."""
PAIRS = 200
"""Levels between which slopes are taken, medians of neighbours in longer series: slopes grow with their square."""
ENOUGH = 20
APART = 1.4
"""From :data:`ENOUGH` steps a side no interval reaches beyond both this factor and what a step of one side is to a step
of the other. Of 4926 pairs of neighbouring stretches of 20 recorded steps one shared no step time, and was 1.36 times
apart; of 3295 pairs of 30 steps also one, 1.35 times; of 15 steps 24 in 8453, up to 20 times (``compare_aa.py
--levels``)."""


@dataclass(frozen=True)
class Side:
    """How sure the level of one run is.

    Attributes:
        median, mean, fastest, slowest: of the samples, in their unit.
        below, above: how far the interval of the median reaches, as logarithms of factors.
        mean_error: standard error of the mean, as a part of it.
        stretches: how many of them that is known from.
        count: number of samples.
        correlation: how many neighbouring samples are worth one independent sample, at least 1.
        drift: trend from start to end, as the logarithm of end over start.
        drift_noise: standard error of ``drift``.
    """

    median: float
    mean: float
    fastest: float
    slowest: float
    below: float
    above: float
    mean_error: float
    stretches: int
    count: int
    correlation: float
    drift: float
    drift_noise: float

    @property
    def effective(self) -> float:
        """How many independent samples this side is worth."""
        return self.count / self.correlation


@dataclass(frozen=True)
class Ratio:
    """``before / after`` with its 95 % interval; above 1 means that after is faster."""

    value: float
    low: float
    high: float


def describe(samples: npt.ArrayLike) -> Side:
    """Level, spread, correlation and drift of the steady samples of one run (at least one, all above zero)."""
    x = np.asarray(samples, dtype=np.float64)
    median = float(np.median(x))
    logs: Floats = np.log(x / median)
    drift, rest = _trend(logs.round(DIGITS))
    tau = max(correlation_time(rest), correlation_time(np.sign(rest - np.median(rest))))
    below, above = _around_median(logs, x.size / tau)
    stretches = _stretches(x.size, tau)
    return Side(
        median=median,
        mean=float(x.mean()),
        fastest=float(x.min()),
        slowest=float(x.max()),
        below=below,
        above=above,
        mean_error=_mean_error(x, stretches),
        stretches=stretches,
        count=x.size,
        correlation=tau,
        drift=drift,
        drift_noise=_drift_noise(rest, tau),
    )


def _around_median(logs: Floats, effective: float) -> tuple[float, float]:
    """From the median to the samples that hold it between them; beyond the outermost for under five independent ones.

    The square, as Student's t for few samples: of 600 A/A pairs of 20 steps of correlation 0.95, 49 were called
    different with the share alone, 25 with its square.
    """
    share = SURE / 2 / math.sqrt(effective)
    low, high = np.quantile(logs, (max(0.5 - share, 0.0), min(0.5 + share, 1.0)))
    beyond = max(2 * share, 1.0) ** 2
    return max(-float(low), 0.0) * beyond, max(float(high), 0.0) * beyond


def _stretches(n: int, tau: float) -> int:
    """Each twice as long as steps hang together."""
    return int(np.clip(n / (2 * tau), min(n, 2), STRETCHES))


def _mean_error(x: Floats, stretches: int) -> float:
    if stretches < 2:
        return 0.0
    edges = np.arange(stretches + 1) * x.size // stretches
    means = np.add.reduceat(x, edges[:-1]) / np.diff(edges)
    return float(means.std(ddof=1) / math.sqrt(stretches) / x.mean())


def ratio_of_medians(before: Side, after: Side) -> Ratio:
    """The ratio of medians, its interval widened by what drift could have done between the two runs."""
    width = math.hypot(before.below, after.above), math.hypot(before.above, after.below)
    return _ratio(before, after, before.median / after.median, width, _drift_allowance(before, after))


def ratio_of_means(before: Side, after: Side) -> Ratio:
    """The same for means, which rare long steps move and medians do not see.

    Both sides get the larger error: one that met no long step by chance does not know how many it might have met. With
    each its own, 10 in 100 A/A pairs of 20 steps of a recorded run were called different.
    """
    from scipy.special import stdtrit

    t = float(stdtrit(max(before.stretches + after.stretches - 2, 1), 0.975))
    width = t * math.sqrt(2) * max(before.mean_error, after.mean_error)
    return _ratio(before, after, before.mean / after.mean, (width, width), 0.0)


def _ratio(before: Side, after: Side, value: float, width: tuple[float, float], drift: float) -> Ratio:
    """The interval, no wider than the samples and :data:`APART` allow."""
    low, high = value / math.exp(width[0] + drift), value * math.exp(width[1] + drift)
    if min(before.count, after.count) >= ENOUGH:
        low = max(low, min(value / APART, before.fastest / after.slowest / math.exp(drift)))
        high = min(high, max(value * APART, before.slowest / after.fastest * math.exp(drift)))
    return Ratio(value, low, high)


def _drift_allowance(before: Side, after: Side) -> float:
    """What a drift that went on from one run into the other would have moved, as a logarithm.

    Of one trend through both runs the middle of the second lies as far beyond that of the first as the trend goes in
    one run. Trends that point opposite ways are a level that wanders, and cancel nothing. Where they stand out from
    noise, its own error counts as well; where they do not, what noise makes of no trend is taken off.
    """
    moved = math.hypot(before.drift, after.drift) / math.sqrt(2)
    noise = math.hypot(before.drift_noise, after.drift_noise) / math.sqrt(2)
    return moved + noise if moved > 2 * noise else math.sqrt(max(moved**2 - noise**2, 0.0))


def _trend(logs: Floats) -> tuple[float, Floats]:
    """Change from start to end by the median of slopes (Theil 1950, Sen 1968), and what is left without it."""
    n = logs.size
    if n < 8:
        return 0.0, logs
    groups = min(n, PAIRS)
    edges = np.arange(groups + 1) * n // groups
    level = np.array([np.median(logs[a:b]) for a, b in pairwise(edges)])
    middle = (edges[:-1] + edges[1:] - 1) / 2
    i, j = np.triu_indices(groups, 1)
    slope = float(np.median((level[j] - level[i]) / (middle[j] - middle[i])))
    return slope * n, logs - slope * np.arange(n)


def _drift_noise(rest: Floats, tau: float) -> float:
    """Standard error of the trend: that of a least-squares line, and what the robust slope knows less than it."""
    low, high = np.quantile(rest, (0.25, 0.75))
    efficiency = 1.05 if rest.size <= PAIRS else 1.25  # medians of neighbours know less than all samples
    return efficiency * math.sqrt(12 * tau / rest.size) * float(high - low) / 1.349


def correlation_time(x: Floats) -> float:
    """How many neighbouring samples are worth one independent sample, at least 1.

    From the ranks, which outliers and the unit cannot bend. The larger of two estimates: 1 + 2 × the sum of the
    autocorrelations up to the first that noise explains, and that of a process that forgets geometrically, at the
    neighbours' correlation. Each correlation is corrected for its bias in short series without their trend, about
    −(2 + 4ρ) / n (Kendall 1954). Alternating series get no credit for alternating.
    """
    n = x.size
    rho = _rank_correlations(x)
    if not rho.size:
        return 1.0
    rho = rho + (2 + 4 * np.maximum(rho, 0)) / n
    noise = np.flatnonzero(rho < 2 / math.sqrt(n))
    summed = 1 + 2 * float(rho[: noise[0] if noise.size else rho.size].sum())
    nearest = min(max(float(rho[0]), 0.0), 0.99)
    return float(np.clip(max(summed, (1 + nearest) / (1 - nearest)), 1.0, n))


def _rank_correlations(x: Floats) -> Floats:
    """Autocorrelation of the ranks at lags 1 … n/4; empty where all samples are equal or there is just one."""
    _, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - counts / 2)[inverse.ravel()]
    centred = ranks - ranks.mean()
    power = float(centred @ centred)
    if not power:
        return np.zeros(0)
    padded = 1 << (2 * x.size).bit_length()  # a power of two is the quickest
    spectrum = np.fft.rfft(centred, padded)
    products = np.fft.irfft(spectrum * spectrum.conj(), padded)
    return np.asarray(products[1 : max(x.size // 4, 1) + 1] / power, dtype=np.float64)
