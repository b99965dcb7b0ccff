"""The figures that a gate can ask for, by name.

In: a comparison (or none), the report of the side under test. Out: a number, or ``None`` where it is not known: a plain
step log knows nothing of the GPU, and a rule that could not run has not found nothing.

=====================  ===========================================================================================
name                   what it is
=====================  ===========================================================================================
``step_ms``            median steady step, without the profiler where that is known
``before_step_ms``     the same of the other side
``mean_ms``            mean; rare long steps count here
``p10_ms`` ``p90_ms``  a tenth of the steps are shorter / longer
``max_ms``             longest steady step
``steps``              number of steady steps
``ratio``              before / after; ``ratio_low`` and ``ratio_high`` are its 95 % interval
``slowdown_percent``   how much longer a step takes than before; negative is faster
``gpu_busy_percent``   share of the step in which the GPU works
``gpu_busy_ms``        that time
``kernels_per_step``   device operations a step
``findings``           number of main findings
``findings.CODE``      the same of one code, for instance ``findings.pageable-copy``
``category.NAME_ms``   a category of the breakdown, for instance ``category.data_loading_ms``; ``_percent`` too
=====================  ===========================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

import numpy as np

from unstall.compare.sides import Side
from unstall.errors import UsageError
from unstall.model import Comparison
from unstall.pace import pace

MS = 1e6
MORE_IS_BETTER = ("ratio", "ratio_low", "ratio_high", "gpu_busy_percent", "steps")
"""Figures whose plain limit in a budget is the least allowed, not the most."""


def figures(
    names: Iterable[str],
    side: Side,
    comparison: Comparison,
    codes: Collection[str] = (),
    categories: Collection[str] = (),
) -> Mapping[str, float | None]:
    """The figures called ``names`` of one side.

    Args:
        names: from the table above.
        side: the side under test.
        comparison: it against the other side.
        codes: all codes that a finding can have; another one is refused. Empty: any is taken.
        categories: the same of the breakdown.

    Raises:
        UsageError: there is no such figure.
    """
    return {name: _figure(name, side, comparison, codes, categories) for name in names}


def _figure(
    name: str, side: Side, comparison: Comparison, codes: Collection[str], categories: Collection[str]
) -> float | None:
    if name in _COMPARED:
        return _COMPARED[name](comparison)
    if name in _MEASURED:
        return _MEASURED[name](side) if side.samples.size else None
    head, _, rest = name.partition(".")
    if name == "findings" or (head == "findings" and (not codes or rest in codes)):
        return _findings(side, rest)
    if head == "findings":
        raise UsageError(name, "no finding has that code", f"Codes: {', '.join(sorted(codes))}")
    if head == "category" and rest.endswith(("_ms", "_percent")):
        if categories and rest.rpartition("_")[0] not in categories:  # none of that name takes 0 ms, for ever
            raise UsageError(name, "no category has that name", f"Categories: {', '.join(categories)}")
        return _category(side, rest)
    known = ", ".join(
        [*_COMPARED, *_MEASURED, "findings", "findings.CODE", "category.NAME_ms", "category.NAME_percent"]
    )
    raise UsageError(name, "no such figure", f"There are: {known}")


def _slowdown(comparison: Comparison) -> float | None:
    return None if comparison.ratio is None else 100 * (1 / comparison.ratio - 1)


def _ms(ns: float | None) -> float | None:
    return None if ns is None else ns / MS


_COMPARED: dict[str, Callable[[Comparison], float | None]] = {
    "before_step_ms": lambda c: _ms(c.before.step_ns),
    "ratio": lambda c: c.ratio,
    "ratio_low": lambda c: c.ratio_low,
    "ratio_high": lambda c: c.ratio_high,
    "slowdown_percent": _slowdown,
}


def _busy_percent(side: Side) -> float | None:
    """Of the step as it was captured: both were measured under the same profiler."""
    if side.steps is None or side.steps.gpu_busy_ns is None:
        return None
    return 100 * side.steps.gpu_busy_ns / side.steps.step_ns


_MEASURED: dict[str, Callable[[Side], float | None]] = {
    "step_ms": lambda s: pace(s.samples.tolist()) / MS,
    "mean_ms": lambda s: float(s.samples.mean()) / MS,
    "p10_ms": lambda s: float(np.quantile(s.samples, 0.1)) / MS,
    "p90_ms": lambda s: float(np.quantile(s.samples, 0.9)) / MS,
    "max_ms": lambda s: float(s.samples.max()) / MS,
    "steps": lambda s: float(s.samples.size),
    "gpu_busy_percent": _busy_percent,
    "gpu_busy_ms": lambda s: _ms(s.steps.gpu_busy_ns) if s.steps else None,
    "kernels_per_step": lambda s: s.steps.kernels_per_step if s.steps else None,
}


def _findings(side: Side, code: str) -> float | None:
    """Main findings; not known of a log, nor where a rule could not run (unless others found something already)."""
    report = side.report
    found = sum(f.main and code in ("", f.code) for f in report.findings)
    unchecked = {n.code for n in report.not_checked}
    if side.is_log or (code in unchecked and not found):
        return None
    return float(found)


def _category(side: Side, rest: str) -> float | None:
    name, _, unit = rest.rpartition("_")
    row = next((b for b in side.report.breakdown if side.steps and b.process == side.steps.process), None)
    if row is None:
        return None
    ns = sum(c.ns for c in row.categories if c.name == name)
    return ns / MS if unit == "ms" else 100 * ns / row.step_ns
