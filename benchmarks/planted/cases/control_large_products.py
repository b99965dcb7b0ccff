"""Nothing is wrong here: large products in bf16, a fused optimizer, the GPU never waits."""

from collections.abc import Callable

import torch
from kit import DEVICE, size
from torch import nn
from torch.cuda import nvtx

CODE = "compute-bound"
RANGE = None
REMEDY = "none"


def build(variant: str) -> Callable[[int], object]:
    width, wide = size(4096, 16), size(16384, 32)
    model = nn.Sequential(nn.Linear(width, wide), nn.GELU(), nn.Linear(wide, width)).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    x = torch.randn(size(8192, 8), width, device=DEVICE)

    def step(i: int) -> object:
        with nvtx.range(f"step_{i}"):
            with nvtx.range("forward"), torch.autocast(DEVICE.type, torch.bfloat16):
                loss = nn.functional.mse_loss(model(x).float(), x)
            with nvtx.range("backward"):
                optimizer.zero_grad()
                loss.backward()
            with nvtx.range("optimizer"):
                optimizer.step()
        return loss

    return step
