"""``.qdstrm`` → ``.nsys-rep`` → ``.sqlite``, past an ``nsys`` that cannot do it itself.

Comes in: a file that nsys wrote, where the result shall be, and the installed tools. Goes out: the result, complete or
absent, or :class:`~unstall.errors.ProfileUnreadable` that names what is missing and the command that brings it.

Two programs do the work. The *importer* (``QdstrmImporter``, in a sibling of nsys's own folder) makes a report of a raw
stream. nsys calls it where it finds it, which it does not inside Nsight Compute and in Debian's package: there it is
called by hand, its own folder searched for libraries. The *exporter* is ``nsys export``. A newer tool reads what an
older one wrote and not the other way round, so tools are tried in that order.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from unstall.errors import ProfileUnreadable
from unstall.nsys import libraries
from unstall.nsys.discover import Nsys, find_nsys, version_of

STREAM_MAGIC = b"NVIDIA Nsight Systems Stream"
UNFINISHED = b"\0\xff\0\xff\0\xff\0\xff"  # first bytes of a stream until nsys has written its end
REPORT_MAGIC = (b"NVIDIA Tegra Profiler Report", b"NVIDIA Nsight Systems Report")
SQLITE_MAGIC = b"SQLite format 3\0"
HEAD_BYTES = 4096
TOO_NEW = re.compile(
    r"version number is invalid|newer version", re.IGNORECASE
)  # what an older nsys says of a newer file

Run = Callable[[Sequence[str], Mapping[str, str]], tuple[int, str]]
"""Runs a command in an environment and waits for it: its exit code, and all that it printed."""
Say = Callable[[str], None]


def run_plainly(command: Sequence[str], environ: Mapping[str, str]) -> tuple[int, str]:
    """The plain way to run a tool; ``unstall run`` brings its own, under which nothing outlives us."""
    done = subprocess.run(
        command, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    return done.returncode, done.stdout.decode(errors="replace")


def is_stream(head: bytes) -> bool:
    """Whether a file that begins with ``head`` is a raw stream (``.qdstrm``)."""
    return STREAM_MAGIC in head[:64]


def is_report(head: bytes) -> bool:
    """Whether a file that begins with ``head`` is a report (``.nsys-rep``, formerly ``.qdrep``)."""
    return head.startswith(REPORT_MAGIC)


def to_sqlite(
    source: Path, target: Path, tools: Iterable[Nsys] | None = None, run: Run = run_plainly, say: Say | None = None
) -> None:
    """Turn a report or a raw stream into an SQLite export at ``target``, which is complete or absent.

    Intermediate files are written beside ``target``, never beside ``source``.

    Raises:
        ProfileUnreadable: the file is unfinished or something else, or no installed tool can read it.
    """
    say = say or _silent
    known = list(find_nsys() if tools is None else tools)
    head = _head(source)
    if is_stream(head):
        report = target.with_name(f"{target.stem}.import.nsys-rep")
        try:
            import_stream(source, report, known, run, say)
            export_report(report, target, known, run, say)
        finally:
            report.unlink(missing_ok=True)
    else:
        export_report(source, target, known, run, say)


def import_stream(
    source: Path, target: Path, tools: Sequence[Nsys], run: Run = run_plainly, say: Say | None = None
) -> None:
    """``.qdstrm`` → ``.nsys-rep``, with the importer called by hand."""
    head = _head(source)
    if head.startswith(UNFINISHED):
        raise ProfileUnreadable(str(source), "a raw stream that nsys did not finish", "Record it again")
    (say or _silent)(f"importing {source.name} ({_size(source)})")
    made = target.with_name(f".{target.name}.part.nsys-rep")
    troubles = []
    try:
        for tool in _willing(tools, version_of(head[:128].decode("latin-1")), importer=True):
            assert tool.importer is not None
            env = libraries.with_libraries(_folders(tool))
            code, text = run([str(tool.importer), "-i", str(source), "-o", str(made), "-f"], env)
            if code == 0 and made.is_file():
                made.replace(target)
                return
            troubles.append(f"{tool.importer} (nsys {tool.text}): {_why(text, code)}")
    finally:
        made.unlink(missing_ok=True)
    raise ProfileUnreadable(str(source), "no importer here could make a report of it", _importer_hint(tools, troubles))


def export_report(
    source: Path, target: Path, tools: Sequence[Nsys], run: Run = run_plainly, say: Say | None = None
) -> None:
    """``.nsys-rep`` → ``.sqlite`` by ``nsys export``; several binaries are tried, see :func:`_exporters`."""
    (say or _silent)(f"exporting {source.name} ({_size(source)})")
    made = target.with_name(f".{target.name}.part.sqlite")
    troubles = []
    try:
        for tool in _willing(tools, (), importer=False):
            for binary in _exporters(tool):
                arguments = ["export", "--type=sqlite", "--force-overwrite=true", "--quiet=true", f"--output={made}"]
                code, text = run([str(binary), *arguments, str(source)], libraries.with_libraries(_folders(tool)))
                if code == 0 and _is_sqlite(made):
                    made.replace(target)
                    return
                troubles.append(f"{binary} (nsys {tool.text}): {_why(text, code)}")
                made.unlink(missing_ok=True)
    finally:
        made.unlink(missing_ok=True)
    raise ProfileUnreadable(str(source), "no nsys here could export it to SQLite", _export_hint(tools, troubles))


def _willing(tools: Sequence[Nsys], version: tuple[int, ...], *, importer: bool) -> list[Nsys]:
    """Tools that may do it: for a stream its own version first, then newer ones, then those that lack something."""
    fit = [t for t in tools if (t.importer if importer else not t.error)]
    return sorted(fit, key=lambda t: (t.version[:3] != version[:3], t.version < version, not t.complete))


def _exporters(tool: Nsys) -> list[Path]:
    """``nsys`` itself, and one in the importer's folder where there is one."""
    beside = [tool.importer.parent / "nsys"] if tool.importer else []
    return [tool.path, *(path for path in beside if path.is_file() and os.access(path, os.X_OK))]


def _folders(tool: Nsys) -> list[Path]:
    return [tool.importer.parent] if tool.importer else []


def _importer_hint(tools: Sequence[Nsys], troubles: Sequence[str]) -> str:
    lacking = list(dict.fromkeys(lib for t in tools if t.importer for lib in t.missing or ()))
    lacking += [lib for text in troubles for lib in libraries.not_found(text) if lib not in lacking]
    if lacking:
        where = f"or put them into a folder and set {libraries.EXTRA} to it"
        return f"It lacks {', '.join(lacking)}: {libraries.install_command(lacking)}, {where}"
    if troubles:
        return f"Tried {'; '.join(troubles)}"
    return "No QdstrmImporter was found here: copy the file to a machine with all of Nsight Systems and open it there"


def _export_hint(tools: Sequence[Nsys], troubles: Sequence[str]) -> str:
    elsewhere = "export it where it was recorded (nsys export --type sqlite FILE) and name the .sqlite"
    if not tools:
        return f"No nsys was found here: {elsewhere}, or see `unstall doctor`"
    if any(TOO_NEW.search(t) for t in troubles):
        return f"A newer nsys than {', '.join(t.text for t in tools)} wrote it: {elsewhere}"
    return f"Tried {'; '.join(troubles)}" if troubles else "No nsys here runs: see `unstall doctor`"


def _why(text: str, code: int) -> str:
    """The line of a tool's output that tells most."""
    lacks = libraries.not_found(text)
    if lacks:
        return f"error while loading shared libraries: {lacks[0]}: not found"
    lines = [line.strip() for line in text.replace("\r", "\n").splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith(("Processing [", "Exporting ", "Use `--"))]
    return lines[0][:300] if lines else f"exit code {code}"


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(HEAD_BYTES)
    except OSError as error:
        raise ProfileUnreadable(str(path), (error.strerror or str(error)).lower(), "Check the path") from error


def _is_sqlite(path: Path) -> bool:
    """An interrupted export leaves a file whose head is zero."""
    return path.is_file() and _head(path).startswith(SQLITE_MAGIC)


def _size(path: Path) -> str:
    return f"{path.stat().st_size / 1e6:,.1f} MB"


def _silent(_: str) -> None:
    return None
