"""Where training steps begin, found out from what the loop does.

Comes in: data draws, optimizer steps, forward passes without gradients. Goes out: ticks of the step clock and
``step_N`` ranges. A step is an optimizer step, however many batches it gathers: it begins at the first draw from the
training data after the last optimizer step and lasts until the next, logging and checkpoints included.

- Training data is what was drawn before an optimizer step. A draw from other data (validation) ends a step and begins
  none; so does a draw that finds the data at its end, and a loop that lets go of its loader.
- A forward pass with gradients outside any step begins one: its batch was drawn ahead (accelerate, Trainer), or from
  data not seen before.
- Where the loop draws no data, a step ends with the first optimizer's step (of several, as in a GAN).
- A CUDA graph in whose capture an optimizer stepped counts as its step when it is replayed.
- Where no optimizer of torch's ever steps (a compiled one, updates by hand), every backward pass counts as one.
- When :data:`ALIKE` steps in a row were one step of the first optimizer each, and nobody wants ranges or losses now,
  only that optimizer is followed (:mod:`unstall.instrument.coast`).

The ranges are start/end ranges: a push/pop pair that ends in another call would tear the script's own nesting.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from unstall.instrument import steps
from unstall.instrument.coast import Coast
from unstall.instrument.gate import Gate, Seen

PATIENCE = 32  # backward passes without an optimizer's step: more than most loops accumulate gradients over

ALIKE = 3  # steps


class StepFinder:
    """Follows one process's training loop.

    Attributes:
        clock: told of every step.
        coast: whether the loop is only followed by its optimizer's steps.
        index: number of the step that runs now, or ran last; −1 before the first.
        idle: no step runs.
        no_optimizer: none has stepped so far.
        updates: steps of all optimizers.
    """

    def __init__(
        self, clock: steps.StepClock, gate: Gate, seen: Seen, grad_enabled: Callable[[], bool],
        watch: Callable[[bool], object] | None = None,
    ) -> None:  # fmt: skip
        """``watch`` puts hooks aside and back; without it the loop is followed all the time."""
        self.clock, self._gate, self._seen, self._grad_enabled = clock, gate, seen, grad_enabled
        self.coast = Coast(clock, watch)
        self._reset()
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self.index = -1
        self.idle = True  # no step runs
        self._range: object = None
        self._stepped = True  # the optimizer stepped since the step began; true at first, so that a draw begins one
        self._training: set[int] = set()  # data that was trained on
        self._other: set[int] = set()  # data that a forward pass without gradients followed
        self._last: int | None = None  # data of the last draw
        self._begun_by: int | None = None  # data whose draw began the running step
        self._began = False  # the last draw began it
        self._since: set[int] = set()  # data drawn since the last optimizer step
        self._first_optimizer: int | None = None
        self.no_optimizer = True
        self._backwards = 0
        self._done = self._done_without_draw = 0  # steps of the first optimizer
        self._done_before = 0  # of them, when the running step began
        self._alike = 0  # steps in a row that were one step of the first optimizer
        self._optimizers: set[int | None] = set()
        self._source: int | None = None  # data of the last step
        if self.coast.on:
            self.coast.end()
        self.updates = 0

    def drawing(self, source: int) -> None:
        """The loop is about to draw from ``source``."""
        self._last = source
        self._since.add(source)
        self._began = False
        maybe = source in self._training or not self._training
        if maybe and source not in self._other and self._grad_enabled():
            if self._stepped:
                self._begun_by, self._began = source, True
                self._begin()
        elif self._stepped and not self.idle:
            self._end()  # validation begins

    def at_end(self) -> None:
        """The loop is about to draw, and there is nothing more: the step is over, none begins."""
        if self.coast.on:
            self._between()
            return
        self._began = False
        if not self.idle and self._stepped:
            self._end()

    def exhausted(self, source: int) -> None:
        """The draw found nothing more: what :meth:`drawing` began was no step."""
        if self._last == source and self._began and not self.idle and not self._stepped:
            self._cancel()
        self._last = None
        self._since.discard(source)

    def working(self) -> None:
        """A forward pass with gradients and no step: its batch was drawn ahead, or by no loader that is known."""
        self._begun_by = None
        self._begin()

    def released(self, source: int) -> None:
        """The loop let go of its iterator: a step whose optimizer has stepped is over."""
        if self.coast.on:
            if source in self._training:
                self._between()
            return
        if not self.idle and self._stepped and source in self._training:
            self._end()

    def without_grad(self) -> None:
        """A forward pass without gradients: the data drawn for it is not known to be trained on."""
        if self._last is None or self._last in self._training:
            return
        self._other.add(self._last)
        if not self.idle and not self._stepped and self._begun_by == self._last:
            self._cancel()

    def stepped(self, optimizer: int | None) -> None:
        """An optimizer finished its step (``None``: one that torch knows nothing of)."""
        if self.coast.on and self._coasted(optimizer):
            return
        index = self.index
        self._stepped = True
        if self.no_optimizer and optimizer is not None:
            self.no_optimizer, self._first_optimizer = False, optimizer
        first = optimizer == self._first_optimizer
        self._done += first
        self.updates += 1
        self._optimizers.add(optimizer)
        if self._last is not None:
            if self._other or not self._since <= self._training:
                self._training |= (self._since - self._other) | {self._last}
                self._other -= self._training
            self._since.clear()
            self._source = self._last
            self._last, self._done_without_draw = None, 0
        elif first:
            self._done_without_draw += 1
            # one such step may be a batch used twice; from the second on it is a loop that draws nothing
            if self._done_without_draw > 1 or not self._training:
                self.index = max(self.index, self._done - 1)
                self._source = None
                self._begin()
        if first and self._alike >= ALIKE:
            self._coast(begun=self.index != index)

    def replayed(self) -> None:
        """A CUDA graph that holds a whole step ran again."""
        self.stepped(self._first_optimizer)

    def went_backward(self) -> None:
        """A backward pass ended, and no optimizer has stepped yet."""
        self._backwards += 1
        if self._backwards > PATIENCE:
            self.stepped(None)

    def follow(self) -> None:
        """Coast no longer, wherever the loop is."""
        if self.coast.on:
            self._wake(done=False)

    def _coast(self, *, begun: bool) -> None:
        """Only look at the first optimizer, where that pays; a step has ``begun`` with the end of its own, or not."""
        coast = self.coast
        if self._gate.writes or not coast.pays(self.index):
            return
        if steps.by_hand:
            coast.begin(self.index, None, self._optimizers)
            return
        if not begun:
            self.clock.pause(done=True)
            self.index += 1
            self.clock.tick(self.index)
        coast.begin(self.index, self._first_optimizer, self._optimizers)

    def _coasted(self, optimizer: int | None) -> bool:
        """An optimizer finished its step; whether that was all there is to know of it."""
        coast = self.coast
        if optimizer in coast.others and optimizer != coast.first:
            return True
        if optimizer != coast.first:  # it steps in the middle of backward, or the loop changes: followed to the end
            coast.allowed = False
            self._wake(done=False)
            return False
        if self.index + len(coast.stamps) + 1 < coast.wake_at:
            self._take_stamps()
            self.index, self._done = self.index + 1, self._done + 1
            self.clock.tick(self.index)
            coast.plan(self.index)
            return True
        self._wake(done=True)
        return False

    def _between(self) -> None:
        """Coasting, and the loop is over or begins anew: the time since the last optimizer's step is no step's."""
        if not steps.by_hand:
            self._take_stamps()
            self.clock.pause(done=False)
            self.coast.until = 0

    def _wake(self, *, done: bool) -> None:
        """Follow the loop again: the running step has drawn its data. ``done``: it is over, but for its optimizer."""
        if not steps.by_hand:
            self._take_stamps()
            self.clock.pause(done=done)
        self.coast.end()
        self.idle, self._stepped, self._last = False, False, self._source
        self._since = set() if self._source is None else {self._source}
        self._done_before, self._alike = self._done, 0

    def _take_stamps(self) -> None:
        """Count the steps that only left a stamp, before the clock does (in its next ``tick`` or ``pause``)."""
        passed = len(self.clock.stamps)
        self.index, self._done = self.index + passed, self._done + passed

    def _cancel(self) -> None:
        self.index -= 1
        self._end(done=False)

    def _begin(self) -> None:
        if self._range is not None:
            self._end_range()
        self._alike = self._alike + 1 if self._done - self._done_before == 1 else 0
        self._done_before = self._done
        self.index += 1
        self._stepped, self.idle = False, False
        if steps.by_hand:
            return
        self.clock.tick(self.index)
        if self._gate.writes and not self._seen.steps:
            self._range = self._gate.start(f"step_{self.index}")

    def _end(self, *, done: bool = True) -> None:
        self._end_range()
        self.idle, self._stepped = True, True
        if not steps.by_hand:
            self.clock.pause(done=done)

    def _end_range(self) -> None:
        if self._range is not None:
            self._gate.end(self._range)
            self._range = None
