"""Inference with a timer around every layer, each of which synchronises."""

import time
from collections.abc import Callable

import torch
from kit import DEVICE, size
from torch import nn
from torch.cuda import nvtx

CODE = "blocking-sync"
RANGE = None
REMEDY = "no synchronisation: a profiler or CUDA events tell the same"


class Timed(nn.Module):
    def __init__(self, layer: nn.Module, enabled: bool) -> None:
        super().__init__()
        self.layer, self.enabled, self.seconds = layer, enabled, 0.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        begin = time.perf_counter()
        x = torch.relu(self.layer(x))
        if self.enabled:
            torch.cuda.synchronize()
        self.seconds += time.perf_counter() - begin
        return x


def build(variant: str) -> Callable[[int], object]:
    width = size(2048, 16)
    layers = [Timed(nn.Linear(width, width), variant == "bad") for _ in range(size(120, 4))]
    model = nn.Sequential(*layers).to(DEVICE, torch.bfloat16).eval()
    x = torch.randn(size(4096, 8), width, device=DEVICE, dtype=torch.bfloat16)

    @torch.inference_mode()
    def step(i: int) -> object:
        with nvtx.range("inference_step"), nvtx.range("predict"):
            return model(x)

    return step
