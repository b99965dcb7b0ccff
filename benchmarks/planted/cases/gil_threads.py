"""Threads that parse in pure Python compete with the training loop for the interpreter."""

import atexit
import subprocess
import sys
import threading
from collections.abc import Callable

import torch
from kit import DEVICE, size
from torch import nn
from torch.cuda import nvtx

CODE = "gil-contention"
RANGE = None
REMEDY = "the same parsing in another process"
TRACE = "python-gil"

PARSE = """
def parse(rounds):
    total = 0
    for k in range(rounds):
        total = (total * 31 + k) % 1000003
    return total
"""
space: dict = {}
exec(PARSE, space)


def parser(running: threading.Event) -> None:
    while True:
        running.wait()
        space["parse"](20_000)


def build(variant: str) -> Callable[[int], object]:
    width = size(4096, 16)
    layers = [m for _ in range(size(4, 2)) for m in (nn.Linear(width, width), nn.ReLU())]
    model = nn.Sequential(*layers).to(DEVICE, torch.bfloat16)
    x = torch.randn(size(8192, 8), width, device=DEVICE, dtype=torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), 1e-4, fused=True)
    running = threading.Event()

    def step(i: int) -> object:
        with nvtx.range(f"step_{i}"):
            with nvtx.range("forward"):
                loss = model(x).float().square().mean()
            with nvtx.range("backward"):
                optimizer.zero_grad()
                loss.backward()
            with nvtx.range("optimizer"):
                optimizer.step()
        return loss

    if variant == "bad":
        for _ in range(2):
            threading.Thread(target=parser, args=(running,), daemon=True).start()
        step.start, step.stop = running.set, running.clear
    else:
        child = subprocess.Popen([sys.executable, "-c", f"{PARSE}\nwhile True: parse(20000)"])
        atexit.register(child.kill)
        step.start, step.stop = (lambda: None), (lambda: None)
    return step
