"""The clock of training steps: their times, the borders where the GPU is waited for, and the capture window.

Comes in: :meth:`StepClock.tick` whenever a step begins, from ``unstall.step`` or from ``--auto``. Goes out: a step log
(:mod:`unstall.instrument.steplog`) and a window (:mod:`unstall.instrument.window`). A tick costs a clock reading and
an append; the GPU is waited for only at borders: after warm-up, at the window's two ends, and, in a run without a
window, ever more rarely (every wait drains the queue, and the step after it starts cold).
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from time import perf_counter_ns

from unstall.instrument import sink
from unstall.instrument.ending import at_end, not_on_sigterm, on_sigterm
from unstall.instrument.importhook import guarded
from unstall.instrument.losses import Losses
from unstall.instrument.options import OPENED_NAME, Options, rank
from unstall.instrument.steplog import StepLog, write
from unstall.instrument.window import Window, flush, synchronize

WARMUP = 5  # steps: CUDA and cuDNN load in the first, allocators and autotuning settle in the next few
BLOCK = 50  # steps between the first two borders of a run without a window; each next block is twice as long
NEVER = 1 << 62

by_hand = False  # the script calls unstall.step: it knows better than any guess


class StepClock:
    """Times steps before the window, opens it and closes it.

    Attributes:
        index: number of the step that runs now; −1 before the first.
        border: step at whose begin the GPU is waited for next.
        stamps: when steps began that no tick told of (:mod:`unstall.instrument.coast`); taken in by what comes next.
        early: steps are told of when the one before ends, not when they draw their data.
        on_window: functions called with ``True`` when the window opens and ``False`` when it closes.
        on_hand: functions called when the script turns out to tell of its steps itself.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self.index = -1
        self.losses = Losses()
        self.on_window: list[Callable[[bool], None]] = []
        self.on_hand: list[Callable[[], None]] = []
        self.stamps = array("q")
        self.early = False
        self.window = Window(options.window if options.steps else "")
        self._reset()
        os.register_at_fork(after_in_child=self._reset)
        at_end(self.finish)
        if options.steps or sink.listening():
            on_sigterm(self._terminated)

    def _reset(self) -> None:
        self._log = StepLog(rank=rank(), pid=os.getpid())
        self._log.window = list(self.options.steps) if self.options.steps else None
        self._samples = array("q")
        del self.stamps[:]
        self.early = False
        self._last = 0  # start of the running step; 0 while none runs
        self._synced_at = 0  # when the GPU was last waited for; 0 while no block runs
        self._block_from = 0  # sample that the block begins with
        self._block = BLOCK
        self._timing = True
        self._finished = False
        first = self.options.steps[0] if self.options.steps else NEVER
        self.border = min(WARMUP, first // 2)

    def tick(self, index: int) -> None:
        """Step ``index`` begins now."""
        now = perf_counter_ns()
        if self.stamps:
            self._take_stamps()
        if self._timing:
            if self._last:
                self._samples.append(now - self._last)
            elif not self._samples:
                self._log.first = index
        self.index, self._last = index, now
        if index >= self.border:
            guarded(self._at_border, index)
            self._last = perf_counter_ns()
        elif not self._synced_at and self._log.blocks and self._timing:
            self._begin_block()  # steps go on after a pause

    def pause(self, *, done: bool) -> None:
        """No step runs until the next tick. ``done``: the one that ran is over; else it was none (the data ran out)."""
        if not self._last:
            return
        if self.stamps:
            self._take_stamps()
        now = perf_counter_ns()
        if done and self._timing:
            self._samples.append(now - self._last)
        self.index -= not done
        if self._synced_at:
            self._synced_at += 0 if done else now - self._last  # its time is not the block's
            self._end_block()
        self._last = 0

    def _take_stamps(self) -> None:
        if self._timing:
            self._samples.extend(b - a for a, b in pairwise((self._last, *self.stamps)))
        self.index, self._last = self.index + len(self.stamps), self.stamps[-1]
        del self.stamps[:]

    @property
    def opens(self) -> int:
        """Step at which the window opens; :data:`NEVER` without one, or when it has opened."""
        return self.options.steps[0] if self.options.steps and not self.window.opened else NEVER

    @property
    def settled(self) -> bool:
        """Warm-up is over: steps are timed between two waits for the GPU, or, after the window, not at all."""
        return self.window.closed or (self._synced_at > 0 and len(self._samples) > self._block_from)

    def _at_border(self, index: int) -> None:
        first, end = self.options.steps or (NEVER, NEVER)
        if self._synced_at:
            self._end_block()
        if index >= end:
            self._close_window()
        elif index >= first and not self.window.opened:
            self._open_window()
        elif index < first:
            self._begin_block()
        self.border = self._next_border(index, first, end)

    def _next_border(self, index: int, first: int, end: int) -> int:
        if first == NEVER:
            self._block *= 2
            return index + self._block // 2
        return first if index < first else end if index < end else NEVER

    def _begin_block(self) -> None:
        if not self._log.blocks:
            self._log.warmup = len(self._samples)
        self._log.gpu = synchronize()
        self._synced_at, self._block_from = perf_counter_ns(), len(self._samples)

    def _end_block(self) -> None:
        synchronize()
        if count := len(self._samples) - self._block_from:
            self._log.blocks.append([self._block_from, count, perf_counter_ns() - self._synced_at])
        self._synced_at = 0

    def _open_window(self) -> None:
        self._timing = False
        synchronize()
        self._log.opened = True
        self.save()  # now: a program that is killed inside the window has opened it
        try:
            self.window.open()
        except BaseException:
            self._log.opened = False
            raise
        self._mark_opened()
        for function in self.on_window:
            function(True)

    def _mark_opened(self) -> None:
        if self.options.step_log:
            Path(self.options.step_log).with_name(f"{OPENED_NAME}{os.getpid()}").touch()

    def _close_window(self) -> None:
        if not self.window.opened or self.window.closed:
            return
        synchronize()
        for function in self.on_window:
            function(False)
        self.window.close()
        self._log.closed = self.options.steps is not None and self.index >= self.options.steps[1] - 1
        self.save()

    def save(self) -> None:
        """Write the log as it is now, where one was asked for and there is a step to tell of."""
        if self.stamps:
            self._take_stamps()
        if not self.options.step_log or (not self._samples and not self._log.opened):
            return
        self._log.source = "step" if by_hand else "auto"
        self._log.profiled = bool(self.options.record or sink.out is not None) and not self.options.steps
        self._log.samples_ns, self._log.taken = self._samples.tolist(), self.index + 1 - (self.early and self._last > 0)
        try:
            self._log.losses = self.losses.values()
        except Exception as error:  # a device that failed: the times are still worth having
            self._log.notes = [f"losses could not be read: {type(error).__name__}: {error}"]
        write(self._log, self.options.step_log)

    def finish(self) -> None:
        """End of the process, or of a block of it, whose folder is gone then: close what is open, write the log."""
        if self._finished:
            return
        self._finished = True
        if self._log.opened:
            self._close_window()
        self.save()
        not_on_sigterm(self._terminated)

    def _terminated(self) -> None:
        if not self.options.steps:  # the end of a window is a flush
            guarded(flush)
        self.finish()


_clock: StepClock | None = None


def clock() -> StepClock:
    """The clock of this process, made on first use."""
    global _clock  # noqa: PLW0603 - one a process
    if _clock is None:
        _clock = StepClock(Options.from_environment())
    return _clock


@contextmanager
def clocked(options: Options) -> Iterator[StepClock]:
    """A clock of its own for a block of this process, which ends with the block."""
    global _clock, by_hand, timed  # noqa: PLW0603 - one a process
    before = _clock, by_hand, timed
    _clock = mine = StepClock(options)
    by_hand, timed = False, True
    try:
        yield mine
    finally:
        guarded(mine.finish)
        _clock, by_hand, timed = before


def by_hand_now() -> None:
    """The script calls ``unstall.step``: from here on only its word counts."""
    global by_hand  # noqa: PLW0603 - one a process
    by_hand = True
    for function in _clock.on_hand if _clock is not None else ():
        function()


def wanted() -> bool:
    """Whether anybody asked for step times or a window."""
    return bool(os.environ.get("UNSTALL_STEP_LOG") or os.environ.get("UNSTALL_STEPS"))


timed = wanted()  # unstall.step ticks the clock


def finish() -> None:
    """End the clock of this process, where there is one."""
    if _clock is not None:
        _clock.finish()
