"""Lines for a terminal: tables, bars and wrapped sentences that fit a width, whatever the names are.

In: strings from anywhere (each is made :func:`~unstall.report.text.visible` here, the one door), a width in cells.
Out: rich ``Text`` lines, never longer than the width. Styles come in by name and vanish where there is no colour.
Double-width letters count two cells; a figure and its unit stay on one line (joined by ``\\u00a0``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from unstall.report.text import align_decimals, visible

GAP = 2
INDENT = 2
SHORTEST_NAME = 16  # cells: enough of both ends to tell kernels apart
LEAST_ROOM = 8  # cells behind a label: less, and the label becomes part of the sentence
STICKY = "\u00a0"
_FIGURE = re.compile(r"(?<=\d) (?=(?:[numµ]?s|min|%|[kMGT]?B|[kMGT]B/s|steps?)\b|%)")  # between a figure and its unit
_EIGHTHS = " ▏▎▍▌▋▊▉█"


@dataclass
class Column:
    """One column of a table.

    Attributes:
        title: heading, with the unit.
        cells: one string a row.
        style: rich style of the cells.
        rank: columns of the highest rank are dropped first where the width does not suffice; those of rank 0 only where
            no name could be told otherwise, from the right, the bold one last.
        left: flush left instead of right, decimal points aligned.
        least: cells that the name column asks for before less wanted columns are dropped.
    """

    title: str
    cells: Sequence[str]
    style: str = ""
    rank: int = 0
    left: bool = False
    least: int = 24

    def __post_init__(self) -> None:
        safe = [visible(cell) for cell in self.cells]
        self.cells = safe if self.left else align_decimals(safe)

    @property
    def width(self) -> int:
        return max([cell_len(self.title), *map(cell_len, self.cells)])


def table(name: Column, columns: Sequence[Column], width: int) -> list[Text]:
    """A heading and one line a row; ``name`` takes what width is left, cut in its middle where it is longer."""
    wanted, least = (min(max(name.width, 1), cells) for cells in (name.least, SHORTEST_NAME))
    shown = _that_fit(columns, width - INDENT - wanted, width - INDENT - least)
    room = width - INDENT - _taken(shown)
    first = min(name.width, max(room, 1))
    lines = [_row([(fit(name.title, first), first, True, "dim"), *((c.title, c.width, c.left, "dim") for c in shown)])]
    for i, cell in enumerate(name.cells):
        lines.append(
            _row(
                [(fit(cell, first), first, True, name.style), *((c.cells[i], c.width, c.left, c.style) for c in shown)]
            )
        )
    return lines


def _that_fit(columns: Sequence[Column], room: int, tight: int) -> list[Column]:
    """The columns in order, without those of the highest ranks that do not fit in ``room``; the last resort is to fit
    in ``tight``, which leaves the names next to nothing.
    """
    shown = list(columns)
    while _taken(shown) > room and any(c.rank for c in shown):
        shown.remove(max(reversed(shown), key=lambda c: c.rank))
    while _taken(shown) > tight and len(shown) > 1:
        shown.remove(next((c for c in reversed(shown[1:]) if "bold" not in c.style), shown[0]))
    return shown


def _taken(columns: Iterable[Column]) -> int:
    return sum(c.width + GAP for c in columns)


def _row(cells: Iterable[tuple[str, int, bool, str]]) -> Text:
    line = Text(" " * INDENT)
    for i, (cell, width, left, style) in enumerate(cells):
        pad = " " * (width - cell_len(cell))
        line.append(" " * GAP if i else "").append(cell + pad if left else pad + cell, style)
    line.rstrip()
    return line


def fit(text: str, width: int) -> str:
    """``text`` in at most ``width`` cells, its middle left out where it is longer: both ends tell names apart."""
    text = visible(text if len(text) <= 8 * width else text[: 4 * width] + text[-4 * width :])
    if cell_len(text) <= width:
        return text
    head = max((width - 1) // 2, 0)
    tail = max(width - 1 - head, 0)
    return set_cell_size(text, head).rstrip(" ") + "…" + _last_cells(text, tail)


def listed(names: Sequence[str], width: int) -> str:
    """As many whole names as fit, the rest an ellipsis; the first one is cut where not even that fits."""
    for shown in range(len(names), 0, -1):
        line = ", ".join(map(visible, names[:shown])) + (", …" if shown < len(names) else "")
        if cell_len(line) <= width:
            return line
    return fit(names[0], width) if names else ""


def _last_cells(text: str, width: int) -> str:
    while cell_len(text) > width:
        text = text[max(1, (len(text) - width) // 2) :] if len(text) > 2 * width else text[1:]
    return text


def wrap(text: str, width: int, style: str = "", first: str = "", indent: int | None = None) -> list[Text]:
    """A sentence as lines: ``first`` before it (a label), later lines indented to match, ``STICKY`` never broken."""
    margin = " " * (cell_len(first) if indent is None else indent)
    if cell_len(first) > width - LEAST_ROOM:
        text, first, margin = f"{first.strip()} {text}", "", ""
    room = max(width - max(cell_len(first), len(margin)), LEAST_ROOM)
    glued = _FIGURE.sub(STICKY, visible(text))
    pieces = [piece for word in glued.split(" ") if word for piece in _pieces(word, room)]
    rows: list[str] = []
    for piece in pieces:
        if rows and cell_len(rows[-1]) + 1 + cell_len(piece) <= room:
            rows[-1] += " " + piece
        else:
            rows.append(piece)
    starts = [first, *[margin] * len(rows)]
    return [
        Text(start).append(row.replace(STICKY, " "), style) for start, row in zip(starts, rows or [""], strict=False)
    ]


def _pieces(word: str, room: int) -> list[str]:
    """A word that fits no line, in parts that do; any other as it is."""
    out: list[str] = []
    while cell_len(word) > room:
        cut = max(_cut(word, room), 1)
        out, word = [*out, word[:cut]], word[cut:]
    return [*out, word]


def _cut(word: str, room: int) -> int:
    """How many letters of a word fit."""
    used = 0
    for i, letter in enumerate(word):
        used += cell_len(letter)
        if used > room:
            return i
    return len(word)


def sticky(text: str) -> str:
    """``text`` as one word for :func:`wrap`."""
    return text.replace(" ", STICKY)


def heading(title: str, detail: str, width: int) -> list[Text]:
    """An empty line, then the section's title with what it needs to be read right."""
    lines = wrap(dotted([title, detail]), width, "dim", indent=2)
    lines[0].stylize("not dim bold", 0, len(title))
    return [Text(), *lines]


def dotted(parts: list[str]) -> str:
    return " · ".join(part for part in parts if part)


def bar(fraction: float, width: int, unicode: bool = True) -> str:
    """A bar of ``fraction`` of ``width`` cells, to an eighth of a cell; what is there at all shows a sliver."""
    fraction = min(max(fraction, 0.0), 1.0)
    if not unicode:
        return "#" * max(round(fraction * width), int(fraction > 0))
    eighths = max(round(fraction * width * 8), int(fraction > 0))
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()


def spark(values: Sequence[float], width: int) -> str:
    """A line of small bars from zero to the greatest value, in order; each stands for the greatest of its part."""
    bins = min(len(values), width)
    tops = [max(values[i * len(values) // bins : (i + 1) * len(values) // bins]) for i in range(bins)]
    return "".join("▁▂▃▄▅▆▇█"[round(7 * top / (max(tops) or 1))] for top in tops)
