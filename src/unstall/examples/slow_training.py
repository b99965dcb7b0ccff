"""A training loop that makes its GPU wait, on purpose: the one to find the fault of.

    unstall run -- python slow_training.py          or, for the same:  unstall demo --live

Every batch is read and decoded on the main thread (about 20 ms of it) while the GPU idles, and copied from pageable
memory while everything else waits. It runs in PyTorch, on a GPU where there is one, else on the CPU, and in NumPy where
there is no PyTorch: 50 steps, a few seconds. Ranges: data_load, h2d_transfer, forward, backward and optimizer in
step_0, step_1 …

The remedy in PyTorch is arguments of the DataLoader: ``unstall try`` measures it, ``unstall fix`` writes it. NumPy has
no DataLoader; there ``--ahead N`` draws the batches in N processes through ``unstall.prefetch``.
"""

from __future__ import annotations

import argparse
import os
import random
import zlib
from collections.abc import Iterator
from time import perf_counter, sleep, thread_time
from typing import Any

import unstall

BATCH = 64
AT_ONCE, READ_S = 16, 0.0035  # pictures that a read brings, and how long it waits for them: 14 ms a batch
DECODE_S = 0.006 / BATCH  # what decoding and augmenting one picture takes: 6 ms a batch
STORED = zlib.compress(random.Random(0).randbytes(20_000) * 2)


def load(picture: int) -> None:
    """Stands for reading, decoding and augmenting a picture: a disk is waited for, then the CPU works."""
    if picture % AT_ONCE == 0:
        sleep(READ_S)
    end = thread_time() + DECODE_S  # of the CPU's time, not of the clock's: workers that share a core get no gift
    while thread_time() < end:
        zlib.decompress(STORED)


def train_torch(steps: int, report: Any) -> None:
    """The loop in PyTorch."""
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, Dataset

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    width, hidden = (1024, 4096) if device.type == "cuda" else (128, 256)
    if device.type == "cpu":
        torch.set_num_threads(1)  # matrices this small gain nothing from more, and waiting threads take a whole core
    torch.manual_seed(0)

    class Pictures(Dataset[Any]):
        def __len__(self) -> int:
            return steps * BATCH

        def __getitem__(self, index: int) -> Any:
            load(index)
            random_ = torch.Generator().manual_seed(index)
            return torch.randn(width, generator=random_), torch.randn(width, generator=random_)

    loader = DataLoader(Pictures(), batch_size=BATCH, num_workers=0)
    model = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
    model.append(nn.Linear(hidden, width))
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss_function = nn.MSELoss()

    batches = iter(loader)
    for i in range(steps):
        with unstall.step(i):
            with unstall.annotate("data_load"):
                inputs, targets = next(batches)
            with unstall.annotate("h2d_transfer"):
                inputs, targets = inputs.to(device), targets.to(device)
            with unstall.annotate("forward"):
                loss = loss_function(model(inputs), targets)
            with unstall.annotate("backward"):
                optimizer.zero_grad()
                loss.backward()
            with unstall.annotate("optimizer"):
                optimizer.step()
    if device.type == "cuda":
        torch.cuda.synchronize()
    report(f"PyTorch {torch.__version__} on {device.type}", loss.item())


class Batches:
    """A data set of NumPy batches: each is the same whoever makes it, and whenever."""

    def __init__(self, steps: int, width: int) -> None:
        self.steps, self.width = steps, width

    def __len__(self) -> int:
        return self.steps

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(self.steps))

    def __getitem__(self, index: int) -> Any:
        import numpy as np

        for picture in range(BATCH):
            load(picture)
        rng = np.random.default_rng(index)
        return rng.standard_normal((BATCH, self.width)), rng.standard_normal((BATCH, self.width))


def train_numpy(steps: int, report: Any, ahead: int = 0) -> None:
    """The loop in NumPy: the same phases, gradients by hand."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as above: for matrices this small more threads only wait
    import numpy as np

    rng = np.random.default_rng(0)
    width, hidden, rate = 128, 256, 1e-2
    first = rng.standard_normal((width, hidden)).astype("f4") / width**0.5
    second = rng.standard_normal((hidden, width)).astype("f4") / hidden**0.5

    data = Batches(steps, width)
    batches = iter(unstall.prefetch(data, workers=ahead, processes=True) if ahead else data)
    for i in range(steps):
        with unstall.step(i):
            with unstall.annotate("data_load"):
                inputs, targets = next(batches)
            with unstall.annotate("h2d_transfer"):  # there is no device: a copy in the precision of the model
                inputs, targets = inputs.astype("f4"), targets.astype("f4")
            with unstall.annotate("forward"):
                inner = np.maximum(inputs @ first, 0)
                error = inner @ second - targets
                loss = float((error**2).mean())
            with unstall.annotate("backward"):
                slope = 2 * error / error.size
                second_slope = inner.T @ slope
                first_slope = inputs.T @ ((slope @ second.T) * (inner > 0))
            with unstall.annotate("optimizer"):
                first -= rate * first_slope
                second -= rate * second_slope
    report(f"NumPy {np.__version__}", loss)


def main() -> None:
    """Train, print one line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--backend", choices=["auto", "torch", "numpy"], default="auto")
    parser.add_argument("--ahead", type=int, default=0, metavar="N", help="NumPy: draw batches in N processes")
    asked = parser.parse_args()
    backend = asked.backend
    if backend == "auto":
        try:
            import torch  # noqa: F401

            backend = "torch"
        except ImportError:
            backend = "numpy"
    start = perf_counter()

    def report(where: str, loss: float) -> None:
        seconds = perf_counter() - start
        each = 1000 * seconds / asked.steps
        print(f"{asked.steps} steps of {where}: {seconds:.1f} s, {each:.1f} ms a step, loss {loss:.4f}")

    if backend == "torch":
        train_torch(asked.steps, report)
    else:
        train_numpy(asked.steps, report, asked.ahead)


if __name__ == "__main__":
    main()
