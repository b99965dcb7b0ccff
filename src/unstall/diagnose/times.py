"""Where the time of one process goes: how long a step is, what the wall time is spent on, what the host does when.

In: an analysis and one of its step tables. Out: :class:`Times`, the lower half of :class:`~unstall.diagnose.case.Case`:
unions, and their lengths a step.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import polars as pl

from unstall.analyze import breakdown, host, intervals
from unstall.analyze.device import busy, devices_of
from unstall.analyze.intervals import NOTHING, Union
from unstall.model import Analysis, Profile, StepTable, pid_of

if TYPE_CHECKING:
    from unstall.analyze.host import HostView

WORK = ("gpu_compute", "exposed_communication", "exposed_copy", "other_process")
SELDOM = 0.02
"""Share of the step from which a cost counts as seen."""


class Times:
    """The times of one process. Everything expensive is computed when first asked for.

    Args:
        analysis: the capture's analysis.
        steps: the process's steps.
        whole: the steps are a stand-in: the whole active window of the device counts as one.
        language: of what the rules say.
    """

    def __init__(self, analysis: Analysis, steps: StepTable, *, whole: bool = False, language: str = "en") -> None:
        self.analysis, self.steps, self.whole, self.language = analysis, steps, whole, language
        self.best_host_gain = 0.0  # share of the step, of what was found so far on the host's side

    @property
    def profile(self) -> Profile:
        return self.analysis.profile

    @property
    def process(self) -> int:
        return self.steps.process

    @property
    def pid(self) -> int:
        """OS process id, as the report shows it."""
        return pid_of(self.steps.process)

    @cached_property
    def step_ns(self) -> int:
        """What a steady step takes in the capture; the whole window where there are no steps."""
        return self.steps.step_ns

    @cached_property
    def count(self) -> int:
        """Steady steps."""
        return max(self.steps.steady.height, 1)

    @cached_property
    def unprofiled_ns(self) -> int | None:
        """Step time without the profiler, where known."""
        rows = [r for r in self.analysis.report.steps if r.process == self.pid]
        return rows[0].unprofiled_ns if rows else None

    @cached_property
    def device(self) -> int | None:
        """The process's busiest device."""
        found = devices_of(self.analysis.ops, self.process)
        return found[0] if found else None

    @cached_property
    def shares_gpu(self) -> bool:
        """Whether another process runs work on that device."""
        if self.device is None:
            return False
        return self.analysis.ops.filter(pl.col("device") == self.device)["process"].n_unique() > 1

    @cached_property
    def _split(self) -> tuple[dict[str, Union], HostView]:
        return breakdown.split(self.profile, self.analysis.ranges, self.analysis.ops, self.steps)

    @property
    def parts(self) -> dict[str, Union]:
        """Category → when, in the typical steps: exclusive."""
        return self._split[0]

    @property
    def host(self) -> HostView:
        return self._split[1]

    @cached_property
    def steady_parts(self) -> dict[str, Union]:
        """The same over all steady steps: what happens now and then is in here, too."""
        frame = self.steps.frame.with_columns(typical="steady")
        every = StepTable(self.process, self.steps.thread, self.steps.source, self.steps.limit, frame)
        return breakdown.split(self.profile, self.analysis.ranges, self.analysis.ops, every)[0]

    @cached_property
    def window(self) -> Union:
        """The typical steps' windows."""
        typical = self.steps.frame.filter("typical")
        return intervals.union(typical["start"], typical["end"])

    def per_step(self, when: Union) -> float:
        """Length of a union inside the typical steps, scaled to what a step takes (as the breakdown does), ns."""
        whole = intervals.total(self.window)
        return intervals.total(when) / whole * self.step_ns if whole else 0.0

    def share(self, ns: float) -> float:
        """Fraction of the captured step."""
        return ns / self.step_ns if self.step_ns else 0.0

    def part(self, *names: str) -> Union:
        """The union of some categories."""
        return intervals.merge(*(self.parts.get(n, NOTHING) for n in names))

    def per_steady_step(self, when: Union) -> float:
        """Length of a union inside all steady steps, over their number, ns: what happens now and then is in here."""
        frame = self.steps.steady
        return intervals.total(intervals.intersect(when, intervals.union(frame["start"], frame["end"]))) / self.count

    def seldom(self, usual: float, every: float) -> bool:
        """Whether a cost is hardly seen in the typical step, and yet counts when all steady steps share it."""
        return usual < SELDOM * self.step_ns <= every and self.count >= 4

    @cached_property
    def computing(self) -> Union:
        """When the process's device computes (for anybody), at any time of the capture."""
        on = self.analysis.ops.filter(pl.col("device") == self.device)
        return busy(on, "kernel", "memset", "graph", "communication")

    @cached_property
    def steady_span(self) -> Union:
        """The steps' own, as a union."""
        start, end = self.steps.steady_span
        return intervals.union(pl.Series([start]), pl.Series([end]))

    @cached_property
    def host_time(self) -> dict[str, Union]:
        """Activity → when the host does it, over all steady steps, whether or not the GPU is idle meanwhile."""
        first = breakdown.before_first_copies(self.analysis.ops, self.steps)
        return host.activities(self.host, self.steady_span, first)

    def host_per_step(self, when: Union) -> float:
        """Length of a union of ``host_time`` a steady step, ns."""
        return intervals.total(when) / self.count

    def idle(self, within: Union) -> Union:
        """Instants of ``within``, in the typical steps, at which the device does not work for anybody."""
        return intervals.subtract(intervals.intersect(self.window, within), self.part(*WORK))
