"""What runs next: plain, candidate, plain, candidate … until the intervals are tight or the time is out.

In: a :class:`~unstall.trial.outcome.Plan` and a function that runs the program once. Out: an
:class:`~unstall.trial.outcome.Outcome`. Every round begins with a plain run, and the order of the candidates turns
from round to round, so that a drift of the machine meets all alike. Crashed, rejected and clearly slower candidates
run no more. Winners are measured together at the end, for which a share of the time is kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median

from unstall.errors import CollectionFailed
from unstall.fix.dataloader_workers import tuned
from unstall.fix.remedy import Remedy, named
from unstall.trial import gain, losses
from unstall.trial.outcome import Outcome, Plan, Row
from unstall.trial.runs import Run, once

Say = Callable[[str], None]

FOR_COMBINATION = 0.25  # share of the time kept for the winners together
ROUNDS = 5  # more runs of one candidate than that tell nothing new
HOPELESS = 1 / 1.2
"""Nothing above this after one run a side, and no more time is spent on it; the row says that it was one run."""
SURE = 2.0
"""An interval wholly above this needs no second run to be believed: the plain runs of one program differed by 37 % at
most among themselves (two busy cores; 22 % on a GPU machine)."""
AT_BEST = 1 + gain.TIGHT
"""Not faster in the middle and no better than this at best after two runs a side: no gain to find."""
CHEAPEST = 3.0  # seconds: no run is planned to be shorter


@dataclass
class Candidate:
    """One remedy, or several at once, and its runs."""

    remedies: list[Remedy]
    row: Row
    runs: list[Run] = field(default_factory=list)
    done: bool = False


class Trial:
    """One trial under way."""

    def __init__(self, plan: Plan, say: Say, once: Callable[..., Run] = once) -> None:
        self.plan, self.say, self.once = plan, say, once
        self.begun = time.monotonic()
        self.plain: list[Run] = []
        self.candidates = [_candidate([tuned(r, plan.workers)]) for r in named(plan.names)]
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
        for c in self.candidates:
            if c.remedies[0].needs == "cuda" and not run.gpu:
                c.done, c.row.verdict, c.row.reason = True, "not applicable", "no GPU took part"
        return run

    def rounds(self, candidates: Sequence[Candidate], until: float) -> None:
        """Plain, then every candidate that is still open, until all are settled or less than ``until`` s are left."""
        for number in range(ROUNDS):
            waiting = [c for c in self._open(candidates) if self._room(until, self._cost(c, self.fresh))]
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
                self.judge(c)

    def _open(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        return [c for c in candidates if not c.done]

    def _cost(self, c: Candidate, alone: bool) -> float:
        """Seconds that its next run is likely to take, with a plain run before it unless it comes ``alone``."""
        plain = self.plain[-1].seconds
        return (c.runs[-1].seconds if c.runs else plain) + (0.0 if alone else plain)

    def _room(self, until: float, seconds: float) -> bool:
        """Whether a run of that length fits into the time."""
        return not self.stopped and self.left() - until > seconds

    def measure(self, c: Candidate) -> None:
        run = self.run(c.row.names, c.row.name)
        if run.interrupted:
            return
        if not run.good:
            c.done, c.row.verdict = True, "not applicable" if run.impossible else "crashed"
            c.row.reason = run.reason
        else:
            c.runs.append(run)
            self.judge(c)

    def judge(self, c: Candidate) -> None:
        """What its runs say so far; whether it needs more of them."""
        if c.row.verdict in ("crashed", "rejected") or not c.runs:
            return
        plain = [p for p in self.plain if p.good]
        row = c.row
        found = gain.measure([p.samples_ns for p in plain], [r.samples_ns for r in c.runs])
        tolerance = max(r.tolerance for r in c.remedies)
        redraws = any(r.redraws for r in c.remedies)
        row.losses = losses.compare([p.losses for p in plain], [r.losses for r in c.runs], tolerance, redraws=redraws)
        row.runs = len(c.runs)
        row.step_ns = _step(c.runs)
        if found is not None:
            row.ratio, row.ratio_low, row.ratio_high = found.ratio, found.low, found.high
            row.verdict = found.verdict
            enough = len(c.runs) >= 2 and len(plain) >= 2
            if enough or found.low > SURE:
                row.reason = ""
            elif row.verdict != "inconclusive":
                row.verdict, row.reason = "inconclusive", "one run a side: runs differ by more than steps do"
            hopeless = found.high < HOPELESS or (enough and found.ratio <= 1 and found.high < AT_BEST)
            if hopeless and not (enough and found.tight):
                row.verdict, row.reason = found.verdict, _given_up(found, len(c.runs))
            c.done = c.done or hopeless or (enough and found.tight)
        if row.losses.verdict == "differ":
            c.done, row.verdict, row.reason = True, "rejected", f"losses: {row.losses.text}"

    def winners(self) -> list[Candidate]:
        return [c for c in self.candidates if c.row.verdict == "faster" and _trusted(c)]

    def together(self) -> Candidate | None:
        """The winners at once, where there is more than one."""
        winners = sorted(self.winners(), key=lambda c: -(c.row.ratio or 0))
        if len(winners) < 2 or not self._room(0.0, 2 * self.plain[-1].seconds):
            return None
        combination = _candidate(_compatible([c.remedies[0] for c in winners]))
        if len(combination.remedies) < 2:
            return None
        for c in self.candidates:
            c.done = True
        self.plain = self.plain[-1:]
        self.rounds([combination], until=0.0)
        return combination

    def outcome(self, extra: Candidate | None, plain: list[Run]) -> Outcome:
        for c in self.candidates:
            if c.row.verdict == "not measured":
                c.row.reason = "the time was out: give a larger --budget"
        step = _step([p for p in plain if p.good])
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


def _candidate(some: list[Remedy]) -> Candidate:
    order = ("safe", "changes-numerics", "manual")
    return Candidate(
        some,
        Row(
            name=" + ".join(r.name for r in some),
            names=[r.name for r in some],
            title=some[0].title if len(some) == 1 else "All that won, together",
            safety=max((r.safety for r in some), key=order.index),
            write=[r.write for r in some],
        ),
    )


def _given_up(found: gain.Gain, runs: int) -> str:
    told = "one run" if runs == 1 else f"{runs} runs"
    if found.high < 1:
        return f"given up after {told}: at least {1 / found.high - 1:.0%} slower"
    return f"given up after {told}: at best {found.high - 1:.0%} faster"


EXCLUSIVE = ({"fused-optimizer", "foreach-optimizer"}, {"compile", "cuda-graph"})
"""Only one of each makes sense at once: the faster stays."""


def _compatible(remedies: Sequence[Remedy]) -> list[Remedy]:
    kept: list[Remedy] = []
    for remedy in remedies:
        rivals = {n for group in EXCLUSIVE if remedy.name in group for n in group}
        if not rivals & {k.name for k in kept}:
            kept.append(remedy)
    return kept


def _trusted(c: Candidate) -> bool:
    return c.row.losses is not None and c.row.losses.verdict in ("equal", "agree", "same level")


def _step(runs: Sequence[Run]) -> int | None:
    """The middle of all steps of all runs, as :func:`gain.measure` has it: the ratio is that of the times shown."""
    samples = [s for r in runs for s in r.samples_ns]
    return round(median(samples)) if samples else None


def _between(runs: Sequence[Run]) -> float:
    steps = [s for r in runs if r.good and (s := _step([r]))]
    return max(steps) / min(steps) - 1


def _rank(row: Row) -> tuple[int, float]:
    order = (
        "faster",
        "inconclusive",
        "no difference",
        "slower",
        "rejected",
        "crashed",
        "not measured",
        "not applicable",
    )
    return order.index(row.verdict), -(row.ratio or 0)


def _told(run: Run) -> str:
    if not run.good:
        return run.reason
    return f"{(_step([run]) or 0) / 1e6:.2f} ms a step"
