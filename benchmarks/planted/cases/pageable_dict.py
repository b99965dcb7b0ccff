"""Batches as dictionaries, moved field by field with a helper that everybody writes; nothing is pinned."""

from collections.abc import Callable
from typing import Any

import torch
from kit import DEVICE, size
from torch import nn
from torch.cuda import nvtx

CODE = "pageable-copy"
RANGE = "batch.to(device)"
REMEDY = "pin_memory on each field, prefetched on a copy stream"

Batch = dict[str, Any]


def to_device(batch: Batch) -> Batch:
    return {name: value.to(DEVICE, non_blocking=True) for name, value in batch.items()}


class FusionNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        width = size(2048, 16)
        self.image, self.audio = nn.Linear(width, 2 * width), nn.Linear(width, 2 * width)
        self.trunk = nn.Sequential(nn.GELU(), nn.Linear(2 * width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, batch: Batch) -> torch.Tensor:
        mixed = self.trunk(self.image(batch["image"]) + self.audio(batch["audio"]))
        return (mixed - batch["target"]).float().square().mean()


def build(variant: str) -> Callable[[int], object]:
    shape = size(16384, 32), size(2048, 16)
    names = ("image", "audio", "target")
    batches: list[Batch] = [{n: torch.randn(shape).bfloat16() for n in names} for _ in range(2)]
    if variant == "fixed":
        batches = [{n: v.pin_memory() for n, v in b.items()} for b in batches]
    model = FusionNet().to(DEVICE, torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    copies, waiting = torch.cuda.Stream(), []

    def prefetch(i: int) -> None:
        with torch.cuda.stream(copies):
            waiting.append(to_device(batches[i % 2]))

    def fetch(i: int) -> Batch:
        if variant == "bad":
            return to_device(batches[i % 2])
        if not waiting:
            prefetch(i)
        torch.cuda.current_stream().wait_stream(copies)
        batch = waiting.pop()
        for value in batch.values():
            value.record_stream(torch.cuda.current_stream())
        prefetch(i + 1)
        return batch

    def train_one_batch(i: int) -> object:
        with nvtx.range("train_iter"):
            with nvtx.range("batch.to(device)"):
                batch = fetch(i)
            with nvtx.range("fwd"):
                loss = model(batch)
            with nvtx.range("bwd"):
                loss.backward()
            with nvtx.range("opt"):
                optimizer.step()
                optimizer.zero_grad()
        return loss

    return train_one_batch
