"""A padding mask is built element by element on the host, in every forward."""

from collections.abc import Callable

import torch
from kit import DEVICE, size
from torch import nn
from torch.cuda import nvtx

CODE = "host-python-work"
RANGE = "build_mask"
REMEDY = "compare an arange with the lengths on the GPU"

LENGTH = size(240, 8)


class Masked(nn.Module):
    def __init__(self, on_host: bool) -> None:
        super().__init__()
        width = size(4096, 16)
        self.on_host, self.position = on_host, None
        self.up, self.down = nn.Linear(width, width), nn.Linear(width, width)

    def mask(self, limit: int) -> torch.Tensor:
        if self.on_host:
            rows = [[1.0 if b <= a < limit else 0.0 for b in range(LENGTH)] for a in range(LENGTH)]
            return torch.tensor(rows, dtype=torch.bool).to(DEVICE, non_blocking=True)
        at = torch.arange(LENGTH, device=DEVICE)
        return (at[None] <= at[:, None]) & (at[:, None] < limit)

    def forward(self, x: torch.Tensor, limit: int) -> torch.Tensor:
        with nvtx.range("build_mask"):
            mask = self.mask(limit)
        with nvtx.range("layers"):
            return self.down(torch.relu(self.up(x))).float().square().mean() * mask.float().mean()


def build(variant: str) -> Callable[[int], object]:
    model = Masked(variant == "bad").to(DEVICE, torch.bfloat16)
    x = torch.randn(size(12288, 8), size(4096, 16), device=DEVICE, dtype=torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=True)

    def step(i: int) -> object:
        nvtx.range_push("minibatch")
        nvtx.range_push("forward")
        loss = model(x, LENGTH - i % 5)
        nvtx.range_pop()
        nvtx.range_push("backward")
        optimizer.zero_grad()
        loss.backward()
        nvtx.range_pop()
        nvtx.range_push("update")
        optimizer.step()
        nvtx.range_pop()
        nvtx.range_pop()
        return loss

    return step
