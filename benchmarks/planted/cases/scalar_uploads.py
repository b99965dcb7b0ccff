"""Every sample's weight, length and label goes to the GPU on its own."""

from collections.abc import Callable

import torch
from kit import DEVICE, size
from torch import nn
from torch.cuda import nvtx

CODE = "many-small-copies"
RANGE = None
REMEDY = "one tensor with all of them, one copy"


def build(variant: str) -> Callable[[int], object]:
    width, samples = size(4096, 16), size(180, 12)
    model = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)).to(
        DEVICE, torch.bfloat16
    )
    inputs = torch.randn(size(8192, 32), width, device=DEVICE, dtype=torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), 1e-4, fused=True)

    def weights(i: int) -> torch.Tensor:
        values = [[(i + k) % 7 / 7.0, 1.0, float(k)] for k in range(samples)]
        if variant == "bad":
            return torch.stack([torch.tensor(v, device=DEVICE) for v in values])
        return torch.tensor(values).to(DEVICE, non_blocking=True)

    def step(i: int) -> object:
        nvtx.range_push("training_step")
        nvtx.range_push("sample_weights")
        scale = weights(i)
        nvtx.range_pop()
        nvtx.range_push("forward")
        loss = model(inputs).float().square().mean() * scale[:, 0].mean()
        nvtx.range_pop()
        nvtx.range_push("backward")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        nvtx.range_pop()
        nvtx.range_pop()
        return loss

    return step
