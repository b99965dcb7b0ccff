"""The not-quite-CSV of ``nsys stats`` and proper CSV, TSV and semicolon files: one record → its cells.

In: a header line, then records. Out: cells, or ``None`` where the text is no record of this table.

nsys quotes a name only where it holds a comma, does not double the quotes inside, and leaves line breaks alone. So a
record is read from both ends: the columns before and after the names hold no comma, and what is left is the name. What
other programs saved (everything quoted, quotes doubled) is understood as well.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence

from unstall.load._stats.columns import Column, acceptor, any_header, parse_header

_LIKELY = re.compile(r"(?i)time|total|duration|start|\((?:ns|us|µs|ms|s|%|[kmg]i?b)\)")


class DelimitedReader:
    """Reads the records under one header."""

    def __init__(self, columns: Sequence[Column], delimiter: str, quoted: bool) -> None:
        self.columns = list(columns)
        self._delimiter = delimiter
        self._quoted = quoted
        named = [i for i, c in enumerate(columns) if c.kind == "name"]
        self._left = named[0] if named else len(columns)
        self._numbers = acceptor(columns)
        self._begins = acceptor(columns[:1])
        self._right = len(columns) - named[-1] - 1 if named else 0

    def split(self, record: str) -> list[str] | None:
        """The cells of a whole record."""
        for attempt in (self._proper, self._loose) if self._quoted else (self._loose, self._proper):
            cells = attempt(record)
            if cells is not None and len(cells) == len(self.columns) and self._numbers(cells):
                return cells
        return None

    def broken(self, line: str, last: bool) -> bool:
        """Whether a line begins like a record (with numbers) and is none."""
        first, *rest = line.split(self._delimiter)
        numeric = self.columns[0].numeric and self._begins([first.strip().strip('"')])
        return numeric and (bool(rest) or last)

    def unfinished(self, line: str) -> bool:
        """Whether a line that is no record may be a part of one: of its name, or inside a CSV writer's quotes."""
        return self._left == 0 or self.inside_quotes(line)

    def inside_quotes(self, text: str) -> bool:
        """Whether a CSV writer's quotes are still open at the end of ``text``; nsys's own are not balanced."""
        return self._quoted and text.count('"') % 2 == 1

    def cut_off(self, cells: Sequence[str]) -> bool:
        """Whether the last line of a text may end before its record does: no name, or its quotes still open."""
        return not cells[-1] or (cells[-1].startswith('"') and self._delimiter in cells[-1])

    def _proper(self, record: str) -> list[str] | None:
        if '"' not in record:
            return None
        try:
            rows = list(csv.reader(io.StringIO(record, newline=""), delimiter=self._delimiter, strict=True))
        except csv.Error:
            return None
        return rows[0] if len(rows) == 1 else None

    def _loose(self, record: str) -> list[str] | None:
        cells = record.split(self._delimiter)
        if len(cells) < len(self.columns):
            return None
        end = len(cells) - self._right
        middle = self._names(cells[self._left : end], len(self.columns) - self._left - self._right)
        if middle is None:
            return None
        return [c.strip() for c in cells[: self._left]] + middle + [c.strip() for c in cells[end:]]

    def _names(self, pieces: list[str], wanted: int) -> list[str] | None:
        """The cells from the first name to the last: ``pieces`` joined again where a quote spans them."""
        if wanted <= 1:
            return [self._unquoted(self._delimiter.join(pieces))] if wanted else ([] if not pieces else None)
        out: list[str] = []
        held: list[str] = []
        for piece in pieces:
            held.append(piece)
            text = self._delimiter.join(held)
            if not text.startswith('"') or (len(text) > 1 and text.endswith('"')):
                out.append(self._unquoted(text))
                held = []
        return out if not held else None

    def _unquoted(self, text: str) -> str:
        if len(text) < 2 or not (text.startswith('"') and text.endswith('"')):
            return text
        inner = text[1:-1]
        runs = re.findall('"+', inner)
        if runs and all(len(run) % 2 == 0 for run in runs):
            return inner.replace('""', '"')  # doubled: a proper CSV writer was here
        return inner if self._delimiter in inner or self._quoted else text


def reader_for(line: str, announced: bool) -> DelimitedReader | None:
    """A reader where ``line`` is the header of a delimited table; any header will do where a report was announced."""
    if not _LIKELY.search(line) and not announced:
        return None
    for delimiter in (",", "\t", ";"):
        if delimiter not in line:
            continue
        cells = [cell.strip().strip('"') for cell in line.split(delimiter)]
        columns = parse_header(cells) or (any_header(cells) if announced and len(cells) > 2 else None)
        if columns is not None and len(columns) > 2:
            return DelimitedReader(columns, delimiter, quoted=line.lstrip().startswith('"'))
    return None
