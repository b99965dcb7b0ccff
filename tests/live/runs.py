"""What tests of ``unstall run`` share: a program with ranges, how a run is started, who of it is still alive."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from unstall.nsys.discover import find_nsys

PATIENT_SECONDS = 90  # a run takes four; a loaded machine may need more
UNSTALL = (sys.executable, "-c", "from unstall.cli import main; main()")
LOOP = """
import sys, time, nvtx
print("first line", flush=True)
for i in range(int(sys.argv[1])):
    with nvtx.annotate(f"step_{i}"):
        with nvtx.annotate("data_load"):
            time.sleep(0.004)
        with nvtx.annotate("forward"):
            sum(range(20000))
print("last line")
sys.exit(int(sys.argv[2]))
"""
RANKS = ("RANK", "WORLD_SIZE", "_PROCID", "_NTASKS", "_SIZE", "_JOB_ID")


def no_nsys() -> str:
    """Why no nsys of this machine can be used; empty where one can."""
    tools = find_nsys()
    if any(tool.complete for tool in tools):
        return ""
    found = ", ".join(f"{t.path} ({t.error or 'no importer'})" for t in tools) or "none at all"
    return f"no nsys with a working importer on this machine: {found}"


def environment(**more: str) -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.endswith(RANKS) and k != "PYTHONUNBUFFERED"} | more


def unstall(*words: object, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*UNSTALL, *map(str, words)],
        cwd=cwd,
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=PATIENT_SECONDS,
        check=False,
    )


def running(folder: Path, *words: object, options: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    """A run that is under way, its program in the loop."""
    process = subprocess.Popen(
        [*UNSTALL, "run", *options, "--output", "out", "--", *map(str, words)],
        cwd=folder,
        env=environment(MARK=str(folder)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "first line\n"
    time.sleep(0.5)
    return process


def until(true: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENT_SECONDS
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def marked(folder: Path) -> dict[int, str]:
    """Living processes of a run in this folder: pid → command line."""
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            if f"MARK={folder}".encode() in (entry / "environ").read_bytes() and entry.name != str(os.getpid()):
                found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
    return found


def last(said: str) -> str:
    return said.strip().splitlines()[-1]
