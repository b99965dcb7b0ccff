"""CUDA graphs through ``torch.compile``: one launch for many kernels."""

from __future__ import annotations

from typing import Any

from unstall.fix.compiled_model import compile_models
from unstall.fix.remedy import Remedy


def switch(torch: Any) -> None:
    """As ``model.compile(mode="reduce-overhead")`` does it."""
    compile_models(torch, mode="reduce-overhead")


REMEDY = Remedy(
    name="cuda-graph",
    title="CUDA graphs through torch.compile",
    write='model.compile(mode="reduce-overhead")  # before the loop; shapes must not change',
    codes=("launch-bound",),
    safety="changes-numerics",
    needs="cuda",
    tolerance=1e-2,
    aliases=("cuda-graphs",),
    switch=switch,
)
