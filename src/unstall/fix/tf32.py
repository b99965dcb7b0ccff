"""TF32 for matrix products and convolutions in fp32: tensor cores instead of CUDA cores."""

from __future__ import annotations

from typing import Any

from unstall.fix import forward
from unstall.fix.remedy import Remedy

LINE = 'torch.set_float32_matmul_precision("high")'


def switch(torch: Any) -> None:
    """At the first forward pass, so that it holds whatever the script set before."""

    def allow(_: Any = None) -> None:
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.allow_tf32 = True

    allow()
    forward.once(torch, allow)


def patch(script: Any) -> None:
    """One line behind the imports, where nothing in the script speaks of the precision yet."""
    said = ("set_float32_matmul_precision", "allow_tf32", "fp32_precision")
    if any(word in script.text for word in said):
        script.leave(None, "the script sets the precision of fp32 products itself")
    elif not script.name_of("torch"):
        script.leave(None, "torch is not imported by name at the top of the script")
    else:
        script.after_imports(LINE.replace("torch", script.name_of("torch"), 1))


REMEDY = Remedy(
    name="tf32",
    title="TF32 for fp32 matrix products",
    write=LINE,
    codes=("fp32-matmul",),
    safety="changes-numerics",
    needs="cuda",
    tolerance=1e-2,  # 10 bits of mantissa: 1e-3 in a product, and ten steps of training multiply it
    switch=switch,
    patch=patch,
)
