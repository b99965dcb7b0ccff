"""A stream of lines → the tables in it, whatever stands around them.

In: clean lines. Out: :class:`RawTable` (cells as text) in the order of the stream, and the errors that nsys printed.

A table is announced (``Processing [db] with [script]…``, ``[3/8] Executing 'nvtx_sum' stats report``, ``** Title
(report):``, ``CUDA Kernel Statistics:``) or not; it begins with a header and ends where another header or announcement
stands; ``gather`` says what is a row in between.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from unstall.load._stats import console, delimited, jsonrows
from unstall.load._stats.columns import Column
from unstall.load._stats.gather import Gathered, Reader
from unstall.load._stats.names import from_header, from_title, report_name
from unstall.model import Warning_

_PROCESSING = re.compile(r"\s*Processing \[(?P<source>.*)\] with \[(?P<report>.*?)\]")
_EXECUTING = re.compile(r"\s*\[\d+/\d+\] Executing '(?P<report>[^']*)' stats report")
_TITLE = re.compile(r"\s*\*\* (?P<title>.*?)\s*\((?P<report>[\w:.-]+)\):\s*")
_OLD_TITLE = re.compile(r"\s*(?P<title>[A-Z][\w /-]* Statistics(?: \([^()]*\))?):\s*")
_VERSION = re.compile(r"nsight-systems(?:-cli)?[\\/](\d{4}\.\d+\.\d+)")  # …/nsight-systems/2024.2.3/…
_SKIPPED = re.compile(r"\s*SKIPPED: ?(?P<reason>.*)")
_ERROR = re.compile(r"\s*(?:FATAL )?ERROR[:,] ?(?P<text>.*)", re.IGNORECASE)


@dataclass
class RawTable:
    """One report as printed: cells are text."""

    report: str = ""
    title: str = ""
    source: str = ""
    version: str = ""
    columns: list[Column] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    skipped: str | None = None
    notes: list[Warning_] = field(default_factory=list)


def scan(lines: Sequence[str], report: str = "") -> tuple[list[RawTable], list[str]]:
    """Every table of the stream, skipped ones included; ``report`` names a first one that nothing announces."""
    tables: list[RawTable] = []
    errors: list[str] = []
    announced, fresh, i = RawTable(report=report), False, 0
    while i < len(lines):
        line = lines[i]
        i += 1
        if (found := _announcement(line)) is not None:
            # A title below `Processing […]` adds to it; anything else starts anew.
            announced = replace(announced, report=found.report, title=found.title) if found.title else found
            fresh = True
        elif match := _SKIPPED.match(line):
            name = announced.report or from_title(match["reason"])
            tables.append(replace(announced, report=name, skipped=match["reason"].strip()))
            announced = RawTable()
        elif match := _ERROR.match(line):
            errors.append(match["text"].strip().rstrip("."))
        elif (read := _table(lines, i - 1, announced, fresh)) is not None:
            table, i = read
            tables.append(table)
            announced = RawTable()
        elif line.strip():
            fresh = False
    return tables, errors


def _announcement(line: str) -> RawTable | None:
    if match := _PROCESSING.match(line):
        version = _VERSION.search(match["report"])
        name = report_name(match["report"])
        return RawTable(name, source=match["source"], version=version[1] if version else "")
    if match := _EXECUTING.match(line):
        return RawTable(report_name(match["report"]))
    if match := _TITLE.fullmatch(line):
        return RawTable(report_name(match["report"]), match["title"])
    if match := _OLD_TITLE.fullmatch(line):
        return RawTable(from_title(match["title"]), match["title"])
    return None


def _table(lines: Sequence[str], i: int, announced: RawTable, fresh: bool) -> tuple[RawTable, int] | None:
    """The table that starts at line ``i`` and the line behind it, or ``None``.

    ``fresh``: nothing stands between the announcement and line ``i``, so that any header is a header.
    """
    if (found := jsonrows.read(lines, i, fresh)) is not None:
        return _filled(announced, found.columns, found.rows, found.notes, found.header), found.end
    reader, body, start, wraps = _start(lines, i, announced.title, fresh)
    if reader is None:
        return None
    gathered = Gathered(reader)
    end = gathered.run(body, start, lambda at: begins(body, at))
    header = lines[i] if body is lines else body[0]
    table = _filled(announced, reader.columns, gathered.rows, gathered.notes(), header)
    return table, end if body is lines else i + wraps * (len(body) - 1)


def _start(
    lines: Sequence[str], i: int, title: str = "", fresh: bool = False
) -> tuple[Reader | None, Sequence[str], int, int]:
    """A reader for the table at ``i``, the lines it stands in, its first row there, and the lines a row takes."""
    wraps = console.wraps(lines, i)
    if wraps == 0:
        return delimited.reader_for(lines[i], fresh), lines, i + 1, 1
    body = lines if wraps == 1 else [*console.unwrapped(lines, i, wraps), ""]
    top = i if wraps == 1 else 0
    return console.reader_for(body[top], body[top + 1], title, fresh), body, top + 2, wraps


def begins(lines: Sequence[str], i: int) -> bool:
    """Whether another table or its announcement begins here."""
    if not lines[i].strip():
        return False
    if jsonrows.read(lines, i, named=False) is not None:
        return True
    return _announcement(lines[i]) is not None or bool(_SKIPPED.match(lines[i])) or _start(lines, i)[0] is not None


def _filled(
    announced: RawTable, columns: list[Column], rows: list[list[str]], notes: list[Warning_], header: str
) -> RawTable:
    names = [row[j] for row in rows[:20] for j, c in enumerate(columns) if c.kind == "name"]
    report = announced.report or from_header(header, names)
    return replace(announced, report=report, columns=columns, rows=rows, notes=notes)
