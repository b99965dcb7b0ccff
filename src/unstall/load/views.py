"""Views of an SQLite file: whoever cleaned an export may have put one in the place of a table.

Comes in: the file, as a URI. Goes out: view → its columns, and view → why it is not read; how much one gives, and its
rows. A view is a query that a stranger may have written, and reading a file runs nothing: only one that is made of
:data:`PLAIN` functions and does not call itself is read, and only where it gives no more than :data:`MOST` times its
file and takes no longer than :data:`OPERATIONS` allow. A cleaned copy is such a one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager

import polars as pl

PLAIN = frozenset({
    "abs", "avg", "coalesce", "count", "dense_rank", "glob", "group_concat", "ifnull", "iif", "instr", "lag", "lead",
    "length", "like", "lower", "ltrim", "max", "min", "nullif", "rank", "replace", "round", "row_number", "rtrim",
    "substr", "substring", "sum", "total", "trim", "typeof", "upper",
})  # fmt: skip
"""Functions that look at nothing but what they are given."""
MOST = 16
"""A kernel of an export takes 90 bytes in it, and 160 as 20 numbers in memory; a range whose name stands in each row
instead of once, some hundreds."""
NUMBER_BYTES = 8
OPERATIONS = 64
"""Of SQLite's machine, for each byte of the file; at least :data:`LEAST`. Measured for views over a table of 20 columns
that fills its file: 1.7 for its rows, 2.2 joined with a sum of its own, 2.8 with a window over it."""
LEAST = 10_000_000  # a tenth of a second
STRIDE = 10_000  # operations from one look to the next
BATCH_ROWS = 65_536  # as Python's numbers, which are some times larger than a frame's


def views_of(uri: str) -> tuple[dict[str, frozenset[str]], dict[str, str]]:
    """Those that can be read, with their columns, and the others, with the reason."""
    columns, broken = {}, {}
    with closing(sqlite3.connect(uri, uri=True)) as db:
        db.text_factory = _text
        names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'view'")]
        for name in names:
            refused: list[str] = []
            db.set_authorizer(lambda *asked, refused=refused: _allowed(refused, *asked))
            try:
                db.execute(f"EXPLAIN SELECT * FROM {_quoted(name)}")  # LIMIT 0 would run its inner queries
                found = db.execute(f"PRAGMA table_info({_quoted(name)})")
                columns[name] = frozenset(column[1] for column in found)
            except (sqlite3.Error, UnicodeError) as error:
                broken[name] = refused[0] if refused else str(error)
    return columns, broken


def weigh(uri: str, view: str, columns: Iterable[str], size: int) -> int:
    """How many bytes a view of a file of ``size`` gives, as numbers and text in memory; it stops beyond the most.

    Raises:
        sqlite3.Error: it cannot be read, or takes too long.
    """
    each = [f"max({NUMBER_BYTES}, coalesce(length(CAST({_quoted(c)} AS BLOB)), 0))" for c in sorted(columns)]
    enough = MOST * size // (NUMBER_BYTES * len(each)) + 1  # rows, that are more than the most whatever is in them
    rows = f"SELECT {' + '.join(each)} AS bytes FROM {_quoted(view)} LIMIT {enough}"
    with _limited(uri, size) as db:
        (found,) = db.execute(f"SELECT coalesce(sum(bytes), 0) FROM ({rows})").fetchone()
    return int(found)


def read(uri: str, sql: str, size: int) -> pl.DataFrame:
    """The rows of ``sql``, which reads a view that was weighed, within the same time: a query may name a column of the
    view twice, and the driver that reads tables brings another SQLite, which may go about it another way.

    Raises:
        sqlite3.Error: it takes too long.
    """
    with _limited(uri, size) as db:
        cursor = db.execute(sql)
        names = [column[0] for column in cursor.description]
        batches = [_frame(names, rows) for rows in iter(lambda: cursor.fetchmany(BATCH_ROWS), [])]
    return pl.concat(batches, how="vertical_relaxed")


def _frame(names: Sequence[str], rows: Sequence[tuple[object, ...]]) -> pl.DataFrame:
    columns = zip(names, zip(*rows, strict=True), strict=True)
    return pl.DataFrame([pl.Series(name, values, strict=False) for name, values in columns])


@contextmanager
def _limited(uri: str, size: int) -> Iterator[sqlite3.Connection]:
    """A connection that does no more than a file of that size may ask for."""
    looks = iter(range(max(OPERATIONS * size, LEAST) // STRIDE))
    with closing(sqlite3.connect(uri, uri=True)) as db:
        db.text_factory = _text
        db.set_progress_handler(lambda: next(looks, None) is None, STRIDE)
        try:
            yield db
        except sqlite3.OperationalError as error:
            raise error if next(looks, None) is not None else sqlite3.OperationalError("it takes too long") from error


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _allowed(refused: list[str], action: int, _: str | None, name: str | None, *__: str | None) -> int:
    """SQLite asks before it prepares each part of a query; for a function, its name comes second."""
    if action == sqlite3.SQLITE_RECURSIVE:
        refused.append("it calls itself")
    elif action == sqlite3.SQLITE_FUNCTION and (name or "").lower() not in PLAIN:
        refused.append(f"it calls {name}")
    return sqlite3.SQLITE_DENY if refused else sqlite3.SQLITE_OK


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
