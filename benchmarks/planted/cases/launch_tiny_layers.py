"""Hundreds of tiny layers: the GPU waits for the next launch most of the time."""

from collections.abc import Callable

import torch
from kit import DEVICE, size
from torch import nn
from torch.cuda import nvtx

CODE = "launch-bound"
RANGE = "iteration"
REMEDY = "the whole step as one CUDA graph"


def build(variant: str) -> Callable[[int], object]:
    layers = [nn.Sequential(nn.LayerNorm(128), nn.Linear(128, 128), nn.GELU()) for _ in range(size(40, 3))]
    model = nn.Sequential(*layers).to(DEVICE)
    x = torch.randn(64, 128, device=DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), 1e-4, foreach=True)

    def work() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=False)
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    if variant == "bad":

        def eager(i: int) -> object:
            with nvtx.range("iteration"):
                return work()

        return eager
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = work()

    def replay(i: int) -> object:
        with nvtx.range("iteration"):
            graph.replay()
        return loss

    return replay
