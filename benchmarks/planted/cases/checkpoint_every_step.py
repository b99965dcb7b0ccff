"""The run's history, 24 MB on the host, is saved to disk after every step."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from kit import DEVICE, size
from torch import nn
from torch.cuda import nvtx

CODE = "host-io"
RANGE = "save_checkpoint"
REMEDY = "save every few hundred steps"


def save(weights: dict[str, torch.Tensor], path: Path) -> None:
    with path.open("wb") as file:
        torch.save(weights, file)
        file.flush()
        os.fsync(file.fileno())


def build(variant: str) -> Callable[[int], object]:
    width = size(4096, 16)
    base = nn.Linear(width, 2 * width).to(DEVICE, torch.bfloat16).requires_grad_(False)
    adapter = nn.Sequential(nn.Linear(2 * width, 64), nn.Linear(64, width)).to(DEVICE, torch.bfloat16)
    back = nn.Linear(width, width).to(DEVICE, torch.bfloat16)
    x = torch.randn(size(16384, 8), width, device=DEVICE, dtype=torch.bfloat16)
    opt = torch.optim.AdamW([*adapter.parameters(), *back.parameters()], 1e-5, fused=True)
    state = {"history": torch.zeros(size(6_000_000, 10))}
    folder = tempfile.TemporaryDirectory(prefix="run-")

    def step(i: int) -> object:
        with nvtx.range(f"step_{i}"):
            with nvtx.range("forward"):
                with torch.no_grad():
                    h = torch.relu(base(x))
                loss = back(adapter(h)).float().square().mean()
            with nvtx.range("backward"):
                opt.zero_grad()
                loss.backward()
            with nvtx.range("optimizer"):
                opt.step()
            if variant == "bad":
                with nvtx.range("save_checkpoint"):
                    save(state, Path(folder.name) / "latest.pt")
        return loss

    return step
