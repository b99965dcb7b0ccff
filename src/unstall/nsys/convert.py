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
import shutil
import subprocess
import tempfile
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


def is_unfinished(path: Path) -> bool:
    """Whether it is a raw stream whose end nsys has not written: no importer takes it."""
    return _head(path).startswith(UNFINISHED)


def to_sqlite(
    source: Path, target: Path, tools: Iterable[Nsys] | None = None, run: Run = run_plainly, say: Say | None = None
) -> None:
    """Turn a report or a raw stream into an SQLite export at ``target``, which is complete or absent.

    Everything in between is written beside ``target``; ``source`` is only read.

    Raises:
        ProfileUnreadable: the file is unfinished or something else, or no installed tool can read it.
    """
    known = list(find_nsys() if tools is None else tools)
    with tempfile.TemporaryDirectory(prefix=f".{target.stem[:40]}.", dir=target.parent) as room:
        report = source
        if is_stream(_head(source)):
            report = Path(room) / "imported.nsys-rep"
            import_stream(source, report, known, run, say)
        export_report(report, target, known, run, say)


def import_stream(
    source: Path, target: Path, tools: Sequence[Nsys], run: Run = run_plainly, say: Say | None = None
) -> None:
    """``.qdstrm`` → ``.nsys-rep``, with the importer called by hand, on a copy: it writes into what it reads."""
    head = _head(source)
    if is_unfinished(source):
        raise ProfileUnreadable(str(source), "a raw stream that nsys did not finish", "Record it again")
    (say or _silent)(f"importing {_said(source)}")
    troubles = []
    with tempfile.TemporaryDirectory(prefix=".import.", dir=target.parent) as room:
        stream, made = Path(room) / "stream.qdstrm", Path(room) / "report.nsys-rep"
        for tool in _willing(tools, version_of(head[:128].decode("latin-1")), importer=True):
            shutil.copyfile(source, stream)
            code, text = run([str(tool.importer), "-i", str(stream), "-o", str(made)], _environment(tool))
            if code == 0 and made.is_file() and made.stat().st_size:
                made.replace(target)
                return
            made.unlink(missing_ok=True)
            troubles.append(f"{tool.importer} (nsys {tool.text}): {_why(text, code)}")
    hint = _importer_hint(tools, troubles)
    raise ProfileUnreadable(str(source), "a raw stream that no importer here could turn into a report", hint)


def export_report(
    source: Path, target: Path, tools: Sequence[Nsys], run: Run = run_plainly, say: Say | None = None
) -> None:
    """``.nsys-rep`` → ``.sqlite`` by ``nsys export``. Its exit code is not enough: a killed one leaves half a file."""
    (say or _silent)(f"exporting {_said(source)}")
    troubles = []
    with tempfile.TemporaryDirectory(prefix=".export.", dir=target.parent) as room:
        made = Path(room) / "export.sqlite"
        arguments = ["export", "--type=sqlite", "--force-overwrite=true", "--quiet=true", f"--output={made}"]
        for tool in _willing(tools, (), importer=False):
            for binary in _exporters(tool):
                code, text = run([str(binary), *arguments, str(source)], _environment(tool))
                if code == 0 and is_whole(made):
                    made.replace(target)
                    return
                made.unlink(missing_ok=True)
                troubles.append(f"{binary} (nsys {tool.text}): {_why(text, code)}")
    raise ProfileUnreadable(str(source), "no nsys here could export it to SQLite", _export_hint(tools, troubles))


def is_whole(path: Path) -> bool:
    """Whether an export is there and finished: an interrupted one has a head of zeros, or is shorter than it says."""
    try:
        head, size = _head(path)[:100], path.stat().st_size
    except ProfileUnreadable:
        return False
    page = int.from_bytes(head[16:18], "big")
    promised = int.from_bytes(head[28:32], "big") * (65536 if page == 1 else page)
    # The size in the header counts only when the change counter agrees with the version that wrote it (SQLite's rule).
    return head.startswith(SQLITE_MAGIC) and (head[24:28] != head[92:96] or size >= promised)


def _willing(tools: Sequence[Nsys], version: tuple[int, ...], *, importer: bool) -> list[Nsys]:
    """Tools that may do it: for a stream its own version first, then newer ones, then those that lack something."""
    fit = [t for t in tools if (t.importer if importer else not t.error)]
    return sorted(fit, key=lambda t: (t.version[:3] != version[:3], t.version < version, not t.complete))


def _exporters(tool: Nsys) -> list[Path]:
    """``nsys`` itself, and one in the importer's folder where there is one."""
    beside = [tool.importer.parent / "nsys"] if tool.importer else []
    return [tool.path, *(path for path in beside if path.is_file() and os.access(path, os.X_OK))]


def _environment(tool: Nsys) -> dict[str, str]:
    """The importer's folder holds the libraries of both; it is not always in their own search path."""
    return libraries.with_libraries([tool.importer.parent] if tool.importer else [])


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


def _said(path: Path) -> str:
    return f"{path.name} ({path.stat().st_size / 1e6:,.1f} MB)"


def _silent(_: str) -> None:
    return None
