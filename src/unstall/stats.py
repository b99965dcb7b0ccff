"""Statistics for step times: what is steady, how sure a level is, how sure the ratio of two levels is.

In: step times of one run in the order in which they happened, any unit, as numbers above zero. Out: small dataclasses
of floats. Pure: the same samples give the same figures (fixed seed), and no figure depends on which side came first.

Step times are not a textbook's independent draws: they drift (clocks, caches, other tenants), hang together over many
steps, jump between levels and have long outliers. So medians carry the level; a stationary bootstrap (resampled in
blocks of random length, which keep neighbours together; Politis and Romano 1994) carries the spread; the blocks grow
with the measured autocorrelation; and a trend inside a side widens the interval by what that trend could have moved the
other side. ``benchmarks/compare_aa.py`` measures what comes of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

DRAWS = 1000
"""Bootstrap medians a side; all pairs of both sides are used, so that an interval rests on a million ratios."""
LONGEST = 10_000
"""Longer series are thinned to this many samples, in order: by then the median is known to a fraction of a percent."""
SEED = 20_240_601
DIGITS = 12
"""Of the logarithms: what differs by the rounding of its unit alone is equal, and ties stay ties among ranks."""
NORMAL_975 = 1.959964
PAIRS = 200
"""Levels between which slopes are taken, medians of neighbours in longer series: slopes grow with their square."""


@dataclass(frozen=True)
class Side:
    """How sure the level of one run is.

    Attributes:
        median, mean: of the samples, in their unit.
        medians, means: logarithms of what the bootstrap drew, shape ``(DRAWS,)``, as wide as correlation demands.
        count: number of samples.
        correlation: how many neighbouring samples are worth one independent sample, at least 1.
        drift: trend from start to end, as the logarithm of end over start.
        drift_noise: standard error of ``drift``.
    """

    median: float
    mean: float
    medians: Floats
    means: Floats
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
    """``before / after`` with its interval, 95 % unless said; above 1 means that after is faster."""

    value: float
    low: float
    high: float


def describe(samples: npt.ArrayLike) -> Side:
    """Level, spread, correlation and drift of the steady samples of one run (at least one, all above zero)."""
    x = _thinned(np.asarray(samples, dtype=np.float64))
    logs: Floats = np.log(x / np.median(x))
    drift, rest = _trend(logs.round(DIGITS))
    tau = correlation_time(rest)
    block = block_length(x.size, tau)
    medians, means = _bootstrap(x, block)
    median, mean = float(np.median(x)), float(x.mean())
    wider = _left_out_by_blocks(tau, block)
    return Side(
        median=median,
        mean=mean,
        medians=_stretched(medians, median, wider),
        means=_stretched(means, mean, wider),
        count=x.size,
        correlation=tau,
        drift=drift,
        drift_noise=_drift_noise(rest, tau),
    )


def ratio_of_medians(before: Side, after: Side) -> Ratio:
    """The ratio of medians with its 95 % interval, widened by what drift could have done between the two runs."""
    few = _student(before, after)
    return _ratio(before.median / after.median, before.medians, after.medians, few, _drift_allowance(before, after))


def ratio_of_means(before: Side, after: Side) -> Ratio:
    """The same for means, which rare long steps move and medians do not see; 99 %.

    Resampled means of few long steps vary too little: at 95 % one A/A pair in eight was called different.
    """
    return _ratio(before.mean / after.mean, before.means, after.means, _student(before, after), 0.0, tail=0.005)


def _ratio(value: float, before: Floats, after: Floats, few: float, allowance: float, *, tail: float = 0.025) -> Ratio:
    """Percentile interval over all pairs of draws, stretched around the ratio by ``few``, then widened."""
    centre = math.log(value)
    pairs = np.subtract.outer(before, after).ravel()
    k = int(tail * pairs.size)
    ordered = np.partition(pairs, (k, pairs.size - 1 - k))
    below, above = max(centre - ordered[k], 0.0), max(ordered[-1 - k] - centre, 0.0)
    return Ratio(value, math.exp(centre - few * below - allowance), math.exp(centre + few * above + allowance))


def _student(before: Side, after: Side) -> float:
    """How much wider Student's t is than the normal, for as few independent samples as the shorter side is worth."""
    from scipy.special import stdtrit

    freedom = max(min(before.effective, after.effective) - 1, 1.0)
    return float(stdtrit(freedom, 0.975)) / NORMAL_975


def _drift_allowance(before: Side, after: Side) -> float:
    """What a drift that went on from one run into the other would have moved, as a logarithm.

    With trends ``a`` and ``b`` the middle of the second run lies ``(a + b) / 2`` beyond the middle of the first. Where
    the trend stands out from noise, its own error counts as well. Which run was made first is not known: both ways.
    """
    moved = abs(before.drift + after.drift) / 2
    noise = math.hypot(before.drift_noise, after.drift_noise) / 2
    return moved + noise if moved > 2 * noise else moved


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
    """How many neighbouring samples are worth one independent sample, at least 1; cautious where samples are few.

    From the ranks, which outliers and the unit cannot bend. The larger of two estimates: 1 + 2 × the sum of the
    autocorrelations up to the first that noise explains, and that of a process that forgets geometrically, at the
    neighbours' correlation plus its standard error. Each correlation is corrected for its bias in short series without
    their trend, about −(2 + 4ρ) / n (Kendall 1954). Alternating series get no credit for alternating.
    """
    n = x.size
    rho = _rank_correlations(x)
    if not rho.size:
        return 1.0
    rho = rho + (2 + 4 * np.maximum(rho, 0)) / n
    noise = np.flatnonzero(rho < 2 / math.sqrt(n))
    summed = 1 + 2 * float(rho[: noise[0] if noise.size else rho.size].sum())
    nearest = min(max(float(rho[0]), 0.0), 1.0)
    upper = min(nearest + math.sqrt((1 - nearest**2) / n), 0.99)
    return float(np.clip(max(summed, (1 + upper) / (1 - upper)), 1.0, n))


def _rank_correlations(x: Floats) -> Floats:
    """Autocorrelation of the ranks at lags 1 … n/4; empty where all samples are equal or there is just one."""
    _, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - counts / 2)[inverse.ravel()]
    centred = ranks - ranks.mean()
    power = float(centred @ centred)
    if not power:
        return np.zeros(0)
    spectrum = np.fft.rfft(centred, 2 * x.size)
    products = np.fft.irfft(spectrum * spectrum.conj(), 2 * x.size)
    return np.asarray(products[1 : max(x.size // 4, 1) + 1] / power, dtype=np.float64)


def block_length(n: int, tau: float) -> float:
    """Mean block length by Carlstein's rule (1986) for a process of correlation time ``tau``; at most a third of n."""
    rho = (tau - 1) / (tau + 1)
    best = (math.sqrt(6) * rho / (1 - rho * rho)) ** (2 / 3) * n ** (1 / 3)
    return float(np.clip(best, 1.0, max(n / 3, 1.0)))


def _left_out_by_blocks(tau: float, block: float) -> float:
    """How much wider the draws must be, because correlation across the ends of blocks is lost in resampling."""
    kept = (tau - 1) / (tau + 1) * (1 - 1 / block)
    return math.sqrt(tau * (1 - kept) / (1 + kept))


def _stretched(draws: Floats, centre: float, factor: float) -> Floats:
    """Logarithms of the draws, their distance from the logarithm of ``centre`` multiplied by ``factor``."""
    middle = math.log(centre)
    return middle + (np.log(draws) - middle) * factor


def _bootstrap(x: Floats, block: float) -> tuple[Floats, Floats]:
    """Medians and means of resamples, drawn in portions of a million samples to stay small in memory."""
    generator = np.random.default_rng(SEED)
    portion = max(1, 1_000_000 // x.size)
    medians, means = [], []
    for done in range(0, DRAWS, portion):
        drawn = x[_positions(generator, min(portion, DRAWS - done), x.size, block)]
        means.append(drawn.mean(axis=1))
        medians.append(np.median(drawn, axis=1, overwrite_input=True))
    return np.concatenate(medians), np.concatenate(means)


def _positions(generator: np.random.Generator, rows: int, n: int, block: float) -> npt.NDArray[np.int64]:
    """Rows of positions: runs of neighbours of random length, ``block`` on average, the end joined to the start."""
    starts = generator.integers(0, n, (rows, n))
    if block <= 1:
        return starts
    fresh = generator.random((rows, n)) < 1 / block
    fresh[:, 0] = True
    here = np.arange(n)
    since = np.maximum.accumulate(np.where(fresh, here, 0), axis=1)
    return np.asarray((np.take_along_axis(starts, since, axis=1) + here - since) % n)


def _thinned(x: Floats) -> Floats:
    """At most :data:`LONGEST` samples, chosen at random (a fixed stride would meet periods), order kept."""
    if x.size <= LONGEST:
        return x
    return x[np.sort(np.random.default_rng(SEED).choice(x.size, LONGEST, replace=False))]
