"""Numbered wrappers of a table, one instance each, are samples of the host's step time: the steps of its report.

In: the member rows of the range table, and which families are wrappers. Out: at most one
:class:`~unstall.model.StepsRow`, and how far it can be trusted, as warnings. The order in time is the order of the
numbers; gaps between steps and the GPU's own pace are not in a table.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import polars as pl

from unstall.analyze.steps import MIN_STEPS, warmup
from unstall.load._stats.ranges import Ranges
from unstall.model import Period, StepsRow, Warning_
from unstall.pace import bursty


def steps(found: Ranges, truncated: bool) -> tuple[list[StepsRow], list[Warning_]]:
    """The steps that the wrapper with the most members gives, epochs last.

    Args:
        found: the range families.
        truncated: rows are missing at the end of the table, which are its shortest ones.
    """
    wrapper = _chosen(found)
    if wrapper is None or found.members is None:
        return [], []
    members = found.members.filter((pl.col("family") == wrapper) & (pl.col("instances") == 1))
    names, samples = _in_order(members["name"].to_list(), members["total_ns"].to_list(), wrapper)
    warm = warmup(np.array(samples))
    warnings = [_host_only(wrapper)]
    missing = _missing(names, wrapper) if truncated else 0
    if missing:
        warnings.append(_cut_off(len(names), missing))
    return [_row(f"table:{wrapper}", names, samples, warm, some=missing > 0)], warnings


def _chosen(found: Ranges) -> str | None:
    numbered = [r for r in found.rows or [] if r.wrapper and r.members == r.instances and r.members >= MIN_STEPS]
    ranked = sorted(numbered, key=lambda r: ("epoch" in r.name.lower() and "step" not in r.name.lower(), -r.members))
    return ranked[0].name if ranked else None


def _row(source: str, names: Sequence[str], samples: Sequence[int], warm: int, *, some: bool) -> StepsRow:
    """``some``: of the steps only some are in the table."""
    steady = np.array(samples[warm:])
    median, p10, p90 = (int(v) for v in np.percentile(steady, [50, 10, 90]))
    period = Period(median=median, p10=p10, p90=p90, mean=int(steady.mean()))
    return StepsRow(
        process=None, source=source, count=len(names), warmup=warm,
        period_ns=period, samples_ns=[int(v) for v in steady], unprofiled_ns=None,
        host_ns=median, gpu_busy_ns=None, kernels_per_step=None, warmup_steps=list(names[:warm]),
        warmup_ns=sum(samples[:warm]), warmup_samples_ns=[int(v) for v in samples[:warm]], limit="host",
        confidence="low" if some else "medium", bursty=bursty(steady.tolist()),
    )  # fmt: skip


def _in_order(names: Sequence[str], totals: Sequence[int], wrapper: str) -> tuple[list[str], list[int]]:
    order = sorted(range(len(names)), key=lambda i: _numbers(names[i], wrapper))
    return [names[i] for i in order], [totals[i] for i in order]


def _numbers(name: str, wrapper: str) -> tuple[float, ...]:
    """The numbers that stand where the family has stars."""
    pattern = "(.*?)".join(map(re.escape, wrapper.split("*")))
    match = re.fullmatch(pattern, name, re.DOTALL)
    return tuple(_number(g) for g in match.groups()) if match else (math.inf,)


def _number(text: str) -> float:
    try:
        return float(int(text, 16)) if text[:2] in ("0x", "0X") else float(text)
    except (ValueError, OverflowError):
        return math.inf


def _missing(names: Sequence[str], wrapper: str) -> int:
    """How many numbers between the least and the greatest have no row; 0 where that cannot be said."""
    numbers = [_numbers(name, wrapper) for name in names]
    if any(len(n) != 1 or not math.isfinite(n[0]) or n[0] != int(n[0]) for n in numbers):
        return 0
    figures = sorted({int(n[0]) for n in numbers})
    stride = math.gcd(*(b - a for a, b in pairwise(figures))) or 1
    return (figures[-1] - figures[0]) // stride + 1 - len(figures)


def _host_only(wrapper: str) -> Warning_:
    text = (
        f"Step times are those of the host's own {wrapper} ranges: gaps between them are not in a table, and where the "
        "GPU is the limit the host runs ahead and they say nothing of it."
    )
    return Warning_(code="host-steps-only", text=text)


def _cut_off(listed: int, missing: int) -> Warning_:
    text = (
        f"The table is sorted by time and cut off: at least {missing} of {listed + missing} steps are missing, the "
        "shortest ones, so the step time shown is too long."
    )
    return Warning_(code="steps-cut-off", text=text)
