"""Three training loops without an annotation, to measure collectors: ``loops.py loading|launch|gemm [STEPS] [quiet]``.

``loading`` waits 8 ms for every batch on the main thread; ``launch`` issues about a thousand tiny kernels a step;
``gemm`` keeps the GPU busy for some 4 ms a step, with 67 MB of pinned memory copied in each. Each prints its losses
to the last bit unless told to be quiet.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Batches(Dataset[Any]):
    """Ready-made batches, the same in every run. ``kept``: so many are made beforehand, pinned, and used in turn."""

    def __init__(self, count: int, rows: int, width: int, wait_s: float, kept: int) -> None:
        self.count, self.shape, self.wait_s = count, (rows, width), wait_s
        self.kept = [self.make(i).pin_memory() if DEVICE == "cuda" else self.make(i) for i in range(kept)]

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        time.sleep(self.wait_s)
        return self.kept[index % len(self.kept)] if self.kept else self.make(index)

    def make(self, index: int) -> torch.Tensor:
        """One batch."""
        generator = torch.Generator().manual_seed(index)
        return torch.randn(*self.shape, generator=generator)


def case(name: str) -> tuple[nn.Module, Any, tuple[int, int, float]]:
    """Model, optimizer, and (rows, width, seconds of waiting) of the batches."""
    if name == "launch":
        layers = [nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 64), nn.GELU()) for _ in range(60)]
        model: nn.Module = nn.Sequential(*layers).to(DEVICE)
        return model, torch.optim.SGD(model.parameters(), 1e-4, foreach=True), (32, 64, 0.0)
    width, rows, wait = (8192, 2048, 0.0) if name == "gemm" else (1024, 256, 0.008)
    model = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)).to(DEVICE)
    return model, torch.optim.SGD(model.parameters(), 1e-4, foreach=True), (rows, width, wait)


def main() -> None:
    """Train, print the losses."""
    name, steps = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 60
    torch.manual_seed(0)
    model, optimizer, (rows, width, wait) = case(name)
    losses = []
    for batch in DataLoader(Batches(steps, rows, width, wait, 4 if name == "gemm" else 0), batch_size=None):
        x = batch.to(DEVICE, non_blocking=True)
        with torch.autocast(DEVICE, torch.bfloat16, enabled=name == "gemm"):
            loss = nn.functional.mse_loss(model(x), x)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    if sys.argv[3:] != ["quiet"]:
        print("LOSSES", *(value.hex() for value in torch.stack(losses).double().tolist()))


if __name__ == "__main__":
    main()
