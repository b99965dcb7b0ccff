"""cuDNN tries its convolution algorithms once a shape and keeps the fastest."""

from __future__ import annotations

from typing import Any

from unstall.fix import forward
from unstall.fix.remedy import Remedy

LINE = "torch.backends.cudnn.benchmark = True"


def switch(torch: Any) -> None:
    """At the first forward pass, so that it holds whatever the script set before."""

    def tune(_: Any) -> None:
        torch.backends.cudnn.benchmark = True

    forward.once(torch, tune)


REMEDY = Remedy(
    name="cudnn-benchmark",
    title="cuDNN autotuning",
    write=LINE,
    codes=("compute-bound", "layout-transpose"),
    safety="changes-numerics",
    needs="cuda",
    tolerance=1e-3,  # other convolution algorithms add in another order
    switch=switch,
)
