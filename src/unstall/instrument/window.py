"""The capture of some steps only: told to the profiler from inside the program.

Comes in: the moment when a step begins. Goes out: ``cudaProfilerStart``/``Stop``, the ``unstall_window`` range, or
the built-in collector switched on and off. The options that nsys needs to listen to it, see :func:`nsys_options`.

``cuda`` needs a CUDA runtime in the program: torch's, or any ``libcudart`` it has loaded. On a machine without CUDA
nsys can start at an NVTX range instead (``nvtx``); pip nvtx writes it as a registered string, which nsys wants,
``torch.cuda.nvtx`` does not, hence ``NSYS_NVTX_PROFILER_REGISTER_ONLY=0`` in the environment.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from unstall.instrument import sink
from unstall.instrument.options import WINDOW_RANGE


def nsys_options(how: str) -> list[str]:
    """``nsys profile`` options for a window of this kind. ``stop`` leaves the program running when the window ends."""
    if how == "cuda":
        return ["--capture-range=cudaProfilerApi", "--capture-range-end=stop"]
    if how == "nvtx":
        return ["--capture-range=nvtx", f"--nvtx-capture={WINDOW_RANGE}", "--capture-range-end=stop"]
    return []


def synchronize() -> bool:
    """Wait for the GPU, where torch uses one; whether there was anything to wait for. Starts nothing by itself.

    While a CUDA graph is being captured nothing may wait: that would break the capture.
    """
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not cuda.is_initialized() or cuda.is_current_stream_capturing():
        return False
    cuda.synchronize()
    return True


def flush() -> None:
    """Have the profiler write what it knows of the GPU. nsys keeps that in buffers, and they die with a program that a
    signal ends: of 15 s on an H200 not one kernel was left."""
    if sink.listening() and synchronize():
        _cudart().cudaProfilerStop()


def _cudart() -> Any:
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        return torch.cuda.cudart()
    import ctypes

    for line in Path("/proc/self/maps").read_text().splitlines():
        if "libcudart.so" in line:
            return ctypes.CDLL(line.split(maxsplit=5)[-1])
    raise RuntimeError("the program has loaded no CUDA runtime, so steps cannot be captured by cudaProfilerStart")


class Window:
    """Opens once, closes once. ``how`` is ``cuda``, ``nvtx``, ``record``, or empty for a run captured as a whole."""

    def __init__(self, how: str) -> None:
        self.how = how
        self.opened = self.closed = False
        self._handle: Any = None

    def open(self) -> None:
        """Start the capture. Work given to the GPU before is waited for by the caller, so that none of it is in it."""
        self.opened = True
        if self.how == "cuda":
            _cudart().cudaProfilerStart()
        elif self.how == "nvtx" and sink.out is not None:
            self._handle = sink.out.start(WINDOW_RANGE)
        elif self.how == "record":
            from unstall.instrument.recorder import open_window

            open_window()

    def close(self) -> None:
        """End the capture; does nothing when it is not open."""
        if not self.opened or self.closed:
            return
        self.closed = True
        if self.how == "cuda":
            _cudart().cudaProfilerStop()
        elif self.how == "nvtx" and sink.out is not None:
            sink.out.end(self._handle)
        elif self.how == "record":
            from unstall.instrument.recorder import close_window

            close_window()
