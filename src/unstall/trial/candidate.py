"""A candidate: one remedy or several at once, its runs, and its row of the outcome.

In: remedies, runs one by one. Out: :class:`Candidate` with its row kept up to date.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

from unstall.fix.remedy import Remedy
from unstall.trial import gain, losses
from unstall.trial.outcome import Row
from unstall.trial.runs import Run
from unstall.trial.standing import standing

SAFETY = ("safe", "changes-numerics", "manual")  # from the best to the worst
ALIKE = ("equal", "agree", "same level")  # losses of runs that train alike
EXCLUSIVE = ({"fused-optimizer", "foreach-optimizer"}, {"compile", "cuda-graph"})
"""Only one of each makes sense at once: the faster stays."""


@dataclass
class Candidate:
    """Remedies that are tried together."""

    remedies: list[Remedy]
    row: Row
    runs: list[Run] = field(default_factory=list)
    done: bool = False

    @staticmethod
    def of(remedies: list[Remedy]) -> Candidate:
        """One that has not run yet."""
        row = Row(
            name=" + ".join(r.name for r in remedies),
            names=[r.name for r in remedies],
            title=remedies[0].title if len(remedies) == 1 else "All that won, together",
            safety=max((r.safety for r in remedies), key=SAFETY.index),
            write=[r.write for r in remedies],
        )
        return Candidate(remedies, row)

    @property
    def won(self) -> bool:
        """Whether it is faster and trains as the plain program does."""
        trained = self.row.losses.verdict if self.row.losses else ""
        return self.row.verdict == "faster" and trained in ALIKE

    def took(self, run: Run) -> None:
        """One more run; one that cannot be used is the last."""
        if run.good:
            self.runs.append(run)
        else:
            self._end("not applicable" if run.impossible else "crashed", run.reason)

    def without_gpu(self) -> None:
        """The plain program used no GPU: a remedy that needs one is not run."""
        if self.remedies[0].needs == "cuda":
            self._end("not applicable", "no GPU took part")

    def judge(self, plain: Sequence[Run]) -> None:
        """What its runs say against the plain ones that can be used; whether it needs more of them."""
        if self.row.verdict in ("crashed", "rejected") or not self.runs:
            return
        self.row.runs, self.row.step_ns = len(self.runs), step_ns(self.runs)
        self._judge_gain(plain)
        self._judge_losses(plain)

    def _judge_gain(self, plain: Sequence[Run]) -> None:
        found = gain.measure([p.samples_ns for p in plain], [r.samples_ns for r in self.runs])
        if found is None:
            return
        stands = standing(found, len(self.runs), len(plain))
        self.row.ratio, self.row.ratio_low, self.row.ratio_high = found.ratio, found.low, found.high
        self.row.verdict, self.row.reason = stands.verdict, stands.reason
        self.done = stands.done  # given up after one run, it is tried again where a plain run makes it look better

    def _judge_losses(self, plain: Sequence[Run]) -> None:
        tolerance = max(r.tolerance for r in self.remedies)
        redraws = any(r.redraws for r in self.remedies)
        seen = [p.losses for p in plain], [r.losses for r in self.runs]
        self.row.losses = losses.compare(*seen, tolerance, redraws=redraws)
        if self.row.losses.verdict == "differ":
            self._end("rejected", f"losses: {self.row.losses.text}")

    def _end(self, verdict: Literal["not applicable", "crashed", "rejected"], reason: str) -> None:
        self.done, self.row.verdict, self.row.reason = True, verdict, reason


def together(winners: Sequence[Candidate]) -> Candidate | None:
    """Those of the winners that go together, the fastest first; ``None`` where that is just one."""
    ranked = sorted(winners, key=lambda c: -(c.row.ratio or 0))
    kept = _compatible([c.remedies[0] for c in ranked])
    return Candidate.of(kept) if len(kept) > 1 else None


def _compatible(remedies: Sequence[Remedy]) -> list[Remedy]:
    kept: list[Remedy] = []
    for remedy in remedies:
        rivals = {n for group in EXCLUSIVE if remedy.name in group for n in group}
        if not rivals & {k.name for k in kept}:
            kept.append(remedy)
    return kept


def step_ns(runs: Sequence[Run]) -> int | None:
    """The middle of all steps of all runs, as :func:`gain.measure` has it: the ratio is that of the times shown."""
    samples = [s for r in runs for s in r.samples_ns]
    return round(median(samples)) if samples else None
