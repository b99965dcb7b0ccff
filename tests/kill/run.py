"""Many kills: ``python -m tests.kill.run --count 200 --seed 1``; which commands, signals and moments, the seed says.

Comes in: count, seed, commands. Goes out: one line a harm, counts at the end; exit code 1 if there was any harm.
"""

from __future__ import annotations

import argparse
import lzma
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from functools import cache
from pathlib import Path

from .trial import COMMANDS, UNSTALL, HarmError, Stage, trial

DATA = Path(__file__).parents[1] / "data"


def prepared(room: Path) -> Stage:
    """A stage with two captures."""
    stage = Stage(room)
    for name, capture in (("a.sqlite", "slow_loader_window"), ("b.sqlite", "healthy_window")):
        unpacked = room / name
        unpacked.write_bytes(lzma.decompress((DATA / f"{capture}.sqlite.xz").read_bytes()))
        stage.add(unpacked, name)
    return stage


@cache
def known() -> list[str]:
    """The commands that this unstall has, on this machine."""
    from unstall.nsys.discover import find_nsys

    said = subprocess.run([*UNSTALL, "--help"], capture_output=True, text=True, check=True).stdout
    found = [name for name in COMMANDS if f"\n  {name.partition('-')[0]} " in said]
    return [name for name in found if name != "run-nsys" or any(tool.complete for tool in find_nsys())]


def main() -> int:
    """Kill, count, say."""
    ask = argparse.ArgumentParser(prog="python -m tests.kill.run", description=__doc__)
    ask.add_argument("--count", type=int, default=200)
    ask.add_argument("--seed", type=int, default=1)
    ask.add_argument("--only", action="append", choices=list(COMMANDS), metavar="COMMAND", help="may be repeated")
    ask.add_argument("--limit", type=float, default=1e9, metavar="S", help="stop after S seconds")
    asked = ask.parse_args()
    rng, found, stop = random.Random(asked.seed), Counter[tuple[str, str, str]](), time.monotonic() + asked.limit
    with tempfile.TemporaryDirectory(prefix="unstall-kill-") as room:
        commands = [name for name in known() if not asked.only or name in asked.only]
        stage = prepared(Path(room))
        for command in commands:
            stage.of(command)
        print({name: f"{seconds:.2f} s" for name, seconds in stage.seconds.items()}, flush=True)
        for number in range(asked.count):
            command, sign = rng.choice(commands), rng.choice((signal.SIGKILL, signal.SIGTERM))
            share = rng.uniform(0, 1.1)
            if time.monotonic() > stop:
                break
            try:
                came = trial(stage, command, sign, share)
            except HarmError as error:
                came = "HARM"
                print(f"{number} {command} {sign.name} at {share:.2f}: {error}", flush=True)
            found[command, sign.name, came] += 1
    for (command, sign_name, came), count in sorted(found.items()):
        print(f"{command:8} {sign_name:8} {came:18} {count}")
    print("SIGKILL left something temporary:", dict(stage.left))
    return int(any(came == "HARM" for _, _, came in found))


if __name__ == "__main__":
    sys.exit(main())
