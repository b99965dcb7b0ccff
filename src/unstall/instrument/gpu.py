"""What the GPU did, through the CUPTI that torch carries: ``torch.profiler`` with its CUDA activity alone.

Comes in: torch, once it has set up CUDA (or a window that opens). Goes out: Kineto's trace as a file in the spool
folder, and a document that says which clock readings enclose a ``cudaDeviceSynchronize`` at either end.

Kineto's times are wall-clock nanoseconds, ours are monotonic ones, and wall-clock time may be adjusted under way. So
each end of the trace is marked: a clock reading, a device synchronisation, a clock reading. Whoever joins the two
(:mod:`unstall.collect._builtin_kineto`) shifts the trace so that each synchronisation lies between its readings.

Operators on the CPU are left out: they cost several microseconds each, and ranges and stacks tell where the host is.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from time import perf_counter_ns, time_ns
from typing import Any

from unstall.instrument.importhook import guarded
from unstall.instrument.options import Options

LONGEST_S = 60.0  # of a trace without a window: at 100,000 events a second that is about 1 GB of trace text


class GpuTrace:
    """One trace of one process. Everything happens on the thread that calls; CUPTI itself sees all threads."""

    def __init__(self, torch: Any, recorder: Any, options: Options) -> None:
        self._torch, self._recorder, self._options = torch, recorder, options
        self._profiler: Any = None
        self._thread = 0
        self._markers: list[tuple[int, int, int]] = []
        self.done = False
        self.until = 0

    def start(self) -> None:
        """Begin, where there is a GPU and nobody else is profiling."""
        if self._profiler is not None or self.done or not self._torch.cuda.is_initialized():
            return
        try:
            self._profiler = self._make()
            self._profiler.start()
        except Exception as error:
            self._profiler, self.done = None, True
            self._recorder.note({"kind": "gpu", "missing": f"torch.profiler did not start: {error}"})
            return
        self._thread = threading.get_ident()
        self._markers.append(self._marker())
        self.until = 0 if self._options.steps else perf_counter_ns() + round(LONGEST_S * 1e9)

    def is_due(self) -> bool:
        """Whether it begins when CUDA does: not before the recording."""
        return self.until == 0 and not self.done and self._recorder.on

    def start_late(self) -> None:
        """Begin in the middle of things."""
        if self._torch.cuda.is_initialized() and self._torch.cuda.is_current_stream_capturing():
            self.done = True
            self._recorder.note({"kind": "gpu", "missing": "a CUDA graph was being captured when it was to begin"})
        else:
            self.start()

    def _make(self) -> Any:
        profiler = self._torch.profiler
        activity = [profiler.ProfilerActivity.CUDA]
        try:
            syncs = self._torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=True)
            return profiler.profile(activities=activity, experimental_config=syncs)
        except (AttributeError, TypeError):  # torch before 2.1
            return profiler.profile(activities=activity)

    def _marker(self) -> tuple[int, int, int]:
        before = perf_counter_ns()
        self._torch.cuda.synchronize()
        return before, perf_counter_ns(), time_ns()

    def stop(self, why: str = "") -> None:
        """End the trace and write it; the profiler only ends on the thread that began it."""
        if self._profiler is None or self._thread != threading.get_ident():
            return
        if self._torch.cuda.is_current_stream_capturing():  # to wait now would break the capture
            return
        profiler, self._profiler, self.done = self._profiler, None, True
        self._markers.append(self._marker())
        profiler.stop()
        path = Path(self._options.record) / f"kineto-{os.getpid()}.json"
        path.parent.mkdir(parents=True, exist_ok=True)  # a short window may end before anything else was written
        profiler.export_chrome_trace(str(path))
        if not path.exists():  # it says so on stderr, and raises nothing
            self._recorder.note({"kind": "gpu", "missing": "torch.profiler could not write its trace"})
            return
        self._recorder.note({
            "kind": "gpu", "file": path.name, "markers": self._markers, "cut": why,
            "devices": _devices(self._torch), "threads": self._threads(),
        })  # fmt: skip

    def _threads(self) -> dict[int, int]:
        """Lower 32 bits of ``pthread_self`` → OS thread: CUPTI knows threads by the first, ranges by the second.

        Autograd's threads are not Python's. A backward pass of one number, after the trace has ended, asks the one of
        this device who it is.
        """
        known = {(t.ident or 0) & 0xFFFFFFFF: t.native_id or 0 for t in threading.enumerate()}

        def ask(gradient: Any) -> None:
            known[threading.get_ident() & 0xFFFFFFFF] = threading.get_native_id()

        torch = self._torch
        with torch.inference_mode(False), torch.enable_grad():
            number = torch.ones((), device="cuda", requires_grad=True)
            product = number * 1
            product.register_hook(ask)
            backward = torch.autograd.backward  # --auto's hook must not take this for the script's
            getattr(backward, "__wrapped__", backward)(product)
        return known


def _devices(torch: Any) -> list[dict[str, Any]]:
    """Facts of the GPUs, in nsys's own column names."""
    out = []
    for index in range(torch.cuda.device_count()):
        facts = torch.cuda.get_device_properties(index)
        clock_khz, width = getattr(facts, "memory_clock_rate", 0), getattr(facts, "memory_bus_width", 0)
        out.append({
            "id": index, "name": facts.name, "totalMemory": facts.total_memory, "smCount": facts.multi_processor_count,
            "computeMajor": facts.major, "computeMinor": facts.minor,
            "clockRate": getattr(facts, "clock_rate", 0) * 1000 or None,
            "memoryBandwidth": 2 * clock_khz * 1000 * width // 8 or None,  # double data rate
        })  # fmt: skip
    return out


_trace: GpuTrace | None = None


def prepare(torch: Any, recorder: Any, options: Options) -> None:
    """torch is imported: trace from the moment it sets up CUDA, or from the window's opening."""
    global _trace  # noqa: PLW0603 - one a process
    _trace = GpuTrace(torch, recorder, options)
    if options.steps:
        return
    if not torch.cuda.is_initialized():
        _hook_lazy_init(torch.cuda)
    elif recorder.on:
        guarded(_trace.start)


def _hook_lazy_init(cuda: Any) -> None:
    """Once a process, however often it records before it sets up CUDA."""
    original = cuda._lazy_init
    if hasattr(original, "_unstall"):
        return

    def _lazy_init() -> None:
        original()
        if _trace is not None and _trace.is_due():
            guarded(_trace.start)

    _lazy_init._unstall = True  # type: ignore[attr-defined]
    cuda._lazy_init = _lazy_init


def start() -> None:
    """The window opens."""
    if _trace is not None:
        guarded(_trace.start)


def start_soon() -> None:
    """Begin on the main thread, whoever asks: it must end on the thread that began it, and only that one is there at
    the end. The interpreter calls such a function between two bytecodes, as it does with signal handlers."""
    import ctypes

    def start_late(_: object) -> int:
        if _trace is not None:
            guarded(_trace.start_late)
        return 0

    if _trace is not None:
        _kept.append(ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(start_late))
        ctypes.pythonapi.Py_AddPendingCall(_kept[-1], None)


_kept: list[Any] = []  # what the interpreter may still call


def stop() -> None:
    """The window closes, or the process ends."""
    if _trace is not None:
        guarded(_trace.stop)


def check_time() -> None:
    """Called at the end of ranges now and then, on any thread: a trace without a window ends after
    :data:`LONGEST_S`, at the next such moment on the thread that began it."""
    if _trace is not None and _trace.until and perf_counter_ns() > _trace.until:
        guarded(_trace.stop, f"the GPU was traced for its first {LONGEST_S:.0f} s only; --steps A:B captures others")


def forget() -> None:
    """Nothing is traced from now on (in a forked child, because CUDA does not survive a fork)."""
    global _trace  # noqa: PLW0603 - one a process
    _trace = None
