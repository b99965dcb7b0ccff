"""Coasting: while a loop is known to repeat, nothing is followed but the end of its optimizer's step.

Comes in: the step finder's word that the last steps were alike. Goes out: hooks of data, forward and backward put aside
(``watch``), and back in good time before a captured window; the times at which steps end, appended to the clock's
``stamps`` by the optimizer's hook itself.

Between kernels a Python frame of ours costs several microseconds: the caches hold other things by then. Following a
loop takes about ten of them, coasting takes one and torch's answer that nothing is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from unstall.instrument.steps import NEVER, StepClock

LEAD = 3  # steps before the window in which the loop is followed again, so that the window begins where a step does


class Coast:
    """Whether we coast, and until when.

    Attributes:
        allowed: whether we may; not where every step is wanted (losses), nor in a loop that has turned out to change.
        on: we do.
        first: the optimizer whose step ends a training step.
        others: optimizers known to step beside it.
        until: stamp at which somebody has to look: a border of the clock, or a window that comes near.
        stamps: the clock's own.
    """

    __slots__ = ("_clock", "_watch", "allowed", "first", "on", "others", "stamps", "until")

    def __init__(self, clock: StepClock, watch: Callable[[bool], object] | None) -> None:
        self._clock, self._watch, self.stamps = clock, watch or bool, clock.stamps
        self.allowed, self.on = watch is not None, False
        self.first: int | None = None
        self.others: frozenset[int | None] = frozenset()
        self.until = 0

    def begin(self, index: int, first: int | None, others: Iterable[int | None]) -> None:
        """From step ``index`` on, which has just begun. Without ``first``: the script itself tells of its steps."""
        self.first, self.others = first, frozenset(others)
        self.plan(index)
        self._watch(False)
        self._clock.early = first is not None
        self.on = True

    def end(self) -> None:
        """Follow the loop again."""
        self.on = self._clock.early = False
        self._watch(True)

    def plan(self, index: int) -> None:
        """Step ``index`` runs: look again at the next border, or when the window is near."""
        self.until = min(self._clock.border, self.wake_at) - index

    @property
    def wake_at(self) -> int:
        """Step at which the loop has to be followed again."""
        opens = self._clock.opens
        return opens if opens == NEVER else opens - LEAD

    def pays(self, index: int) -> bool:
        """Whether there is time for it, from the step after ``index`` on."""
        return self.allowed and self._clock.settled and self.wake_at - index > LEAD
