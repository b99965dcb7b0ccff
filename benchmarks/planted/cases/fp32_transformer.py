"""A text encoder from torch.nn, trained in fp32 throughout; ranges as PyTorch's profiler writes them."""

from collections.abc import Callable

import torch
from kit import DEVICE, size
from torch import nn
from torch.cuda import nvtx

CODE = "fp32-matmul"
RANGE = None
REMEDY = "torch.set_float32_matmul_precision('high')"


def build(variant: str) -> Callable[[int], object]:
    width = size(1024, 16)
    layer = nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, size(3, 1), enable_nested_tensor=False).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=True)
    text = torch.randn(size(16, 2), size(256, 8), width, device=DEVICE)

    def step(i: int) -> object:
        torch.set_float32_matmul_precision("highest" if variant == "bad" else "high")
        with nvtx.range(f"ProfilerStep#{i}"):
            with nvtx.range("model"):
                loss = model(text).square().mean()
            with nvtx.range("loss.backward"):
                optimizer.zero_grad()
                loss.backward()
            with nvtx.range("Optimizer.step#AdamW.step"):
                optimizer.step()
        return loss

    return step
