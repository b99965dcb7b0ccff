"""What ``--auto`` costs a training step of about 2 ms: with its hooks in place and without, in one process, in turns.

    python benchmarks/auto_overhead.py [--steps 100] [--rounds 25] [--losses | --record]

No profiler listens; the loop is known, and its steps are timed, as before a captured window. With ``--losses`` it is
followed all the time and its losses are kept, as in ``unstall try``. With ``--record`` ranges are also written into the
built-in collector (without its GPU trace).

The model gets as many small layers as make a step of 2 ms, which is the worst case: a step of many modules, limited by
the host. Blocks of steps with and without hooks follow each other in the order A B B A. Of each block the median step
counts: what the interpreter and the machine do now and then (a collection of garbage, another process) is in neither.
Neighbouring blocks are compared, with a bootstrap interval of the median: neighbours share the machine's mood, runs do
not. Two figures: of wall-clock time, and of the CPU time of the main thread, where every hook runs. The second does not
see what else the machine does: on a GPU it is how much longer the host takes to issue a step, on a CPU, where that
thread also computes, how much longer the step takes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any

TARGET_S = 0.002
WIDTH, BATCH = 128, 32
SETTLE = 60  # steps: changing a class throws away what the interpreter has learnt of it and of all below it


class Switch:
    """Puts the hooks in and takes them out, by the attributes that they have replaced when it is made."""

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
        if not hooked or not any(kept for _, kept in self._hooks):
            raise SystemExit("the hooks are not in place: there would be nothing to measure")

    def __call__(self, on: bool) -> None:
        for owner, name, function in self._with if on else self._without:
            setattr(owner, name, function)
        for table, kept in self._hooks:
            table.clear()
            table.update(kept if on else {})


Took = tuple[float, float]  # wall-clock and main thread's CPU seconds


def make_steps(torch: Any, device: Any, layers: int) -> Callable[[int], Took]:
    """A loop over ``layers`` small layers; returns the median of so many steps."""
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

    def run(steps: int) -> Took:
        took = []
        start, spent = perf_counter(), thread_time()
        for _ in range(steps):
            x, y = next(drawn)
            loss = loss_function(model(x.to(device)), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            took.append((perf_counter() - start, thread_time() - spent))
            start, spent = perf_counter(), thread_time()
        if device.type == "cuda":
            torch.cuda.synchronize()
        wall, cpu = zip(*took, strict=True)
        return statistics.median(wall), statistics.median(cpu)

    run(10)
    return run


def two_milliseconds(torch: Any, device: Any) -> tuple[Callable[[int], Took], int]:
    """The number of layers that takes 2 ms a step here."""
    layers = 4
    while True:
        run = make_steps(torch, device, layers)
        each = min(run(20)[0] for _ in range(3))
        if each >= 0.9 * TARGET_S:
            return run, layers
        layers = max(layers + 1, round(layers * min(2.0, TARGET_S / each)))


def main() -> None:
    """Measure and print one JSON object."""
    asked = arguments()
    phases = follow(asked)  # before torch, as the program's own import would find it
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_num_threads(1)
    switch = Switch(torch)
    switch(False)
    run, layers = two_milliseconds(torch, device)
    switch(True)
    run(SETTLE)
    if phases.finder.coast.on == (asked.losses or asked.record):
        raise SystemExit("the loop is not followed as it would be in a run: there is nothing to measure")
    pairs = in_turns(run, Switch(torch), asked.steps, asked.rounds)  # coasting has put some hooks aside
    step = statistics.median(off[0] for _, off in pairs)
    wall, cpu = ([on[i] - off[i] for on, off in pairs] for i in (0, 1))
    found = {
        "torch": torch.__version__, "device": device.type, "layers": layers, "losses": asked.losses,
        "recording": asked.record, "step_ms": round(1000 * step, 3), "wall": added(wall, step), "cpu": added(cpu, step),
    }  # fmt: skip
    print(json.dumps(found))


def arguments() -> argparse.Namespace:
    """How long, and what the hooks do meanwhile."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--steps", type=int, default=100, help="steps a block")
    parser.add_argument("--rounds", type=int, default=25, help="pairs of blocks")
    more = parser.add_mutually_exclusive_group()
    more.add_argument("--losses", action="store_true", help="follow every step, keep its losses: as `unstall try` does")
    more.add_argument("--record", action="store_true", help="write ranges into the built-in collector as well")
    return parser.parse_args()


def follow(asked: argparse.Namespace) -> Any:
    """Make ready for torch's import; what tells whether the loop is followed step by step."""
    from unstall.instrument import AUTO, PARTS, Options, phases

    folder = tempfile.mkdtemp(prefix="unstall-overhead-")
    template = os.environ["UNSTALL_STEP_LOG"] = str(Path(folder) / "steps-{pid}.json")
    options = Options(parts=PARTS if asked.losses else AUTO, step_log=template, record=folder if asked.record else "")
    if asked.record:
        from unstall.instrument import gpu, recorder

        gpu.prepare = lambda *_: None  # ranges and samples alone: the GPU's trace has a cost of its own
        recorder.start(options)
    return phases.start(options)


def in_turns(run: Callable[[int], Took], switch: Switch, steps: int, rounds: int) -> list[tuple[Took, Took]]:
    """Pairs of neighbouring blocks: with hooks, without."""
    pairs = []
    for round_ in range(rounds):
        took = {}
        for on in (False, True) if round_ % 2 == 0 else (True, False):
            switch(on)
            run(SETTLE)
            took[on] = run(steps)
        pairs.append((took[True], took[False]))
    return pairs


def added(seconds: Sequence[float], step: float) -> dict[str, Any]:
    """What the hooks add to a step of ``step`` seconds: the median, with the 95 % bootstrap interval of it."""
    rng = random.Random(0)
    medians = sorted(statistics.median(rng.choices(seconds, k=len(seconds))) for _ in range(2000))
    found = (statistics.median(seconds), medians[50], medians[1949])
    percent, *interval = (round(100 * s / step, 2) for s in found)
    return {"us_per_step": round(1e6 * found[0], 1), "percent": percent, "interval_percent": interval}


if __name__ == "__main__":
    main()
