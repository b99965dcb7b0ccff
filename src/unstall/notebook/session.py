"""nsys, where the kernel runs under it: a cell is what lies between ``nsys start`` and ``nsys stop``.

In: the environment that nsys gives its program. Out: a :class:`Session`, or none. A kernel under ``nsys launch``
(:mod:`unstall.notebook.kernel` makes one) can capture cell by cell. Under ``nsys profile`` the capture runs already and
ends with the kernel: the cell becomes a range in it, and that is said.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from unstall.errors import UnstallError
from unstall.instrument import AUTO, Options
from unstall.nsys.ask import ask

if TYPE_CHECKING:
    from unstall.notebook.cell import Captured
    from unstall.notebook.options import Asked

PATIENCE = 120.0  # seconds for `nsys stop`, which writes and imports the capture
RANGE = "unstall_cell"
QUIET = ("--sample=none", "--cpuctxsw=none")
"""No CPU samples: the kernel's idle threads are of no interest, and nsys 2022 may hang with them."""


@dataclass(frozen=True)
class State:
    """As nsys calls it: ``Launched``, ``Collection`` …; empty where that is not known, and ``why``."""

    name: str
    why: str = ""


@dataclass(frozen=True)
class Session:
    """The session of nsys that this process belongs to.

    Attributes:
        number: as nsys numbers it.
        tool: the nsys to talk to it with.
    """

    number: str
    tool: Path

    @staticmethod
    def of_this_process(environ: Mapping[str, str] = os.environ) -> Session | None:
        """The session, or ``None`` where no nsys started this process or none can be found to talk to it."""
        number = environ.get("NSYS_PROFILING_SESSION_ID", "")
        tool = _tool(environ) if number else None
        return Session(number, tool) if tool else None

    def state(self) -> State:
        """What ``nsys sessions list`` says of it."""
        answer = ask([str(self.tool), "sessions", "list"])
        rows = [line.split() for line in answer.out.splitlines()]
        name = next((row[2] for row in rows if row[:1] == [self.number] and len(row) > 2), "")
        missing = f"does not list session {self.number}" if answer.code == 0 else f"ends with exit code {answer.code}"
        return State(name, "" if name else answer.why or missing)

    @contextmanager
    def capture(self, path: Path, asked: Asked, captured: Captured) -> Iterator[None]:
        """Capture the block. Errors of nsys are notes: the cell runs in any case."""
        if asked.steps:
            captured.notes.append("nsys captures the whole cell; --steps is for the built-in collector")
        started = self._start(path, captured)
        try:
            with _hooked(asked):
                yield
        finally:
            if started:
                self._stop(path, captured)

    def _start(self, path: Path, captured: Captured) -> bool:
        state = self.state()
        if state.name != "Launched":
            captured.notes.append(_not_alone(state))
            return False
        done = self._nsys("start", f"--session={self.number}", f"--output={path.with_suffix('')}", *QUIET)
        if done.returncode:
            captured.notes.append(f"nsys did not start: {_last(done)}")
        return not done.returncode

    def _stop(self, path: Path, captured: Captured) -> None:
        from unstall.collect import redact
        from unstall.nsys import convert

        done = self._nsys("stop", f"--session={self.number}")
        left = next((p for ending in (".nsys-rep", ".qdstrm") if (p := path.with_suffix(ending)).exists()), None)
        if left is None:
            captured.notes.append(f"nsys left no capture: {_last(done)}")
            return
        try:
            convert.to_sqlite(left, path)
            redact.clean_up(path)  # an export holds the environment, tokens included
            captured.path = path
        except UnstallError as error:
            captured.notes.append(str(error))

    def _nsys(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.tool), *words]
        try:
            return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return subprocess.CompletedProcess(command, 1, "", str(error))


def _not_alone(state: State) -> str:
    """Why the cell has no capture of its own, and where it may be found instead."""
    if not state.name:
        return (
            f"whether nsys is capturing this kernel is not known: `nsys sessions list` {state.why}. No capture was "
            f"started for this cell; in one of the kernel as a whole, if there is one, it is the range {RANGE}"
        )
    if state.name != "Collection":
        return f"nsys cannot start a capture for this cell: the kernel's session is in the state {state.name}"
    return (
        f"the kernel as a whole is being captured by nsys: this cell is the range {RANGE} in that capture, "
        "which is there when the kernel ends. For a report a cell: python -m unstall.notebook.kernel --help"
    )


@contextmanager
def _hooked(asked: Asked) -> Iterator[None]:
    """The ranges that nsys is to see."""
    from unstall.instrument import inside, steps
    from unstall.instrument.annotate import annotate

    options = Options(parts=AUTO if asked.auto else ())
    with annotate(RANGE), steps.clocked(options), inside.automatic(options) if asked.auto else nullcontext():
        yield


def _tool(environ: Mapping[str, str]) -> Path | None:
    """The nsys beside the library that it put into this process, else the best on this machine."""
    from unstall.nsys.discover import find_nsys

    beside = Path(environ.get("NVTX_INJECTION64_PATH", "")).parent / "nsys"
    if beside.is_file() and os.access(beside, os.X_OK):
        return beside
    return next((tool.path for tool in find_nsys() if not tool.error), None)


def _last(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line.strip() for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.strip()]
    return lines[-1] if lines else f"exit code {done.returncode}"
