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
import tempfile
import time
import uuid
from collections import Counter
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
    left: Counter[str] = field(default_factory=Counter)
    """By command: how often SIGKILL, which nobody can answer, left something in the temporary folder."""

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

    def of(self, command: str) -> bytes:
        """What it makes when nobody disturbs it, and how long it takes (twice: the first may find a cold disk)."""
        if command not in self.normal:
            self.seconds[command] = min(self._undisturbed(command) for _ in range(2))
        return self.normal[command]

    def _undisturbed(self, command: str) -> float:
        place = self.fresh(command)
        start = time.monotonic()
        self.start(command, place, uuid.uuid4().hex).wait()
        seconds = time.monotonic() - start
        self.normal[command] = RESULTS[command](place)
        if not self.normal[command]:
            raise HarmError(f"{command} gives nothing even when nobody disturbs it: {self.said(place).read_text()}")
        if litter := _litter(place) + _litter(self.temporary(place)):
            raise HarmError(f"{command} leaves {litter} even when nobody disturbs it")
        self.clear(place)
        return seconds

    def fresh(self, command: str) -> Path:
        """An empty folder for results, with a cache of its own, and an older result in the way."""
        place = self.room / "work" / f"{command}-{uuid.uuid4().hex[:8]}"
        place.mkdir(parents=True)
        self.temporary(place).mkdir()
        if command not in RUNS:
            (place / "out.json").write_text(OLD)
        return place

    def temporary(self, place: Path) -> Path:
        """Its temporary folder; sockets of nsys in it need a short name. What it says lies beside it."""
        return Path(tempfile.gettempdir(), f"k-{place.name[-8:]}")

    def said(self, place: Path) -> Path:
        """What it wrote to standard error."""
        return self.temporary(place).with_suffix(".err")

    def clear(self, place: Path) -> None:
        """Away with all of it."""
        shutil.rmtree(place)
        shutil.rmtree(self.temporary(place))
        self.said(place).unlink()

    def start(self, command: str, place: Path, mark: str) -> subprocess.Popen[bytes]:
        env = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE")}
        env |= {MARK: mark, "UNSTALL_CACHE_DIR": str(place / "cache"), "HOME": str(place), "POLARS_MAX_THREADS": "1"}
        env |= {"TMPDIR": str(self.temporary(place))}
        with self.said(place).open("w") as said:
            return subprocess.Popen(
                [*UNSTALL, *COMMANDS[command](self.inputs)], cwd=place, env=env, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=said, start_new_session=True,
            )  # fmt: skip

    def digest(self) -> str:
        """Of the inputs and of what lies beside them."""
        facts = [(p.name, hashlib.sha256(p.read_bytes()).hexdigest()) for p in sorted(self.inputs.iterdir())]
        return json.dumps(facts)


def _report(inputs: Path) -> list[str]:
    return ["report", str(inputs / "a.sqlite"), "--json", "out.json"]


def _compare(inputs: Path) -> list[str]:
    return ["compare", str(inputs / "a.sqlite"), str(inputs / "b.sqlite"), "--json", "out.json"]


def _run(inputs: Path, collector: str = "builtin") -> list[str]:
    script = str(inputs / "train.py")
    return ["run", "--force", "--collector", collector, "--output", "capture", "--", sys.executable, script]


def _run_nsys(inputs: Path) -> list[str]:
    return _run(inputs, "nsys")


def _ranks(inputs: Path) -> list[str]:
    return ["ranks", str(inputs / "a.sqlite"), str(inputs / "b.sqlite"), "--json", "out.json"]


COMMANDS: dict[str, Callable[[Path], list[str]]] = {
    "report": _report, "compare": _compare, "run": _run, "run-nsys": _run_nsys, "ranks": _ranks,
}  # fmt: skip
RUNS = ("run", "run-nsys")


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
    from unstall.errors import UnstallError
    from unstall.pipeline import report_of

    try:
        record = json.loads((folder / "run.json").read_text())
        report = report_of(folder / "profile.sqlite", cache=False)
    except (OSError, ValueError, UnstallError) as error:
        raise HarmError(f"half a capture, {sorted(p.name for p in folder.iterdir())}: {error}") from error
    ranges = sorted({row.name for row in report.ranges or []})
    names = [p.name for p in sorted(folder.iterdir()) if "report.html" not in p.name]
    return json.dumps([record["collector"], ranges, names]).encode()


RESULTS: dict[str, Callable[[Path], bytes]] = {
    "report": _json, "compare": _json, "run": _capture, "run-nsys": _capture, "ranks": _json,
}  # fmt: skip


def trial(stage: Stage, command: str, number: int, share: float) -> str:
    """Kill ``command`` with signal ``number`` after ``share`` of its usual time; what was left, in a word."""
    normal = stage.of(command)
    place, mark, before = stage.fresh(command), uuid.uuid4().hex, stage.digest()
    process = stage.start(command, place, mark)
    with suppress(subprocess.TimeoutExpired):
        process.wait(share * stage.seconds[command])
    ended = process.poll() is not None
    process.send_signal(number)
    code = process.wait()
    _nobody_left(mark)
    if stage.digest() != before:
        raise HarmError(f"{command}: an input was changed, or something lies beside it")
    found = RESULTS[command](place)
    complete = found == normal
    if found and not complete and not (command in RUNS and number == signal.SIGTERM):
        raise HarmError(f"{command}: a result that is not the whole one: {found[:200]!r}")
    if code == 0 and not complete:
        raise HarmError(f"{command}: exit code 0 and no whole result: {stage.said(place).read_text()}")
    _told(stage, command, place, number, code)
    _runs_again(stage, command, place)
    stage.clear(place)
    return "ended before" if ended else "whole" if complete else "cut short, whole" if found else "nothing"


def _told(stage: Stage, command: str, place: Path, number: int, code: int) -> None:
    """What it says of itself, and what lies about."""
    said, expected = stage.said(place).read_text(errors="replace"), (0, -number, 128 + number)
    held_up = "is the program's own (python: SIGKILL)" in said  # past our grace, by an nsys that had lost its agent
    if code not in expected and not (code == 128 + signal.SIGKILL and held_up):
        raise HarmError(f"{command}: exit code {code}, not one of {expected}: {said}")
    if "Traceback" in said:
        raise HarmError(f"{command}: {said}")
    litter, forgotten = _litter(place), _litter(stage.temporary(place))
    litter += [path.name for path in place.rglob(".report.html.*")]
    if number == signal.SIGTERM and (litter or forgotten):
        raise HarmError(f"{command}: SIGTERM left {litter} {forgotten}")
    stage.left[command] += bool(litter or forgotten)


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
    """Unfinished files and folders among the results, or anything in a temporary folder."""
    return sorted(p.name for p in place.iterdir() if p.name not in ("out.json", "cache", "capture", "unstall-out"))


def _runs_again(stage: Stage, command: str, place: Path) -> None:
    """The same command in the same place, with the cache as it was left, gives what it always gives."""
    stage.start(command, place, uuid.uuid4().hex).wait()
    found = RESULTS[command](place)
    if found != stage.normal[command]:
        raise HarmError(f"{command}: the next run gives something else: {found[:300]!r}")
