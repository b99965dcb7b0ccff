"""Forward passes in bf16 where that is safe for the operation; parameters and losses stay in fp32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unstall.fix import forward, moving
from unstall.fix.remedy import Remedy


def switch(torch: Any) -> None:
    """Every outermost forward pass under ``torch.autocast``; outputs are fp32 again, as losses want them."""

    def under_autocast(module: Any, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with torch.autocast(next(module.parameters()).device.type, torch.bfloat16):
            out = call(*args, **kwargs)
        return moving.apply(out, lambda t: t.float() if getattr(t, "dtype", None) is torch.bfloat16 else t)

    forward.around(torch, under_autocast)


REMEDY = Remedy(
    name="bf16-autocast",
    title="bf16 where it is safe (autocast)",
    write='with torch.autocast("cuda", torch.bfloat16): loss = loss_fn(model(x), y)',
    codes=("fp32-matmul", "compute-bound"),
    safety="changes-numerics",
    tolerance=3e-2,  # 7 bits of mantissa: 0.4 % a rounding; a loss that strays further in 10 steps trains differently
    switch=switch,
)
