"""What was read once, kept for a second look.

Comes in: a path and the function that reads it. Goes out: what that function gives, from the cache where the same
content was read before by the same code.

- The key is the content's identity (size, modification time, inode, and a hash of both ends) with the versions of
  everything that shaped the result, so a changed file or a new version of ours never meets an old entry.
- An entry is a folder: one Arrow file a table, and ``profile.json`` with the rest. It is written under another name and
  renamed when complete; one that cannot be read is thrown away and the file read again.
- The folder is ours alone: ``UNSTALL_CACHE_DIR``, else the user's cache directory. It holds at most
  ``UNSTALL_CACHE_MB`` (default 2048), the least recently used going first. ``UNSTALL_CACHE=off`` switches it off; a
  folder that cannot be written does the same without a word.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from unstall.load.tables import share_categories
from unstall.memory import constants
from unstall.model import TABLES, Meta, Profile, Report, Warning_

FORMAT = 1
SMALL_FILE = 8 << 20  # bytes: read in a tenth of a second, so an entry would save nothing
END_BYTES = 1 << 16
DEFAULT_MB = 2048
ABANDONED_S = 24 * 3600  # an unfinished entry of this age belongs to a process that died


class _Stored(msgspec.Struct):
    """``profile.json``: everything of a profile but its rows."""

    meta: dict[str, Any]
    notes: list[Warning_]
    rows: dict[str, int]
    constants: dict[str, dict[str, int | None]]


def through(path: Path, read: Callable[[Path], Profile | Report]) -> Profile | Report:
    """``read(path)``, or what it gave the last time for the same content."""
    home = folder() if path.stat().st_size >= SMALL_FILE else None
    if home is None:
        return read(path)
    entry = home / "profiles" / identity(path)
    kept = _get(entry)
    if kept is not None:
        return replace(kept, meta=replace(kept.meta, path=str(path)))
    found = read(path)
    if isinstance(found, Profile):
        with contextlib.suppress(OSError, pl.exceptions.PolarsError):  # a full disk must not cost the reader the answer
            _put(entry, found)
            prune(home)
    return found


def folder() -> Path | None:
    """Our cache folder, made if need be; ``None`` where there is none to be had or it is switched off."""
    if os.environ.get("UNSTALL_CACHE", "").lower() in ("off", "0", "no", "false"):
        return None
    try:
        home = Path(os.environ.get("UNSTALL_CACHE_DIR") or _default())
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=home):
            return home
    except (OSError, RuntimeError):
        return None


def identity(path: Path) -> str:
    """A name for this content read by this code. Cheap: the ends of the file, never the whole."""
    stat = path.stat()
    with path.open("rb") as file:
        ends = file.read(END_BYTES)
        file.seek(max(0, stat.st_size - END_BYTES))
        ends += file.read(END_BYTES)
    facts = (FORMAT, pl.__version__, _code(), stat.st_size, stat.st_mtime_ns, stat.st_ino)
    return hashlib.sha256(repr(facts).encode() + ends).hexdigest()[:40]


def prune(home: Path) -> None:
    """Remove what died unfinished, then the least recently used until the rest fits."""
    limit = _limit()
    kept: list[tuple[float, int, Path]] = []
    for entry in _entries(home):
        with contextlib.suppress(OSError):
            age = time.time() - entry.stat().st_mtime
            if not (entry.name.startswith(".") or ".tmp" in entry.name):
                kept.append((entry.stat().st_mtime, _size(entry), entry))
            elif age > ABANDONED_S:
                _remove(entry)
    total = sum(size for _, size, _ in kept)
    for _, size, entry in sorted(kept):
        if total <= limit:
            return
        _remove(entry)
        total -= size


def _get(entry: Path) -> Profile | None:
    if not entry.is_dir():
        return None
    share_categories()
    try:
        stored = msgspec.json.decode((entry / "profile.json").read_bytes(), type=_Stored)
        frames: dict[str, Any] = {t: _load_table(entry, t, stored) for t in stored.rows}
        os.utime(entry)
        return Profile(meta=Meta(**stored.meta), notes=tuple(stored.notes), **frames)
    except Exception:  # whatever is wrong with an entry, the file itself is still there to be read
        _remove(entry)
        return None


def _load_table(entry: Path, table: str, stored: _Stored) -> pl.DataFrame:
    frame = pl.read_ipc(entry / f"{table}.arrow")
    if len(frame) != stored.rows[table]:
        raise ValueError(table)
    constants = stored.constants.get(table, {})
    frame = frame.with_columns(pl.lit(v, dtype=pl.Int64).alias(c) for c, v in constants.items())
    return frame.select(list(TABLES[table]))


def _put(entry: Path, profile: Profile) -> None:
    entry.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix=f"{entry.name}.tmp", dir=entry.parent))
    try:
        stored = _Stored(asdict(profile.meta), list(profile.notes), {}, {})
        for table in profile.present():
            frame = profile.table(table)
            assert frame is not None
            same = constants(frame)
            stored.rows[table], stored.constants[table] = len(frame), same
            frame.drop(list(same)).write_ipc(building / f"{table}.arrow", compression="lz4")
        (building / "profile.json").write_bytes(msgspec.json.encode(stored))
        with contextlib.suppress(OSError):  # somebody else was faster: theirs is as good
            building.rename(entry)
    finally:
        _remove(building)


def _default() -> Path:
    import platformdirs

    return platformdirs.user_cache_path("unstall", appauthor=False)


def _code() -> str:
    """Changes whenever a module that shapes a profile does."""
    modules = [*Path(__file__).parent.rglob("*.py"), Path(__file__).parents[1] / "model.py"]
    stamps = sorted((m.name, m.stat().st_size, m.stat().st_mtime_ns) for m in modules)
    return hashlib.sha256(repr(stamps).encode()).hexdigest()


def _limit() -> int:
    try:
        return int(float(os.environ.get("UNSTALL_CACHE_MB", DEFAULT_MB)) * 2**20)
    except ValueError:
        return DEFAULT_MB * 2**20


def _entries(home: Path) -> Iterator[Path]:
    for kind in ("profiles", "exports"):
        with contextlib.suppress(OSError):
            yield from list((home / kind).iterdir())


def _size(entry: Path) -> int:
    files = entry.rglob("*") if entry.is_dir() else [entry]
    return sum(f.stat().st_size for f in files)


def _remove(entry: Path) -> None:
    if entry.is_dir():
        shutil.rmtree(entry, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            entry.unlink()
