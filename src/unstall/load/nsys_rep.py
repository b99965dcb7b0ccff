"""``.nsys-rep`` and ``.qdstrm`` reports → :class:`~unstall.model.Profile`, through an export kept in our cache folder.

Comes in: a path. Goes out: a profile. The export never lies beside the input; one from an earlier look is used again
only if it is of the same content and finished.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path

from unstall.load import cache, sqlite
from unstall.load.exporter import Tools, export, find_tools, is_whole
from unstall.model import Profile

MAGICS = (b"NVIDIA Tegra Profiler Report", b"Nsight Systems Stream")


def sniff(head: bytes) -> bool:
    """Whether a file that begins with ``head`` is a report of Nsight Systems."""
    return any(magic in head[:64] for magic in MAGICS)


def read(path: Path, tools: Tools | None = None) -> Profile:
    """Export and read a report; ``tools`` as found on this machine unless given.

    Raises:
        ProfileUnreadable: no tool that can read it, or it is damaged.
    """
    home = cache.folder()
    if home is None:
        with tempfile.TemporaryDirectory(prefix="unstall-") as room:
            return _through(path, Path(room) / "export.sqlite", tools)
    found = _through(path, home / "exports" / f"{cache.identity(path)}.sqlite", tools)
    cache.prune(home)
    return found


def _through(path: Path, target: Path, tools: Tools | None) -> Profile:
    if is_whole(target):
        os.utime(target)
    else:
        export(path, target, tools or find_tools())
    profile = sqlite.read(target)
    return replace(profile, meta=replace(profile.meta, path=str(path)))
