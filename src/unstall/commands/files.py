"""Where commands write: standard output, and files that are complete or absent.

In: text or bytes and a target as the user typed it (``-``, a path, a path with ``{name}``). Out: nothing, or one clear
error. A reader that closes the pipe early (``| head``) ends the command quietly; a full disk is said in one line.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, TextIO, cast

from unstall.errors import UsageError

STDOUT = "-"
PIPE_CLOSED = 141  # 128 + SIGPIPE, what a shell reports for any program that writes into a closed pipe


def place(target: str, profile: str) -> str:
    """``target`` with ``{name}`` replaced by the profile's name without its ending."""
    return target.replace("{name}", Path(profile).name.partition(".")[0])


def check(file: str, inputs: Iterable[str | None] = ()) -> None:
    """Find out before the work starts that a file cannot be written.

    Args:
        file: where the output goes.
        inputs: what the command reads; a capture in a folder among them is read as well.

    Raises:
        UsageError: it is a folder, or its folder is not there, or it is one of the inputs.
    """
    path = Path(file)
    if path.is_file() and any(_reads(given, path) for given in inputs if given):
        raise UsageError(file, "is a file to be read", "Name another file to write")
    if path.is_dir():
        raise UsageError(file, "is a folder", "Name a file in it")
    if not path.parent.is_dir():
        raise UsageError(file, f"there is no folder {path.parent}", "Make it first")


def _reads(given: str, path: Path) -> bool:
    """Whether reading ``given`` is reading ``path``: under another name too (a link), or as a capture of a folder."""
    if os.path.isdir(given):  # noqa: PTH112 (takes any word of a command line, however long)
        from unstall.model import CAPTURES

        inside = os.path.realpath(path).startswith(os.path.join(os.path.realpath(given), ""))  # noqa: PTH118
        return inside and path.suffix in CAPTURES
    return os.path.exists(given) and os.path.samefile(given, path)  # noqa: PTH110, PTH121


@contextlib.contextmanager
def emitting() -> Iterator[TextIO]:
    """Standard output, flushed at the end; a closed pipe ends the program.

    Raises:
        UsageError: it is closed, or takes no more (a full disk).
    """
    out: TextIO | None = sys.stdout
    if out is None:  # so does Python say that the shell closed it (>&-)
        raise UsageError("standard output", "is closed", "Leave it open, or send it to /dev/null")
    try:
        yield out
        out.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())  # or Python complains while it shuts down
        if isinstance(error, BrokenPipeError):
            raise SystemExit(PIPE_CLOSED) from None
        why = f"cannot be written ({error.strerror or error})"
        raise UsageError("standard output", why, "Make room, or write to another place") from error


def emit(content: str | bytes) -> None:
    """Write to standard output exactly what is given, as UTF-8."""
    with streaming(STDOUT) as out:
        out.write(content.encode() if isinstance(content, str) else content)


def emit_text(text: str) -> None:
    """Write text for people to standard output: what a terminal would act on in it is shown instead."""
    from unstall.report.text import visible

    emit("\n".join(map(visible, text.split("\n"))))


def say(line: str) -> None:
    """One line on standard error, whatever is in it."""
    from unstall.report.text import visible

    print(visible(line), file=sys.stderr, flush=True)


@contextlib.contextmanager
def streaming(target: str) -> Iterator[BinaryIO]:
    """Bytes to standard output or into a file, as they come."""
    if target != STDOUT:
        with writing(target) as file:
            yield file
        return
    with emitting() as out:
        out.flush()
        yield out.buffer


def write(file: str, content: str | bytes) -> None:
    """Write a file so that it is there whole or not at all; devices and pipes are written through.

    Raises:
        UsageError: the file cannot be written.
    """
    with writing(file) as out:
        out.write(content.encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def writing(file: str) -> Iterator[BinaryIO]:
    """The same piece by piece: what was written takes the file's place when all of it is there.

    Raises:
        UsageError: the file cannot be written.
    """
    path = Path(file)
    try:
        with path.open("wb") if path.exists() and not path.is_file() else _replacing(path) as out:
            yield out
    except OSError as error:
        raise UsageError(file, f"cannot be written ({error.strerror or error})", "Name another file") from error


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """Through a temporary file in the same folder, so that the last step is one rename."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name[:40]}.", delete=False) as temporary:
        try:
            yield cast(BinaryIO, temporary)
            temporary.close()
            Path(temporary.name).chmod(0o666 & ~_umask())
            Path(temporary.name).replace(path)
        except BaseException:
            Path(temporary.name).unlink(missing_ok=True)
            raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
