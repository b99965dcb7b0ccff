"""A classic loop: each batch is read from a slow disk on the main thread."""

import time
from collections.abc import Callable

import torch
from kit import DEVICE, size
from torch import nn
from torch.cuda import nvtx
from torch.utils.data import DataLoader, Dataset

CODE = "host-data-loading"
RANGE = "data_load"
REMEDY = "DataLoader(num_workers=10, pin_memory=True) and non-blocking copies"


class SlowDisk(Dataset):
    def __len__(self) -> int:
        return 4000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        time.sleep(size(0.012, 0.001))
        return torch.randn(64, size(1024, 16)), torch.randint(0, 10, (64,))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        width, hidden = size(1024, 16), size(8192, 32)
        self.position = nn.Parameter(torch.randn(1, size(128, 4), width) * 0.02)
        self.body = nn.Sequential(
            nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, width)
        )
        self.head = nn.Linear(width, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x[:, None] + self.position).mean(1))


def build(variant: str) -> Callable[[int], object]:
    bad = variant == "bad"
    model = Net().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    loader = DataLoader(SlowDisk(), batch_size=None, num_workers=0 if bad else size(10, 1), pin_memory=not bad)
    batches = iter(loader)

    def step(i: int) -> object:
        nvtx.range_push(f"step_{i}")
        nvtx.range_push("data_load")
        x, y = next(batches)
        nvtx.range_pop()
        nvtx.range_push("h2d")
        x, y = x.to(DEVICE, non_blocking=not bad), y.to(DEVICE, non_blocking=not bad)
        nvtx.range_pop()
        nvtx.range_push("forward")
        with torch.autocast(DEVICE.type, torch.bfloat16):
            loss = nn.functional.cross_entropy(model(x).float(), y)
        nvtx.range_pop()
        nvtx.range_push("backward")
        optimizer.zero_grad()
        loss.backward()
        nvtx.range_pop()
        nvtx.range_push("optimizer")
        optimizer.step()
        nvtx.range_pop()
        nvtx.range_pop()
        return loss

    return step
