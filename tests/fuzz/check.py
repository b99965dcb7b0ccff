"""One input read like a user would, and held against what is promised of any input.

Comes in: a file. Goes out: a word for what came of it (``report``, or the error's kind); any exception is a fault of
ours. Promised: an ``UnstallError`` of one clear line, or a report that all outputs can render, whose JSON reads back as
itself and whose breakdown adds up; the file is as before and nothing lies beside.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import tempfile
from pathlib import Path

from unstall.collect.redact import redact
from unstall.commands import report as command
from unstall.commands.compare import read_side
from unstall.compare import compare
from unstall.errors import UnstallError
from unstall.model import Report
from unstall.report import comparison, outputs, terminal
from unstall.report.json import from_json, to_json
from unstall.report.text import visible


class BrokenPromiseError(Exception):
    """A promise that does not hold."""


def check(path: Path, good: Report, *, thorough: bool = True) -> str:
    """What comes of ``path``; ``good`` is what it is compared with. ``thorough``: with every output, in all widths."""
    before, beside = _digest(path), sorted(path.parent.iterdir())
    try:
        if thorough and path.suffix == ".sqlite":
            _redacted(path)
        return _read(path, good, thorough)
    except UnstallError as error:
        _clear(error)
        return type(error).__name__
    finally:
        if _digest(path) != before:
            raise BrokenPromiseError("the input was changed")
        if sorted(path.parent.iterdir()) != beside:
            raise BrokenPromiseError(f"left beside the input: {sorted(set(path.parent.iterdir()) - set(beside))}")


def _read(path: Path, good: Report, thorough: bool) -> str:
    """As ``report`` with every output, or as a side of ``compare`` where it can only be that."""
    computed = path.suffix in (".sqlite", ".text")
    report = _reported(path, thorough) if computed else read_side(str(path), cache=False)
    _hold(report, computed=computed)
    for width in (80, 32) if thorough else (80,):
        _shown(report, width)
    for output in outputs() if thorough and not computed else ():
        if output.render is not None:
            output.render([report], *([[None]] if output.events else []))
    for pair in ((report, good), (good, report)) if thorough else ((report, good),):
        found = compare(*pair)
        comparison.show(found, io.StringIO())
        comparison.to_markdown(found)
    return "report"


def _reported(path: Path, thorough: bool) -> Report:
    """Through the command itself, every output into a folder of its own; sums have no events to stream."""
    wanted = [o for o in outputs() if thorough and (path.suffix != ".text" or o.stream is None)]
    with tempfile.TemporaryDirectory(prefix="unstall-fuzz-out-") as room:
        targets = {output.name: f"{room}/{output.name}" for output in wanted}
        with contextlib.redirect_stdout(io.StringIO()):
            (seen,) = command.run([str(path)], targets, cache=False)
    crashed = [w.text for w in seen.report.warnings if w.code.endswith("crashed")]
    if crashed:
        raise BrokenPromiseError(f"something crashed behind the report: {crashed[0]}")
    return seen.report


def _redacted(path: Path) -> None:
    """A clean copy, or one clear line and none."""
    with tempfile.TemporaryDirectory(prefix="unstall-fuzz-out-") as room:
        target = Path(room) / "clean.sqlite"
        try:
            redact(path, target)
        except UnstallError as error:
            _clear(error)
            if list(Path(room).iterdir()):
                raise BrokenPromiseError("redact failed and left something") from error


def _hold(report: Report, *, computed: bool) -> None:
    """``computed`` here, not read from somebody's JSON: then the figures must fit each other as well."""
    if from_json(to_json(report)) != report:
        raise BrokenPromiseError("the JSON does not read back as itself")
    for row in report.breakdown if computed else ():
        if sum(c.ns for c in row.categories) != row.step_ns:
            raise BrokenPromiseError(f"a breakdown of {row.step_ns} ns adds up to {sum(c.ns for c in row.categories)}")


def _shown(report: Report, width: int) -> None:
    for line in terminal.lines(report, width):
        if line.cell_len > width or visible(line.plain) != line.plain:
            raise BrokenPromiseError(
                f"a line of {line.cell_len} cells in {width}, or with control codes: {line.plain!r}"
            )


def _clear(error: UnstallError) -> None:
    line = visible(str(error))
    if not error.why or "\n" in line or error.exit_code not in (1, 2, 4):
        raise BrokenPromiseError(f"no clear line: {line!r}")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
