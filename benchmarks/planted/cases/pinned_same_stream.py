"""The batch is pinned, yet copied in the compute stream: fast, and in the way all the same."""

from collections.abc import Callable

import torch
from kit import DEVICE, size
from torch import nn
from torch.cuda import nvtx

CODE = "exposed-copy"
RANGE = "copy"
REMEDY = "the same pinned copy on a stream of its own, one step ahead"


def build(variant: str) -> Callable[[int], object]:
    rows, width = size(20480, 64), size(4096, 16)
    host = [torch.randn(rows, width).bfloat16().pin_memory() for _ in range(2)]
    net = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)).to(DEVICE, torch.bfloat16)
    opt = torch.optim.SGD(net.parameters(), 1e-4, fused=True)
    side = torch.cuda.Stream()
    ready: list[torch.Tensor] = []

    def copy(i: int) -> torch.Tensor:
        if variant == "bad":
            return host[i % 2].to(DEVICE, non_blocking=True)
        main = torch.cuda.current_stream()
        main.wait_stream(side)
        batch = ready.pop() if ready else host[i % 2].to(DEVICE, non_blocking=True)
        batch.record_stream(main)
        with torch.cuda.stream(side):
            ready.append(host[(i + 1) % 2].to(DEVICE, non_blocking=True))
        return batch

    def step(i: int) -> object:
        with nvtx.range("step"):
            with nvtx.range("copy"):
                x = copy(i)
            with nvtx.range("forward"):
                loss = net(x).float().square().mean()
            with nvtx.range("backward"):
                opt.zero_grad()
                loss.backward()
            with nvtx.range("optimizer"):
                opt.step()
        return loss

    return step
