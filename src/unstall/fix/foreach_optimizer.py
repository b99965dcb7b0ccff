"""An optimizer's step over all parameters at once instead of one after the other."""

from __future__ import annotations

from typing import Any

from unstall.fix.fused_optimizer import force
from unstall.fix.remedy import Remedy

KINDS = ("Adam", "AdamW", "SGD", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop")


def switch(torch: Any) -> None:
    """Every optimizer that can is foreach."""
    force(torch, KINDS, "foreach", "fused")


REMEDY = Remedy(
    name="foreach-optimizer",
    title="Multi-tensor optimizer",
    write="torch.optim.RMSprop(…, foreach=True)",
    codes=("unfused-optimizer",),
    switch=switch,
)
