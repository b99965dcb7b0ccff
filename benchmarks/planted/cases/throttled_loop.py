"""A rate limit that was meant for a shared laptop: the loop sleeps in each iteration."""

import time
from collections.abc import Callable

import torch
from kit import DEVICE, size
from torch import nn
from torch.cuda import nvtx

CODE = "host-python-work"
RANGE = "throttle"
REMEDY = "no sleep"


def build(variant: str) -> Callable[[int], object]:
    seconds = size(0.011, 0.0) if variant == "bad" else 0.0
    width = size(4096, 16)
    net = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 16))
    net = net.to(DEVICE, torch.bfloat16)
    x = torch.randn(size(10240, 8), width, device=DEVICE, dtype=torch.bfloat16)
    opt = torch.optim.RMSprop(net.parameters(), 1e-5, foreach=True)

    def step(i: int) -> object:
        with nvtx.range("optimization_step"):
            with nvtx.range("gradients"):
                opt.zero_grad()
                loss = net(x).float().square().mean()
                loss.backward()
            with nvtx.range("weights"):
                opt.step()
            if seconds:
                with nvtx.range("throttle"):
                    time.sleep(seconds)
        return loss

    return step
