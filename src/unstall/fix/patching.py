"""A script and the findings of its profile → a patch: what is edited, for which finding, and what is left alone.

In: source text and the remedies that are called for. Out: :class:`Patch`. :func:`apply` writes it: the old text stays
as ``TRAIN.py.bak``, the new one appears in one piece.
"""

from __future__ import annotations

import difflib
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from unstall.errors import UsageError
from unstall.fix.remedy import Remedy


class Change(msgspec.Struct, kw_only=True):
    """One remedy's edits. ``lines`` are those of the script as it was."""

    remedy: str
    title: str
    safety: str
    findings: list[str]  # codes of the findings that call for it; empty where no profile was given
    lines: list[int]


class Untouched(msgspec.Struct, kw_only=True):
    """Something that was not understood, or is not ours to decide. Line 0 is the whole script."""

    remedy: str
    line: int
    reason: str


class Patch(msgspec.Struct, kw_only=True):
    """What ``unstall fix`` says."""

    schema_version: int = 1
    path: str
    diff: str
    changes: list[Change]
    left: list[Untouched]
    proven: bool  # a profile's findings call for it
    applied: bool = False
    backup: str | None = None


@dataclass(frozen=True)
class Made:
    """The patch and the text that it makes."""

    patch: Patch
    text: str


def make(
    text: str,
    remedies: Sequence[Remedy],
    *,
    path: str,
    workers: int,
    findings: Mapping[str, Sequence[str]] | None = None,
) -> Made:
    """Write every remedy into the script that can be.

    Args:
        text: the script.
        remedies: those wanted; one without a patch is left out.
        path: its name, for the diff and for errors.
        workers: worker processes of a ``DataLoader``.
        findings: remedy → codes that call for it; ``None`` without a profile.

    Raises:
        UsageError: the script is not Python.
    """
    from unstall.fix.script import Script

    script = Script(text, path, workers=workers)
    for remedy in remedies:
        if remedy.patch is not None:
            script.remedy = remedy.name
            remedy.patch(script)
    new = script.result()
    _check(new, path)
    changes = [c for r in remedies if (c := _change(r, script.edits, (findings or {}).get(r.name, ())))]
    left = [Untouched(remedy=n.remedy, line=n.line, reason=n.text) for n in script.left]
    diff = _diff(text, new, path)
    return Made(Patch(path=path, diff=diff, changes=changes, left=left, proven=findings is not None), new)


def _change(remedy: Remedy, edits: Sequence[object], codes: Sequence[str]) -> Change | None:
    lines = sorted({e.line for e in edits if e.remedy == remedy.name})  # type: ignore[attr-defined]
    if not lines:
        return None
    return Change(remedy=remedy.name, title=remedy.title, safety=remedy.safety, findings=list(codes), lines=lines)


def _check(new: str, path: str) -> None:
    """A patch that does not compile is a fault of ours and must not reach anybody."""
    try:
        compile(new, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise UsageError(path, f"the patch would not be valid Python ({error})", "Nothing was written") from error


def _diff(old: str, new: str, path: str) -> str:
    name = path.lstrip("/")
    lines = difflib.unified_diff(_lines(old), _lines(new), f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _lines(text: str) -> list[str]:
    """Split at ``\\n`` alone: form feeds and other separators are part of a line."""
    return [f"{line}\n" for line in text.split("\n")[:-1]] + ([last] if (last := text.rpartition("\n")[2]) else [])


def read(path: Path) -> str:
    """The script's text.

    Raises:
        UsageError: it cannot be read, or is not UTF-8.
    """
    try:
        return path.read_bytes().decode("utf-8")
    except OSError as error:
        raise UsageError(str(path), error.strerror or str(error), "Name the script that trains") from error
    except UnicodeDecodeError as error:
        raise UsageError(str(path), "is not UTF-8 text", "Name the script that trains") from error


def apply(path: Path, old: str, new: str) -> Path:
    """Write the new text; returns where the old one is.

    Raises:
        UsageError: it cannot be written, or the script changed meanwhile.
    """
    real = Path(os.path.realpath(path))  # a link stays a link
    if read(real) != old:
        raise UsageError(str(path), "was changed meanwhile", "Run it again")
    try:
        backup = _back_up(real)
        _replace(real, new)
    except OSError as error:
        raise UsageError(str(path), f"cannot be written ({error.strerror or error})", "Nothing was changed") from error
    return backup


def _back_up(path: Path) -> Path:
    """A copy under the first name that is free: an older backup stays."""
    number = 0
    while True:
        backup = path.with_name(f"{path.name}.bak{number or ''}")
        try:
            with backup.open("xb") as file:
                file.write(path.read_bytes())
        except FileExistsError:
            number += 1
            continue
        shutil.copystat(path, backup)
        return backup


def _replace(path: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode())
        shutil.copymode(path, name)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
