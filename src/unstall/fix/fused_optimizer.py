"""One kernel for an optimizer's whole step."""

from __future__ import annotations

import functools
from typing import Any

from unstall.fix.remedy import Remedy

KINDS = ("Adam", "AdamW", "SGD", "Adagrad")
"""Optimizers of ``torch.optim`` that take ``fused``."""


def force(torch: Any, kinds: tuple[str, ...], argument: str, other: str) -> None:
    """Make optimizers of these kinds with ``argument=True``."""
    for kind in kinds:
        cls = getattr(torch.optim, kind, None)
        if cls is not None:
            cls.__init__ = _forced(cls.__init__, argument, other)


def _forced(original: Any, argument: str, other: str) -> Any:
    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        kwargs = {**kwargs, argument: True}
        if other in kwargs:
            kwargs[other] = None
        original(self, *args, **kwargs)

    return __init__


def switch(torch: Any) -> None:
    """Every Adam, AdamW, SGD and Adagrad is fused."""
    force(torch, KINDS, "fused", "foreach")


def patch(script: Any) -> None:
    """``fused=True`` for every optimizer that has it and does not say otherwise."""
    for kind in KINDS:
        for call in script.calls(f"torch.optim.{kind}"):
            if script.unclear(call):
                script.leave(call, f"{kind} with *args or **kwargs: what it gets cannot be read from here")
            elif script.argument(call, "fused") not in (None, "False", "None"):
                continue
            elif script.argument(call, "foreach") == "True" or script.argument(call, "differentiable") == "True":
                script.leave(call, f"{kind} is told to be foreach or differentiable, which excludes fused")
            else:
                script.drop_argument(call, "foreach")
                script.set_argument(call, "fused", "True")


REMEDY = Remedy(
    name="fused-optimizer",
    title="Fused optimizer",
    write="torch.optim.AdamW(…, fused=True)",
    codes=("unfused-optimizer", "launch-bound"),
    switch=switch,
    patch=patch,
)
