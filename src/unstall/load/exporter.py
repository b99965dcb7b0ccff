"""``.nsys-rep`` or ``.qdstrm`` → a SQLite export, by the tools of an installed Nsight Systems.

Comes in: a report, a place for the export, and the tools (:func:`find_tools` looks for them; anybody who knows better
passes a :class:`Tools`). Goes out: a finished export at that place, or one clear error. The report is never touched:
``QdstrmImporter`` writes into its input, so it gets a copy.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from unstall.errors import ProfileUnreadable
from unstall.load.database import MAGIC, check_whole

INSTALLED = (  # where the packages of NVIDIA, CUDA, conda and Debian put it, beside $PATH
    "/opt/nvidia/nsight-systems*/*/bin", "/opt/nvidia/nsight-systems*/*/target-linux-*", "/usr/local/cuda*/bin",
    "/usr/lib/nsight-systems/bin", "/usr/lib/nsight-systems/target-linux-*",
    "/opt/nvidia/nsight-compute/*/host/target-linux-*",
)  # fmt: skip
IMPORTERS = (
    "/usr/lib/nsight-systems/host-linux-*", "/opt/nvidia/nsight-systems*/*/host-linux-*",
    "/opt/nvidia/nsight-compute/*/host/linux-desktop-*",
)  # fmt: skip
NEWER = ("Version number is invalid", "newer version", "not supported by this version")


@dataclass(frozen=True)
class Tools:
    """Programs to try, in order.

    Attributes:
        nsys: ``nsys`` executables: an older one cannot read a newer one's report, so there may be several.
        importers: ``QdstrmImporter`` executables.
    """

    nsys: tuple[Path, ...] = ()
    importers: tuple[Path, ...] = ()


def find_tools() -> Tools:
    """The tools on this machine: ``$UNSTALL_NSYS``, ``$PATH``, then the usual places, newest version first."""
    named = [os.environ.get("UNSTALL_NSYS"), shutil.which("nsys")]
    nsys = [Path(n).resolve() for n in named if n] + _in(INSTALLED, "nsys")
    beside = [p for n in nsys for p in n.parent.parent.glob("host-linux-*/QdstrmImporter")]
    importers = [Path(w)] if (w := shutil.which("QdstrmImporter")) else []
    return Tools(_unique(nsys), _unique([*importers, *beside, *_in(IMPORTERS, "QdstrmImporter")]))


def export(report: Path, target: Path, tools: Tools) -> None:
    """Write the export of ``report`` to ``target``, whole or not at all."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{target.stem}.tmp", dir=target.parent) as room:
        source = _imported(report, Path(room), tools) if _is_stream(report) else report
        made = _exported(report, source, Path(room), tools)
        made.replace(target)


def is_whole(path: Path) -> bool:
    """Whether an export is there and finished; nsys leaves zeroed or cut files when it is killed."""
    try:
        with path.open("rb") as file:
            good = file.read(len(MAGIC)) == MAGIC
        check_whole(path)
        return good
    except (OSError, ProfileUnreadable):
        return False


def _is_stream(report: Path) -> bool:
    with report.open("rb") as file:
        return b"Nsight Systems Stream" in file.read(64)


def _imported(report: Path, room: Path, tools: Tools) -> Path:
    if not tools.importers:
        hint = "Install Nsight Systems with its host tools, or open it once in the Nsight Systems UI and save it"
        raise ProfileUnreadable(str(report), "a raw stream (.qdstrm) and no QdstrmImporter is installed", hint)
    copy = room / "stream.qdstrm"
    shutil.copyfile(report, copy)
    made = room / "report.nsys-rep"
    failures = []
    for importer in tools.importers:
        failures.append(_run([str(importer), "-i", str(copy), "-o", str(made)]))
        if made.is_file() and made.stat().st_size:
            return made
    raise ProfileUnreadable(str(report), f"QdstrmImporter could not import it ({_why(failures)})", "Collect it again")


def _exported(report: Path, source: Path, room: Path, tools: Tools) -> Path:
    if not tools.nsys:
        raise ProfileUnreadable(str(report), "a report, and no nsys is installed here to export it", _elsewhere(report))
    made = room / "export.sqlite"
    failures = []
    for nsys in tools.nsys:
        command = [str(nsys), "export", "--type", "sqlite", "--force-overwrite", "true", "-o", str(made), str(source)]
        failures.append(_run(command))
        if is_whole(made):
            return made
        made.unlink(missing_ok=True)
    why = f"{tools.nsys[0]} could not export it ({_why(failures)})"
    if any(n in f for n in NEWER for f in failures):
        why = f"written by a newer nsys than the one installed ({tools.nsys[0]})"
    raise ProfileUnreadable(str(report), why, _elsewhere(report))


def _run(command: Sequence[str]) -> str:
    """Everything a tool said. Its exit code means nothing: nsys returns 0 for reports that it could not read."""
    try:
        done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    except OSError as error:
        return str(error)
    return (done.stderr + b"\n" + done.stdout).decode("utf-8", "replace")


def _why(failures: Sequence[str]) -> str:
    lines = [line.strip() for f in failures for line in f.replace("\r", "\n").splitlines()]
    telling = [line for line in lines if line and not line.startswith(("Processing [", "Exporting", "Generating"))]
    return telling[0][:160].rstrip(".") if telling else "it said nothing"


def _elsewhere(report: Path) -> str:
    beside = report.with_suffix(".sqlite")
    if is_whole(beside):
        return f"An export lies beside it: give that one ({beside})"
    return f"Where nsys is installed: nsys export --type sqlite {report.name}, then give the .sqlite"


def _in(patterns: Iterable[str], name: str) -> list[Path]:
    found = [p for pattern in patterns for p in Path("/").glob(f"{pattern.lstrip('/')}/{name}")]
    return sorted((p.resolve() for p in found if os.access(p, os.X_OK)), reverse=True)


def _unique(paths: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(p for p in paths if p.is_file()))
