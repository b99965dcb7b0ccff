"""The page of a comparison: both sides above each other, on one scale.

In: a :class:`~unstall.model.Comparison` and what is known of each side. Out: small records for the template. The
verdict, the ratio and what moved are the comparison's; from the sides come where their steps go and every step time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unstall.report import comparison as shared
from unstall.report import text, words
from unstall.report.html import charts
from unstall.report.html.tables import Name, named
from unstall.report.html.texts import Say

if TYPE_CHECKING:
    from unstall.model import BreakdownRow, Comparison, Moved, Report, StepFigure, StepsRow, Warning_


@dataclass(frozen=True)
class Side:
    """One side: its report, the process that was compared and its step times, ns."""

    report: Report
    steps: StepsRow | None
    samples_ns: Sequence[int]


@dataclass(frozen=True)
class SideView:
    """One side as shown."""

    name: str
    label: str
    time: str
    count: str
    bar: charts.Bar | None
    plain: float | None
    spread: charts.Spread
    spread_label: str


@dataclass(frozen=True)
class CategoryRow:
    """One category of both sides."""

    code: str
    label: str
    before: str
    after: str


@dataclass(frozen=True)
class MovedRow:
    """What took more or less: its change as a bar left or right of the middle."""

    name: Name
    kind: str
    before: str
    after: str
    before_ns: int | None
    after_ns: int | None
    change: str
    change_ns: int
    x: float
    width: float


@dataclass(frozen=True)
class Ratio:
    """A ratio, its interval or why there is none, and where both stand."""

    shown: str
    interval: str
    line: Line | None


@dataclass(frozen=True)
class Line:
    """A line around 1×, equal factors being equal lengths; places in percent of it."""

    at: float
    low: float
    high: float
    ends: tuple[str, str]


@dataclass(frozen=True)
class ComparisonView:
    """All that the page shows."""

    verdict: str
    kind: str
    reason: str
    ratio: Ratio | None
    level: str
    sides: list[SideView]
    legend: list[CategoryRow]
    axis: list[tuple[float, str]]
    moved: list[MovedRow]
    moved_total: int
    warnings: list[tuple[str, str]]


def view(comparison: Comparison, before: Side, after: Side, say: Say, most: int) -> ComparisonView:
    """Everything on the page."""
    sides, figures = (before, after), (comparison.before, comparison.after)
    rows = [_breakdown(side, figure) for side, figure in zip(sides, figures, strict=True)]
    spreads, axis = charts.spreads([s.samples_ns for s in sides], [f.step_ns for f in figures])
    scale = max((f.step_ns or 0 for f in figures), default=0) or 1
    shown = [
        _side(say(name), figure, row, spread=spread, scale=scale, say=say)
        for name, figure, row, spread in zip(("before", "after"), figures, rows, spreads, strict=True)
    ]
    return ComparisonView(
        verdict=say(comparison.verdict), kind=comparison.verdict.replace(" ", "-"),
        reason=_sentence(comparison.reason), ratio=_ratio(comparison, say), level=comparison.level,
        sides=shown,
        legend=list(_legend(rows, say.language)), axis=axis, moved=_moved(comparison.moved[:most], say),
        moved_total=len(comparison.moved), warnings=[_warning(w) for w in comparison.warnings],
    )  # fmt: skip


def _warning(warning: Warning_) -> tuple[str, str]:
    return warning.code, text.shorten(text.visible(warning.text), 600)


def _sentence(reason: str) -> str:
    safe = text.visible(reason)
    return f"{safe[:1].upper()}{safe[1:]}." if safe else ""


def _breakdown(side: Side, figure: StepFigure) -> BreakdownRow | None:
    """Where the compared step goes, at the level at which it is compared: a profile's step may be longer than the
    program's own, and its parts are then shortened alike."""
    if side.steps is None:
        return None
    row = words.breakdown_of(side.report, side.steps)
    return row if row is not None and figure.step_ns else None


def _side(
    name: str, figure: StepFigure, row: BreakdownRow | None, *, spread: charts.Spread, scale: int, say: Say
) -> SideView:
    time = text.duration(figure.step_ns)
    # of the profile's own step: where the samples were brought to the level without a profiler, so is the bar
    own = None if row is None or not figure.step_ns else round(scale * row.step_ns / figure.step_ns)
    return SideView(
        name=name, label=text.shorten(text.visible(figure.label), 120),
        time=time if figure.step_ns is not None else say("no_side_steps"),
        count=say("steady_steps", count=text.count(figure.count)),
        bar=None if row is None else charts.bar(row, own),
        plain=None if figure.step_ns is None or row is not None else round(100 * figure.step_ns / scale, 3),
        spread=spread, spread_label=say("distribution_label", side=name, count=text.count(figure.count), time=time),
    )  # fmt: skip


def _legend(rows: Sequence[BreakdownRow | None], language: str) -> Iterator[CategoryRow]:
    """Every category that either side has, the most important of both first."""
    known = [{c.name: c.ns for c in row.categories} if row else {} for row in rows]
    order = [c for row in rows if row for c in charts.ordered(row)]
    largest = {c.name: max(k.get(c.name, 0) for k in known) for c in order}
    device = [name for name in largest if name in words.ON_DEVICE]
    host = sorted((name for name in largest if name not in words.ON_DEVICE), key=lambda name: -largest[name])
    for name in [*device, *host]:
        before, after = (text.duration(k[name]) if name in k else text.DASH for k in known)
        yield CategoryRow(name, words.category(name, language), before, after)


def _moved(rows: Sequence[Moved], say: Say) -> list[MovedRow]:
    most = max((abs(row.change_ns) for row in rows), default=0) or 1
    return [_moved_row(row, 50 * row.change_ns / most, say) for row in rows]


def _moved_row(row: Moved, length: float, say: Say) -> MovedRow:
    absent = say("none")
    before, after = (absent if ns is None else text.ms(ns) for ns in (row.before_ns, row.after_ns))
    label = words.category(row.name, say.language) if row.kind == "category" else shared.name_of(row)
    return MovedRow(
        named(row.name, label), say(f"{row.kind}_kind"), before, after, row.before_ns, row.after_ns,
        shared.signed(row.change_ns), row.change_ns, round(50 + min(length, 0), 2), round(max(abs(length), 0.4), 2),
    )  # fmt: skip


def _ratio(comparison: Comparison, say: Say) -> Ratio | None:
    if not comparison.ratio:
        return None
    shown = _factor(comparison.ratio)
    if not comparison.ratio_low or not comparison.ratio_high:
        few = any(warning.code == "too-few-steps" for warning in comparison.warnings)
        return Ratio(shown, say("no_interval_few" if few else "no_interval"), None)
    low, high = comparison.ratio_low, comparison.ratio_high
    interval = say("ratio_interval", low=_factor(low), high=_factor(high))
    return Ratio(shown, interval, _line(comparison.ratio, low, high))


def _line(*values: float) -> Line:
    """The ratio, then the ends of its interval."""
    reach = 1.15 * max(*(abs(math.log(v)) for v in values), math.log(1.1))
    at, low, high = (round(50 + 50 * math.log(v) / reach, 3) for v in values)
    return Line(at, low, high, (_factor(math.exp(-reach), 2), _factor(math.exp(reach), 2)))


def _factor(value: float, digits: int = 3) -> str:
    return f"{text.number(value, digits)}×"
