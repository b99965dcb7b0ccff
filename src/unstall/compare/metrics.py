"""The figures that a gate can ask for, by name.

In: a comparison (or none), the report of the side under test. Out: a number, or ``None`` where it is not known: a plain
step log knows nothing of the GPU, and a rule that could not run has not found nothing. ``unknown`` says why.

=====================  ===========================================================================================
name                   what it is
=====================  ===========================================================================================
``step_ms``            median steady step (mean where steps come in bursts), without the profiler where that is known
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

import difflib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from unstall.compare.expression import AtLeast
from unstall.compare.sides import Side
from unstall.errors import UsageError
from unstall.model import Comparison, NotChecked
from unstall.pace import pace

MS = 1e6
UNITS = ("_ms", "_percent")
MORE_IS_BETTER = ("ratio", "ratio_low", "ratio_high", "gpu_busy_percent", "steps")
"""Figures whose plain limit in a budget is the least allowed, not the most."""


@dataclass(frozen=True)
class Known:
    """What may be asked for behind a dot; where one is empty, any is taken.

    Attributes:
        codes: all codes that a finding can have.
        categories: all categories of the breakdown, each with the tables of which one must be there.
    """

    codes: Collection[str] = ()
    categories: Mapping[str, Collection[str]] = field(default_factory=dict)


ANY = Known()


def figures(names: Iterable[str], side: Side, comparison: Comparison, known: Known = ANY) -> Mapping[str, float | None]:
    """The figures called ``names`` of one side.

    Args:
        names: from the table above.
        side: the side under test.
        comparison: it against the other side.
        known: what there is; another name is refused.

    Raises:
        UsageError: there is no such figure.
    """
    return {name: _figure(name, side, comparison, known) for name in understood(names, known)}


def understood(names: Iterable[str], known: Known) -> list[str]:
    """The names, once each of them is known to be one.

    Raises:
        UsageError: there is no such figure; the line names those that there are, and the nearest.
    """
    return [name for name in names if _is_one(name, known)]


def _is_one(name: str, known: Known) -> bool:
    head, _, rest = name.partition(".")
    if head == "findings" and rest and known.codes:
        there = f"Codes: {', '.join(sorted(known.codes))}"
        wanted, why = [f"findings.{c}" for c in known.codes], "no finding has that code"
    elif head == "category" and rest and known.categories:
        there = f"Categories, each with _ms or _percent: {', '.join(known.categories)}"
        wanted, why = [f"category.{c}{unit}" for c in known.categories for unit in UNITS], "no category has that name"
    else:
        wanted, why = [*COMPARED, *MEASURED, "findings"], "no such figure"
        there = f"There are: {', '.join([*wanted, 'findings.CODE', 'category.NAME_ms', 'category.NAME_percent'])}"
        wanted += [name] if rest and (head == "findings" or (head == "category" and rest.endswith(UNITS))) else []
    if name not in wanted:
        near = difflib.get_close_matches(name, wanted, 1)
        raise UsageError(name, why, f"Did you mean {near[0]}? {there}" if near else there)
    return True


def _figure(name: str, side: Side, comparison: Comparison, known: Known) -> float | None:
    if name in COMPARED:
        return COMPARED[name](comparison)
    if name in MEASURED:
        return MEASURED[name](side) if side.samples.size else None
    head, _, rest = name.partition(".")
    return _findings(side, rest, known.codes) if head == "findings" else _category(side, rest, known.categories)


def _slowdown(comparison: Comparison) -> float | None:
    return None if comparison.ratio is None else 100 * (1 / comparison.ratio - 1)


def _ms(ns: float | None) -> float | None:
    return None if ns is None else ns / MS


COMPARED: dict[str, Callable[[Comparison], float | None]] = {
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


MEASURED: dict[str, Callable[[Side], float | None]] = {
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


def _findings(side: Side, code: str, codes: Collection[str]) -> float | None:
    """Main findings; there may be more where a rule could not run, and of a log nothing is known."""
    if side.is_log:
        return None
    found = sum(f.main and code in ("", f.code) for f in side.report.findings)
    return AtLeast(found) if unchecked(side, code, codes) else float(found)


def unchecked(side: Side, code: str, codes: Collection[str]) -> list[NotChecked]:
    """The rules that did not run, of one code or of all; for all, one that has nothing to look at is none of them."""
    rules = {code} if code else set(codes)
    return [n for n in side.report.not_checked if n.code == "findings" or (n.code in rules and (code or n.applies))]


def _category(side: Side, rest: str, categories: Mapping[str, Collection[str]]) -> float | None:
    name, _, unit = rest.rpartition("_")
    row = side.breakdown
    ns = sum(c.ns for c in row.categories if c.name == name) if row else 0
    tables = categories.get(name, ())
    if row is None or (not ns and tables and not side.report.profile.tables.keys() & set(tables)):
        return None
    return ns / MS if unit == "ms" else 100 * ns / row.step_ns
