"""A short question to a tool (``nsys --version``, ``nvidia-smi``): what it prints, or why it does not answer.

Comes in: a command line, a limit. Goes out: an :class:`Answer`. Nothing of the tool stays: it has a session of its own,
and whatever is left in it is killed, when it has answered as when it does not in time. Often it is a wrapper script
whose child is what hangs. What it prints goes to files: a pipe is closed only when every child that holds it has ended.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO

SECONDS = 20.0  # each of them takes 0.1 s; a first call from a cold network disk takes longer
DYING_SECONDS = 2.0  # what a disk holds up outlives its kill: it is not waited for


@dataclass(frozen=True)
class Answer:
    """What came back.

    Attributes:
        code: exit code; ``None`` where it did not run to its end.
        out, err: what it printed.
        why: why there is no answer; empty where there is one.
    """

    code: int | None = None
    out: str = ""
    err: str = ""
    why: str = ""

    @property
    def text(self) -> str:
        """All that it printed; nothing where it did not run to its end."""
        return "" if self.why else self.out + self.err


def ask(command: Sequence[str], environ: Mapping[str, str] | None = None, seconds: float = SECONDS) -> Answer:
    """Run ``command`` to its end, without input, for at most ``seconds``."""
    try:
        with _file() as out, _file() as err:
            code = _run(command, environ, seconds, out, err)
            return Answer(code, _printed(out), _printed(err))
    except subprocess.TimeoutExpired:
        return Answer(why=f"does not answer within {seconds:g} s")
    except OSError as error:
        return Answer(why=(error.strerror or str(error)).lower())


def _file() -> IO[bytes]:
    """In memory, where the system has such files: a full disk is one of the things that a tool is asked about."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("answer"), "w+b")
    return tempfile.TemporaryFile()


def _run(
    command: Sequence[str], environ: Mapping[str, str] | None, seconds: float, out: IO[bytes], err: IO[bytes]
) -> int:
    process = subprocess.Popen(
        command, env=environ, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
    )
    try:
        return process.wait(seconds)
    finally:  # an interrupt as well
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(DYING_SECONDS)


def _printed(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")
