"""A hundred megabytes of features copied from ordinary memory in every step."""

from collections.abc import Callable

import torch
from kit import DEVICE, size
from torch import nn
from torch.cuda import nvtx

CODE = "pageable-copy"
RANGE = "to_gpu"
REMEDY = "pinned buffers, the next batch copied on a side stream"

ROWS, WIDTH = size(16384, 64), size(4096, 16)


class Ahead:
    """The next batch is on its way while this one is used."""

    def __init__(self, sources: list[torch.Tensor]) -> None:
        self.sources, self.side, self.turn = sources, torch.cuda.Stream(), 0
        self.load()

    def load(self) -> None:
        with torch.cuda.stream(self.side):
            self.next = self.sources[self.turn % 2].to(DEVICE, non_blocking=True)
        self.turn += 1

    def take(self) -> torch.Tensor:
        now = torch.cuda.current_stream()
        now.wait_stream(self.side)
        batch = self.next
        batch.record_stream(now)
        self.load()
        return batch


def build(variant: str) -> Callable[[int], object]:
    frames = [torch.randn(ROWS, WIDTH).bfloat16() for _ in range(2)]
    ahead = None if variant == "bad" else Ahead([f.pin_memory() for f in frames])
    model = nn.Sequential(
        nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH)
    )
    model = model.to(DEVICE, torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), 1e-4, fused=True)

    def step(i: int) -> object:
        nvtx.range_push(f"step {i}")
        nvtx.range_push("to_gpu")
        x = ahead.take() if ahead else frames[i % 2].to(DEVICE)
        nvtx.range_pop()
        nvtx.range_push("model")
        loss = nn.functional.mse_loss(model(x), x)
        optimizer.zero_grad()
        loss.backward()
        nvtx.range_pop()
        nvtx.range_push("optim")
        optimizer.step()
        nvtx.range_pop()
        nvtx.range_pop()
        return loss

    return step
