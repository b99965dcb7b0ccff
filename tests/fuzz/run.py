"""Thousands of damaged inputs through processes that are killed when one takes too long.

Comes in: a seed, how many inputs, a time limit. Goes out: counts on standard output, exit code 1 if there was a fault;
with ``--state FILE`` what was done is kept a line each, and the next run of the same seed goes on from there; with
``--keep DIR`` the inputs at fault.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import seeds as good
from .worker import make_input

ROOT = Path(__file__).parents[2]
PER_INPUT_S = 20.0
"""An input of this size takes a quarter of a second; the first one of a process, with its imports, three."""
START_S = 60.0

Answer = dict[str, Any]


@dataclass
class Worker:
    """One process and what it is busy with."""

    seeds: Path
    number: int = -1
    until: float = 0.0
    process: subprocess.Popen[str] = field(init=False)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        env = os.environ | {"POLARS_MAX_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "80"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", f"{__package__}.worker", str(self.seeds)], cwd=_package_root(), env=env, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.fresh = True

    def give(self, seed: int, number: int) -> None:
        assert self.process.stdin is not None
        self.number, self.until = number, time.monotonic() + PER_INPUT_S + (START_S if self.fresh else 0)
        self.fresh = False
        self.process.stdin.write(f"{seed} {number}\n")
        self.process.stdin.flush()

    def answer(self) -> Answer:
        """What it says; its death is an answer as well."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if line:
            return dict(json.loads(line))
        self.process.wait()
        return self._lost(f"the process died: {self.process.returncode}")

    def kill(self) -> Answer:
        self.process.kill()
        self.process.wait()
        return self._lost(f"took more than {PER_INPUT_S:g} s")

    def _lost(self, why: str) -> Answer:
        self.close()
        self.start()
        return {"number": self.number, "how": "", "came": "fault", "fault": why, "seconds": PER_INPUT_S}

    def close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
        self.process.wait()


def _package_root() -> Path:
    return Path(__file__).parents[len(str(__package__).split("."))]


def answers(seed: int, numbers: Iterable[int], seeds: Path, *, workers: int, limit_s: float) -> Iterator[Answer]:
    """One answer an input, in the order of their coming; stops giving out inputs after ``limit_s``."""
    pool = [Worker(seeds) for _ in range(workers)]
    left, stop = iter(numbers), time.monotonic() + limit_s
    busy: list[Worker] = []
    try:
        idle = list(pool)
        while True:
            while idle and time.monotonic() < stop and (number := next(left, None)) is not None:
                busy.append(idle.pop())
                busy[-1].give(seed, number)
            if not busy:
                return
            wait = max(0.0, min(w.until for w in busy) - time.monotonic())
            ready = select.select([w.process.stdout for w in busy], [], [], wait)[0]
            for worker in [w for w in busy if w.process.stdout in ready or time.monotonic() > w.until]:
                busy.remove(worker)
                yield worker.answer() if worker.process.stdout in ready else worker.kill()
                idle.append(worker)
    finally:
        for worker in pool:
            worker.process.kill()
            worker.close()


def main() -> int:
    """Run, count, say."""
    ask = argparse.ArgumentParser(prog="python -m tests.fuzz.run", description=__doc__)
    ask.add_argument("--count", type=int, default=500)
    ask.add_argument("--seed", type=int, default=1)
    ask.add_argument("--limit", type=float, default=1e9, metavar="S", help="stop after S seconds")
    ask.add_argument("--workers", type=int, default=2)
    ask.add_argument("--state", type=Path, help="file that keeps what was done")
    ask.add_argument("--keep", type=Path, help="folder for inputs at fault")
    asked = ask.parse_args()
    done = _done(asked.state, asked.seed)
    with tempfile.TemporaryDirectory(prefix="unstall-seeds-") as room:
        good.make(Path(room))
        numbers = [n for n in range(asked.count) if n not in done]
        for a in answers(asked.seed, numbers, Path(room), workers=asked.workers, limit_s=asked.limit):
            done[a["number"]] = a
            _keep(asked.state, asked.seed, a)
            if a["fault"]:
                print(f"{asked.seed} {a['number']} {a['how']}: {a['fault']}", flush=True)
                _keep_input(asked.keep, asked.seed, a["number"], Path(room))
    return _said(list(done.values()))


def _done(state: Path | None, seed: int) -> dict[int, Answer]:
    lines = state.read_text().splitlines() if state and state.exists() else []
    kept = [json.loads(line) for line in lines]
    return {a["number"]: a for a in kept if a.pop("seed") == seed}


def _keep(state: Path | None, seed: int, answer: Answer) -> None:
    if state:
        with state.open("a") as file:
            file.write(json.dumps({"seed": seed, **answer}) + "\n")


def _keep_input(folder: Path | None, seed: int, number: int, seeds: Path) -> None:
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        path, _ = make_input(seed, number, seeds, folder)
        shutil.move(path, folder / f"{seed}-{number}{path.suffix}")


def _said(answers: list[Answer]) -> int:
    came = Counter(a["came"] for a in answers)
    times = sorted(a["seconds"] for a in answers) or [0.0]
    median, top = times[len(times) // 2], times[-1]
    print(f"{len(answers):,} inputs: {dict(came.most_common())}; median {1e3 * median:.0f} ms, longest {top:.2f} s")
    return int(came["fault"] > 0)


if __name__ == "__main__":
    sys.exit(main())
