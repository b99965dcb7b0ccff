"""One case in one process: timed without the profiler, fault and remedy in turns, then captured.

In: ``worker.py CASE bad|fixed OUT.json``; the profiler, if any, waits for ``cudaProfilerStart``. Out: one JSON object.
``bad`` times both variants in this very process and captures the faulty one; ``fixed`` times and captures the healthy
one. ``PLANTED_LOCK`` names a file: whoever holds its lock has the GPU, so that only imports and exits overlap.
"""

import fcntl
import importlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

Step = Callable[[int], object]

SMALL = os.environ.get("PLANTED_SMALL") == "1"
WARM = 8  # steps before every timed block and the capture: loaders' queues fill while the other variant runs
BLOCKS = 2
SECONDS = 1.0  # a block is as many steps as fit in, 10 to 30
CAPTURED = int(os.environ.get("PLANTED_STEPS", "20"))


class Loop:
    """A variant and its step counter, with what it does before and after a stretch of steps."""

    def __init__(self, step: Step) -> None:
        self.step, self.at = step, 0

    def __enter__(self) -> "Loop":
        getattr(self.step, "start", _nothing)()
        return self

    def __exit__(self, *error: object) -> None:
        torch.cuda.synchronize()
        getattr(self.step, "stop", _nothing)()

    def run(self, count: int) -> list[float]:
        """Host times of single steps, ms."""
        out = []
        for _ in range(count):
            begin = time.perf_counter()
            self.step(self.at)
            out.append((time.perf_counter() - begin) * 1e3)
            self.at += 1
        return out

    def timed(self, count: int) -> tuple[float, list[float]]:
        """ms a step, the GPU's work included, and the host's single steps."""
        torch.cuda.synchronize()
        begin = time.perf_counter()
        host = self.run(count)
        torch.cuda.synchronize()
        return (time.perf_counter() - begin) * 1e3 / count, host


def _nothing() -> None:
    return None


def time_in_turns(loops: dict[str, Loop]) -> dict[str, dict[str, Any]]:
    """Blocks of each variant in turns: drift of clocks and of the machine meets both alike."""
    found: dict[str, dict[str, Any]] = {name: {"blocks_ms": [], "host_step_ms": []} for name in loops}
    counts = {}
    for name, loop in loops.items():
        with loop:
            loop.run(WARM)  # the first ever: libraries load, memory is allocated
            counts[name] = max(10, min(30, round(SECONDS * 1e3 / loop.timed(5)[0]))) if not SMALL else 1
    for _ in range(1 if SMALL else BLOCKS):
        for name, loop in loops.items():
            with loop:
                loop.run(1 if SMALL else WARM)
                each, host = loop.timed(counts[name])
            found[name]["blocks_ms"].append(each)
            found[name]["host_step_ms"] += [round(h, 4) for h in host]
    return found


def capture(loop: Loop) -> float:
    """The steps that the profiler sees; ms a step under it."""
    with loop:
        loop.run(1 if SMALL else WARM)
        torch.cuda.synchronize()
        torch.cuda.profiler.start()
        each, _ = loop.timed(2 if SMALL else CAPTURED)
        torch.cuda.profiler.stop()
    return each


def main(case: str, variant: str, out: str) -> None:
    sys.path.insert(0, str(Path(__file__).parent / "cases"))
    if SMALL:
        import pretend

        pretend.install()
    module = importlib.import_module(case)
    lock = os.open(os.environ.get("PLANTED_LOCK", os.devnull), os.O_RDWR | os.O_CREAT)
    if "PLANTED_LOCK" in os.environ:
        fcntl.flock(lock, fcntl.LOCK_EX)  # held until this process and the children that it forked are gone
    torch.manual_seed(0)
    loops = {name: Loop(module.build(name)) for name in (("bad", "fixed") if variant == "bad" else ("fixed",))}
    times = time_in_turns(loops)
    result: dict[str, Any] = {"case": case, "variant": variant, "captured_ms": capture(loops[variant])}
    for name, found in times.items():
        prefix = "unprofiled" if name == variant else "fixed"
        result[f"{prefix}_ms"] = statistics.mean(found["blocks_ms"])
        result[f"{prefix}_blocks_ms"] = found["blocks_ms"]
        result["host_step_ms" if name == variant else "host_step_fixed_ms"] = found["host_step_ms"]
    Path(out).write_text(json.dumps(result))
    print(json.dumps({k: v for k, v in result.items() if not k.startswith("host")}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
