"""``.nsys-rep`` and ``.qdstrm`` reports → :class:`~unstall.model.Profile`, through an export kept in our cache folder.

Comes in: a path. Goes out: a profile. The export never lies beside the input; one from an earlier look is used again
only if it is of the same content and finished. The work is :mod:`unstall.nsys.convert`'s.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from unstall.load import cache, sqlite
from unstall.model import Profile
from unstall.nsys.convert import is_report, is_stream, is_whole, to_sqlite
from unstall.nsys.discover import Nsys


def sniff(head: bytes) -> bool:
    """Whether a file that begins with ``head`` is a report or a raw stream of Nsight Systems."""
    return is_report(head) or is_stream(head)


def read(path: Path, tools: Iterable[Nsys] | None = None) -> Profile:
    """Export and read a report, with the tools of this machine unless others are given.

    Raises:
        ProfileUnreadable: no tool that can read it, or it is unfinished or damaged.
    """
    home = cache.folder()
    if home is None:
        with tempfile.TemporaryDirectory(prefix="unstall-") as room:
            return _through(path, Path(room) / "export.sqlite", tools)
    found = _through(path, home / "exports" / f"{cache.identity(path)}.sqlite", tools)
    cache.prune(home)
    return found


def _through(path: Path, target: Path, tools: Iterable[Nsys] | None) -> Profile:
    if is_whole(target):
        os.utime(target)
    else:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        to_sqlite(path, target, tools)
    profile = sqlite.read(target)
    return replace(profile, meta=replace(profile.meta, path=str(path)))
