"""Large matrix products in fp32, with TF32 off as PyTorch has it by default."""

from collections.abc import Callable

import torch
from kit import DEVICE, size
from torch import nn
from torch.cuda import nvtx

CODE = "fp32-matmul"
RANGE = None
REMEDY = "torch.backends.cuda.matmul.allow_tf32 = True"


def build(variant: str) -> Callable[[int], object]:
    width, wide = size(4096, 16), size(8192, 32)
    model = nn.Sequential(nn.Linear(width, wide), nn.ReLU(), nn.Linear(wide, wide), nn.ReLU(), nn.Linear(wide, width))
    model = model.to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), 1e-4, fused=True)
    x = torch.randn(size(1536, 8), width, device=DEVICE)

    def step(i: int) -> object:
        torch.backends.cuda.matmul.allow_tf32 = variant == "fixed"
        with nvtx.range(f"Step#{i}"):
            with nvtx.range("fwd"):
                loss = nn.functional.mse_loss(model(x), x)
            with nvtx.range("bwd"):
                optimizer.zero_grad()
                loss.backward()
            with nvtx.range("opt"):
                optimizer.step()
        return loss

    return step
