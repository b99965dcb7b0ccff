"""마스크와 드롭아웃이 있는 인코더: 어텐션을 직접 쓴 경우 (an encoder with mask and dropout, attention written out)."""

import math
from collections.abc import Callable

import torch
from kit import DEVICE, size
from torch import nn
from torch.cuda import nvtx

CODE = "unfused-attention"
RANGE = None
REMEDY = "scaled_dot_product_attention with the mask and dropout_p"

HEADS = size(16, 2)


class Layer(nn.Module):
    def __init__(self, width: int, fused: bool) -> None:
        super().__init__()
        self.fused = fused
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def heads(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(*x.shape[:2], HEADS, -1).transpose(1, 2)

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        if self.fused:
            return nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=0.1)
        weights = torch.softmax(torch.matmul(q, k.mT) / math.sqrt(q.shape[-1]), dim=-1)
        return torch.matmul(nn.functional.dropout(weights, 0.1), v)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.attend(self.heads(self.q(x)), self.heads(self.k(x)), self.heads(self.v(x)))
        x = x + y.transpose(1, 2).flatten(2)
        return x + self.narrow(torch.relu(self.wide(x)))


def build(variant: str) -> Callable[[int], object]:
    width = size(1024, 16)
    model = nn.Sequential(*[Layer(width, variant == "fixed") for _ in range(size(3, 2))]).to(DEVICE, torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), 1e-4, fused=True)
    x = torch.randn(size(12, 2), size(1024, 8), width, device=DEVICE, dtype=torch.bfloat16)

    def step(i: int) -> object:
        with nvtx.range(f"반복 {i}"):
            with nvtx.range("순전파"):
                loss = model(x).float().square().mean()
            with nvtx.range("역전파"):
                optimizer.zero_grad()
                loss.backward()
            with nvtx.range("갱신"):
                optimizer.step()
        return loss

    return step
