"""``.nsys-rep`` or ``.qdstrm`` → a SQLite export, by the tools of an installed Nsight Systems.

Comes in: a report, a place for the export, and the tools, as :func:`find_tools` finds them on this machine. Goes out: a
finished export at that place, or one clear error. The report is never touched. The work is done in
:mod:`unstall.nsys.convert`, which ``unstall run`` uses as well; here is what is particular to reading somebody's file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from unstall.errors import ProfileUnreadable
from unstall.nsys.convert import is_whole, to_sqlite
from unstall.nsys.discover import Nsys, find_nsys

__all__ = ["Tools", "export", "find_tools", "is_whole"]

Tools = Sequence[Nsys]


def find_tools() -> Tools:
    """Every nsys of this machine, the best first."""
    return find_nsys()


def export(report: Path, target: Path, tools: Tools) -> None:
    """Write the export of ``report`` to ``target``, whole or not at all."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        to_sqlite(report, target, tools)
    except ProfileUnreadable as error:
        beside = report.with_suffix(".sqlite")
        if not is_whole(beside):
            raise
        raise ProfileUnreadable(error.what, error.why, f"An export lies beside it: give that one ({beside})") from error
