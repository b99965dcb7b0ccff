"""The aligned columns that ``nsys stats`` prints on a console, boxed or not, also where the terminal has wrapped them.

In: lines around a ruler (``--------  -----``). Out: cells of a line, or ``None`` where it is no row of this table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from unstall.load._stats.columns import Column, acceptor, any_header, parse_header

_MOST_WRAPS = 8


class ConsoleReader:
    """Reads the rows under one ruler.

    A row is cut at the ruler's columns, and only where nothing but blanks and box lines stands between them; a row that
    was shifted (its indentation lost in a paste) is read by its blanks instead: numbers have none inside.
    """

    def __init__(self, columns: Sequence[Column], spans: Sequence[tuple[int, int]]) -> None:
        self.columns = list(columns)
        self._spans = list(spans)
        self._numbers = acceptor(columns)
        self._begins = acceptor(columns[:1])
        self._leading = next((i for i, c in enumerate(columns) if not c.numeric), len(columns))

    def split(self, record: str) -> list[str] | None:
        first, *more = record.split("\n")
        cells = self._by_ruler(first) or self._by_blanks(first)
        if cells and more:
            cells[-1] = "\n".join([cells[-1], *(line.rstrip() for line in more)])
        return cells

    def broken(self, line: str, last: bool) -> bool:
        """Whether a line begins like a row (with a number) and is none."""
        words = line.strip(" |").split()
        return bool(words) and self.columns[0].numeric and self._begins(words)

    def unfinished(self, line: str) -> bool:
        """A row starts with a whole line."""
        return False

    def inside_quotes(self, text: str) -> bool:
        """A console quotes nothing."""
        return False

    def cut_off(self, cells: Sequence[str]) -> bool:
        """Whether the last line of a text may end before its row does."""
        return not cells[-1]

    def _by_ruler(self, line: str) -> list[str] | None:
        starts, ends = [s for s, _ in self._spans], [e for _, e in self._spans]
        gaps = [line[: starts[0]], *(line[e:s] for e, s in zip(ends, starts[1:], strict=False))]
        if any(gap.strip(" |") for gap in gaps):
            return None
        cells = [line[s:e].strip() for s, e in self._spans[:-1]]
        boxed = line.rstrip().endswith("|") and len(line.rstrip()) > ends[-1]
        last = line[starts[-1] : ends[-1]] if boxed else line[starts[-1] :]
        cells.append(last.rstrip() if self.columns[-1].kind == "name" and not boxed else last.strip())
        return cells if self._numbers(cells) else None

    def _by_blanks(self, line: str) -> list[str] | None:
        rest = len(self.columns) - self._leading
        if rest > 2 or not self._leading or (rest == 2 and self.columns[-1].kind != "name"):
            return None
        cells = line.strip().split(None, len(self.columns) - 1)
        cells += [""] * (len(self.columns) - len(cells) if len(cells) >= len(self.columns) - 1 else 0)
        return cells if len(cells) == len(self.columns) and self._numbers(cells) else None


def is_ruler(line: str) -> bool:
    """Whether a line is the rule between a header and its rows (or a box around them)."""
    return "--" in line and not line.strip(" \t|+-")


def wraps(lines: Sequence[str], i: int) -> int:
    """In how many lines a row of the table at ``lines[i]`` is printed: 1 unless wrapped, 0 where no table starts."""
    ahead = range(1, min(_MOST_WRAPS, len(lines) - i - 1) + 1 if lines[i].strip() else 0)
    k = next((k for k in ahead if is_ruler(lines[i + k])), 0)
    rest = lines[i + k + 1 : i + 2 * k]  # a ruler is wrapped like its header, to a single dash at the least
    return k if len(rest) == max(k - 1, 0) and all("-" in r and not r.strip(" \t|+-") for r in rest) else 0


def unwrapped(lines: Sequence[str], i: int, k: int) -> list[str]:
    """The table at ``i`` up to a blank line, each ``k`` lines joined as they were before a terminal wrapped them."""
    width = max(map(len, lines[i : i + 2 * k]))
    end = next((j for j in range(i, len(lines), k) if not lines[j].strip()), len(lines))
    return ["".join(line.ljust(width) for line in lines[j : j + k]).rstrip() for j in range(i, end, k)]


def reader_for(header: str, ruler: str, title: str, announced: bool) -> ConsoleReader | None:
    """A reader where these two lines are a table's header and ruler."""
    spans = [match.span() for match in re.finditer("-+", ruler)]
    cells = [c for c in re.split(r"\s{2,}|\s*\|\s*", header.strip(" |")) if c]
    if len(cells) != len(spans):
        cells = [header[s:e].strip() for s, e in spans]
    columns = parse_header(cells, title) or (any_header(cells) if announced and len(cells) > 1 else None)
    return None if columns is None or len(columns) < 2 else ConsoleReader(columns, spans)
