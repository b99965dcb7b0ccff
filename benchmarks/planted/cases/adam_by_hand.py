"""A research script with its own Adam: a Python loop over parameters."""

from collections.abc import Callable

import torch
from kit import DEVICE, size
from torch import nn
from torch.cuda import nvtx

CODE = "unfused-optimizer"
RANGE = "optimizer_update"
REMEDY = "torch.optim.Adam(fused=True)"


class OwnAdam:
    def __init__(self, params: list[nn.Parameter]) -> None:
        self.params = params
        self.m = [torch.zeros_like(p) for p in params]
        self.v = [torch.zeros_like(p) for p in params]

    @torch.no_grad()
    def step(self) -> None:
        for p, m, v in zip(self.params, self.m, self.v, strict=True):
            m.mul_(0.9).add_(p.grad, alpha=0.1)
            v.mul_(0.999).addcmul_(p.grad, p.grad, value=0.001)
            scale = v.sqrt().div_(0.03).add_(1e-6)
            p.mul_(0.9999)
            p.addcdiv_(m, scale, value=-1e-5)

    def zero_grad(self) -> None:
        for p in self.params:
            p.grad = None


class Mixer(nn.Module):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for norm, layer in zip(self.norms, self.layers, strict=True):
            x = x + layer(norm(x)).relu()
        return x.float().square().mean()


def build(variant: str) -> Callable[[int], object]:
    model = Mixer(size(1024, 16), size(60, 3)).to(DEVICE, torch.bfloat16)
    params = list(model.parameters())
    adam = OwnAdam(params) if variant == "bad" else torch.optim.Adam(params, 1e-5, fused=True)
    x = torch.randn(size(16384, 8), size(1024, 16), device=DEVICE, dtype=torch.bfloat16)

    def iterate(i: int) -> object:
        nvtx.range_push("training iteration")
        nvtx.range_push("loss_and_grad")
        loss = model(x)
        loss.backward()
        nvtx.range_pop()
        nvtx.range_push("optimizer_update")
        adam.step()
        adam.zero_grad()
        nvtx.range_pop()
        nvtx.range_pop()
        return loss

    return iterate
