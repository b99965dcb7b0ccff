"""A script and the findings of its profile → a patch: what is edited, for which finding, and what is left alone.

In: source text and the remedies that are called for. Out: :class:`Patch`. :func:`apply` writes it: the old text stays
as ``TRAIN.py.bak``, the new one appears in one piece.
"""

from __future__ import annotations

import ast
import difflib
import io
import os
import shutil
import tempfile
import tokenize
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from unstall.errors import UsageError
from unstall.fix.remedy import Remedy

BOM = "\ufeff"  # some editors put it before whatever they save; it stays

DEEPEST = 500
"""Levels of syntax. Python 3.14 reads 20,000, of which LibCST ends the process; all before read fewer than 1,000."""


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

    _readable(text, path)
    mark = BOM if text.startswith(BOM) else ""
    script = Script(text.removeprefix(BOM), path, workers=workers)
    for remedy in remedies:
        if remedy.patch is not None:
            script.remedy = remedy.name
            remedy.patch(script)
    new = mark + script.result()
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


def _readable(text: str, path: str) -> None:
    """What Python itself cannot read never reaches LibCST, which ends the process over some of it."""
    try:
        deep = _deep(parsed(text, path))
    except SyntaxError as error:
        where = f"line {error.lineno}: {error.msg}" if error.lineno else str(error.msg)
        raise UsageError(path, f"is not Python that can be read ({where})", "Mend the syntax first") from error
    except (ValueError, RecursionError, MemoryError) as error:  # a byte of zeros; nested beyond all bounds
        why = str(error) or "nested too deeply"
        raise UsageError(path, f"is not Python that can be read ({why})", "Mend the syntax first") from error
    if deep:
        raise UsageError(path, "is nested too deeply to be patched", "Split its longest expression")


def _deep(tree: ast.AST) -> bool:
    """Whether a script is nested beyond :data:`DEEPEST`, told without recursion."""
    level: list[ast.AST] = [tree]
    for _ in range(DEEPEST):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    return bool(level)


def parsed(text: str, path: str) -> ast.Module:
    """Its tree. As bytes, so that a byte order mark and a coding line mean what they mean in a file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the script's own escapes and the like: its owner hears them when it runs
        tree = ast.parse(text.encode(), path)
        compile(tree, path, "exec", dont_inherit=True)
        return tree


def _check(new: str, path: str) -> None:
    """A patch that does not compile is a fault of ours and must not reach anybody."""
    try:
        parsed(new, path)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
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
        data = path.read_bytes()
        _encoding(data, path)
        return data.decode("utf-8")
    except OSError as error:
        raise UsageError(str(path), error.strerror or str(error), "Name the script that trains") from error
    except UnicodeDecodeError as error:
        raise UsageError(str(path), "is not UTF-8 text", "Name the script that trains, saved as UTF-8") from error


def _encoding(data: bytes, path: Path) -> None:
    """Refuse a coding line that is not of UTF-8, unless all is ASCII anyway."""
    try:
        found, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError:  # bytes that are no UTF-8, or a coding that does not exist: said by whoever decodes
        return
    if found not in ("utf-8", "utf-8-sig") and not data.isascii():
        raise UsageError(str(path), f"is written in {found}, not in UTF-8", "Save it as UTF-8, without its coding line")


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
