"""Where a capture goes: complete or absent, never over an older one unless told.

Comes in: the program's command, ``--output``, the rank, the time. Goes out: :class:`Place`: a hidden folder beside the
final one while the run goes on, then the final one by a single rename. Ranks of one job share a folder and have one
each inside: ``DIR/rank-3``.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from unstall.collect.ranks import Rank
from unstall.errors import UsageError

ROOT = Path("unstall-out")
RECORD = "run.json"
"""The file by which a folder is known to be a capture of ours."""

LAUNCHER = re.compile(
    r"^(python[\d.]*t?|torchrun|accelerate|deepspeed|mpirun|mpiexec|srun|env|uv|time|nice|numactl|sh|bash)$"
)
OUR_FILES = re.compile(
    rf"profile\.sqlite|profile(-\d+)?\.(nsys-rep|qdrep|qdstrm)|report\.html|{re.escape(RECORD)}"
    r"|\.report\.html\.\w+"  # a page that was being written when we were killed
)


@dataclass(frozen=True)
class Place:
    """``final`` does not exist until :meth:`commit`; ``partial`` is where to write until then. ``force``: replace what
    is there."""

    final: Path
    partial: Path
    force: bool = False

    def commit(self) -> Path:
        """Make it appear, in one step: where. An older one that may be replaced is moved aside first and then removed;
        one that may not, since it was not there when we began, keeps its name, and ours gets a number."""
        aside = self.partial.with_suffix(".old")
        if self.force and self.final.is_dir() and _is_ours(self.final):
            self.final.replace(aside)
        for number in count(1):
            target = self.final if number == 1 else self.final.with_name(f"{self.final.name}-{number}")
            try:
                self.partial.replace(target)  # an empty folder gives way, a full one does not
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                    raise
            else:
                break
        shutil.rmtree(aside, ignore_errors=True)
        return target

    def discard(self) -> None:
        """Leave nothing behind, folders that we made and nobody used included."""
        shutil.rmtree(self.partial, ignore_errors=True)
        for parent in (self.final.parent, ROOT):
            with contextlib.suppress(OSError):
                if parent.absolute().is_relative_to(ROOT.absolute()):
                    parent.rmdir()


def reserve(command: Sequence[str], output: Path | None, *, force: bool, rank: Rank | None) -> Place:
    """Choose the folder and make the hidden one beside it, before the program starts.

    Raises:
        UsageError: it exists already and may not be replaced, is not a capture of ours, or cannot be written.
    """
    final = _wanted(command, output, rank)
    _refuse(final, force)
    partial = final.with_name(f".{final.name}.{os.getpid()}.part")
    try:
        partial.mkdir(parents=True)
    except OSError as error:
        why = f"the folder cannot be made ({(error.strerror or str(error)).lower()})"
        raise UsageError(str(final), why, "Name another with --output") from error
    return Place(final, partial, force)


def name_of(command: Sequence[str]) -> str:
    """What a run is called: the script's or the module's name, else the program's."""
    words = [w for w in command if not re.match(r"[A-Z_]+=", w)]
    module = next((words[i + 1] for i, w in enumerate(words[:-1]) if w == "-m"), "")
    script = next((Path(w).stem for w in words if w.endswith((".py", ".sh"))), "")
    plain = next((Path(w).name for w in words if not w.startswith("-") and not LAUNCHER.match(Path(w).name)), "")
    name = (script or module or plain or Path(command[0]).name) if words else "run"
    return re.sub(r"[^\w.-]+", "_", name).strip("._")[:60] or "run"


def size_of(folder: Path) -> int:
    """Bytes of all files in it."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _wanted(command: Sequence[str], output: Path | None, rank: Rank | None) -> Path:
    inside = Path() if rank is None else Path(f"rank-{rank.number}")
    if output is not None:
        return (Path(output) / inside).absolute()
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(_since_launch() if rank else time.time()))
    label = re.sub(r"[^\w.-]+", "_", rank.job)[:40] if rank and rank.job else stamp
    base = ROOT / f"{name_of(command)}-{label}"
    number = 1
    while (base / inside).exists():
        number += 1
        base = ROOT / f"{name_of(command)}-{label}-{number}"
    return (base / inside).absolute()


def _since_launch() -> float:
    """When the launcher started: its ranks on this host agree on that, unlike on when they themselves did."""
    try:
        ticks = int(Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[19])
        boot = float(re.search(r"btime (\d+)", Path("/proc/stat").read_text()).group(1))  # type: ignore[union-attr]
        return boot + ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return time.time()


def _is_ours(folder: Path) -> bool:
    """Whether it is a capture of ours and nothing besides."""
    names = {path.name for path in folder.iterdir()}
    return RECORD in names and all(map(OUR_FILES.fullmatch, names))


def _refuse(final: Path, force: bool) -> None:
    if not final.exists():
        return
    if not final.is_dir():
        raise UsageError(str(final), "a file, and a capture is a folder", "Name another with --output")
    if not any(final.iterdir()):
        return
    if not _is_ours(final):
        raise UsageError(str(final), "holds other files than a capture of ours", "Name another folder with --output")
    if not force:
        raise UsageError(str(final), "holds a capture already", "Name another folder, or replace it with --force")
