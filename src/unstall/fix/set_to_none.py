"""Gradients dropped instead of filled with zeros: no kernel to fill them, and backward writes instead of adding."""

from __future__ import annotations

from typing import Any

from unstall.fix.remedy import Remedy


def patch(script: Any) -> None:
    """``zero_grad(set_to_none=False)`` → ``True``, where nothing in the script reads ``.grad``."""
    import libcst as cst

    for call in script.nodes(cst.Call):
        attribute = getattr(call.func, "attr", None)
        if attribute is None or attribute.value != "zero_grad":
            continue
        if script.argument(call, "set_to_none", 0) != "False":
            continue
        if any(n.attr.value == "grad" for n in script.nodes(cst.Attribute)):
            script.leave(call, "the script reads .grad, which would be None instead of zeros")
        else:
            script.set_argument(call, "set_to_none", "True", position=0)


def switch(torch: Any) -> None:
    """Every ``zero_grad`` drops the gradients."""
    for cls in (torch.optim.Optimizer, torch.nn.Module):
        cls.zero_grad = _dropping(cls.zero_grad)


def _dropping(original: Any) -> Any:
    def zero_grad(self: Any, set_to_none: bool = True) -> None:
        original(self, set_to_none=True)

    return zero_grad


REMEDY = Remedy(
    name="set-to-none",
    title="Gradients dropped, not zeroed",
    write="optimizer.zero_grad(set_to_none=True)",
    codes=("launch-bound", "unfused-optimizer"),
    switch=switch,
    patch=patch,
)
