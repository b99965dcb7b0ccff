"""Python stacks of all threads, by sampling, at a rate that keeps its own cost down.

Comes in: ``sys._current_frames`` and each thread's CPU clock. Goes out: samples and stacks for the recorder, and the
recorder's regular writes. Ten milliseconds apart to begin with; further where one look costs more than half a percent
of that. Frames are looked at and let go: kept, they would keep the program's tensors alive.

A thread in a C call or a wait shows the Python line that made the call; how much CPU it used since the last sample
tells running from waiting.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from unstall.instrument.recorder import PERIOD_S, Recorder, begin_in_time

SHORTEST_S, LONGEST_S = 0.01, 0.5
SHARE = 0.005  # of one CPU, at most
DEPTH = 64  # innermost frames kept
KEEP = 50_000  # stacks remembered, so that a program without end does not fill memory
IDLE = (
    20  # a thread that used less than a twentieth of the time is at rest; a busy one may get little of a full machine
)
RUNNING, WAITING = 1, 7  # nsys's thread states

Stack = tuple[tuple[CodeType, int], ...]


def cpu_clock(tid: int) -> int:
    """The kernel's clock id of another thread's CPU time (``CPUCLOCK_SCHED``, per thread); checked by the kernel."""
    return (~tid << 3) | 6


class Sampler(threading.Thread):
    """Looks, and writes twice a second."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(name="unstall-sampler", daemon=True)
        self._recorder = recorder
        self._stop_now = threading.Event()
        self._samples: deque[tuple[int, int, int, int, int]] = deque()
        self._stacks: dict[Stack, int] = {}
        self._new: list[Stack] = []  # not yet written
        self._count = 0
        self._names: dict[int, str] = {}  # of threads seen since the last time
        self._cpu: dict[int, tuple[int, int]] = {}  # thread → when, CPU time then

    def run(self) -> None:
        period, written = SHORTEST_S, time.monotonic()
        while not self._stop_now.wait(period):
            cost = time.thread_time()
            begin_in_time(self._recorder, time.perf_counter_ns())
            if self._recorder.on:
                self._look()
            if time.monotonic() - written > PERIOD_S:
                self._recorder.write(self.take)
                written = time.monotonic()
            cost = time.thread_time() - cost
            period = min(max(SHORTEST_S, 0.9 * period, cost / SHARE), LONGEST_S)

    def halt(self) -> None:
        """Stop looking; what was seen is for :meth:`take`."""
        self._stop_now.set()

    def _look(self) -> None:
        now, me, main = time.perf_counter_ns(), threading.get_ident(), threading.main_thread().ident
        alive = threading.enumerate()
        tids = {t.ident: t.native_id for t in alive}
        self._names.update((t.native_id, t.name) for t in alive if t.native_id is not None)
        for ident, frame in sys._current_frames().items():
            tid = tids.get(ident)
            if ident != me and tid is not None:
                used, elapsed = self._used(tid, now)
                state = RUNNING if 2 * used > elapsed else WAITING
                if ident == main or IDLE * used > elapsed:  # a helper that waits tells nothing, a thousand times over
                    self._samples.append((now, tid, self._stack(frame), used, state))

    def _stack(self, frame: FrameType) -> int:
        stack = _walk(frame)
        number = self._stacks.get(stack)
        if number is None:
            if len(self._stacks) >= KEEP:
                self._stacks.clear()
            number = self._stacks[stack] = self._count
            self._count += 1
            self._new.append(stack)
        return number

    def _used(self, tid: int, now: int) -> tuple[int, int]:
        """CPU time that the thread used since the last look, and how long ago that was, ns."""
        try:
            cpu = time.clock_gettime_ns(cpu_clock(tid))
        except OSError:  # it has just ended
            return 0, 0
        when, before = self._cpu.get(tid, (now, cpu))
        self._cpu[tid] = (now, cpu)
        return cpu - before, now - when

    def take(self, intern: Callable[[str], int]) -> dict[str, Any]:
        """What was seen since the last time, with new stacks spelt out: ``[function, file, line]``, innermost first."""
        samples = [self._samples.popleft() for _ in range(len(self._samples))]
        if not samples:
            return {}
        stacks, self._new = self._new, []
        names, self._names = self._names, {}
        spelt = [[_spell(*f, intern) for f in stack] for stack in stacks]
        return {"samples": samples, "stacks": spelt, "names": list(names.items())}


def _walk(frame: FrameType | None) -> Stack:
    frames: list[tuple[CodeType, int]] = []
    while frame is not None and len(frames) < DEPTH:
        frames.append((frame.f_code, frame.f_lineno or 0))
        frame = frame.f_back
    return tuple(frames)


def _spell(code: CodeType, line: int, intern: Callable[[str], int]) -> list[int]:
    name = getattr(code, "co_qualname", code.co_name)
    return [intern(name), intern(code.co_filename), line]


_sampler: Sampler | None = None


def start(recorder: Recorder) -> None:
    """Sample this process; in a forked child, anew (threads do not survive a fork)."""
    global _sampler  # noqa: PLW0603 - one a process
    _sampler = Sampler(recorder)
    _sampler.start()


def stop() -> None:
    """Stop, and hand over the last samples."""
    global _sampler  # noqa: PLW0603 - one a process
    if _sampler is not None:
        _sampler.halt()
        _sampler._recorder.write(_sampler.take)
        _sampler = None


def forget() -> None:
    """In a forked child: the parent's sampler is not there."""
    global _sampler  # noqa: PLW0603 - one a process
    _sampler = None
