"""Every ``nsys`` and ``ncu`` of this machine, the best first.

Comes in: a root folder, an environment and a machine name (all three replaceable, so that tests bring their own).
Goes out: :class:`Nsys` records. Looked at: ``$NSYS``, the PATH, CUDA toolkits, ``nsight-systems`` and
``nsight-systems-cli`` trees, the copy inside Nsight Compute (``…/host/target-linux-*``), Debian's split layout, the HPC
SDK, conda. The importer is looked for next to the binary under every folder name that a release has used.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from unstall.nsys import libraries
from unstall.nsys.ask import ask

# Folder names of a target, by what the machine calls itself. sbsa is the Arm server, armv8 the older name and Tegra.
FOLDERS = {
    "x86_64": ("target-linux-x64", "Target-x86_64/x86_64", "target-linux-x86_64"),
    "aarch64": ("target-linux-sbsa-armv8", "target-linux-armv8", "target-linux-sbsa", "target-linux-tegra-armv8"),
}
HOSTS = {  # where an importer was seen: beside the target folder, under these names
    "x86_64": ("host-linux-x64", "linux-desktop-glibc_*-x64", "Host-x86_64", "host-linux-x86_64"),
    "aarch64": (
        "host-linux-sbsa-armv8",
        "host-linux-armv8",
        "linux-desktop-*-arm*",
        "host-linux-sbsa",
    ),
}
IMPORTER = "QdstrmImporter"

TREES = (  # each holds target folders, and perhaps bin/
    "usr/local/cuda*/nsight-systems-*",
    "usr/local/cuda*/NsightSystems-*",
    "opt/nvidia/nsight-systems/*",
    "opt/nvidia/nsight-systems-cli/*",
    "opt/nvidia/nsight-systems*",
    "opt/nvidia/nsight-compute/*/host",
    "usr/local/cuda*/nsight-compute-*/host",
    "opt/nvidia/hpc_sdk/Linux_*/*/profilers/Nsight_Systems",
    "usr/lib/nsight-systems",
    "usr/lib/*-linux-gnu/nsight-systems",
    "opt/nsight-systems*",
)
HOME_TREES = ("nsight-systems*", "NsightSystems*", ".local/nsight-systems*", "nvidia/nsight-systems*")
CONDA_TREES = ("nsight-systems*", "nsight-compute*/*/host", "nsight-compute*/host", "share/nsight-systems*")
BINARIES = ("usr/local/cuda*/bin", "usr/bin", "usr/local/bin", "opt/nvidia/bin")
NCU_TREES = ("opt/nvidia/nsight-compute/*", "usr/local/cuda*/bin", "usr/local/cuda*/nsight-compute-*", "usr/bin")


@dataclass(frozen=True)
class Place:
    """Where to look: a file system's root, an environment, a machine name (``x86_64`` or ``aarch64``)."""

    root: Path = Path("/")
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    machine: str = field(default_factory=platform.machine)


@dataclass(frozen=True)
class Nsys:
    """One installed nsys.

    Attributes:
        path: what to run.
        version: for instance ``(2025, 3, 1, 90)``; empty when it would not say.
        source: ``$NSYS``, ``PATH``, or the folder tree it was found in.
        importer: its ``QdstrmImporter``, or ``None`` where there is none.
        missing: shared libraries that the importer cannot find; ``None`` when that could not be told.
        error: why it does not run; empty when it does.
    """

    path: Path
    version: tuple[int, ...] = ()
    source: str = ""
    importer: Path | None = None
    missing: tuple[str, ...] | None = ()
    error: str = ""

    @property
    def whole(self) -> bool:
        """Whether nsys finds its importer by itself: beside its own folder, under the name it looks for."""
        if self.importer is None:
            return False
        folder = self.importer.parent
        return folder.name.startswith("host-") and folder.parent == Path(os.path.realpath(self.path)).parent.parent

    @property
    def text(self) -> str:
        """The version in words."""
        return ".".join(map(str, self.version)) or "unknown version"

    @property
    def complete(self) -> bool:
        """Whether it runs and its importer has all that it needs."""
        return not self.error and self.importer is not None and not self.missing


def find_nsys(place: Place | None = None) -> list[Nsys]:
    """All of them, the best first: ``$NSYS``, then complete ones, then the newest. Costs one ``--version`` each."""
    place = place or Place()
    real: dict[Path, tuple[Path, str]] = {}
    for path, source in _candidates(place):
        real.setdefault(Path(os.path.realpath(path)), (path, source))
    found = [_examine(path, source, target, place) for target, (path, source) in real.items()]
    return sorted(found, key=_rank, reverse=True)


def find_ncu(place: Place | None = None) -> list[Path]:
    """Every ``ncu`` (Nsight Compute's command line), the PATH's first."""
    place = place or Place()
    on_path = shutil.which("ncu", path=place.environ.get("PATH", ""))
    found = [Path(on_path)] if on_path else []
    found += [tree / "ncu" for pattern in NCU_TREES for tree in _newest(place.root.glob(pattern))]
    unique = {Path(os.path.realpath(p)): p for p in reversed(found) if _runnable(p)}
    return list(reversed(unique.values()))


def version_of(text: str) -> tuple[int, ...]:
    """``NVIDIA Nsight Systems version 2022.4.2.1-df9881f`` → ``(2022, 4, 2, 1)``; empty without a version."""
    match = re.search(r"\b(20\d\d(?:\.\d+)+)", text)
    return tuple(int(part) for part in match.group(1).split(".")) if match else ()


def importer_beside(nsys: Path, place: Place | None = None) -> Path | None:
    """The importer that belongs to this binary: in a sibling of its folder, or where Debian puts it."""
    place = place or Place()
    target = Path(os.path.realpath(nsys)).parent
    bases = [target.parent, target.parent.parent, target.parent / "host"]
    if "lib" in target.parts and "nsight-systems" in target.parts:
        bases.append(place.root / "usr/lib/nsight-systems")  # Debian splits target and host over two trees
    names = HOSTS.get(place.machine, ())
    found = (p / IMPORTER for base in bases for name in names for p in _newest(base.glob(name)))
    return next((path for path in found if _runnable(path)), None)


def _candidates(place: Place) -> Iterator[tuple[Path, str]]:
    named = place.environ.get("NSYS")
    if named:
        path = Path(named)
        yield (path / "nsys" if path.is_dir() else path), "$NSYS"
    for folder in place.environ.get("PATH", "").split(os.pathsep):
        yield from _existing([Path(folder) / "nsys"] if folder else [], "PATH")
    for base, patterns in _trees(place):
        for pattern in patterns:
            for tree in _newest(base.glob(pattern)):
                paths = [tree / name / "nsys" for name in (*FOLDERS.get(place.machine, ()), "bin")]
                yield from _existing([*paths, tree / "nsys"], str(tree))
    for pattern in BINARIES:
        for folder_ in _newest(place.root.glob(pattern)):
            yield from _existing([folder_ / "nsys"], str(folder_))


def _trees(place: Place) -> Iterator[tuple[Path, tuple[str, ...]]]:
    yield place.root, TREES
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if place.environ.get(name):
            yield Path(place.environ[name]), ("nsight-systems-*", "nsight-compute-*/host", "bin")
    if place.environ.get("CONDA_PREFIX"):
        yield Path(place.environ["CONDA_PREFIX"]), (*CONDA_TREES, "bin")
    if place.environ.get("HOME"):
        yield Path(place.environ["HOME"]), HOME_TREES


def _existing(paths: Iterable[Path], source: str) -> Iterator[tuple[Path, str]]:
    yield from ((path, source) for path in paths if _runnable(path))


def _runnable(path: Path) -> bool:
    try:
        return path.is_file() and os.access(path, os.X_OK)
    except OSError:
        return False


def _newest(paths: Iterable[Path]) -> list[Path]:
    """Folders, the highest version in their names first."""
    return sorted(paths, key=lambda p: [int(n) for n in re.findall(r"\d+", str(p))], reverse=True)


def _examine(path: Path, source: str, target: Path, place: Place) -> Nsys:
    version, error = _ask(path)
    importer = importer_beside(target, place)
    lacks = libraries.lacking(importer, [importer.parent], place.environ) if importer else []
    missing = None if lacks is None else tuple(lacks)
    return Nsys(path, version or version_of(str(target)), source, importer, missing, error)


def _ask(path: Path) -> tuple[tuple[int, ...], str]:
    """Its version, and why it would not run."""
    said = ask([str(path), "--version"])
    if said.why:
        return (), said.why
    version = version_of(said.out)
    if said.code and not version:
        lacks = libraries.not_found(said.text)
        words = said.text.strip().splitlines()
        return (), f"lacks {', '.join(lacks)}" if lacks else (words[-1] if words else f"ends with {said.code}")
    return version, ""


def _rank(nsys: Nsys) -> tuple[bool, bool, bool, bool, tuple[int, ...], bool]:
    """``$NSYS`` is the user's word; then what runs, then what can finish its report, then the newest."""
    named = nsys.source == "$NSYS"
    return (named, not nsys.error, nsys.importer is not None, nsys.complete, nsys.version, nsys.source == "PATH")
