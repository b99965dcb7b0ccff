"""The process that reads damaged inputs, one after the other, and may die of one.

Comes in: on standard input ``SEED NUMBER`` a line; the seeds' folder as argument. Goes out: one line of JSON each:
``{"number", "how", "came": word, "fault": text or null, "seconds"}``.
"""

from __future__ import annotations

import json
import os
import random
import resource
import sys
import tempfile
import time
import traceback
from pathlib import Path

MEMORY = 3 << 30
"""Bytes of address space. Reading a small export takes 0.3 GB of memory and, with its threads, 1.4 GB of addresses."""

THOROUGH = 4
"""Every fourth input goes through every output: pages and traces take longer than reading and diagnosing."""


def make_input(seed: int, number: int, seeds: Path, room: Path) -> tuple[Path, str]:
    """Input ``number`` of ``seed``, always the same, as a file in ``room``; and how it was damaged."""
    from .mutate import damage
    from .seeds import KINDS, of_kind

    rng = random.Random(f"{seed}:{number}")
    kind = rng.choices(KINDS, (5, 2, 2, 1))[0]
    source = rng.choice(of_kind(seeds, kind))
    target = room / f"input.{kind}"
    return target, damage(rng, source, target)


def main() -> None:
    """Work until standard input ends."""
    from unstall.pipeline import report_of

    from .check import check

    seeds = Path(sys.argv[1])
    good = report_of(seeds / "slow_loader_window.sqlite", cache=False)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for line in sys.stdin:
        seed, number = map(int, line.split())
        with tempfile.TemporaryDirectory(prefix="unstall-fuzz-") as room:
            path, how = make_input(seed, number, seeds, Path(room))
            start, fault, came = time.monotonic(), None, "fault"
            try:
                came = check(path, good, thorough=number % THOROUGH == 0)
            except BaseException as error:  # a fault of ours: that is what we are here for
                fault = "".join(traceback.format_exception_only(error)).strip() + "\n" + _where(error)
        seconds = round(time.monotonic() - start, 3)
        answer = {"number": number, "how": how, "came": came, "fault": fault, "seconds": seconds}
        print(json.dumps(answer), file=OUT, flush=True)


def _where(error: BaseException) -> str:
    """The innermost frames, ours before others."""
    frames = traceback.extract_tb(error.__traceback__)
    return " < ".join(f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in frames[::-1][:8])


if __name__ == "__main__":
    OUT = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a reader prints is not our answer
    main()
