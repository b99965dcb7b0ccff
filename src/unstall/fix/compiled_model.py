"""``torch.compile`` for the whole model: fewer and larger kernels, less Python."""

from __future__ import annotations

from typing import Any

from unstall.fix import forward
from unstall.fix.remedy import Remedy


def compile_models(torch: Any, **how: Any) -> None:
    """Compile every outermost module before its first call; dropout draws the random numbers of the plain model."""

    def compile_it(module: Any) -> None:
        from torch._inductor import config

        config.fallback_random = True
        module.compile(**how)

    forward.once(torch, compile_it)


def switch(torch: Any) -> None:
    """As ``model.compile()`` does it."""
    compile_models(torch)


REMEDY = Remedy(
    name="compile",
    title="torch.compile",
    write="model.compile()  # before the loop",
    codes=("launch-bound", "compute-bound", "unfused-attention", "host-python-work"),
    safety="changes-numerics",
    tolerance=1e-2,  # fused kernels add in another order, and keep fp32 where the plain ones round to bf16
    switch=switch,
)
