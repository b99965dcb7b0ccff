"""Places on the page: the bar of a step, a finding's prediction, the plot of step times, the spread of two sides.

In: figures of the report. Out: numbers between 0 and 100 (percent of a drawing's width or height), ready for SVG, whose
``x`` and ``width`` take percentages. Nothing is measured here, only laid out; what is drawn thinner than it is keeps
its extremes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from unstall.model import BreakdownRow, Category, StepsRow
from unstall.report import text, words

MOST_DOTS = 1200  # more would overlap on any screen
TALLEST = 4.0  # times the median: a single step beyond it must not flatten all others
HEADROOM = 1.12
BINS = 60


@dataclass(frozen=True)
class Segment:
    """One category in the bar."""

    code: str
    x: float
    width: float
    ms: str
    percent: str


@dataclass(frozen=True)
class Bar:
    """A step as a bar: the device's part first, then what the host did while the GPU was idle."""

    segments: list[Segment]
    width: float  # of the whole drawing; below 100 where another bar sets the scale
    busy: float  # percent of the step in which the GPU works


def ordered(row: BreakdownRow) -> list[Category]:
    """The categories as every output orders them."""
    return [*words.on_device(row), *words.on_host(row)]


def bar(row: BreakdownRow, scale_ns: int | None = None) -> Bar:
    """The bar of one step; ``scale_ns`` is the step time that fills the whole width."""
    scale = (scale_ns or row.step_ns or 1) / 100
    parts = ordered(row)
    starts = accumulate((c.ns / scale for c in parts), initial=0.0)
    segments = [
        Segment(c.name, _round(x), _round(c.ns / scale), text.duration(c.ns), text.percent(c.percent))
        for c, x in zip(parts, starts, strict=False)
        if c.ns > 0
    ]
    return Bar(segments, _round(row.step_ns / scale), _round(sum(c.percent for c in words.on_device(row))))


@dataclass(frozen=True)
class Dot:
    """One step in the plot. ``over`` says that it lies above the plot's top."""

    x: float
    y: float
    over: bool


@dataclass(frozen=True)
class Plot:
    """Step times in order, ``y`` counted from the top."""

    steady: list[Dot]
    warm: list[Dot]
    warm_width: float  # percent of the width that warm-up takes
    median: float
    high: float  # top of the band from p10 to p90
    low: float
    ticks: list[tuple[float, str]]
    thinned: bool
    over: bool  # of the steady ones: warm-up is expected to be
    samples_ns: list[int]  # all that are drawn, in order, for whoever points at one
    numbers: list[int]  # which steps these are, from 1


def plot(steps: StepsRow) -> Plot | None:
    """Every step time, warm-up first; ``None`` where a single one is known."""
    everything = [*steps.warmup_samples_ns, *steps.samples_ns]
    if len(everything) < 2:
        return None
    kept = thin(everything, MOST_DOTS)
    period = steps.period_ns
    top = HEADROOM * max(min(max(steps.samples_ns, default=0), round(TALLEST * steps.step_ns)), period.p90, 1)
    warm = len(steps.warmup_samples_ns)
    dots = [_dot(everything[i], (i + 0.5) / len(everything), top) for i in kept]
    first = sum(i < warm for i in kept)
    return Plot(
        dots[first:], dots[:first], _round(100 * warm / len(everything)), _down(steps.step_ns, top),
        _down(period.p90, top), _down(period.p10, top), _ticks(top), len(kept) < len(everything),
        any(dot.over for dot in dots[first:]),
        [everything[i] for i in kept], [i + 1 + (words.unkept(steps) if i >= warm else 0) for i in kept],
    )  # fmt: skip


def thin(values: Sequence[int], most: int) -> list[int]:
    """Indices of at most ``most`` values: of each stretch the least and the greatest."""
    if len(values) <= most:
        return list(range(len(values)))
    stretches = most // 2
    edges = [k * len(values) // stretches for k in range(stretches + 1)]
    ends = (
        {min(range(a, b), key=values.__getitem__), max(range(a, b), key=values.__getitem__)} for a, b in pairwise(edges)
    )
    return sorted(i for stretch in ends for i in stretch)


def _dot(ns: int, x: float, top: float) -> Dot:
    return Dot(_round(100 * x), max(_down(ns, top), 0.0), ns > top)


def _down(ns: float, top: float) -> float:
    return _round(100 - 100 * ns / top)


def _ticks(top: float, about: int = 3) -> list[tuple[float, str]]:
    """Zero and some ``about`` round times."""
    step = _nice(top / about)
    return [(_down(k * step, top), text.duration(k * step) if k else "0") for k in range(int(top / step) + 1)]


def _nice(value: float) -> float:
    """The nearest of 1, 2, 5 × 10ⁿ that is not below ``value``."""
    power = 10.0 ** (len(str(int(max(value, 1)))) - 1)
    return next(power * f for f in (1, 2, 5, 10) if power * f >= value)


@dataclass(frozen=True)
class Mark:
    """A prediction on the scale of the step: where the step would end, from where to where that is sure."""

    at: float
    low: float
    high: float


def mark(step_ns: int, predicted: int, low: int | None, high: int | None) -> Mark:
    """Where a predicted step stands on a line as long as the present one."""
    places = [min(100 * ns / max(step_ns, 1), 100.0) for ns in (predicted, low or predicted, high or predicted)]
    return Mark(*map(_round, places))


@dataclass(frozen=True)
class Spread:
    """How often which step time: ``bars`` of (x, width, height) in percent, and where the median stands."""

    bars: list[tuple[float, float, float]]
    median: float | None
    beyond: int  # steps right of the drawing


def spreads(
    sides: Sequence[Sequence[int]], medians: Sequence[int | None]
) -> tuple[list[Spread], list[tuple[float, str]]]:
    """The sides' step times as bars on one axis from zero, and the axis."""
    tops = [max(_most_of(s), m or 0) for s, m in zip(sides, medians, strict=True)]
    top = HEADROOM * (max(tops, default=0) or 1)
    out = []
    for samples, median in zip(sides, medians, strict=True):
        counts = [0] * BINS
        for ns in samples:
            counts[min(int(BINS * ns / top), BINS - 1)] += ns <= top
        most = max(counts) or 1
        bars = [(_round(100 * i / BINS), _round(100 / BINS), _round(100 * n / most)) for i, n in enumerate(counts) if n]
        out.append(
            Spread(bars, None if median is None else _round(100 * median / top), sum(ns > top for ns in samples))
        )
    return out, [(_round(100 - y), label) for y, label in _ticks(top, 8)]


def _most_of(samples: Sequence[int]) -> int:
    """What all but the longest hundredth stay below."""
    return sorted(samples)[max(int(0.99 * len(samples)) - 1, 0)] if samples else 0


def _round(value: float) -> float:
    return round(value, 3)
