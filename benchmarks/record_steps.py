"""Record real step times, one file a loop, for ``compare_aa.py`` and the tests: ``record_steps.py DIR``.

In: a folder, how many steps. Out: ``DIR/NAME.txt``, one step time in milliseconds a line, first steps included, with a
heading that says what ran where. On the CPU with numpy alone; ``--gpu`` adds loops in PyTorch on a GPU.

Each loop has its own vice, as training loops do: outliers (a file written now and then), levels (memory that grows and
is dropped), drift (a history that is searched in every step), garbage collection.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

Step = Callable[[int], None]


def matmul(_: Path) -> Step:
    """Small dense algebra: a forward and a backward pass of one layer."""
    generator = np.random.default_rng(0)
    x, w = generator.normal(size=(64, 512)).astype("f4"), generator.normal(size=(512, 512)).astype("f4")

    def step(_: int) -> None:
        nonlocal w
        y = np.maximum(x @ w, 0)
        w -= 1e-5 * (x.T @ y)

    return step


def augment(_: Path) -> Step:
    """Bound by memory: a batch of images cropped, scaled and copied."""
    generator = np.random.default_rng(0)
    images = generator.integers(0, 255, (64, 3, 96, 96), dtype=np.uint8)

    def step(i: int) -> None:
        at = i % 16
        batch = images[:, :, at : at + 80, at : at + 80].astype("f4") / 255
        np.ascontiguousarray((batch - batch.mean()).transpose(0, 2, 3, 1))

    return step


def objects(_: Path) -> Step:
    """Python objects in cycles, so that the garbage collector runs every few steps."""

    def step(_: int) -> None:
        for _k in range(400):
            node: dict[str, object] = {"values": [1.0] * 8}
            node["self"] = node

    return step


def logging(folder: Path) -> Step:
    """Writes its state to a file every 40 steps: rare long steps."""
    inner, state = matmul(folder), np.zeros(400_000)

    def step(i: int) -> None:
        inner(i)
        if i % 40 == 39:
            with (folder / "state").open("wb") as file:
                file.write(state.tobytes())
                file.flush()
                os.fsync(file.fileno())

    return step


def history(folder: Path) -> Step:
    """Keeps every loss and sums them all in every step: slower and slower."""
    inner, losses = matmul(folder), list[float]()

    def step(i: int) -> None:
        inner(i)
        losses.extend(float(k) for k in range(10))
        sum(losses)

    return step


CPU = {f.__name__: f for f in (matmul, augment, objects, logging, history)}


def gpu_loops() -> dict[str, Callable[[Path], Step]]:
    """Loops on the GPU; each step ends with the loss on the host, so that its time is the GPU's too."""
    import torch

    def model(width: int, depth: int) -> Step:
        layers = [torch.nn.Linear(width, width) for _ in range(depth)]
        net = torch.nn.Sequential(*layers).cuda()
        optimizer = torch.optim.SGD(net.parameters(), 1e-4)
        x = torch.randn(256, width, device="cuda")

        def step(_: int) -> None:
            optimizer.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            optimizer.step()
            loss.item()

        return step

    return {"gpu_small": lambda _: model(64, 40), "gpu_large": lambda _: model(4096, 6)}


def timed(step: Step, steps: int) -> Iterator[float]:
    """Milliseconds of each step."""
    for i in range(steps):
        start = time.perf_counter_ns()
        step(i)
        yield (time.perf_counter_ns() - start) / 1e6


def record(name: str, make: Callable[[Path], Step], steps: int, folder: Path) -> None:
    """Run one loop and write its step times."""
    with tempfile.TemporaryDirectory() as room:
        times = list(timed(make(Path(room)), steps))
    about = " ".join((make.__doc__ or "").split())
    heading = f"# {name}: {about}\n# {steps} steps, ms; {platform.machine()}, Python {platform.python_version()}\n"
    (folder / f"{name}.txt").write_text(heading + "".join(f"{t:.4f}\n" for t in times), encoding="utf-8")
    print(f"{name}: median {np.median(times):.3f} ms, {min(times):.3f} to {max(times):.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--gpu", action="store_true", help="loops in PyTorch on a GPU instead")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name, make in (gpu_loops() if arguments.gpu else CPU).items():
        record(name, make, arguments.steps, arguments.folder)


if __name__ == "__main__":
    main()
