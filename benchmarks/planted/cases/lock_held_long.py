"""A thread that flushes statistics holds the lock that the training loop needs while it does so."""

import threading
import time
from collections.abc import Callable

import torch
from kit import DEVICE, size
from torch import nn
from torch.cuda import nvtx

CODE = "host-lock-contention"
RANGE = None
REMEDY = "take the list under the lock, flush outside of it"


class Statistics:
    def __init__(self, careful: bool) -> None:
        self.careful, self.rows, self.lock, self.running = careful, [], threading.Lock(), threading.Event()
        threading.Thread(target=self.flush, daemon=True).start()

    def add(self, row: object) -> None:
        with self.lock:
            self.rows.append(row)

    def flush(self) -> None:
        while True:
            self.running.wait()
            if self.careful:
                with self.lock:
                    self.rows.clear()
                time.sleep(size(0.012, 0.001))
            else:
                with self.lock:
                    time.sleep(size(0.012, 0.001))
                    self.rows.clear()
            time.sleep(0.0005)


def build(variant: str) -> Callable[[int], object]:
    statistics = Statistics(variant == "fixed")
    width = size(4096, 16)
    net = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width)).to(DEVICE, torch.bfloat16)
    x = torch.randn(size(12288, 8), width, device=DEVICE, dtype=torch.bfloat16)
    opt = torch.optim.AdamW(net.parameters(), 1e-5, fused=True)

    def step(i: int) -> object:
        with nvtx.range("step"):
            with nvtx.range("bookkeeping"):
                statistics.add(i)
            with nvtx.range("train"):
                loss = net(x).float().square().mean()
                opt.zero_grad()
                loss.backward()
                opt.step()
        return loss

    step.start, step.stop = statistics.running.set, statistics.running.clear
    return step
