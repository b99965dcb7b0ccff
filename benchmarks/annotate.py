"""What ``unstall.annotate`` and ``unstall.step`` cost where no profiler listens, next to doing nothing and to pip nvtx.

    python benchmarks/annotate.py

Prints nanoseconds a range: the best of many short rounds, the rounds of all cases interleaved, since a shared machine
only ever makes a round slower.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from time import perf_counter_ns

import unstall

ROUNDS, RANGES = 200, 2_000


def empty() -> None:
    for _ in range(RANGES):
        pass


def annotated() -> None:
    for _ in range(RANGES):
        with unstall.annotate("forward"):
            pass


def stepped() -> None:
    for i in range(RANGES):
        with unstall.step(i):
            pass


@unstall.annotate("forward")
def body() -> None:
    pass


def decorated() -> None:
    for _ in range(RANGES):
        body()


def nullcontext() -> None:
    for _ in range(RANGES):
        with contextlib.nullcontext():
            pass


CASES: dict[str, Callable[[], None]] = {
    "annotate, with": annotated,
    "annotate, decorated call": decorated,
    "step": stepped,
    "contextlib.nullcontext": nullcontext,
}

with contextlib.suppress(ImportError):
    import nvtx

    def pip_nvtx() -> None:
        for _ in range(RANGES):
            with nvtx.annotate("forward"):
                pass

    CASES["nvtx.annotate"] = pip_nvtx


def main() -> None:
    """Measure and print."""
    best = dict.fromkeys(["loop", *CASES], float("inf"))
    for _ in range(ROUNDS):
        for name, case in {"loop": empty, **CASES}.items():
            start = perf_counter_ns()
            case()
            best[name] = min(best[name], (perf_counter_ns() - start) / RANGES)
    found = {name: round(best[name] - best["loop"], 1) for name in CASES}
    print(json.dumps({"python": sys.version.split()[0], "ns_per_range": found}, indent=1))


if __name__ == "__main__":
    main()
