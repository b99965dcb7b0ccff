"""Each step writes a page of scalars, every line flushed and synced to disk."""

import json
import os
import tempfile
from collections.abc import Callable

import torch
from kit import DEVICE, size
from torch import nn
from torch.cuda import nvtx

CODE = "host-io"
RANGE = "write_scalars"
REMEDY = "a buffered file, written every fiftieth step"


class Journal:
    def __init__(self, every: int) -> None:
        self.every = every
        self.file = tempfile.NamedTemporaryFile("w", suffix=".jsonl")  # noqa: SIM115 (open as long as the run)

    def write(self, i: int) -> None:
        if i % self.every:
            return
        for k in range(size(60, 2)):
            self.file.write(json.dumps({"step": i, "name": f"loss/{k}", "text": "x" * size(30_000, 10)}) + "\n")
            self.file.flush()
            os.fsync(self.file.fileno())
        self.file.seek(0)


def build(variant: str) -> Callable[[int], object]:
    width = size(4096, 16)
    net = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width)).to(DEVICE, torch.bfloat16)
    x = torch.randn(size(12288, 8), width, device=DEVICE, dtype=torch.bfloat16)
    opt = torch.optim.Adam(net.parameters(), 1e-5, fused=True)
    journal = Journal(1 if variant == "bad" else 1_000_000_007)

    def step(i: int) -> object:
        with nvtx.range("trainer.step"):
            with nvtx.range("trainer.compute"):
                loss = net(x).float().square().mean()
                opt.zero_grad()
                loss.backward()
                opt.step()
            with nvtx.range("write_scalars"):
                journal.write(i + 1)
        return loss

    return step
