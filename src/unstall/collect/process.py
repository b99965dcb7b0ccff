"""Run a command so that its output streams through, signals end it in good order, and nothing of it outlives us.

Comes in: a command, its environment, where a profiler lives. Goes out: :class:`Ended`. The work is done by a process of
our own between us and the command, see ``supervise.py``; here is our end of the two pipes.

First Ctrl-C: the program gets what a terminal would send it, and whatever was captured is kept; the second sends it
SIGTERM, the third SIGKILL. SIGTERM and SIGHUP to us: SIGTERM to the program, SIGKILL after a grace time. Before and
after the program runs, :mod:`unstall.collect.interrupts` has them.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import IO, Any

from unstall.collect.ranks import VARIABLES, called, rank_of

SCRIPT = Path(__file__).with_name("supervise.py")
MARK = "UNSTALL_RUN"
"""Environment variable by which everything below one supervisor is recognised."""

GRACE = 5.0  # seconds; SLURM waits 30 s between SIGTERM and SIGKILL, docker stop 10 s, and the report needs some of it
LINGER = 5.0  # seconds; an agent of nsys leaves within 1 s of its report
PATIENCE = 60.0  # seconds without one byte read, written or printed; seen: an agent that hung used none in 10 minutes
PATIENCE_VARIABLE = "UNSTALL_NSYS_PATIENCE"
STAGES = {signal.SIGINT: ("INT", "TERM", "KILL"), signal.SIGTERM: ("TERM", "KILL"), signal.SIGHUP: ("TERM", "KILL")}


@dataclass(frozen=True)
class Ended:
    """How a supervised command ended.

    Attributes:
        code: exit code of the command, shell style (128 + signal).
        program_code: the program's own, where it could be seen apart from the profiler's.
        started: whether the program itself was reached.
        piped: whether the program's output came through the profiler, not directly.
        signals: signals that we got meanwhile, by name.
        stuck: whether the profiler hung and was ended.
        left: names of processes that the program left running and that were ended.
        seen: processes of the program that lived a second or more: pid → name.
        ranks: of the program's processes, those that a launcher numbered: pid → name and rank.
        seconds: that the program ran.
        limited: whether it was ended because its time was over.
        profiler_code: exit code of a profiler that ended before the program; ``None`` where it did not.
        error: why the command could not be started; empty otherwise.
    """

    code: int
    program_code: int | None = None
    started: bool = False
    piped: bool = False
    signals: tuple[str, ...] = ()
    stuck: bool = False
    left: tuple[str, ...] = ()
    seen: dict[int, str] = field(default_factory=dict)
    ranks: dict[int, tuple[str, int]] = field(default_factory=dict)
    seconds: float = 0.0
    limited: bool = False
    profiler_code: int | None = None
    error: str = ""


@dataclass(frozen=True)
class Limit:
    """When to end the program: ``seconds`` after ``begin`` on the monotonic clock, or, where there is a ``mark``, after
    a file whose path begins so has appeared."""

    seconds: float
    begin: float = 0.0
    mark: str = ""


@dataclass
class Watched:
    """What the supervisor has told so far."""

    events: list[dict[str, Any]] = field(default_factory=list)
    signals: list[str] = field(default_factory=list)
    on_event: Callable[[dict[str, Any]], None] | None = None

    def take(self, event: dict[str, Any]) -> None:
        self.events.append({"at": time.monotonic(), **event})
        if self.on_event:
            self.on_event(event)

    def between(self, first: str, last: str) -> float:
        """Seconds from one event to another, 0 where either is missing."""
        begin, end = self.find(first), self.find(last) or self.find("ended")
        return float(end["at"] - begin["at"]) if begin and end else 0.0

    def find(self, name: str) -> dict[str, Any] | None:
        return next((e for e in self.events if e["event"] == name), None)


def supervise(
    command: Sequence[str],
    environ: Mapping[str, str],
    *,
    out: Path | None = None,
    err: Path | None = None,
    folders: Sequence[Path] = (),
    shim: Path | None = None,
    remove: Sequence[Path] = (),
    on_event: Callable[[dict[str, Any]], None] | None = None,
    limit: Limit | None = None,
    lasting: bool = True,
    tool: bool = False,
) -> Ended:
    """Run ``command`` to its end. See ``supervise.Order`` for what the arguments mean.

    ``remove`` names what must not stay if we are killed meanwhile. With ``folders`` the command is a profiler that
    lives in them and ``shim`` the file by which the program is recognised; without, the command is the program. A
    ``tool`` of ours gets no signals: whoever calls decides whether it may finish.
    """
    mark = uuid.uuid4().hex
    order = {
        "command": list(command), "out": _text(out), "err": _text(err), "shim": _text(shim) or "",
        "folders": [os.path.realpath(f) + os.sep for f in folders], "remove": [str(p) for p in remove],
        "patience": float(os.environ.get(PATIENCE_VARIABLE, PATIENCE)), "linger": LINGER, "grace": GRACE,
        "parent": os.getpid(), "environ": as_it_was(environ, "LC_CTYPE"), "shielded": bool(folders) or tool,
        "lasting": lasting, "limit": limit and asdict(limit), "launchers": list(VARIABLES),
    }  # fmt: skip
    control_r, control_w = os.pipe()
    status_r, status_w = os.pipe()
    watched = Watched(on_event=on_event)
    with open(status_r, encoding="utf-8") as status, contextlib.ExitStack() as stack:  # noqa: PTH123 (a descriptor)
        with _closing(control_r, status_w), _held_back():
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(SCRIPT), str(control_r), str(status_w)],
                env={**environ, MARK: mark},
                pass_fds=(control_r, status_w),
                start_new_session=True,
            )
        stack.callback(process.wait)
        stack.enter_context(_closing(control_w))  # first of all, should we be interrupted: then it ends what runs
        with contextlib.nullcontext() if tool else _forwarding(control_w, watched):
            os.write(control_w, json.dumps(order).encode() + b"\n")
            _follow(status, watched)
            process.wait()
    if watched.find("ended") is None:
        kill_marked(mark)
    return _ended(watched, environ)


def kill_marked(mark: str) -> list[int]:
    """Kill every process whose environment carries this mark: for the case that the supervisor itself was killed."""
    needle = f"{MARK}={mark}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if int(entry.name) != os.getpid() and needle in (entry / "environ").read_bytes().split(b"\0"):
                os.kill(int(entry.name), signal.SIGKILL)
                found.append(int(entry.name))
    return found


def run_quietly(command: Sequence[str], environ: Mapping[str, str], folder: Path) -> tuple[int, str]:
    """Run a tool to its end, its output kept: exit code and text. Nothing of it outlives us either.

    A group's or everybody's signal does not reach it; an exception raised by a signal handler of ours ends it.
    """
    log = folder / f"tool-{uuid.uuid4().hex[:8]}.log"
    try:
        ended = supervise(command, environ, out=log, err=log, tool=True)
        return ended.code, log.read_text(errors="replace") or ended.error
    finally:
        log.unlink(missing_ok=True)


def _follow(status: IO[str], watched: Watched) -> None:
    for line in status:
        watched.take(json.loads(line))


def _ended(watched: Watched, environ: Mapping[str, str]) -> Ended:
    last = watched.find("ended") or {"code": 137, "error": "the process that supervises it was killed"}
    program, profiler = watched.find("program"), watched.find("profiler-ended")
    return Ended(
        code=last["code"],
        program_code=last.get("program_code"),
        started=program is not None,
        piped=program is not None and program["how"] == "piped",
        signals=tuple(watched.signals),
        stuck=watched.find("stuck") is not None,
        left=tuple(last.get("left", ())),
        seen={int(pid): name for pid, name in last.get("seen", {}).items()},
        ranks=_ranks(last.get("launched", {}), environ),
        seconds=watched.between("program", "program-ended"),
        limited=watched.find("limit") is not None,
        profiler_code=profiler["code"] if profiler else None,
        error=last.get("error", ""),
    )


def _ranks(
    launched: Mapping[str, tuple[Sequence[str], Mapping[str, str]]], ours: Mapping[str, str]
) -> dict[int, tuple[str, int]]:
    """What only inherits our own number is not numbered: it may be the launcher of others."""
    here = {name: ours[name] for name in VARIABLES if name in ours}
    found = {int(pid): (words, rank_of(told)) for pid, (words, told) in launched.items() if told != here}
    return {pid: (called(words), rank.number) for pid, (words, rank) in found.items() if rank is not None}


@contextlib.contextmanager
def _forwarding(control: int, watched: Watched) -> Iterator[None]:
    """While it runs, SIGINT, SIGTERM and SIGHUP go to the program, not to us. Signals that are ignored stay ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals belong to the main thread
        return

    def pass_on(number: int, _: FrameType | None) -> None:
        name = signal.Signals(number).name
        stages = STAGES[signal.Signals(number)]
        word = stages[min(watched.signals.count(name), len(stages) - 1)]
        watched.signals.append(name)
        with contextlib.suppress(OSError):
            os.write(control, word.encode() + b"\n")

    kept = {n: signal.signal(n, pass_on) for n in STAGES if signal.getsignal(n) is not signal.SIG_IGN}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def nothing() -> None:
    """Is called in vain."""


def as_it_was(environ: Mapping[str, str], *names: str) -> dict[str, str | None]:
    """These variables, null for unset. Python sets ``LC_CTYPE`` at its start where the locale is ``C``."""
    return {name: environ.get(name) for name in names}


@contextlib.contextmanager
def _held_back() -> Iterator[None]:
    """What is started meanwhile has these signals blocked until it says otherwise: it has no handlers yet."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STAGES)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _closing(*descriptors: int) -> Iterator[None]:
    try:
        yield
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
