"""The built-in collector's half inside the program: ranges, threads, CPU time, Python stacks, and the GPU's trace.

Comes in: ranges (from the script's NVTX calls, ``unstall.annotate`` and ``--auto``) and the sampler's stacks. Goes out:
documents in the spool folder, written twice a second and at the end, by every process on its own.

Times are ``perf_counter_ns`` (the system's monotonic clock, one for all processes of a host); each part says how far
wall-clock time is from it. A range costs two clock readings and two readings of the thread's CPU time.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from time import perf_counter_ns, thread_time_ns, time_ns
from typing import Any

from unstall.instrument import facts, sink, userranges
from unstall.instrument.ending import at_end, on_sigterm
from unstall.instrument.importhook import for_now, guarded, when_imported
from unstall.instrument.options import Options, rank
from unstall.instrument.spool import Part

PUSH_POP, START_END, MARK = 59, 60, 34  # as nsys numbers them
PERIOD_S = 0.5  # between two writes: what a killed process loses at most
LOOK_NS = 1_000_000_000  # between two looks at whether the GPU's trace has lasted long enough
THREADS_EVERY = 10  # writes between two looks at all threads' CPU time


class _Stacks(threading.local):
    """What this thread has open, by domain."""

    def __init__(self, everybody: list[tuple[int, dict[str, list[tuple[str, int, int]]]]]) -> None:
        self.by_domain: dict[str, list[tuple[str, int, int]]] = {}
        self.tid = threading.get_native_id()
        everybody.append((self.tid, self.by_domain))


class Recorder:
    """A sink (see :mod:`unstall.instrument.sink`) that keeps ranges until they are written.

    Rows are ``(start, end, name, domain, type, thread, end thread, CPU ns)``; ``end`` is ``None`` where the range was
    still open at the end, CPU time where it is not known (ranges that cross calls).
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self.begin = 0 if options.steps or perf_counter_ns() >= options.begin else options.begin
        self.on = not options.steps and not self.begin
        self._reset()

    def _reset(self) -> None:
        self._everybody: list[tuple[int, dict[str, list[tuple[str, int, int]]]]] = []
        self._local = _Stacks(self._everybody)
        self._rows: deque[tuple[Any, ...]] = deque()
        self._started: dict[int, tuple[str, str, int, int]] = {}
        self._handles = count(1)
        self._strings: dict[str, int] = {}
        self._part = Part(self._options.record, os.getpid())
        self._lock = threading.Lock()
        self._writes = 0
        self._look_at_gpu = 0
        self._ended = False

    # ---- ranges -------------------------------------------------------------------------------------------------

    def push(self, name: str, domain: str = "") -> int:
        """Open a range on this thread; its depth."""
        stack = self._local.by_domain.setdefault(domain, [])
        if self.on:
            stack.append((name, perf_counter_ns(), thread_time_ns()))
        return len(stack) - 1

    def pop(self, domain: str = "") -> int:
        """Close this thread's innermost range; the depth that is left, −1 where none was open."""
        now, cpu = perf_counter_ns(), thread_time_ns()
        stack = self._local.by_domain.get(domain)
        if not stack:
            return -1
        name, start, cpu_start = stack.pop()
        tid = self._local.tid
        self._rows.append((start, now, name, domain, PUSH_POP, tid, tid, cpu - cpu_start))
        if now > self._look_at_gpu:
            self._look_at_gpu = now + LOOK_NS
            from unstall.instrument import gpu

            gpu.check_time()
        return len(stack)

    def start(self, name: str, domain: str = "") -> int:
        """Open a range that any thread may end; its handle."""
        handle = next(self._handles)
        if self.on:
            self._started[handle] = (name, domain, perf_counter_ns(), self._local.tid)
        return handle

    def end(self, handle: Any) -> None:
        """End a started range; an unknown handle is ignored, as NVTX does."""
        begun = self._started.pop(handle, None)
        if begun is not None:
            name, domain, start, tid = begun
            self._rows.append((start, perf_counter_ns(), name, domain, START_END, tid, self._local.tid, None))

    def mark(self, name: str, domain: str = "") -> None:
        """Note a moment."""
        if self.on:
            tid = self._local.tid
            self._rows.append((perf_counter_ns(), None, name, domain, MARK, tid, tid, None))

    # ---- writing ------------------------------------------------------------------------------------------------

    def intern(self, text: str) -> int:
        """The number of a string in this part; only under the lock."""
        return self._strings.setdefault(text, len(self._strings))

    def write(self, samples: Callable[[Callable[[str], int]], dict[str, Any]] | None = None) -> None:
        """Write what has gathered."""
        with self._lock:
            known = len(self._strings)
            rows = [self._plain(self._rows.popleft()) for _ in range(len(self._rows))]
            taken = samples(self.intern) if samples is not None else {}
            if not rows and not taken:
                return
            if not self._writes:
                self._part.append(_introduction())
            self._writes += 1
            strings = list(self._strings)[known:]
            self._part.append({"kind": "events", "strings": strings, "ranges": rows, **taken})
            if self._writes % THREADS_EVERY == 0:
                self._part.append(facts.threads())

    def _plain(self, row: tuple[Any, ...]) -> list[Any]:
        return [row[0], row[1], self.intern(row[2]), self.intern(row[3]), *row[4:]]

    def note(self, document: dict[str, Any]) -> None:
        """Write a document of another kind."""
        with self._lock:
            if not self._writes:
                self._part.append(_introduction())
            self._writes += 1
            self._part.append(document)

    def finish(self) -> None:
        """End of the process: what is open is written as open."""
        if self._ended:
            return
        self._ended = True
        for name, domain, start, tid in list(self._started.values()):
            self._rows.append((start, None, name, domain, START_END, tid, tid, None))
        for tid, by_domain in self._everybody:
            for domain, stack in by_domain.items():
                self._rows.extend((start, None, name, domain, PUSH_POP, tid, tid, None) for name, start, _ in stack)
        self.write()
        if self._writes:
            self.note(facts.threads())
            self.note({**facts.usage(), "kind": "end", "time": perf_counter_ns(), "utc": time_ns()})

    def after_fork(self) -> None:
        """In a forked child: a part of its own, nothing of the parent's."""
        self._part.forget()
        self._reset()


def _introduction() -> dict[str, Any]:
    return {
        "kind": "process", "pid": os.getpid(), "parent": os.getppid(), "name": facts.process_name(),
        "rank": rank(), "time": perf_counter_ns(), "utc": time_ns(),
    }  # fmt: skip


# ---- the one of this process ------------------------------------------------------------------------------------

_recorder: Recorder | None = None


def start(options: Options) -> None:
    """Record from now on (or from the window's opening)."""
    from unstall.instrument import gpu, sampler

    global _recorder  # noqa: PLW0603 - one a process
    _install()
    _recorder = recorder = Recorder(options)
    sink.set_out(recorder)
    sampler.start(recorder)
    when_imported("torch", lambda torch: gpu.prepare(torch, recorder, options))


@contextmanager
def here(options: Options) -> Iterator[None]:
    """Record inside a block of this process, as often as wanted; afterwards nothing is traced or sampled."""
    from unstall.instrument import gpu

    global _recorder  # noqa: PLW0603 - one a process
    before = sink.out
    _install()
    with for_now():  # torch may come after the block, and is none of ours then
        start(options)
        try:
            yield
        finally:
            _finish()
            gpu.forget()
            sink.set_out(before)
            _recorder = None


@cache
def _install() -> None:
    """What a process needs once, however often it records."""
    userranges.install(userranges.ToSink(), record=True)
    at_end(_finish)
    os.register_at_fork(after_in_child=_in_child)
    when_imported("multiprocessing.util", _sample_workers)
    if "--multiprocessing-fork" not in sys.orig_argv:
        guarded(on_sigterm, _finish_all)


def open_window() -> None:
    """The captured steps begin."""
    from unstall.instrument import gpu

    if _recorder is not None:
        _recorder.on = True
        gpu.start()


def begin_in_time(recorder: Recorder, now: int) -> None:
    """Called by the sampler: the recording that was to begin later begins."""
    from unstall.instrument import gpu

    if recorder.begin and now >= recorder.begin:
        recorder.begin = 0
        recorder.on = True
        gpu.start_soon()


def close_window() -> None:
    """The captured steps are over."""
    from unstall.instrument import gpu

    if _recorder is not None:
        _recorder.on = False
        gpu.stop()


def _finish() -> None:
    from unstall.instrument import gpu, sampler

    gpu.stop()
    sampler.stop()
    if _recorder is not None:
        _recorder.finish()


def _in_child() -> None:
    from unstall.instrument import gpu, sampler

    gpu.forget()
    sampler.forget()
    if _recorder is not None:
        _recorder.after_fork()


def _sample_workers(util: Any) -> None:
    """Forked workers are sampled too; a plain fork, which is often followed by exec, gets no thread."""
    util.register_after_fork(_sample_workers, _sample_worker)


def _sample_worker(_: Any) -> None:
    from unstall.instrument import sampler

    if _recorder is not None:
        sampler.start(_recorder)


def _finish_all() -> None:
    from unstall.instrument import steps

    guarded(steps.finish)
    guarded(_finish)
