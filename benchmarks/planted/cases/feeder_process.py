"""Two processes: another program makes the batches and sends them through a pipe; one such program is too slow."""

import atexit
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import torch
from kit import DEVICE, size
from torch import nn
from torch.cuda import nvtx

CODE = "host-data-loading"
RANGE = "wait_batch"
REMEDY = "eight feeders, asked in turn"

SHAPE = (30, size(512, 16))  # 61 kB: such a copy does not wait for the device
FEEDER = """
import os, sys, time
data = bytes(int(sys.argv[1]))
while True:
    time.sleep(float(sys.argv[2]))
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
"""


def feeder() -> subprocess.Popen:
    count, seconds = str(SHAPE[0] * SHAPE[1] * 4), str(size(0.012, 0.001))
    program = subprocess.Popen(
        [sys.executable, "-c", FEEDER, count, seconds], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    atexit.register(program.kill)
    return program


def build(variant: str) -> Callable[[int], object]:
    feeders = [feeder() for _ in range(1 if variant == "bad" else size(8, 2))]
    wide = size(8192, 32)
    model = nn.Sequential(nn.Linear(SHAPE[1], wide), nn.GELU(), nn.Linear(wide, wide), nn.GELU(), nn.Linear(wide, 32))
    model = model.to(DEVICE, torch.bfloat16)
    scale = torch.rand(size(272, 2), 1, device=DEVICE, dtype=torch.bfloat16)
    optimizer = torch.optim.Adam(model.parameters(), 1e-4, fused=True)

    def step(i: int) -> object:
        with nvtx.range(f"iteration {i}"):
            with nvtx.range("wait_batch"):
                raw = feeders[i % len(feeders)].stdout.read(SHAPE[0] * SHAPE[1] * 4)
            with nvtx.range("upload"):
                x = torch.from_numpy(np.frombuffer(raw, np.float32).reshape(SHAPE).copy())
                x = x.to(DEVICE, torch.bfloat16, non_blocking=True)
            with nvtx.range("compute"):
                loss = model((x[:, None] * scale + 1).flatten(0, 1)).float().square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        return loss

    return step
