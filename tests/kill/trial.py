"""One command killed at one moment, and what must hold afterwards.

Comes in: a folder with what the commands work on (:class:`Stage`), the command's name, the signal, the moment as a
share of the undisturbed run. Goes out: what was found, in words; :class:`HarmError` where a promise does not hold.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

MARK = "UNSTALL_KILL_TEST"
PATIENCE_S = 10.0
"""For what lives on to notice that its parent is gone: the supervisor looks every 0.2 s, its sweep takes a second."""
PAD = 9 << 20
"""Bytes: files under 8 MiB are not kept in the cache."""
UNSTALL = (sys.executable, "-c", "from unstall.cli import main; main()")
OLD = "what stood there before\n"
PROGRAM = """
import subprocess, sys, time
from unstall import annotate, step
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
for i in range(12):
    with step(i), annotate("work"):
        time.sleep(0.01)
child.kill(); child.wait()
"""


class HarmError(Exception):
    """Something that a kill must not do was done."""


@dataclass
class Stage:
    """Two captures, a program, results of undisturbed runs; all in one folder."""

    room: Path
    normal: dict[str, bytes] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.inputs = self.room / "inputs"
        self.inputs.mkdir()
        (self.inputs / "train.py").write_text(PROGRAM)

    def add(self, source: Path, name: str) -> None:
        """A capture, made large enough to be worth an entry in the cache."""
        target = self.inputs / name
        shutil.copyfile(source, target)
        with closing(sqlite3.connect(target)) as db:
            db.execute("CREATE TABLE padding (x BLOB)")
            db.execute("INSERT INTO padding VALUES (zeroblob(?))", [PAD])
            db.commit()

    def measure(self, command: str) -> None:
        """Run it undisturbed: its result, and how long it takes."""
        place = self.fresh(command)
        start = time.monotonic()
        self.start(command, place, uuid.uuid4().hex).wait()
        self.seconds[command] = time.monotonic() - start
        self.normal[command] = RESULTS[command](place)
        if not self.normal[command]:
            raise HarmError(f"{command} gives nothing even when nobody disturbs it")

    def fresh(self, command: str) -> Path:
        """An empty folder for results, with a cache of its own, and an older result in the way."""
        place = self.room / "work" / f"{command}-{uuid.uuid4().hex[:8]}"
        place.mkdir(parents=True)
        if command != "run":
            (place / "out.json").write_text(OLD)
        return place

    def start(self, command: str, place: Path, mark: str) -> subprocess.Popen[bytes]:
        env = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE")}
        env |= {MARK: mark, "UNSTALL_CACHE_DIR": str(place / "cache"), "HOME": str(place), "POLARS_MAX_THREADS": "1"}
        return subprocess.Popen(
            [*UNSTALL, *COMMANDS[command](self.inputs)], cwd=place, env=env, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip

    def digest(self) -> str:
        """Of the inputs and of what lies beside them."""
        facts = [(p.name, hashlib.sha256(p.read_bytes()).hexdigest()) for p in sorted(self.inputs.iterdir())]
        return json.dumps(facts)


def _report(inputs: Path) -> list[str]:
    return ["report", str(inputs / "a.sqlite"), "--json", "out.json"]


def _compare(inputs: Path) -> list[str]:
    return ["compare", str(inputs / "a.sqlite"), str(inputs / "b.sqlite"), "--json", "out.json"]


def _run(inputs: Path) -> list[str]:
    return ["run", "--collector", "builtin", "--output", "capture", "--", sys.executable, str(inputs / "train.py")]


def _ranks(inputs: Path) -> list[str]:
    return ["ranks", str(inputs / "a.sqlite"), str(inputs / "b.sqlite"), "--json", "out.json"]


COMMANDS: dict[str, Callable[[Path], list[str]]] = {
    "report": _report, "compare": _compare, "run": _run, "ranks": _ranks,
}  # fmt: skip


def _json(place: Path) -> bytes:
    """``out.json``, empty where it is still the old one."""
    with suppress(FileNotFoundError):
        content = (place / "out.json").read_bytes()
        return b"" if content == OLD.encode() else content
    return b""


def _capture(place: Path) -> bytes:
    """What is the same in every capture of that program; empty where there is none. Its page is written afterwards."""
    folder = place / "capture"
    if not folder.exists():
        return b""
    from unstall.pipeline import report_of

    record = json.loads((folder / "run.json").read_text())
    report = report_of(folder / "profile.sqlite", cache=False)
    ranges = sorted({row.name for row in report.ranges or []})
    names = [p.name for p in sorted(folder.iterdir()) if p.name != "report.html"]
    return json.dumps([record["collector"], ranges, names]).encode()


RESULTS: dict[str, Callable[[Path], bytes]] = {"report": _json, "compare": _json, "run": _capture, "ranks": _json}


def trial(stage: Stage, command: str, number: int, share: float) -> str:
    """Kill ``command`` with signal ``number`` after ``share`` of its usual time; what was left, in a word."""
    place, mark, before = stage.fresh(command), uuid.uuid4().hex, stage.digest()
    process = stage.start(command, place, mark)
    with suppress(subprocess.TimeoutExpired):
        process.wait(share * stage.seconds[command])
    ended = process.poll() is not None
    process.send_signal(number)
    process.wait()
    _nobody_left(mark)
    if stage.digest() != before:
        raise HarmError(f"{command}: an input was changed, or something lies beside it")
    found = RESULTS[command](place)
    complete = found == stage.normal[command]
    if found and not complete and not (command == "run" and number == signal.SIGTERM):
        raise HarmError(f"{command}: a result that is not the whole one: {found[:200]!r}")
    litter = _litter(place)
    if litter and number == signal.SIGTERM:
        raise HarmError(f"{command}: SIGTERM left {litter}")
    _runs_again(stage, command, place)
    shutil.rmtree(place)
    return "ended before" if ended else "whole" if complete else "cut short, whole" if found else "nothing"


def _nobody_left(mark: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while left := _marked(mark):
        if time.monotonic() > deadline:
            for pid in left:
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            raise HarmError(f"processes live on: {list(left.values())}")
        time.sleep(0.05)


def _marked(mark: str) -> dict[int, str]:
    """Living processes that carry our mark in their environment."""
    found, wanted = {}, f"{MARK}={mark}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:120]
    return found


def _litter(place: Path) -> list[str]:
    """Unfinished files and folders among the results."""
    return sorted(p.name for p in place.iterdir() if p.name not in ("out.json", "cache", "capture", "unstall-out"))


def _runs_again(stage: Stage, command: str, place: Path) -> None:
    """The same command in the same place, with the cache as it was left, gives what it always gives."""
    if command == "run":
        shutil.rmtree(place / "capture", ignore_errors=True)
    stage.start(command, place, uuid.uuid4().hex).wait()
    found = RESULTS[command](place)
    if found != stage.normal[command]:
        raise HarmError(f"{command}: the next run gives something else: {found[:300]!r}")
