"""Text: an LSTM cell unrolled in a Python loop, a few kernels for every token."""

from collections.abc import Callable

import torch
from kit import DEVICE, size
from torch import nn
from torch.cuda import nvtx

CODE = "launch-bound"
RANGE = None
REMEDY = "the unrolled loop captured once as a CUDA graph"


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        width = size(256, 8)
        self.embed = nn.Embedding(500, width)
        self.cell = nn.LSTMCell(width, width)
        self.head = nn.Linear(width, 32)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        h = c = torch.zeros(len(ids), x.shape[2], device=x.device)
        total = torch.zeros((), device=x.device)
        for t in range(ids.shape[1]):
            h, c = self.cell(x[:, t], (h, c))
            total = total + self.head(h).square().mean()
        return total


class Training:
    def __init__(self, graph: bool) -> None:
        self.model = Tagger().to(DEVICE)
        self.ids = torch.randint(0, 500, (32, size(48, 4)), device=DEVICE)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 1e-3, foreach=True)
        self.run: Callable[[], object] = self.captured() if graph else self.eager

    def forward(self) -> torch.Tensor:
        with nvtx.range("train/forward"):
            return self.model(self.ids)

    def eager(self) -> torch.Tensor:
        self.optimizer.zero_grad(set_to_none=False)
        loss = self.forward()
        with nvtx.range("train/backward"):
            loss.backward()
        with nvtx.range("train/optimizer"):
            self.optimizer.step()
        return loss

    def captured(self) -> Callable[[], object]:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.eager()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.eager()
        return graph.replay

    def step(self, i: int) -> object:
        with nvtx.range("train/step"):
            return self.run()


def build(variant: str) -> Callable[[int], object]:
    return Training(graph=variant == "fixed").step
