"""Views of an SQLite file: whoever cleaned an export may have put one in the place of a table.

Comes in: the file, as a URI. Goes out: view → its columns, and view → why it cannot be read. A view is a query that
somebody else wrote, so one that can go on for ever (recursion) is not run at all, and none may give more rows than
there is room for in the file: a cleaned copy has no more.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing

SMALLEST_ROW = 8
"""Bytes: a row of two columns takes seven beside what it holds (SQLite's file format), and none is read of fewer."""


def views_of(uri: str) -> tuple[dict[str, frozenset[str]], dict[str, str]]:
    """Those that can be read, with their columns, and the others, with the reason."""
    columns, broken = {}, {}
    with closing(sqlite3.connect(uri, uri=True)) as db:
        db.text_factory = lambda raw: raw.decode("utf-8", "replace")
        names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'view'")]
        db.set_authorizer(_allowed)
        for name in names:
            try:
                quoted = name.replace('"', '""')
                columns[name] = frozenset(c[0] for c in db.execute(f'SELECT * FROM "{quoted}" LIMIT 0').description)
            except (sqlite3.Error, UnicodeError) as error:
                why = str(error)
                broken[name] = "it calls itself without end" if why == "not authorized" else why
    return columns, broken


def most_rows(size: int) -> int:
    """How many rows a view of a file of ``size`` bytes may give."""
    return size // SMALLEST_ROW


def _allowed(action: int, *_: str | None) -> int:
    return sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_RECURSIVE else sqlite3.SQLITE_OK
