"""What runs next: plain, candidate, plain, candidate … until the intervals are tight or the time is out.

In: a :class:`~unstall.trial.outcome.Plan` and a function that runs the program once. Out: an
:class:`~unstall.trial.outcome.Outcome`. Every round begins with a plain run, and the order of the candidates turns
from round to round, so that a drift of the machine meets all alike. Crashed, rejected and clearly slower candidates
run no more. Winners are measured together at the end, for which a share of the time is kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from unstall.errors import CollectionFailed
from unstall.fix.dataloader_workers import tuned
from unstall.fix.remedy import named
from unstall.trial import gain
from unstall.trial.candidate import Candidate, step_ns, together
from unstall.trial.outcome import Outcome, Plan, Row
from unstall.trial.runs import Run, once

Say = Callable[[str], None]

FOR_COMBINATION = 0.25  # share of the time kept for the winners together
ROUNDS = 5  # more runs of one candidate than that tell nothing new
CHEAPEST = 3.0  # seconds: no run is planned to be shorter


class Trial:
    """One trial under way."""

    def __init__(self, plan: Plan, say: Say, once: Callable[..., Run] = once) -> None:
        self.plan, self.say, self.once = plan, say, once
        self.begun = time.monotonic()
        self.plain: list[Run] = []
        self.candidates = [Candidate.of([tuned(r, plan.workers)]) for r in named(plan.names)]
        self.seconds = plan.budget  # in steps, a run
        self.stopped = False
        self.fresh = True  # the last run was a plain one
        self.notes: list[str] = []

    def left(self) -> float:
        return self.plan.budget - (time.monotonic() - self.begun)

    def run(self, names: Sequence[str], label: str) -> Run:
        """One run of the program, told on the way."""
        run = self.once(
            self.plan.command,
            names,
            steps=self.plan.steps,
            seconds=self.seconds,
            most=max(self.left(), 30.0),
            workers=self.plan.workers,
        )
        self.stopped = self.stopped or run.interrupted
        self.say(f"{label}: {_told(run)} ({run.seconds:.0f} s; {max(self.left(), 0):.0f} s left)")
        return run

    def first(self) -> Run:
        """The plain program: without it there is nothing to compare with."""
        self.seconds = max(CHEAPEST, self.plan.budget / (4 * (len(self.candidates) + 1)))
        run = self.run([], "plain")
        if not run.good and not run.interrupted:
            raise _unusable(self.plan, run)
        self.plain.append(run)
        for c in self.candidates if not run.gpu else ():
            c.without_gpu()
        return run

    def rounds(self, candidates: Sequence[Candidate], until: float) -> None:
        """Plain, then every candidate that is still open, until all are settled or less than ``until`` s are left."""
        for number in range(ROUNDS):
            waiting = [c for c in candidates if not c.done and self._room(until, self._cost(c, self.fresh))]
            if not waiting:
                return
            if not self.fresh:
                self.plain.append(self.run([], "plain"))
            self.fresh = False
            turn = number % len(waiting)
            for c in waiting[turn:] + waiting[:turn]:
                if self._room(until, self._cost(c, True)):
                    self.measure(c)
            for c in candidates:
                c.judge(self.usable())

    def _cost(self, c: Candidate, alone: bool) -> float:
        """Seconds that its next run is likely to take, with a plain run before it unless it comes ``alone``."""
        plain = self.plain[-1].seconds
        return (c.runs[-1].seconds if c.runs else plain) + (0.0 if alone else plain)

    def _room(self, until: float, seconds: float) -> bool:
        """Whether a run of that length fits into the time."""
        return not self.stopped and self.left() - until > seconds

    def measure(self, c: Candidate) -> None:
        run = self.run(c.row.names, c.row.name)
        if not run.interrupted:
            c.took(run)
            c.judge(self.usable())

    def usable(self) -> list[Run]:
        """The plain runs that tell something."""
        return [p for p in self.plain if p.good]

    def winners(self) -> list[Candidate]:
        return [c for c in self.candidates if c.won]

    def together(self) -> Candidate | None:
        """The winners at once, where there is more than one."""
        combination = together(self.winners())
        if combination is None or not self._room(0.0, 2 * self.plain[-1].seconds):
            return None
        self.plain = self.usable()[-1:]
        self.rounds([combination], until=0.0)
        return combination

    def outcome(self, extra: Candidate | None, plain: list[Run]) -> Outcome:
        for c in self.candidates:
            if c.row.verdict == "not measured":
                c.row.reason = "the time was out: give a larger --budget"
        step = step_ns([p for p in plain if p.good])
        rows = [c.row for c in [*self.candidates, *([extra] if extra else [])]]
        for row in rows:
            row.predicted_step_ns = self.plan.predicted.get(row.name)
            if row.predicted_step_ns and step:
                row.predicted_ratio = step / row.predicted_step_ns
        return Outcome(
            command=list(self.plan.command),
            exit_code=plain[0].code if plain else 0,
            plain_step_ns=step,
            plain_runs=len(plain),
            gpu=any(p.gpu for p in plain),
            seconds=time.monotonic() - self.begun,
            rows=sorted(rows, key=_rank),
            notes=self.notes,
        )


HINT = "It must be PyTorch training that --auto recognises, or mark its steps: `with unstall.step(i):`"


def attempt(plan: Plan, *, say: Say = lambda _: None, once: Callable[..., Run] = once) -> Outcome:
    """Try every candidate of the plan; ``once`` runs the program (:func:`unstall.trial.runs.once`).

    Raises:
        CollectionFailed: the plain program gives no step times.
        UsageError: a name is unknown.
    """
    trial = Trial(plan, say, once)
    trial.first()
    trial.rounds(trial.candidates, until=FOR_COMBINATION * plan.budget if len(trial.candidates) > 1 else 0.0)
    if len(trial.winners()) < 2:
        trial.rounds(trial.candidates, until=0.0)
    plain = list(trial.plain)
    extra = trial.together()
    if trial.stopped:
        trial.notes.append("interrupted: what was measured until then")
    if len([p for p in plain if p.good]) > 1 and (spread := _between(plain)) > gain.TIGHT:
        trial.notes.append(
            f"the plain runs differ by {spread:.0%} among themselves: the machine is busy, or too few steps"
        )
    return trial.outcome(extra, plain)


def _unusable(plan: Plan, run: Run) -> CollectionFailed:
    """The exit code is the program's own where it has failed."""
    hint = HINT if run.code in (0, 130) else ""
    error = CollectionFailed(" ".join(plan.command), f"the plain program gave no step times: {run.reason}", hint)
    error.exit_code = run.code or error.exit_code
    return error


def _between(runs: Sequence[Run]) -> float:
    steps = [s for r in runs if r.good and (s := step_ns([r]))]
    return max(steps) / min(steps) - 1


RANK = ("faster", "inconclusive", "no difference", "slower", "rejected", "crashed", "not measured", "not applicable")


def _rank(row: Row) -> tuple[int, float]:
    return RANK.index(row.verdict), -(row.ratio or 0)


def _told(run: Run) -> str:
    if not run.good:
        return run.reason
    return f"{(step_ns([run]) or 0) / 1e6:.2f} ms a step"
