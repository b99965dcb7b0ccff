"""A GPU to pretend with: what the planted scripts call of ``torch.cuda``, doing nothing, for a smoke test on a CPU.

In: nothing. Out: ``torch`` patched in this process. Nothing is measured with it.
"""

from contextlib import nullcontext
from typing import Any

import torch


class Nothing:
    """Answers every method call with nothing: streams, events, graphs."""

    def __init__(self, *args: Any, **options: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **options: None


def install() -> None:
    """Patch ``torch`` so that scripts written for a GPU run on the CPU."""
    quiet = lambda *args, **options: None  # noqa: E731
    for name in ("range_push", "range_pop", "mark"):
        setattr(torch.cuda.nvtx, name, quiet)
    torch.cuda.nvtx.range = lambda *args: nullcontext()
    for name in ("synchronize", "empty_cache"):
        setattr(torch.cuda, name, quiet)
    for name in ("Stream", "Event", "CUDAGraph", "current_stream"):
        setattr(torch.cuda, name, Nothing)
    for name in ("stream", "graph"):
        setattr(torch.cuda, name, lambda *args, **options: nullcontext())
    torch.Tensor.pin_memory = lambda self, *args: self
    torch.Tensor.record_stream = quiet
    torch.cuda.profiler.start = torch.cuda.profiler.stop = quiet
