"""What ``--auto`` costs a training step of about 2 ms: with its hooks in place and without, in one process, in turns.

    python benchmarks/auto_overhead.py [--steps 100] [--rounds 25] [--record]

No profiler listens; the hooks follow the loop, time its steps and keep its losses, as in ``unstall try`` and before a
captured window. With ``--record`` they also write ranges into the built-in collector (without its GPU trace).

The model gets as many small layers as make a step of 2 ms, which is the worst case: a step of many modules, limited by
the host. Blocks of steps with and without hooks follow each other in the order A B B A; each ends with the device idle.
Reported is the median of the ratios of neighbouring blocks, with a bootstrap interval: neighbours share the machine's
mood, runs do not. On a GPU the times are wall-clock; on a CPU they are the CPU time of the one thread that computes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any

TARGET_S = 0.002
WIDTH, BATCH = 128, 32
SETTLE = 60  # steps: changing a class throws away what the interpreter has learnt of it and of all below it


class Switch:
    """Puts the hooks in and takes them out, by the attributes that they replaced."""

    def __init__(self, torch: Any) -> None:
        loader = torch.utils.data.dataloader
        places = [
            (torch.nn.Module, "__call__"), (torch.autograd, "backward"), (loader._BaseDataLoaderIter, "__next__"),
            (loader.DataLoader, "__iter__"), (torch, "save"), (torch.Tensor, "to"), (torch.Tensor, "cuda"),
            (torch.Tensor, "copy_"),
        ]  # fmt: skip
        hooked = [(o, n, getattr(o, n)) for o, n in places if hasattr(getattr(o, n), "__wrapped__")]
        self._with, self._without = hooked, [(o, n, f.__wrapped__) for o, n, f in hooked]
        optim = sys.modules["torch.optim.optimizer"]
        self._hooks: list[tuple[Any, dict[Any, Any]]] = [
            (table, dict(table)) for table in (optim._global_optimizer_pre_hooks, optim._global_optimizer_post_hooks)
        ]
        if len(hooked) < 4 or not all(kept for _, kept in self._hooks):
            raise SystemExit("the hooks are not in place: there would be nothing to measure")

    def __call__(self, on: bool) -> None:
        for owner, name, function in self._with if on else self._without:
            setattr(owner, name, function)
        for table, kept in self._hooks:
            table.clear()
            table.update(kept if on else {})


def make_steps(torch: Any, device: Any, layers: int) -> Callable[[int], float]:
    """A loop over ``layers`` small layers; returns seconds for so many steps."""
    nn = torch.nn
    model = nn.Sequential(*[nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(layers)]).to(device)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3, foreach=True)
    loss_function = nn.MSELoss()
    data = torch.utils.data.TensorDataset(torch.randn(BATCH * 64, WIDTH), torch.randn(BATCH * 64, WIDTH))
    loader = torch.utils.data.DataLoader(data, batch_size=BATCH)

    def batches() -> Iterator[Any]:
        while True:
            yield from loader

    drawn = batches()
    now = perf_counter if device.type == "cuda" else thread_time

    def run(steps: int) -> float:
        start = now()
        for _ in range(steps):
            x, y = next(drawn)
            loss = loss_function(model(x.to(device)), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if device.type == "cuda":
            torch.cuda.synchronize()
        return now() - start

    run(10)
    return run


def two_milliseconds(torch: Any, device: Any) -> tuple[Callable[[int], float], int]:
    """The number of layers that takes 2 ms a step here."""
    layers = 4
    while True:
        run = make_steps(torch, device, layers)
        each = min(run(20) for _ in range(3)) / 20
        if each >= 0.9 * TARGET_S:
            return run, layers
        layers = max(layers + 1, round(layers * min(2.0, TARGET_S / each)))


def main() -> None:
    """Measure and print one JSON object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--steps", type=int, default=100, help="steps a block")
    parser.add_argument("--rounds", type=int, default=25, help="pairs of blocks")
    parser.add_argument("--record", action="store_true", help="write ranges into the built-in collector as well")
    asked = parser.parse_args()
    from unstall.instrument import PARTS, Options, phases

    folder = tempfile.mkdtemp(prefix="unstall-overhead-")
    template = str(Path(folder) / "steps-{pid}.json")
    os.environ["UNSTALL_STEP_LOG"] = template
    options = Options(parts=PARTS, step_log=template)
    if asked.record:
        from unstall.instrument import gpu, recorder

        gpu.prepare = lambda *_: None  # ranges and samples alone: the GPU's trace has a cost of its own
        options = Options(parts=PARTS, step_log=template, record=folder)
        recorder.start(options)
    phases.start(options)  # before torch, as the program's own import would find it
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_num_threads(1)
    switch = Switch(torch)
    switch(False)
    run, layers = two_milliseconds(torch, device)
    ratios, plain = [], []
    for round_ in range(asked.rounds):
        order = (False, True) if round_ % 2 == 0 else (True, False)
        took = {}
        for on in order:
            switch(on)
            run(SETTLE)
            took[on] = run(asked.steps)
        ratios.append(took[True] / took[False])
        plain.append(took[False] / asked.steps)
    print(json.dumps(summary(ratios, plain, layers, device.type, torch.__version__, record=asked.record), indent=1))


def summary(ratios: list[float], plain: list[float], layers: int, device: str, version: str, *, record: bool) -> Any:
    """Median ratio with a 95 % bootstrap interval of the median."""
    rng = random.Random(0)
    medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(2000))
    return {
        "torch": version, "device": device, "layers": layers, "recording": record,
        "step_ms": round(1000 * statistics.median(plain), 3),
        "overhead_percent": round(100 * (statistics.median(ratios) - 1), 2),
        "interval_percent": [round(100 * (medians[i] - 1), 2) for i in (50, 1949)],
        "overhead_us_per_step": round(1e6 * statistics.median(plain) * (statistics.median(ratios) - 1), 1),
    }  # fmt: skip


if __name__ == "__main__":
    main()
