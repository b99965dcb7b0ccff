"""Vision: a convolutional network in bf16 with channels first."""

from collections.abc import Callable

import torch
from kit import DEVICE, size
from torch import nn
from torch.cuda import nvtx

CODE = "layout-transpose"
RANGE = None
REMEDY = "memory_format=torch.channels_last for model and input"


def block(channels: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(inplace=True)
    )


def build(variant: str) -> Callable[[int], object]:
    channels, side = size(256, 8), size(28, 8)
    model = nn.Sequential(*[block(channels) for _ in range(size(10, 2))]).to(DEVICE)
    images = torch.randn(size(96, 2), channels, side, side, device=DEVICE)
    if variant == "fixed":
        model = model.to(memory_format=torch.channels_last)
        images = images.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9, fused=True)

    def step(i: int) -> object:
        nvtx.range_push("train")
        nvtx.range_push("forward")
        with torch.autocast(DEVICE.type, torch.bfloat16):
            loss = model(images).float().mean()
        nvtx.range_pop()
        nvtx.range_push("backward")
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nvtx.range_pop()
        nvtx.range_push("sgd")
        optimizer.step()
        nvtx.range_pop()
        nvtx.range_pop()
        return loss

    return step
