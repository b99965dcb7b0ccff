"""The norm of each gradient is read back with .item(), one after another."""

from collections.abc import Callable

import torch
from kit import DEVICE, size
from torch import nn
from torch.cuda import nvtx

CODE = "blocking-sync"
RANGE = None
REMEDY = "keep the norms on the GPU, read them every fiftieth step"


def build(variant: str) -> Callable[[int], object]:
    width = size(1536, 16)
    layers = [m for _ in range(size(48, 3)) for m in (nn.Linear(width, width), nn.ReLU())]
    model = nn.Sequential(*layers).to(DEVICE, torch.bfloat16)
    x = torch.randn(size(8192, 8), width, device=DEVICE, dtype=torch.bfloat16)
    opt = torch.optim.SGD(model.parameters(), 1e-4, fused=True)
    history: list[list] = []

    def norms() -> list:
        found = [p.grad.norm() for p in model.parameters()]
        return found

    def norms_read() -> list:
        return [p.grad.norm().item() for p in model.parameters()]

    def step(i: int) -> object:
        with nvtx.range("train_batch"):
            with nvtx.range("fw"):
                loss = model(x).float().square().mean()
            with nvtx.range("bw"):
                opt.zero_grad()
                loss.backward()
            with nvtx.range("monitor"):
                history[:] = [norms_read() if variant == "bad" else norms()]
            with nvtx.range("apply"):
                opt.step()
        return loss

    return step
