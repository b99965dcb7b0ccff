"""One cell, collected by whatever can collect it here, and the report on it.

In: what the user typed, and a function that runs the cell. Out: :class:`Seen`. The cell's own errors are its own: the
function hands them over as part of what it returns, and what was captured until then is reported.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unstall.errors import UnstallError, UsageError
from unstall.notebook.options import Asked
from unstall.notebook.session import Session

if TYPE_CHECKING:
    from unstall.model import Report

NOTHING = (
    "nothing was recorded: the cell was too short to be sampled, and it wrote no range. "
    "Mark what matters: `with unstall.annotate('name'):`, or give --auto for PyTorch training"
)


@dataclass
class Captured:
    """What a collector left: a file or none, and what must be known of it."""

    path: Path | None = None
    notes: list[str] = field(default_factory=list)


@dataclass
class Seen:
    """The cell's own result, and the report on it."""

    result: Any
    report: Report | None
    notes: list[str]


def collect(run: Callable[[], Any], asked: Asked, name: str) -> Seen:
    """Run the cell while a collector looks, then report.

    Raises:
        UsageError: the capture cannot be kept where it was asked for; the cell has not run.
    """
    from unstall.collect import meta

    save = _place(asked.save)
    session = Session.of_this_process()
    with tempfile.TemporaryDirectory(prefix="unstall-cell-") as folder:
        captured = Captured()
        path = Path(folder) / f"{name}.sqlite"
        with session.capture(path, asked, captured) if session else _recorded(path, asked, captured):
            result = run()
        if captured.path is not None:
            meta.write(captured.path, {"cell": name, **({"auto": "true"} if asked.auto else {})})
        report = _report(captured, asked)
        if report is not None:
            report.profile.path = str(save or name)  # the file itself is gone in a moment
        if captured.path is not None and save is not None:
            shutil.copyfile(captured.path, save)
    return Seen(result, report, captured.notes)


@contextmanager
def _recorded(path: Path, asked: Asked, captured: Captured) -> Iterator[None]:
    """By the built-in collector."""
    from unstall.collect.builtin import recording

    with recording(path, auto=asked.auto, steps=asked.steps) as made:
        yield
    captured.path = made.sqlite
    captured.notes += [note.text for note in made.notes if made.sqlite is not None or note.code == "range-never-hit"]


def _report(captured: Captured, asked: Asked) -> Report | None:
    """The report; what goes wrong from here is a note, because the cell has run."""
    from unstall.pipeline import report_of

    if captured.path is None:
        captured.notes += [] if captured.notes else [NOTHING]
        return None
    try:
        return report_of(captured.path, step=asked.step, cache=False, language=asked.lang)
    except UnstallError as error:
        captured.notes.append(str(error))
        return None


def _place(save: str) -> Path | None:
    """Where the capture is to be kept, found out before the cell runs."""
    if not save:
        return None
    path = Path(save)
    if path.exists():
        raise UsageError(save, "is there already", "Name another file with --save")
    if not path.absolute().parent.is_dir():
        raise UsageError(save, "its folder is not there", "Make it first")
    return path
