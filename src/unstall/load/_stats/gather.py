"""The lines under a header → the rows of its table.

In: lines and the reader of this table. Out: rows of cells, notes on what was left out, and where it ended.

A line that is a record is a row. One that only begins like a record is left out and counted: as cut off where it is the
last of the text, as damaged elsewhere. Any other line right behind a row continues its name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Protocol

from unstall.load._stats.columns import Column
from unstall.load._stats.console import is_ruler
from unstall.model import Warning_

_LOG = re.compile(
    r"\s*(?:Generating|Generated|Exporting|Processed|Processing|Collecting|Importing|Saving|Capturing|The application|"
    r"Try the|FATAL|ERROR|Error|WARNING|Warning|INFO|Info)\b|\s*\[\d+/\d+\] |\s*\[[=> ]*\d+ ?%"
)
_LONGEST_NAME = 50  # lines


class Reader(Protocol):
    """How one kind of table splits a record."""

    columns: list[Column]

    def split(self, record: str) -> list[str] | None: ...
    def broken(self, line: str, last: bool) -> bool: ...
    def unfinished(self, line: str) -> bool: ...
    def inside_quotes(self, text: str) -> bool: ...
    def cut_off(self, cells: Sequence[str]) -> bool: ...


class Gathered:
    """Rows of one table, gathered line by line."""

    def __init__(self, reader: Reader) -> None:
        self.rows: list[list[str]] = []
        self._reader = reader
        self._record: list[str] = []  # lines of the last row, whose name may go on
        self._pending: list[str] = []  # lines of a name whose record has not come yet
        self._damaged = 0
        self._cut = 0

    def run(self, lines: Sequence[str], start: int, begins: Callable[[int], bool]) -> int:
        """Takes lines from ``start`` until another table begins; returns where that is."""
        final = next((i for i in range(len(lines) - 1, -1, -1) if lines[i].strip()), -1)
        i = start
        while i <= final:
            cells = self._reader.split(lines[i])
            if cells is None and begins(i):
                break
            self._take(lines[i], cells, last=i == final)
            i += 1
        self._close()
        if i > final >= start and final == len(lines) - 1:  # the text ends without a line break
            self._distrust_last()
        return i

    def notes(self) -> list[Warning_]:
        """What was left out, in words."""
        out = []
        if self._cut:
            what = "The text ends in the middle of a row: that row is left out, and rows behind it are missing."
            out.append(Warning_(code="truncated-row", text=what))
        if self._damaged:
            what = f"Damaged rows left out: {self._damaged}. They begin like a row and do not fit the header."
            out.append(Warning_(code="damaged-rows", text=what))
        return out

    def _take(self, line: str, cells: list[str] | None, last: bool) -> None:
        if self._pending and (joined := self._reader.split("\n".join([*self._pending, line]))) is not None:
            self._open([*self._pending, line], joined)
        elif cells is not None:
            self._open([line], cells)
        elif self._pending and self._quoted() and len(self._pending) < _LONGEST_NAME:
            self._pending.append(line)
            self._cut += last
        elif not line.strip() or _LOG.match(line) or is_ruler(line):
            self._close()
        elif self._reader.unfinished(line) or self._pending:
            self._cut += last
            self._pending = [*self._pending, line][-_LONGEST_NAME:]
        elif self._reader.broken(line, last):
            self._close()
            self._cut += last
            self._damaged += not last
        elif self._record and len(self._record) < _LONGEST_NAME:
            self._record.append(line)

    def _quoted(self) -> bool:
        return self._reader.inside_quotes("\n".join(self._pending))

    def _open(self, record: list[str], cells: list[str]) -> None:
        self._pending = []
        self._close()
        self.rows.append(cells)
        self._record = [] if self._reader.columns[0].kind == "name" else record

    def _close(self) -> None:
        if len(self._record) > 1:
            self.rows[-1] = self._reader.split("\n".join(self._record)) or self.rows[-1]
        self._damaged += bool(self._pending and not self._cut and self._reader.broken(self._pending[0], last=False))
        self._record, self._pending = [], []

    def _distrust_last(self) -> None:
        """The last row may have lost the end of its name: so it has where that is empty, or an earlier row's."""
        if self.rows and not self._cut and (self._reader.cut_off(self.rows[-1]) or self._repeats()):
            self.rows.pop()
            self._cut = 1

    def _repeats(self) -> bool:
        """A table of sums lists a name once; names that the console has shortened may well look the same."""
        columns = self._reader.columns
        if columns[-1].kind != "name" or not any(c.name == "instances" for c in columns):
            return False
        texts = [[cell for c, cell in zip(columns, row, strict=True) if not c.numeric] for row in self.rows]
        return texts[-1] in texts[:-1] and not texts[-1][-1].endswith("…")
