"""Whether two runs train alike: their losses step by step, against what the remedy may change.

In: losses by step of the plain runs and of the changed ones, the remedy's tolerance. Out: :class:`Losses` with the
figures. Three questions in this order: are they equal; do the first steps agree within the tolerance (training
multiplies any difference, so later steps are compared by their mean); where random numbers may have been drawn
elsewhere, or the plain program itself differs from run to run, is the mean of all steps the same?
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from statistics import fmean, stdev

from unstall.trial.outcome import Agreement, Losses

FIRST = 10
"""Steps whose losses are compared one by one. A relative difference of 1e-7 (fp32) stays below 1e-4 that long in the
networks tried; later steps amplify it without anything being wrong."""
LATER = 5.0  # times the tolerance: how far the mean of all steps may lie apart
SIGMAS = 3.0  # standard errors of the mean difference: 1 wrong rejection in 370

FINE = 1e-6  # relative: differences below are told in digits

ByStep = Mapping[int, float]


def compare(plain: Sequence[ByStep], changed: Sequence[ByStep], tolerance: float, *, redraws: bool) -> Losses:
    """Every changed run against the plain ones; the worst decides."""
    plain, changed = [p for p in plain if p], [c for c in changed if c]
    if not plain or not changed:
        return Losses(verdict="unknown", text="no losses were seen")
    steady = all(_largest(plain[0], other) <= tolerance for other in plain[1:])
    found = [_pair(plain[0], run, tolerance, loose=redraws or not steady) for run in changed]
    worst = max(found, key=lambda f: ("equal", "agree", "same level", "unknown", "differ").index(f.verdict))
    if not steady:
        worst.text += "; the plain program itself differs from run to run"
    return worst


def _pair(plain: ByStep, changed: ByStep, tolerance: float, *, loose: bool) -> Losses:
    common = sorted(plain.keys() & changed.keys())
    if not common:
        return Losses(verdict="unknown", text="no step has a loss in both runs")
    largest = _largest(plain, changed)
    verdict, text = _judged(plain, changed, largest, tolerance, loose=loose)
    return Losses(verdict=verdict, text=text, compared=len(common), largest=largest, tolerance=tolerance)


def _judged(plain: ByStep, changed: ByStep, largest: float, tolerance: float, *, loose: bool) -> tuple[Agreement, str]:
    """What is seen at once; the rest is a matter of figures."""
    common = sorted(plain.keys() & changed.keys())
    bad = next((s for s in common if math.isfinite(plain[s]) and not math.isfinite(changed[s])), None)
    if bad is not None:
        return "differ", f"the loss of step {bad} is {changed[bad]}, plain {plain[bad]:.6g}"
    if all(_same(plain[s], changed[s]) for s in common):
        return "equal", f"equal in {len(common)} steps"
    return _agreement(plain, changed, largest, tolerance, loose=loose)


def _agreement(
    plain: ByStep, changed: ByStep, largest: float, tolerance: float, *, loose: bool
) -> tuple[Agreement, str]:
    """Whether losses that are not equal mean the same training; where they do not, the text names what strays."""
    common = sorted(plain.keys() & changed.keys())
    finite = [s for s in common if math.isfinite(plain[s])]
    mean, error = _mean_difference(plain, changed, finite)
    level = f"mean {_percent(mean, sign=True)} ± {_percent(SIGMAS * error)}"
    close, later = largest <= tolerance, finite[FIRST:]
    if close and abs(mean) <= max(LATER * tolerance, SIGMAS * error):
        return "agree", _close(largest) if largest else f"{_close(largest)}; {level}"
    if close:
        return "differ", f"{_close(largest)}; {_means(plain, changed, later or finite, LATER * tolerance)}; {level}"
    if loose and later and abs(mean) <= max(tolerance, SIGMAS * error):
        return "same level", f"other random draws, same level ({level})"
    if loose and later:
        return "differ", f"{_means(plain, changed, finite, tolerance)}; {level}"
    return "differ", f"{_worst(plain, changed, common[:FIRST], tolerance)}; {level}"


def _means(plain: ByStep, changed: ByStep, steps: Sequence[int], tolerance: float) -> str:
    """What strays where no step of its own does."""
    after, before = (fmean(run[s] for s in steps) for run in (changed, plain))
    which = f"steps {steps[0]} to {steps[-1]}"
    return f"mean of {which}: {after:.6g}, plain {before:.6g} (allowed {_percent(tolerance)})"


def _worst(plain: ByStep, changed: ByStep, steps: Sequence[int], tolerance: float) -> str:
    """The step whose loss differs most."""
    step = max(steps, key=lambda s: _relative(plain, changed, s))
    much = _percent(_relative(plain, changed, step))
    return f"step {step}: {changed[step]:.6g}, plain {plain[step]:.6g} ({much}, allowed {_percent(tolerance)})"


def _same(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b))


def _largest(plain: ByStep, changed: ByStep) -> float:
    """Largest relative difference of the first common steps."""
    common = sorted(plain.keys() & changed.keys())[:FIRST]
    return max((_relative(plain, changed, s) for s in common), default=0.0)


def _relative(plain: ByStep, changed: ByStep, step: int) -> float:
    """Against the level of the first losses: one that happens to be near zero is no measure."""
    a, b = plain[step], changed[step]
    if _same(a, b):
        return 0.0
    level = fmean(abs(v) for v in list(plain.values())[:FIRST] if math.isfinite(v)) if plain else 0.0
    difference = abs(a - b) / max(abs(a), level, 1e-30)
    return difference if math.isfinite(difference) else math.inf


def _mean_difference(plain: ByStep, changed: ByStep, steps: Sequence[int]) -> tuple[float, float]:
    """Mean relative difference and its standard error, steps taken as independent draws; their losses are finite."""
    level = fmean(abs(plain[s]) for s in steps) if steps else 0.0
    differences = [(changed[s] - plain[s]) / (level or 1e-30) for s in steps]
    if len(differences) < 2:
        return (differences[0] if differences else 0.0), 0.0
    return fmean(differences), stdev(differences) / math.sqrt(len(differences))


def _close(largest: float) -> str:
    """How near the first losses are: in percent, or in digits where that would be a row of zeros."""
    if not largest:
        return f"equal in the first {FIRST} steps"
    if largest >= FINE:
        return f"within {_percent(largest)} in the first steps"
    return f"agree to {math.floor(-math.log10(largest))} digits in the first steps"


def _percent(value: float, *, sign: bool = False) -> str:
    """Two figures, without an exponent; what is there is never shown as nothing."""
    if 0 < abs(value) < FINE:
        return f"<{FINE * 100:.4f} %"
    figure = f"{value * 100:{'+' if sign else ''}.2g}"
    return f"{Decimal(figure):{'+' if sign else ''}f} %" if "e" in figure else f"{figure} %"
