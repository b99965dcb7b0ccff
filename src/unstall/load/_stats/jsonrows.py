"""The JSON that ``nsys stats --format json`` prints, object by object: line breaks in names are not escaped.

In: lines from an opening bracket on. Out: cells as text under the columns that the first object names; an array that is
cut off gives the objects before the cut.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from unstall.load._stats.columns import Column, acceptor, any_header, parse_header
from unstall.load._stats.text import whole
from unstall.model import Warning_

_FIRST = 200  # lines in which the first object must end: enough for a printed one whose name has line breaks
_DECODER = json.JSONDecoder(strict=False, parse_int=str, parse_float=str, parse_constant=str)


@dataclass
class JsonTable:
    columns: list[Column]
    rows: list[list[str]]
    header: str
    end: int
    notes: list[Warning_] = field(default_factory=list)


def read(lines: Sequence[str], i: int, named: bool) -> JsonTable | None:
    """The array of objects that starts at line ``i``, or ``None`` where there is none that nsys would print."""
    if not re.fullmatch(r"\s*\[\s*(?:\{.*)?", lines[i]):
        return None
    first, _ = _objects("\n".join(lines[i : i + _FIRST]), most=1)
    keys = list(first[0]) if first else []
    heads = [whole(key) for key in keys]
    columns = parse_header(heads) or (any_header(heads) if named and heads else None)
    return None if columns is None else _table(lines, i, keys, columns)


def _table(lines: Sequence[str], i: int, keys: Sequence[str], columns: list[Column]) -> JsonTable:
    text = "\n".join(lines[i:])
    objects, behind = _objects(text)
    rows = [[_cell(o.get(key)) for key in keys] for o in objects]
    numbers = acceptor([replace(c, optional=True) for c in columns])
    kept = [row for row in rows if numbers(row)]
    notes = _notes(len(rows) - len(kept), closed=text[behind : behind + 1] == "]")
    return JsonTable(columns, kept, " ".join(keys), i + text.count("\n", 0, behind) + 1, notes)


def _objects(text: str, most: int = sys.maxsize) -> tuple[list[dict[str, Any]], int]:
    """Whole objects of the array that ``text`` begins with, and the place behind the last."""
    out: list[dict[str, Any]] = []
    at = _skip(text, text.index("[") + 1)
    while text[at : at + 1] == "{" and len(out) < most:
        try:
            value, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        out.append(value)
        at = _skip(text, at)
    return out, at


def _skip(text: str, at: int) -> int:
    while text[at : at + 1] and text[at] in " \t\n,":
        at += 1
    return at


def _cell(value: Any) -> str:
    return "" if value is None else whole(str(value))


def _notes(damaged: int, closed: bool) -> list[Warning_]:
    notes = []
    if not closed:
        text = "The text ends in the middle of a table: rows behind it are missing."
        notes.append(Warning_(code="truncated-row", text=text))
    if damaged:
        notes.append(
            Warning_(code="damaged-rows", text=f"Rows without numbers where numbers belong, left out: {damaged}.")
        )
    return notes
