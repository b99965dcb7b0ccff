"""Somebody once ran out of memory and put empty_cache() into the loop."""

from collections.abc import Callable

import torch
from kit import DEVICE, size
from torch import nn
from torch.cuda import nvtx

CODE = "allocator-churn"
RANGE = None
REMEDY = "without empty_cache()"


def build(variant: str) -> Callable[[int], object]:
    width = size(4096, 16)
    model = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)).to(
        DEVICE, torch.bfloat16
    )
    x = torch.randn(size(12288, 8), width, device=DEVICE, dtype=torch.bfloat16)
    opt = torch.optim.AdamW(model.parameters(), 1e-5, fused=True)

    def step(i: int) -> object:
        with nvtx.range("loop/step"):
            with nvtx.range("loop/forward"):
                loss = model(x).float().square().mean()
            with nvtx.range("loop/backward"):
                opt.zero_grad(set_to_none=True)
                loss.backward()
            with nvtx.range("loop/update"):
                opt.step()
                opt.zero_grad(set_to_none=True)
            del loss
            if variant == "bad":
                with nvtx.range("loop/cleanup"):
                    torch.cuda.empty_cache()

    return step
