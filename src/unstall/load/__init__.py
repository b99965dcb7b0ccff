"""A profile file → :class:`~unstall.model.Profile`.

Comes in: a path (or, for :func:`stats`, text). Goes out: a profile, or one clear error. What a file is, its content
says, never its name: each module of this package with ``sniff(head: bytes) -> bool`` and ``read(path)`` is a
format, so a new format is a new file here and nothing else.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import shutil
import stat
import tempfile
from dataclasses import replace
from functools import cache as once
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from unstall.errors import UnstallError

if TYPE_CHECKING:
    from collections.abc import Callable

    from unstall.load._stats.frame import StatsTable
    from unstall.model import Profile, Report

T = TypeVar("T")

__all__ = ["load", "open_any", "stats", "stats_tables"]

STDIN = "-"
HEAD_BYTES = 1 << 18  # enough to find a table below a screenful of log lines
PACKED = {b"\x1f\x8b": "gunzip", b"\xfd7zXZ": "unxz", b"PK\x03\x04": "unzip", b"\x28\xb5\x2f\xfd": "unzstd"}


def load(path: str | os.PathLike[str], *, cache: bool = True) -> Profile:
    """Load a capture: an nsys ``.sqlite`` export, a ``.nsys-rep`` or ``.qdstrm`` report, or any other format here.

    Args:
        path: the file. It is only read; nothing is written beside it.
        cache: keep the result for a second look (see :mod:`unstall.load.cache` for where, and how to switch it off).

    Raises:
        ProfileUnreadable: there is no such file, or it is empty, cut off, damaged or being written.
        NotAProfile: the file is something else.
        UsageError: it is the text of ``nsys stats``, which holds sums and no events: use :func:`stats`.
    """
    from unstall.errors import UsageError
    from unstall.model import Profile

    found = _read(Path(path), cache)
    if isinstance(found, Profile):
        return found
    raise UsageError(str(path), "the text of `nsys stats`, sums without events", "Read it with unstall.load.stats")


def open_any(path: str | os.PathLike[str], *, cache: bool = True) -> Profile | Report:
    """Like :func:`load`, and the text of ``nsys stats`` as a :class:`~unstall.model.Report`."""
    return _read(Path(path), cache)


def stats(source: str | os.PathLike[str]) -> Report:
    """The text of ``nsys stats``, CSV or console columns, as a report. ``source``: the text, or a file with it."""
    from unstall.load.stats_csv import read

    return read(source)


def stats_tables(source: str | bytes | os.PathLike[str]) -> list[StatsTable]:
    """The tables in the text of ``nsys stats``, a Polars frame each, with one set of column names for all versions."""
    from unstall.load import stats_csv

    return stats_csv.stats(source)


def _read(path: Path, cache: bool) -> Profile | Report:
    from unstall.load import cache as store

    if is_stream(path):
        return _from_stream(path)
    path = _capture_in(path) if path.is_dir() else path
    head = _head(path)
    module = next((m for m in _formats() if m.sniff(head)), None)
    if module is None:
        from unstall.errors import NotAProfile

        raise NotAProfile(str(path), "not a profile in any format known here", _guess(head))
    try:
        return store.through(path, module.read) if cache else module.read(path)
    except OSError as error:
        raise _unreadable(path, error) from error


def _capture_in(folder: Path) -> Path:
    """The one capture of a folder that ``unstall run`` made."""
    from unstall.errors import ProfileUnreadable

    found = sorted(folder.glob("*.sqlite")) or sorted(folder.glob("*.nsys-rep"))
    if len(found) == 1:
        return found[0]
    if found:
        hint = f"Name one of {found[0].name} … {found[-1].name}, or show all as ranks: unstall ranks {folder}"
        raise ProfileUnreadable(str(folder), f"a folder with {len(found)} captures", hint)
    raise ProfileUnreadable(str(folder), "a folder without a capture (.sqlite, .nsys-rep)", "Name the profile itself")


def is_stream(path: Path) -> bool:
    """Standard input (``-``) or a pipe: it can be read once only."""
    try:
        return str(path) == STDIN or stat.S_ISFIFO(path.stat().st_mode)
    except OSError:
        return False


def _from_stream(path: Path) -> Profile | Report:
    return _called(copied(path, lambda copy: _read(copy, cache=False)), str(path))


def copied(path: Path, read: Callable[[Path], T]) -> T:
    """What ``read`` makes of a copy of a stream in a temporary folder; its errors bear the stream's name."""
    with tempfile.TemporaryDirectory(prefix="unstall-") as folder:
        copy = Path(folder) / "stdin"
        source = Path("/dev/stdin") if str(path) == STDIN else path
        with copy.open("wb") as kept, source.open("rb") as given:
            shutil.copyfileobj(given, kept)
        try:
            return read(copy)
        except UnstallError as error:
            name = "standard input" if str(path) == STDIN else str(path)
            raise type(error)(error.what.replace(str(copy), name), error.why, error.hint) from None


def _called(found: Profile | Report, name: str) -> Profile | Report:
    from unstall.model import Profile

    if isinstance(found, Profile):
        return replace(found, meta=replace(found.meta, path=name))
    found.profile.path = name
    return found


def _head(path: Path) -> bytes:
    from unstall.errors import ProfileUnreadable

    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError as error:
        raise _unreadable(path, error) from error
    if not head:
        why = "empty (0 bytes): its export or its copy was interrupted"
        raise ProfileUnreadable(str(path), why, "Export or copy it again")
    if not head.strip(b"\0"):
        why = "filled with zeros: its export or its copy was interrupted"
        raise ProfileUnreadable(str(path), why, "Export or copy it again")
    return head


def _unreadable(path: Path, error: OSError) -> Exception:
    from unstall.errors import ProfileUnreadable

    hints = {FileNotFoundError: "Check the path", PermissionError: "Check that you may read it"}
    return ProfileUnreadable(str(path), (error.strerror or str(error)).lower(), hints.get(type(error), ""))


def _guess(head: bytes) -> str:
    tool = next((t for magic, t in PACKED.items() if head.startswith(magic)), None)
    if tool:
        return f"It is compressed: unpack it first ({tool})"
    known = "an nsys export (.sqlite), a report (.nsys-rep, .qdstrm), the text of `nsys stats`, a PyTorch trace (.json)"
    return f"Known: {known}"


@once
def _formats() -> tuple[Any, ...]:
    modules = (importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__))
    return tuple(m for m in modules if hasattr(m, "sniff") and hasattr(m, "read"))
