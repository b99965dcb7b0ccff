"""The verdict: from two reports to a :class:`~unstall.model.Comparison`.

In: two reports. Out: the ratio of medians (of means, where steps come in bursts) with its interval, what it means,
why, what moved, and every doubt.

=================  ====================================================================================================
verdict            where
=================  ====================================================================================================
``faster``         the whole 95 % interval lies above 1 and reaches beyond +2 %
``slower``         the whole interval lies below 1 and reaches beyond −2 %
``no difference``  the whole interval lies within ±2 %; or it holds 1 and lies within ±``margin`` (5 %)
``inconclusive``   all else, and whatever has a doubt that blocks: inconclusive is never faster
=================  ====================================================================================================
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Literal

import numpy as np
from msgspec.structs import replace

from unstall import stats
from unstall.compare import moved
from unstall.compare.comparability import BLOCKING, doubts
from unstall.compare.sides import Side, choose
from unstall.errors import UsageError
from unstall.lang import speaker
from unstall.model import Comparison, Report, StepFigure, Warning_
from unstall.pace import bursty

Verdict = Literal["faster", "slower", "no difference", "inconclusive"]
Level = Literal["median", "mean"]

MARGIN = 0.05
"""What "no difference" rules out. 100 steps a side at 5 % noise are enough for it."""
SMALLEST = 0.02
"""No smaller change is called one: two starts of the same program differ by that much."""
OVERHEAD = 2.1
"""How many times longer a profiler can make a step: the most that was measured, 2.06. On an H200 a step of 970 launches
took 13.6 to 16.9 ms without, 22 to 28 ms in captures of the whole run; a comparison may meet the worst pair of runs.
Before and inside the capture of one process it was 1.59 for such a step, and 1.37 at most in the 52 planted loops
(``benchmarks/planted``)."""


def compare(before: Report, after: Report, *, margin: float = MARGIN, across_gpus: bool = False) -> Comparison:
    """Compare two reports; see :func:`unstall.compare.compare`."""
    if not 0 < margin < 1:
        raise UsageError(f"margin {margin:g}", "not between 0 and 1", "5 % is 0.05")
    b, a, said = choose(before, after)
    bursts = _bursts(b, a)
    level: Level = "mean" if bursts else "median"
    if not (b.samples.size and a.samples.size):
        warnings = [*said, *doubts(b, a, None)]
        return _comparison(b, a, warnings, _blocked(warnings, set()) or NOTHING, level=level)
    spreads = stats.describe(b.samples), stats.describe(a.samples)
    ratio, more = _ratio(b, a, spreads, bursts, margin)
    accepted = {"different-gpu"} if across_gpus else set()
    accepted |= {"too-few-steps"} if SAME in more else set()
    warnings = [*said, *doubts(b, a, spreads), *more]
    verdict = _blocked(warnings, accepted) or judge(ratio, margin)
    return _comparison(b, a, warnings, verdict, ratio, level=level)


def told(comparison: Comparison, language: str) -> Comparison:
    """The comparison with its texts in ``language``, which its outputs are to use as well."""
    say = speaker(language)
    return replace(
        comparison,
        language=language,
        reason=say.heard(comparison.reason),
        before=replace(comparison.before, label=say.heard(comparison.before.label)),
        after=replace(comparison.after, label=say.heard(comparison.after.label)),
        warnings=[replace(w, text=say.heard(w.text)) for w in comparison.warnings],
    )


NOTHING: tuple[Verdict, str] = ("inconclusive", "one side has no steps")
SAME = Warning_(code="same-samples", text="both sides hold the same step times: one measurement, not two")


def _ratio(
    before: Side, after: Side, spreads: tuple[stats.Side, stats.Side], bursts: list[Warning_], margin: float
) -> tuple[stats.Ratio, list[Warning_]]:
    """The ratio that counts, and what has to be said of it."""
    if _same(before, after):
        return stats.Ratio(1.0, 1.0, 1.0), [SAME]
    medians = _with_overhead(stats.ratio_of_medians(*spreads), before, after)
    means = _with_overhead(stats.ratio_of_means(*spreads), before, after)
    return (means, bursts) if bursts else (medians, _long_steps(medians, means, margin))


def _same(before: Side, after: Side) -> bool:
    """Whether it is one measurement, named twice. A single step is none."""
    return before.samples.size > 1 and np.array_equal(before.samples, after.samples)


def _blocked(warnings: list[Warning_], accepted: set[str]) -> tuple[Verdict, str] | None:
    """Inconclusive, for the gravest doubt that leaves no verdict; nothing where there is none."""
    texts = {w.code: w.text for w in warnings if w.code not in accepted}
    return next((("inconclusive", texts[code]) for code in BLOCKING if code in texts), None)


def _comparison(
    before: Side,
    after: Side,
    warnings: list[Warning_],
    verdict: tuple[Verdict, str],
    ratio: stats.Ratio | None = None,
    *,
    level: Level,
) -> Comparison:
    """All of it. Steps too few for a verdict are too few for an interval: of one a side it would be a single point."""
    names = _names(before.report.profile.path, after.report.profile.path)
    sure = ratio if SAME in warnings or not any(w.code == "too-few-steps" for w in warnings) else None
    return Comparison(
        verdict=verdict[0],
        ratio=None if ratio is None else ratio.value,
        ratio_low=None if sure is None else sure.low,
        ratio_high=None if sure is None else sure.high,
        before=_figure(before, level, names[0]),
        after=_figure(after, level, names[1]),
        moved=moved.moved(before, after),
        warnings=warnings,
        reason=verdict[1],
        level=level,
    )


def judge(ratio: stats.Ratio, margin: float = MARGIN) -> tuple[Verdict, str]:
    """The verdict on an interval, and why; the table is in this module's docstring."""
    smallest = min(SMALLEST, margin)
    shown = f"{ratio.low:.3g} to {ratio.high:.3g}"
    if _within(ratio, smallest):
        return "no difference", f"the 95 % interval of before / after, {shown}, lies within ±{100 * smallest:g} %"
    if ratio.low > 1:
        return "faster", f"the whole 95 % interval of before / after, {shown}, lies above 1"
    if ratio.high < 1:
        return "slower", f"the whole 95 % interval of before / after, {shown}, lies below 1"
    if _within(ratio, margin):
        return (
            "no difference",
            f"the 95 % interval of before / after, {shown}, rules out a change of {100 * margin:g} %",
        )
    return "inconclusive", f"the 95 % interval, {shown}, holds 1 and changes that matter: more steps would narrow it"


def _within(ratio: stats.Ratio, margin: float) -> bool:
    """Inside ±margin, read both ways: swapping the sides changes nothing."""
    return ratio.low >= 1 / (1 + margin) and ratio.high <= 1 + margin


def _with_overhead(ratio: stats.Ratio, before: Side, after: Side) -> stats.Ratio:
    """Widened by what a profiler may have cost one side, or both where they differ."""
    differ = before.report.profile.producer != after.report.profile.producer
    slow_before = not before.unprofiled and (after.unprofiled or differ)
    slow_after = not after.unprofiled and (before.unprofiled or differ)
    low = ratio.low / (OVERHEAD if slow_before else 1)
    return stats.Ratio(ratio.value, low, ratio.high * (OVERHEAD if slow_after else 1))


def _bursts(*sides: Side) -> list[Warning_]:
    """The sides whose steps come in bursts: the ratio is that of means then, for medians say nothing of the pace."""
    return [
        Warning_(
            code="bursty-steps",
            text=f"{s.name}: steps come in bursts, {np.median(s.samples) / 1e6:.3g} ms in the middle and "
            f"{s.samples.mean() / 1e6:.3g} ms on average: means are compared",
        )
        for s in sides
        if bursty(s.samples.tolist())
    ]


def _long_steps(medians: stats.Ratio, means: stats.Ratio, margin: float) -> list[Warning_]:
    """Rare long steps that tell another story than the median does."""
    by_median, by_mean = judge(medians, margin)[0], judge(means, margin)[0]
    if by_median == "inconclusive" or by_mean not in ("faster", "slower") or by_mean == by_median:
        return []
    if by_median == "no difference" and 1 / (1 + margin) <= means.value <= 1 + margin:
        return []
    text = (
        f"the median step says {by_median}, the mean says {by_mean} ({means.value:.3g}, {means.low:.3g} to "
        f"{means.high:.3g}): rare long steps changed (saving, evaluating, accumulating)"
    )
    return [Warning_(code="long-steps", text=text)]


def _names(*paths: str) -> tuple[str, ...]:
    """The files' names, with as many of their folders as it takes to tell them apart."""
    parts = [PurePath(path).parts for path in paths]
    most = max(map(len, parts))
    tails = ([str(PurePath(*p[-n:])) if p else "" for p in parts] for n in range(1, most + 1))
    return next((tuple(t) for t in tails if len(set(t)) == len(t)), tuple(PurePath(p).name for p in paths))


def _figure(side: Side, level: Level, name: str) -> StepFigure:
    of = "without the profiler" if side.unprofiled and not side.is_log else ""
    step_ns = round(float(getattr(np, level)(side.samples))) if side.samples.size else None
    return StepFigure(step_ns=step_ns, count=side.samples.size, label=", ".join(filter(None, (name, of))))
