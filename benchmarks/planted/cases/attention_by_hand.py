"""A causal language model with attention as in the textbook."""

from collections.abc import Callable

import torch
from kit import DEVICE, size
from torch import nn
from torch.cuda import nvtx

CODE = "unfused-attention"
RANGE = None
REMEDY = "scaled_dot_product_attention(is_causal=True)"


class Attention(nn.Module):
    def __init__(self, width: int, fused: bool) -> None:
        super().__init__()
        self.fused = fused
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, s, w = x.shape
        q, k, v = self.qkv(x).view(b, s, 3, size(16, 2), -1).permute(2, 0, 3, 1, 4)
        if self.fused:
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.transpose(-2, -1) * (q.shape[-1] ** -0.5)
            hidden = torch.ones(s, s, dtype=torch.bool, device=x.device).triu(1)
            y = scores.masked_fill(hidden, float("-inf")).softmax(-1) @ v
        return x + self.out(y.transpose(1, 2).reshape(b, s, w))


class Mlp(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(nn.functional.gelu(self.up(x)))


def build(variant: str) -> Callable[[int], object]:
    width = size(1024, 16)
    parts = [m for _ in range(size(3, 2)) for m in (Attention(width, variant == "fixed"), Mlp(width))]
    model = nn.Sequential(*parts).to(DEVICE, torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=True)
    x = torch.randn(size(8, 2), size(1536, 8), width, device=DEVICE, dtype=torch.bfloat16)

    def step(i: int) -> object:
        with nvtx.range(f"iter {i}"):
            with nvtx.range("forward"):
                loss = model(x).float().square().mean()
            with nvtx.range("backward"):
                optimizer.zero_grad()
                loss.backward()
            with nvtx.range("step"):
                optimizer.step()
        return loss

    return step
