"""What the user named → the files to read, and a local copy of each remote one for as long as it is read.

In: files, folders, patterns, addresses (``s3://bucket/run``, whatever fsspec opens). Out: :class:`Place` s in natural
order (``rank2`` before ``rank10``). A folder is searched below; of a report and its export the export is taken.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

from unstall.errors import ProfileUnreadable, UsageError
from unstall.model import CAPTURES, Warning_

PROFILES = (*CAPTURES, ".pt.trace.json", ".pt.trace.json.gz")
"""Endings that a folder is searched for, the ones preferred first. What is named itself may be called anything."""
INSTALL = "pip install 'unstall[ranks]'"


@dataclass(frozen=True)
class Place:
    """One file, here or elsewhere; ``again``: what else of what was named came to it, itself included."""

    name: str
    again: tuple[str, ...] = ()


def is_address(name: str) -> bool:
    """``scheme://…``, and not a Windows drive."""
    return bool(re.match(r"[A-Za-z][A-Za-z0-9+.-]+(::[A-Za-z0-9+.-]+)*://", name))


def find(named: Sequence[str]) -> list[Place]:
    """Every file that was named, once.

    Raises:
        UsageError: nothing is there, or fsspec (for an address) is not.
    """
    found: list[str] = []
    for name in named:
        here = _remote(name) if is_address(name) else _local(name)
        if not here:
            hint = f"Looked for {', '.join(PROFILES[:3])} below it" if _is_folder(name) else "Check the path"
            raise UsageError(name, "no profile there", hint)
        found += here
    same: dict[str, list[str]] = {}
    for name in found:
        same.setdefault(name if is_address(name) else os.path.realpath(name), []).append(name)
    return sorted((Place(first, tuple(again)) for first, *again in same.values()), key=lambda p: natural(p.name))


def repeated(places: Sequence[Place]) -> list[Warning_]:
    """What was named more than once, in a line."""
    several = [p for p in places if p.again]
    if not several:
        return []
    first, others = several[0], [n for n in dict.fromkeys(several[0].again) if n != several[0].name]
    if len(several) > 1:
        shown = ", ".join([*(PurePath(p.name).name for p in several[:3]), *["…"] * (len(several) > 3)])
        text = f"{len(several)} files were named more than once ({shown}): each is read once."
    elif others:
        text = f"{others[0]} is the same file as {first.name}: it is read once."
    else:
        text = f"{first.name} was named {len(first.again) + 1} times: it is read once."
    return [Warning_(code="ranks-file-repeats", text=plain(text))]


def plain(text: str) -> str:
    """A name that may hold bytes which are no UTF-8, as text that can be sent and written."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def natural(name: str) -> list[Any]:
    """Sort key in which numbers count as numbers."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", name)]


@contextlib.contextmanager
def fetched(name: str) -> Iterator[str]:
    """A path that holds the file: its own, or that of a temporary copy.

    Raises:
        ProfileUnreadable: it cannot be fetched.
    """
    if not is_address(name):
        yield name
        return
    with tempfile.TemporaryDirectory(prefix="unstall-rank-") as folder:
        copy = Path(folder) / (PurePosixPath(name).name[-100:] or "profile")
        try:
            with _fsspec().open(name, "rb") as source, copy.open("wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
        except UsageError:
            raise
        except Exception as error:  # each file system has exceptions of its own
            raise ProfileUnreadable(name, f"cannot be fetched ({_said(error)})", "Check the address") from error
        yield str(copy)


def _is_folder(name: str) -> bool:
    return not is_address(name) and Path(name).is_dir()


def _local(name: str) -> list[str]:
    path = Path(name)
    if path.is_dir():
        return _preferred(str(p) for p in path.rglob("*") if _is_file(p) and _visible(p.relative_to(path).parts))
    if not path.exists() and any(c in name for c in "*?["):
        hits = glob.glob(name, recursive=True)  # noqa: PTH207 (pathlib takes no absolute pattern)
        return _preferred(n for hit in hits for n in ([hit] if Path(hit).is_file() else _local(hit)))
    return [name] if os.path.lexists(name) else []


def _is_file(path: Path) -> bool:
    """Links that lead nowhere included: what they were to bring is missing, and the reader says so."""
    return path.is_file() or (path.is_symlink() and not os.path.exists(path))  # noqa: PTH110 (pathlib raises on loops)


def _visible(parts: tuple[str, ...]) -> bool:
    """Hidden folders hold captures that are not complete."""
    return not any(part.startswith(".") for part in parts)


def _preferred(names: Iterable[str]) -> list[str]:
    """Profiles by their endings; of several of one stem, the one preferred. Without any such ending, all of them."""
    names = list(names)
    best: dict[str, tuple[int, str]] = {}
    for name in names:
        order = next((i for i, ending in enumerate(PROFILES) if name.endswith(ending)), None)
        if order is not None:
            stem = name.removesuffix(PROFILES[order])
            best[stem] = min(best.get(stem, (order, name)), (order, name))
    return [name for _, name in best.values()]


def _remote(name: str) -> list[str]:
    fsspec = _fsspec()
    try:
        system, path = fsspec.core.url_to_fs(name)
        if any(c in path for c in "*?["):
            return _preferred(system.unstrip_protocol(p) for p in system.glob(path) if not system.isdir(p))
        if system.isdir(path):
            return _preferred(system.unstrip_protocol(p) for p in system.find(path))
        return [name] if system.exists(path) else []
    except ImportError as error:
        raise UsageError(
            name, f"a package for this kind of address is missing ({_said(error)})", "Install it"
        ) from error
    except Exception as error:
        raise UsageError(name, f"cannot be listed ({_said(error)})", "Check the address") from error


def _said(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _fsspec() -> Any:
    try:
        import fsspec
        import fsspec.core
    except ImportError as error:
        raise UsageError("addresses like s3://", "fsspec is not installed", INSTALL) from error
    return fsspec
