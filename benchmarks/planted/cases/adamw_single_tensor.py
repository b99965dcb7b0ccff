"""AdamW that updates one parameter at a time (foreach=False)."""

from collections.abc import Callable

import torch
from kit import DEVICE, size
from torch import nn
from torch.cuda import nvtx

CODE = "unfused-optimizer"
RANGE = "optimizer"
REMEDY = "AdamW(fused=True)"


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + nn.functional.gelu(self.linear(self.norm(x)))


def build(variant: str) -> Callable[[int], object]:
    width = size(1024, 16)
    model = nn.Sequential(*[Residual(width) for _ in range(size(60, 3))]).to(DEVICE, torch.bfloat16)
    options = {"foreach": False} if variant == "bad" else {"fused": True}
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, **options)
    x = torch.randn(size(12288, 8), width, device=DEVICE, dtype=torch.bfloat16)

    def step(i: int) -> object:
        with nvtx.range(f"step_{i:04d}"):
            with nvtx.range("forward"):
                loss = model(x).float().square().mean()
            with nvtx.range("backward"):
                loss.backward()
            with nvtx.range("optimizer"):
                optimizer.step()
                optimizer.zero_grad()
        return loss

    return step
