"""What stands above the tables: the capture, the verdict, each process's step, the findings, the notes.

In: a report and the words to use. Out: small records of finished strings, and places in percent, for the template. No
name from the profile is in them that was not made visible first, and nothing of them is HTML.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from unstall.lang import speaker
from unstall.model import CAPTURES
from unstall.report import counters, gains, text, words
from unstall.report.html import charts
from unstall.report.html.texts import Say

if TYPE_CHECKING:
    from unstall.model import BreakdownRow, Category, Finding, Report, StepsRow

LONGEST_NAME = 80  # inside a sentence
LONGEST_TEXT = 600
PROCESSES_SHOWN = 4
RANGES_NAMED = 3

Pairs = list[tuple[str, str]]


@dataclass(frozen=True)
class LegendRow:
    """One category beside the bar, or a part of the one above it (without a code)."""

    code: str
    label: str
    ms: str
    percent: str
    ranges: str


@dataclass(frozen=True)
class StepView:
    """One process's step: its figures, where it goes, its plot."""

    key: str
    title: str
    time: str
    detail: str
    facts: Pairs
    legend: list[LegendRow]
    bar: charts.Bar | None
    bar_label: str
    working: str
    idle: str
    plot: charts.Plot | None
    plot_label: str
    plot_level: str
    counters: list[str]


@dataclass(frozen=True)
class Proof:
    """One figure behind a finding, and when in the capture it is to be seen."""

    text: str
    source: str
    start_ns: int | None
    end_ns: int | None


@dataclass(frozen=True)
class Card:
    """A finding."""

    index: int
    number: int
    code: str
    title: str
    confidence: str
    level: str
    cost: str
    where: Pairs
    evidence: list[Proof]
    now: str
    predicted: str
    interval: str
    speedup: str
    mark: charts.Mark | None
    fix_title: str
    fix_text: str
    safety: str
    safety_label: str
    commands: list[str]
    next_limit: str
    needs: list[str]
    overlaps: list[str]
    category: str


@dataclass(frozen=True)
class View:
    """All of the page but its tables."""

    name: str
    facts: list[str]
    lead: str
    more: str
    steps: list[StepView]
    cards: list[Card]
    side: list[Card]
    checked: bool
    warnings: Pairs
    not_checked: Pairs
    about: Pairs
    has_device: bool
    samples: dict[str, Any] = field(default_factory=dict)


def view(report: Report, say: Say) -> View:
    """Everything above the tables."""
    steps = [_step(report, row, i, say) for i, row in enumerate(report.steps)]
    cards = [_card(report, f, i, say) for i, f in enumerate(report.findings) if f.main]
    lead, more = words.verdict_parts(report)
    return View(
        name=file_name(report),
        facts=list(_facts(report, say)),
        lead=text.visible(lead),
        more=text.visible(more),
        steps=steps,
        cards=[_numbered(card, n) for n, card in enumerate(cards, 1)],
        side=[_card(report, f, i, say) for i, f in enumerate(report.findings) if not f.main],
        checked="findings" not in {c.strip() for item in report.not_checked for c in item.code.split(",")},
        warnings=[(_name(w.code), _safe(w.text)) for w in report.warnings],
        not_checked=[(_name(code), _safe(reason)) for code, reason in words.not_checked(report)],
        about=list(_about(report, say)),
        has_device=words.has_device(report),
        samples={s.key: {"ns": s.plot.samples_ns, "n": s.plot.numbers} for s in steps if s.plot},
    )


def file_name(report: Report) -> str:
    """What a report is called: the last part of its path."""
    return text.shorten(text.visible(PurePath(report.profile.path).name or report.profile.path), LONGEST_NAME)


def _safe(sentence: str) -> str:
    return text.shorten(text.visible(sentence), LONGEST_TEXT)


def _name(name: str) -> str:
    return text.shorten(text.visible(name), LONGEST_NAME)


# -- the capture ------------------------------------------------------------------------------------------------------


def _facts(report: Report, say: Say) -> Iterator[str]:
    """One line that says what this is."""
    facts = report.profile
    yield from map(_name, words.gpus(report))
    yield from [_safe(" ".join(p for p in (facts.producer, facts.producer_version) if p))]
    if facts.duration_ns:
        yield say("captured", time=text.duration(facts.duration_ns))
    if facts.rank is not None:
        yield say("rank", rank=facts.rank)


def _about(report: Report, say: Say) -> Iterator[tuple[str, str]]:
    """What must agree before another capture may be compared with this one."""
    facts = report.profile
    yield say("file"), _safe(facts.path)
    yield say("producer"), _safe(" ".join(p for p in (facts.producer, facts.producer_version) if p))
    if gpus := words.gpus(report):
        yield say("gpu"), ", ".join(map(_name, gpus))
    if facts.processes:
        shown = [_name(words.process(p, report)) for p in facts.processes]
        left = len(shown) - PROCESSES_SHOWN
        yield (
            say("processes"),
            ", ".join([*shown[:PROCESSES_SHOWN], *([say("more_processes", count=left)] if left > 0 else [])]),
        )
    if facts.host:
        yield say("host"), _name(facts.host)
    if facts.duration_ns:
        yield say("duration"), text.duration(facts.duration_ns)
    held = words.held(report)
    if held:
        yield say("held"), ", ".join(held)


# -- the step ---------------------------------------------------------------------------------------------------------


def _step(report: Report, steps: StepsRow, index: int, say: Say) -> StepView:
    row = words.breakdown_of(report, steps)
    several = len(report.steps) > 1 and steps.process is not None
    time = text.duration(steps.step_ns)
    drawn = charts.plot(steps)
    legend = list(_legend(report, row)) if row else []
    working, idle = _halves(report, row, say) if row else ("", "")
    return StepView(
        key=f"step-{index}",
        title=say("step_of", pid=steps.process) if several else say("step"),
        time=time,
        detail=words.level(steps, speaker(report.language)),
        facts=list(_step_facts(steps, say)),
        legend=legend,
        bar=charts.bar(row) if row else None,
        bar_label=say("where_label", time=time, parts=", ".join(f"{r.label} {r.percent}" for r in legend if r.code)),
        working=working,
        idle=idle,
        plot=drawn,
        plot_label=say("plot_label", count=text.count(steps.count), time=time),
        plot_level=say("plot_mean" if steps.bursty else "plot_median", time=time),
        counters=list(counters.sentences(report, row)) if row else [],
    )


def _halves(report: Report, row: BreakdownRow, say: Say) -> tuple[str, str]:
    """What stands over the two parts of the bar."""
    if not words.has_device(report):
        return "", say("host_only")
    device, host = (sum(c.percent for c in part) for part in (words.on_device(row), words.on_host(row)))
    return say("working", percent=text.percent(device)), say("idle", percent=text.percent(host))


def _legend(report: Report, row: BreakdownRow) -> Iterator[LegendRow]:
    """A row a category; where hardware counters tell what GPU compute consists of, that is under it."""
    for indent, category in counters.unfold(charts.ordered(row)):
        idle = not indent and category.name not in words.ON_DEVICE
        yield LegendRow(
            code="" if indent else category.name,
            label=words.category(category.name, report.language),
            ms=text.duration(category.ns),
            percent=text.percent(category.percent),
            ranges=_places(category) if idle else "",
        )


def _places(category: Category) -> str:
    return ", ".join(_name(r.name) for r in category.ranges[:RANGES_NAMED]) + (
        ", …" if len(category.ranges) > RANGES_NAMED else ""
    )


def _step_facts(steps: StepsRow, say: Say) -> Iterator[tuple[str, str]]:
    period = steps.period_ns
    yield "p10–p90", f"{text.ms(period.p10)}–{text.duration(period.p90)}"
    if steps.gpu_busy_ns is not None:
        yield say("pace"), say("pace_gpu" if steps.limit == "gpu" else "pace_host")
        yield say("gpu_busy"), text.duration(steps.gpu_busy_ns)
        host = text.duration(steps.host_ns)  # without a GPU the step is the host's, and said already
        yield say("host_time"), say("host_ahead", time=host) if words.ahead(steps) else host
    if steps.kernels_per_step is not None:
        yield say("operations"), text.count(steps.kernels_per_step)
    known = steps.unprofiled_ns is not None
    if known or steps.process is not None:
        yield say("unprofiled"), text.duration(steps.unprofiled_ns) if known else say("unprofiled_unknown")
    if steps.warmup:
        named = ", ".join(_name(n) for n in steps.warmup_steps[:3]) + (" …" if len(steps.warmup_steps) > 3 else "")
        yield (
            say("warmup"),
            say("warmup_of", steps=named or text.count(steps.warmup), time=text.duration(steps.warmup_ns)),
        )
    yield say("found_by"), _name(steps.source)
    if steps.confidence != "high":
        yield say("confidence"), say(steps.confidence)


# -- findings ---------------------------------------------------------------------------------------------------------


def _numbered(card: Card, number: int) -> Card:
    from dataclasses import replace

    return replace(card, number=number)


def _card(report: Report, finding: Finding, index: int, say: Say) -> Card:
    begin = gains.start(report, finding, speaker(report.language))
    predicted = finding.predicted_step_ns
    low, high = finding.predicted_low_ns, finding.predicted_high_ns
    takes = ("takes" if predicted is None else "cost") + ("" if report.steps else "_capture")
    return Card(
        index=index,
        number=0,
        code=_name(finding.code),
        title=_safe(finding.title),
        confidence=say(finding.confidence),
        level=finding.confidence,
        cost=say(takes, time=text.duration(finding.cost_ns_per_step)),
        where=list(_where(report, finding, say)),
        evidence=[_proof(e, say) for e in finding.evidence],
        now=say("now", time=begin.said) if begin else "",
        predicted="" if predicted is None else text.duration(predicted),
        interval="" if low is None or high is None else _interval(report, finding, low, high, say),
        speedup=gains.times(finding, begin) if begin else "",
        mark=charts.mark(round(begin.ns), predicted, low, high) if begin and predicted is not None else None,
        fix_title=_safe(finding.fix.title),
        fix_text=text.visible(finding.fix.text),
        safety=finding.fix.safety,
        safety_label=say(finding.fix.safety),
        commands=_commands(report, finding),
        next_limit=_safe(finding.next_limit),
        needs=[_name(code) for code in finding.needs],
        overlaps=[_name(code) for code in finding.overlaps],
        category=finding.category if finding.category in words.CATEGORIES else "unknown",
    )


def _interval(report: Report, finding: Finding, low: int, high: int, say: Say) -> str:
    ends = say("interval", low=text.duration(low), high=text.duration(high))
    return ", ".join(filter(None, (ends, gains.doubt(report, finding, speaker(report.language)))))


def _where(report: Report, finding: Finding, say: Say) -> Iterator[tuple[str, str]]:
    """Places that most of it is in: (what kind, its name)."""
    where = finding.where
    if where.range:
        yield "", _name(where.range)
    if where.kernel:
        yield say("kernel"), _name(text.kernel_name(where.kernel))
    if where.call:
        yield "", _name(where.call)
    if where.process is not None and len(report.steps) > 1:
        yield say("pid"), str(where.process)


def _proof(evidence: Any, say: Say) -> Proof:
    source = say("from", source=_name(evidence.source)) if evidence.source else ""
    return Proof(_safe(evidence.text), source, evidence.start_ns, evidence.end_ns)


def _commands(report: Report, finding: Finding) -> list[str]:
    """What to type next; with the capture, where it is a file, so that what is written is what the page advises."""
    path = report.profile.path
    # a notebook's cell, or a text, is no file that fix and try take
    file = PurePath(path).suffix in CAPTURES and text.visible(path) == path
    only = f"--profile {shlex.quote(path)} --only {finding.code}" if file else f"--only {finding.code}"
    out = [f"unstall fix TRAIN.py {only}"] if finding.fix.patch else []
    out += [f"unstall try {only} -- python TRAIN.py"] if finding.fix.trial else []
    return [*out, f"unstall explain {finding.code}"]
