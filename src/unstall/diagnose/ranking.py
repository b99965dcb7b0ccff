"""From hits to findings: predicted, ranked by what they would gain, repeats merged, overlaps named.

In: a rule's :class:`~unstall.diagnose.hit.Hit` s of one case. Out: :class:`~unstall.model.Finding` s, in the order in
which they are worth acting on.

The order is the predicted gain as a share of the step. Four corrections, because a prediction says what a remedy does
and not what the cause is:

- What is **general** gives way to what is specific. One launch for the whole step also hides an optimizer that
  launches a kernel a parameter, and a wait removed also hides 4 ms of logging that follows it: ``launch-bound``
  stands behind whatever brings at least half as much, ``blocking-sync`` behind what the host does instead of
  launching.
- What **needs** another remedy first stands behind it where that one brings a good part as well: no graph holds a step
  that waits in the middle.
- A gain that **no replay** could tell (a capture without steps) counts half of the cost: an upper bound, not a figure.
- The **last** (``compute-bound``) gains nothing and still comes first where nothing else is worth at least
  :data:`WORTH`.

Which rules these are, they say themselves (``GENERAL``, ``LAST``, ``Hit.needs``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, cast

import numpy as np
import polars as pl

from unstall import calls
from unstall.analyze import intervals
from unstall.analyze.replay import Prediction
from unstall.analyze.steps import confidence
from unstall.diagnose import texts
from unstall.diagnose.case import Case
from unstall.diagnose.frameworks import worded
from unstall.diagnose.hit import Hit
from unstall.diagnose.registry import Rule
from unstall.lang import speaker
from unstall.model import Evidence, Finding, Where

Confidence = Literal["high", "medium", "low"]

NOISE = 0.05
"""Predicted gains below are side notes: median step times of one script on one machine repeat within 1 to 3 %, and the
replay's own error comes on top."""
WORTH = 0.05
"""Gain from which something else than the kernels themselves is worth working on first."""
SMALL = 0.05
"""Costs below this share of a step whose end gains nothing (:data:`NOTHING_GAINED`) are not mentioned."""
NOTHING_GAINED = 0.01
UNPREDICTED = 0.5
CLOCKS = 0.2
"""A GPU that was idle most of the time runs at its highest clock, and slows down when a remedy keeps it busy: an H200
has 1,980 MHz and falls to 1,400 to 1,750 under dense matrix products (power limit). The upper bound allows for it."""
ON_DEVICE = ("gpu_compute", "copy", "communication")
GIVES_WAY = 0.5
COMES_FIRST = 0.25
"""Share of the gain from which a remedy that is needed beforehand is told first. Measured: waits that brought 9 % of
what a graph would (a step that launching limits either way) must not lead, waits that brought 36 % were the fault."""
COMMON = 0.25
"""Share of the smaller one that two findings must have in common to be called overlapping."""
_LEVELS = ("low", "medium", "high")
LIMITS = {
    "gpu_compute": "GPU compute limits",
    "copy": "copies limit",
    "communication": "communication limits",
    "launch": "launch overhead limits",
    "data_loading": "data loading limits",
}
"""What the replay says limits next, in words."""


@dataclass(frozen=True)
class Ranked:
    """A finding with what its place depends on."""

    finding: Finding
    hit: Hit
    gain: float
    rule: Rule

    @property
    def code(self) -> str:
        return self.finding.code


def finding(rule: Rule, case: Case, hit: Hit) -> Ranked | None:
    """The finding that a hit amounts to; ``None`` where it is too small to mention."""
    predicted = _predicted(case, hit)
    gain = _gain(case, hit, predicted)
    if not rule.last and gain < NOTHING_GAINED and case.share(hit.cost_ns) < SMALL:
        return None
    told = rule.texts(case.language)
    told = texts.of_whole(told, case.language) if case.whole else told
    call = hit.call and calls.plain(hit.call)
    facts = {"range": hit.range, "kernel": hit.kernel, "call": call, "gpu": case.gpu_name, **hit.facts}
    made = Finding(
        code=rule.code,
        category=rule.category,
        title=texts.say(told.titles[hit.title] if hit.title else told.title, facts),
        where=Where(range=hit.range, process=case.pid, kernel=hit.kernel, call=call),
        cost_ns_per_step=round(hit.cost_ns),
        predicted_step_ns=None if predicted is None else predicted.step_ns,
        predicted_low_ns=None if predicted is None else predicted.low_ns,
        predicted_high_ns=None if predicted is None else predicted.high_ns,
        predicted_speedup=None if predicted is None else 1.0 / (1.0 - min(gain, 0.999)),
        confidence=_confidence(case, hit, predicted),
        evidence=_evidence(told, case, hit),
        fix=texts.fix_text(_fix(rule, case, hit, told), case.framework, facts, hit.workers),
        next_limit=_next(case, hit, predicted),
        main=not hit.side_note and gain >= NOISE,
        baseline_ns=None if predicted is None or hit.seldom or case.baseline is None else case.baseline.step_ns,
    )
    return Ranked(made, hit, gain, rule)


def _fix(rule: Rule, case: Case, hit: Hit, told: texts.Texts) -> texts.Fix:
    """The remedy that the hit names, in the words of the program's framework."""
    fix = told.fixes[hit.fix] if hit.fix else told.fix
    return worded(fix, case.framework)


def _predicted(case: Case, hit: Hit) -> Prediction | None:
    base = case.baseline
    if hit.seldom or hit.change is None or base is None:
        return base if hit.seldom else None
    made = hit.predicted or case.predict(hit.change)
    if made is None:
        return None
    idle = 1.0 - case.share(case.per_step(case.part("gpu_compute", "other_process")))
    slower = 1.0 + CLOCKS * max(idle, 0.0) if made.limit in ON_DEVICE else 1.0
    gain = max(base.step_ns - made.step_ns, 0)
    high = max(made.high_ns * slower, made.step_ns + hit.doubtful * gain)
    return replace(made, low_ns=round(max(made.low_ns - hit.more * gain, 0)), high_ns=round(high))


def _evidence(told: texts.Texts, case: Case, hit: Hit) -> list[Evidence]:
    """The rows; the first says where to look: the longest stretch of idle time, or the longest operation."""
    rows = [texts.evidence(told, row) for row in hit.lines]
    if rows and len(hit.when[0]):
        longest = int(np.argmax(hit.when[1] - hit.when[0]))
        rows[0].start_ns, rows[0].end_ns = int(hit.when[0][longest]), int(hit.when[1][longest])
    elif rows and len(hit.ops):
        longest_op = case.ops.filter(pl.col("op").is_in(hit.ops)).sort("dur", "start", descending=[True, False])
        rows[0].start_ns, rows[0].end_ns = longest_op.select("start", "end").row(0)
    return rows


def _gain(case: Case, hit: Hit, predicted: Prediction | None) -> float:
    """Gain as a share of the step without the profiler."""
    base = case.baseline
    if predicted is None or base is None:
        return case.share(UNPREDICTED * hit.cost_ns if hit.gain_ns is None else hit.gain_ns)
    if hit.seldom:
        return hit.cost_ns / (hit.cost_ns + base.step_ns)
    return max(1.0 - predicted.step_ns / base.step_ns, 0.0) if base.step_ns else 0.0


def _confidence(case: Case, hit: Hit, predicted: Prediction | None) -> Confidence:
    if hit.change is not None and case.shares_gpu:  # each one's kernels stretch the other's by nobody knows how much
        return "low"
    if not case.whole and confidence(case.steps) == "low":  # of what may be no step, little can be said
        return "low"
    unsure = case.whole or hit.change is not None
    level = predicted.confidence if predicted is not None else "low" if unsure else "high"
    return cast(Confidence, min(level, hit.confidence, key=_LEVELS.index))


def _next(case: Case, hit: Hit, predicted: Prediction | None) -> str:
    """What limits next, in words; nothing where the step was not simulated, or no GPU was seen."""
    if predicted is None or hit.seldom or case.device is None:
        return ""
    return speaker(case.language)(LIMITS.get(predicted.limit, predicted.limit))


def settle(rows: list[Ranked], language: str = "en") -> list[Finding]:
    """Merged, in order, with overlaps named."""
    rows = _ordered(_merged(rows, language))
    for row in rows:
        row.finding.overlaps = sorted({other.code for other in rows if other is not row and _overlap(row, other)})
        row.finding.needs = sorted({other.code for other in rows if other.finding.main and _before(other, row)})
    if rows and rows[0].rule.last:
        rows[0].finding.main = True
    return [r.finding for r in rows]


def _merged(rows: Iterable[Ranked], language: str) -> list[Ranked]:
    """One finding where several processes have the same one in the same place: the one that gains most."""
    groups: dict[tuple[str, str | None], list[Ranked]] = {}
    for row in rows:
        groups.setdefault((row.code, row.finding.where.range), []).append(row)
    out = []
    for group in groups.values():
        best = max(group, key=lambda r: r.gain)  # the first of equals: processes come the most important first
        others = sorted({r.finding.where.process for r in group if r.finding.where.process is not None})
        others = [p for p in others if p != best.finding.where.process]
        if others:
            said = "These are the figures of pid {pid}; the same in other processes: pid {pids}"
            pids = ", ".join(map(str, others))
            text = speaker(language)(said, pid=best.finding.where.process, pids=pids)
            best.finding.where.others = others
            best.finding.evidence.insert(1, Evidence(text=text, value=len(others), source="findings"))
        out.append(best)
    return out


def _ordered(rows: list[Ranked]) -> list[Ranked]:
    place = {id(r): WORTH if r.rule.last else r.gain for r in rows}
    for row in sorted(rows, key=lambda r: r.rule.general):
        specific = [place[id(r)] for r in rows if _specific(r, row) or _needed(r, row)]
        place[id(row)] = min([place[id(row)], *(p * 0.999 for p in specific)])
    return sorted(rows, key=lambda r: (not r.finding.main and not r.rule.last, -place[id(r)]))


def _specific(row: Ranked, general: Ranked) -> bool:
    """Whether a finding explains enough of what a general one would gain to come before it."""
    fits = row.rule.on_host or general.rule.general > 1
    same = row.finding.where.process == general.finding.where.process
    enough = row.finding.main and row.gain >= GIVES_WAY * general.gain
    return same and fits and enough and not row.rule.last and row.rule.general < general.rule.general


def _needed(row: Ranked, by: Ranked) -> bool:
    """Whether a finding has to be dealt with before the other's remedy can be made, and is worth being told first."""
    return row.finding.main and _before(row, by) and row.gain >= COMES_FIRST * by.gain


def _before(row: Ranked, by: Ranked) -> bool:
    """Whether the other's remedy cannot be made while this finding stands, however little it gains itself."""
    return row.finding.where.process == by.finding.where.process and row.code in by.hit.needs


def _overlap(a: Ranked, b: Ranked) -> bool:
    if a.finding.where.process != b.finding.where.process:
        return False
    time = min(intervals.total(a.hit.when), intervals.total(b.hit.when))
    shared = intervals.total(intervals.intersect(a.hit.when, b.hit.when))
    ops = min(len(a.hit.ops), len(b.hit.ops))
    return (time > 0 and shared > COMMON * time) or (
        ops > 0 and len(np.intersect1d(a.hit.ops, b.hit.ops)) > COMMON * ops
    )
