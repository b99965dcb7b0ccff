"""Which steps of two reports are compared, and at which level.

In: two reports. Out: two :class:`Side` s of step times, ns, and what had to be chosen, in words. A profiler slows the
program, so where the step time without it is known on both sides the samples are brought to that level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unstall.compare import steplog
from unstall.compare.baseline import SAMPLES
from unstall.compare.settled import settled
from unstall.model import LONGEST_STEP_NS, BreakdownRow, Report, StepsRow, Warning_
from unstall.pace import pace

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Side:
    """One side of a comparison.

    Attributes:
        name: ``before`` or ``after``.
        report: all that is known of it.
        steps: the process that is compared; ``None`` where no steps are known.
        samples: its steady step times, ns, in order.
        unprofiled: whether they stand for the program without a profiler.
    """

    name: str
    report: Report
    steps: StepsRow | None
    samples: Floats
    unprofiled: bool

    @property
    def is_log(self) -> bool:
        return steplog.is_log(self.report)

    @property
    def steady_steps(self) -> int:
        """Steady steps of all processes: the tables of kernels, copies and calls do not tell processes apart."""
        return sum(steady_of(row) for row in self.report.steps)

    @property
    def breakdown(self) -> BreakdownRow | None:
        """Where the compared step goes; ``None`` where it was not taken apart."""
        return next((row for row in self.report.breakdown if self.steps and row.process == self.steps.process), None)

    @property
    def has_gpu_work(self) -> bool | None:
        """Whether the compared steps have GPU work; ``None`` where that is not known."""
        return None if self.is_log or self.steps is None else bool(self.steps.gpu_busy_ns)


def steady_of(row: StepsRow) -> int:
    """The steady steps of one process; a baseline keeps the last of their samples, and the sums of all of them."""
    kept = len(row.samples_ns)
    return kept if kept < SAMPLES else max(row.count - row.warmup, kept)


def choose(before: Report, after: Report) -> tuple[Side, Side, list[Warning_]]:
    """The two sides, and what there is to say about the choice."""
    rows = _same_kind(_candidates(before), _candidates(after))
    picked = [_limiting(side) for side in rows]
    level = all(p is not None and 0 < (p.unprofiled_ns or 0) <= LONGEST_STEP_NS for p in picked)
    said: list[Warning_] = []
    sides = []
    for name, report, row in zip(("before", "after"), (before, after), picked, strict=True):
        samples, left_out = _samples(row, name, level)
        sides.append(Side(name, report, row, samples, level or steplog.is_log(report)))
        said += [*left_out, *_several(report, row, name), *_forwarded(report, name)]
    return sides[0], sides[1], said


def _candidates(report: Report) -> list[StepsRow]:
    """Processes with steps; those with GPU work where there are any."""
    rows = [row for row in report.steps if _possible(row).size]
    return [row for row in rows if row.gpu_busy_ns] or rows


def _same_kind(before: list[StepsRow], after: list[StepsRow]) -> tuple[list[StepsRow], list[StepsRow]]:
    """Those whose steps were found by the same name, where both sides have such."""
    common = {row.source for row in before} & {row.source for row in after}
    if not common:
        return before, after
    return [row for row in before if row.source in common], [row for row in after if row.source in common]


def _limiting(rows: Sequence[StepsRow]) -> StepsRow | None:
    """The process with the longest step: where several work together, all wait for it."""
    return max(rows, key=lambda row: row.step_ns, default=None)


def _samples(row: StepsRow | None, name: str, level: bool) -> tuple[Floats, list[Warning_]]:
    if row is None:
        return np.zeros(0), []
    x = _possible(row)
    start = settled(x)
    steady = x[start.first :]
    if level and row.unprofiled_ns:
        steady = steady * (row.unprofiled_ns / pace(steady.tolist()))
    return steady, [*_impossible(len(row.samples_ns) - x.size, name), *start.words(x.size, name)]


def _possible(row: StepsRow) -> Floats:
    """The samples that can be the time of a step; a file from elsewhere may hold anything."""
    x = np.asarray(row.samples_ns, dtype=np.float64)
    return x[(x > 0) & (x <= LONGEST_STEP_NS)]


def _impossible(count: int, name: str) -> list[Warning_]:
    text = f"{name}: {count} step times that no step can have were left out"
    return [Warning_(code="impossible-steps", text=text)] if count else []


def _several(report: Report, row: StepsRow | None, name: str) -> list[Warning_]:
    if row is None or len(report.steps) < 2:
        return []
    others = ", ".join(f"{s.step_ns / 1e6:.4g} ms (pid {s.process})" for s in report.steps)
    chosen = f"the slowest, pid {row.process}, is compared"
    return [
        Warning_(code="several-processes", text=f"{name}: {len(report.steps)} processes have steps, {others}; {chosen}")
    ]


FORWARDED = ("shared-gpu", "stray-lines", "warm-up", "run-ahead")


def _forwarded(report: Report, name: str) -> list[Warning_]:
    """What a side's own report warned of and what bears on its step times."""
    return [
        Warning_(code=w.code, text=f"{name}: {w.text.removeprefix('the log: ')}")
        for w in report.warnings
        if w.code in FORWARDED
    ]
