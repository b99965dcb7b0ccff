"""Activations are fetched to the host in every step, to be looked at later."""

from collections.abc import Callable

import torch
from kit import DEVICE, size
from torch import nn
from torch.cuda import nvtx

CODE = "device-to-host-copy"
RANGE = "collect_predictions"
REMEDY = "not in every step"


class Probe:
    def __init__(self, enabled: bool) -> None:
        self.enabled, self.last = enabled, None

    def __call__(self, features: torch.Tensor) -> None:
        with nvtx.range("collect_predictions"):
            if self.enabled:
                self.last = features.detach().cpu()


def build(variant: str) -> Callable[[int], object]:
    width = size(4096, 16)
    encoder = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width)).to(DEVICE, torch.bfloat16)
    decoder = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width)).to(DEVICE, torch.bfloat16)
    x = torch.randn(size(8192, 32), width, device=DEVICE, dtype=torch.bfloat16)
    params = [*encoder.parameters(), *decoder.parameters()]
    optimizer, probe = torch.optim.Adam(params, 1e-5, fused=True), Probe(variant == "bad")

    def step(i: int) -> object:
        with nvtx.range(f"batch {i}"):
            with nvtx.range("encode"):
                code = encoder(x)
            probe(code[: size(4096, 8)])
            with nvtx.range("reconstruct"):
                loss = (decoder(code) - x).float().square().mean()
            with nvtx.range("backward"):
                optimizer.zero_grad()
                loss.backward()
            with nvtx.range("optimizer_step"):
                optimizer.step()
        return loss

    return step
