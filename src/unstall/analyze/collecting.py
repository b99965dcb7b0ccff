"""How to collect what a capture lacks, in the terms of the profiler that made it.

In: a table of the model and the capture's producer. Out: the way to have it next time. Rules and the report's sections
say what it would tell; this says how to get it.
"""

from __future__ import annotations

NSYS_ONLY = "PyTorch's profiler does not record them; `unstall run -- python train.py` does, with nsys"
KINETO = {
    "kernels": "collect with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] on a machine with a GPU",
    "copies": "collect with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] on a machine with a GPU",
    "api": "collect with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]",
    "ranges": "collect with ProfilerActivity.CPU, call prof.step() once a step, name phases with record_function",
    "samples": "collect with with_stack=True (slow), or `unstall run -- python train.py`",
    "osrt": NSYS_ONLY,
    "gil": NSYS_ONLY,
    "gpu_metrics": NSYS_ONLY,
}


def in_terms_of(producer: str, table: str, reason: str) -> str:
    """``reason`` (what is missing: how nsys collects it) with the way that the capture's own profiler offers."""
    other = KINETO.get(table) if producer == "kineto" else None
    return reason if other is None else reason.partition("collect with")[0] + other
