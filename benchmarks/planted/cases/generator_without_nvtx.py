"""No annotation at all: a Python generator makes each batch with NumPy."""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from kit import DEVICE, size
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

CODE = "host-data-loading"
RANGE = None
REMEDY = "the generator in an IterableDataset, read by ten workers"


class Signals(IterableDataset):
    def __iter__(self) -> Iterator[torch.Tensor]:
        rng = np.random.default_rng(0)
        while True:
            noise = rng.standard_normal((64, size(4096, 64)))
            noise = np.cumsum(np.sort(noise, axis=1)[:, :: size(4, 2)], axis=1)
            yield torch.from_numpy(noise.astype(np.float32))


def network() -> nn.Module:
    wide = size(8192, 32)
    return nn.Sequential(
        nn.Linear(size(1024, 32), wide), nn.SiLU(), nn.Linear(wide, wide), nn.SiLU(), nn.Linear(wide, 64)
    )


def build(variant: str) -> Callable[[int], object]:
    if variant == "bad":
        batches = iter(Signals())
    else:
        batches = iter(DataLoader(Signals(), None, num_workers=size(10, 1), pin_memory=True))
    net = network().to(DEVICE, torch.bfloat16)
    opt = torch.optim.SGD(net.parameters(), 1e-4, momentum=0.9, fused=True)

    def step(i: int) -> object:
        x = next(batches).to(DEVICE, non_blocking=True).bfloat16()
        x = (x[:, None] * torch.linspace(0.5, 1.5, size(128, 2), device=DEVICE, dtype=x.dtype)[:, None]).flatten(0, 1)
        loss = net(x).float().pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    return step
