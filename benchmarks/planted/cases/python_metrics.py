"""A confusion matrix in pure Python after every step."""

import random
from collections import Counter
from collections.abc import Callable

import torch
from kit import DEVICE, size
from torch import nn
from torch.cuda import nvtx

CODE = "host-python-work"
RANGE = "metrics"
REMEDY = "compute the metric every fiftieth step"


def confusion(truth: list[int], guess: list[int]) -> Counter:
    table: Counter = Counter()
    for a, b in zip(truth, guess, strict=True):
        table[a, b] += 1
    return table


def build(variant: str) -> Callable[[int], object]:
    rng = random.Random(1)
    labels = [rng.randrange(20) for _ in range(size(110_000, 100))]
    width = size(4096, 16)
    model = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)).to(DEVICE, torch.bfloat16)
    x = torch.randn(size(12288, 8), width, device=DEVICE, dtype=torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=True)

    def step(i: int) -> object:
        with nvtx.range(f"step_{i}"):
            with nvtx.range("forward"):
                loss = model(x).float().square().mean()
            with nvtx.range("backward"):
                optimizer.zero_grad()
                loss.backward()
            with nvtx.range("optimizer"):
                optimizer.step()
            if variant == "bad":
                with nvtx.range("metrics"):
                    confusion(labels, labels)
        return loss

    return step
