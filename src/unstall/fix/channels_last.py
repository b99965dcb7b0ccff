"""Convolutions in the layout that tensor cores want, without transposing before each of them."""

from __future__ import annotations

import re
from typing import Any

from unstall.fix import forward
from unstall.fix.remedy import Remedy

CONVOLUTIONS = re.compile(r"\bConv[23]d\b|\btorchvision\b|\btimm\b")
"""What a script with convolutions says; where it says none of it, the layout is of no use."""


def switch(torch: Any) -> None:
    """Every model with convolutions in channels-last; convolutions bring their inputs along."""

    def convert(module: Any) -> None:
        if any(p.dim() == 4 for p in module.parameters()):
            module.to(memory_format=torch.channels_last)

    forward.once(torch, convert)


def patch(script: Any) -> None:
    """One line behind the model, where it is made in one place and given to an optimizer."""
    torch = script.name_of("torch")
    if not torch:
        script.leave(None, "torch is not imported by name at the top of the script")
        return
    if "channels_last" in script.text or not CONVOLUTIONS.search(script.text):
        return
    for name, statement in script.models():
        if not CONVOLUTIONS.search(script.with_definitions(script.function(statement))):
            continue
        script.insert_after(statement, f"{name} = {name}.to(memory_format={torch}.channels_last)")


REMEDY = Remedy(
    name="channels-last",
    title="Channels-last layout",
    write="model = model.to(memory_format=torch.channels_last)",
    codes=("layout-transpose",),
    safety="changes-numerics",
    tolerance=1e-3,  # other convolution algorithms add in another order
    switch=switch,
    patch=patch,
)
