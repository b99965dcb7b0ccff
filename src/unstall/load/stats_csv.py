"""The text of ``nsys stats``: CSV, TSV, JSON or console columns, with whatever stands around it.

In: a path, text or bytes. Out: :func:`stats` gives the tables as typed Polars frames, for anybody's pipeline;
:func:`read` makes a :class:`~unstall.model.Report` of them; :func:`sniff` says whether a file begins like it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from unstall.errors import NotAProfile, ProfileUnreadable
from unstall.load._stats.frame import StatsTable, table
from unstall.load._stats.names import from_file
from unstall.load._stats.scan import begins, scan
from unstall.load._stats.text import decode, split_lines
from unstall.model import Warning_

if TYPE_CHECKING:
    from unstall.model import Report

__all__ = ["StatsTable", "read", "sniff", "stats"]

LARGEST = 2**29
"""Bytes. Half a gigabyte of text is a trace of millions of rows, which the SQLite export holds in a better form."""
_MARK = re.compile(
    r"(?i)\(%\)|\((?:[nuµμm]?s|[num]?sec|(?:nano|micro|milli)?seconds|[kmg]i?b|bytes)\)|Processing \[|' stats report|"
    r"SKIPPED:|Statistics|^\s*\*\* "
)
"""What every header or announcement holds: a look at each line of another file's beginning would cost a second."""
_HINT = "Print it again with `nsys stats --format csv FILE`, or give the profile itself (.sqlite, .nsys-rep)."


def stats(text_or_path: str | bytes | os.PathLike[str]) -> list[StatsTable]:
    """The tables in the output of ``nsys stats``, of any version and format, in the order of the text.

    Args:
        text_or_path: the text (a string with a line break, or bytes), or the path of a file that holds it.

    Returns:
        One :class:`StatsTable` a report, those that nsys skipped included (``skipped`` says why, the frame is empty).

    Raises:
        ProfileUnreadable: no such file, unreadable, or empty.
        NotAProfile: there is no table of ``nsys stats`` in it.
    """
    return _scan(text_or_path)[1]


def read(text_or_path: str | bytes | os.PathLike[str], path: str = "") -> Report:
    """What the tables tell, as a report: ranges, kernels, copies, calls and, by names alone, steps.

    Args:
        text_or_path: as for :func:`stats`.
        path: how the report calls its source; the file's path by default.

    Raises:
        ProfileUnreadable: no such file, unreadable, empty, or nsys had nothing to show.
        NotAProfile: there is no table of ``nsys stats`` in it.
    """
    from unstall.load._stats.report import report

    name, tables, warnings = _scan(text_or_path)
    if all(t.skipped is not None for t in tables):
        reasons = "; ".join(dict.fromkeys(t.skipped or "" for t in tables[:3]))
        hint = "Check `nsys profile --trace=cuda,nvtx,osrt`, and that the program reached the part captured."
        raise ProfileUnreadable(path or name, f"nsys found no data for its reports ({reasons})", hint)
    return report(tables, path or name, warnings)


def sniff(head: bytes) -> bool:
    """Whether the beginning of a file (some kilobytes) looks like the output of ``nsys stats``."""
    if b"\0" in head and not head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return False
    lines = split_lines(decode(head)[0])
    likely = [_MARK.search(line) is not None for line in [*lines, ""]]
    starts = (i for i in range(len(lines)) if likely[i] or (likely[i + 1] and lines[i].lstrip()[:1] == "["))
    return any(begins(lines, i) for i in starts)


def _scan(text_or_path: str | bytes | os.PathLike[str]) -> tuple[str, list[StatsTable], list[Warning_]]:
    """Name of the source, its tables, and warnings about the whole text."""
    name, report, text, warnings = _text(text_or_path)
    if not text.strip():
        why = "is empty"
        hint = "nsys leaves an empty file where a report has no data, or was asked for with -q: run `nsys stats` again "
        raise ProfileUnreadable(name, why, hint + "without -q and read why, or give the profile itself.")
    raw, errors = scan(split_lines(text), report)
    if not raw:
        why = f"nsys reported: {errors[0]}" if errors else "holds no table that `nsys stats` prints"
        raise NotAProfile(name, why, _HINT)
    warnings += [Warning_(code="nsys-error", text=f"nsys reported: {error}") for error in dict.fromkeys(errors)]
    return name, [table(t) for t in raw], warnings


def _text(text_or_path: str | bytes | os.PathLike[str]) -> tuple[str, str, str, list[Warning_]]:
    """Name of the source, the report that the file's name speaks of, the text, and how it was decoded."""
    if isinstance(text_or_path, str) and (not text_or_path or re.search(r"[\r\n]", text_or_path)):
        return "text of nsys stats", "", text_or_path, []
    if isinstance(text_or_path, bytes):
        return ("text of nsys stats", "", *decode(text_or_path))
    path = Path(text_or_path)
    return (str(path), from_file(path.stem), *decode(_bytes(path)))


def _bytes(path: Path) -> bytes:
    try:
        if path.stat().st_size > LARGEST:
            raise ProfileUnreadable(
                str(path), "more than 512 MB of text", "Export the profile to SQLite and give that."
            )
        return path.read_bytes()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ProfileUnreadable(str(path)[:300], why, "Give a file that can be read, or the text itself.") from error
