"""Serving: a small decoder answers one request at a time, a few tokens each, layer by layer."""

from collections.abc import Callable

import torch
from kit import DEVICE, size
from torch import nn
from torch.cuda import nvtx

CODE = "launch-bound"
RANGE = None
REMEDY = "one CUDA graph for a request"

WIDTH = size(512, 16)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm(x)).view(len(x), 3, 8, -1).unbind(1)
        keys = cache + k[:, :, None]
        seen = nn.functional.scaled_dot_product_attention(q[:, :, None], keys, cache + v[:, :, None])
        x = x + self.out(seen.flatten(1))
        return x + self.down(nn.functional.gelu(self.up(x)))


def build(variant: str) -> Callable[[int], object]:
    blocks = nn.ModuleList(Block() for _ in range(size(12, 2))).to(DEVICE, torch.bfloat16).eval()
    cache = torch.randn(4, 8, 64, WIDTH // 8, device=DEVICE, dtype=torch.bfloat16)
    prompt = torch.randn(4, WIDTH, device=DEVICE, dtype=torch.bfloat16)

    @torch.no_grad()
    def answer() -> torch.Tensor:
        x = prompt
        for _ in range(size(5, 2)):
            for block in blocks:
                x = block(x, cache)
            x = torch.tanh(x)
        return x

    if variant == "bad":

        def handle(i: int) -> object:
            with nvtx.range("handle_request"), nvtx.range("generate"):
                return answer()

        return handle
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        answer()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tokens = answer()

    def replay(i: int) -> object:
        with nvtx.range("handle_request"), nvtx.range("generate"):
            graph.replay()
        return tokens

    return replay
