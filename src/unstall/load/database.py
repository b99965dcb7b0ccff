"""One SQLite file, opened so that nothing in it or beside it can change, read at Arrow speed.

Comes in: a path. Goes out: the tables and columns that are there, and query results as Polars frames (the Arrow stream
of ``adbc-driver-sqlite`` handed to Polars without pyarrow). A file that cannot be trusted whole (empty, zeroed, cut
off, still being written, damaged) is refused here with one clear line.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any
from urllib.parse import quote

import adbc_driver_manager
import adbc_driver_sqlite
import polars as pl

from unstall.errors import ProfileUnreadable
from unstall.load import views

MAGIC = b"SQLite format 3\x00"
AGAIN = "Export it again: nsys export --type sqlite --force-overwrite true REPORT.nsys-rep"
BATCH_ROWS = "65536"  # rows an Arrow batch


class Database:
    """A read-only SQLite file.

    Attributes:
        path: the file.
        tables: table, or view that takes the place of one → its columns.
        views: view → its columns.
        broken: view that cannot be read → why.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._before = path.stat()
        check_whole(path)
        # immutable: no lock, no journal, no -shm file beside the input, works in a read-only folder
        self._uri = f"file:{quote(os.fsencode(path.absolute()))}?mode=ro&immutable=1"
        self.tables = self._catalog()
        self.views, self.broken = self._views()
        self.tables |= self.views

    def columns(self, table: str) -> frozenset[str]:
        """Its columns, none where it is not there; refuses a view that cannot be read."""
        if table in self.broken:
            raise self._unreadable(table, self.broken[table])
        return self.tables.get(table, frozenset())

    def read(self, table: str, sql: str) -> pl.DataFrame:
        """The rows of ``sql``, which reads this table."""
        return self._of_view(table, sql) if table in self.views else self.query(sql)

    def _of_view(self, view: str, sql: str) -> pl.DataFrame:
        size = self._before.st_size
        try:
            if views.weigh(self._uri, view, self.views[view], size) <= views.MOST * size:
                return views.read(self._uri, sql, size)
        except (sqlite3.Error, pl.exceptions.PolarsError) as error:
            raise self._unreadable(view, str(error)) from error
        why = f"its view {view} gives more than {views.MOST} times what the file holds"
        raise ProfileUnreadable(str(self.path), why, "Name the export that it was made from")

    def _unreadable(self, view: str, why: str) -> ProfileUnreadable:
        hint = "Drop it or mend it, or name the export that it was made from"
        return ProfileUnreadable(str(self.path), f"its view {view} cannot be read ({why})", hint)

    def query(self, sql: str) -> pl.DataFrame:
        """The rows of ``sql``. Safe to call from several threads: each call has a connection of its own."""
        try:
            with (
                adbc_driver_sqlite.connect(self._uri) as database,
                adbc_driver_manager.AdbcConnection(database) as connection,
                adbc_driver_manager.AdbcStatement(connection) as statement,
            ):
                statement.set_options(**{"adbc.sqlite.query.batch_rows": BATCH_ROWS})
                statement.set_sql_query(sql)
                stream, _ = statement.execute_query()
                return pl.DataFrame(stream)
        except (adbc_driver_manager.Error, pl.exceptions.PolarsError, OSError) as error:
            raise ProfileUnreadable(str(self.path), f"damaged SQLite file ({_reason(error)})", AGAIN) from error

    def rows(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        """A small table as tuples of text, ``None`` where it or a column is missing; broken UTF-8 is replaced."""
        have = self.columns(table)
        if not have:
            return []
        picked = [f'CAST("{c}" AS BLOB)' if c in have else "NULL" for c in columns]
        heads = ", ".join(f"x'' AS c{i}" for i in range(len(columns)))
        frame = self.read(table, f'SELECT {heads} UNION ALL SELECT {", ".join(picked)} FROM "{table}"').slice(1)
        return frame.select(text_of(frame[c]) for c in frame.columns).rows()

    def check_unchanged(self) -> None:
        """Refuse what was read if somebody wrote to the file meanwhile."""
        now = self.path.stat()
        if (now.st_size, now.st_mtime_ns) != (self._before.st_size, self._before.st_mtime_ns):
            raise ProfileUnreadable(str(self.path), "another process is writing it", "Try again when it has finished")

    def _catalog(self) -> dict[str, frozenset[str]]:
        frame = self.query(
            "SELECT CAST(m.name AS BLOB) AS t, CAST(p.name AS BLOB) AS c "
            "FROM sqlite_master m, pragma_table_info(m.name) p WHERE m.type = 'table'"
        )
        if not len(frame):
            return {}
        named = frame.select(text_of(frame["t"]), text_of(frame["c"]))
        return {t: frozenset(columns) for t, columns in named.group_by("t").agg("c").iter_rows()}

    def _views(self) -> tuple[dict[str, frozenset[str]], dict[str, str]]:
        try:
            return views.views_of(self._uri)
        except (sqlite3.Error, UnicodeError) as error:
            raise ProfileUnreadable(str(self.path), f"damaged SQLite file ({error})", AGAIN) from error


def check_whole(path: Path) -> None:
    """Raise unless ``path`` is an SQLite file that somebody finished writing."""
    for suffix in ("-wal", "-journal"):
        beside = path.with_name(path.name + suffix)
        if beside.is_file() and beside.stat().st_size:
            why = f"unfinished: {beside.name} lies beside it, so another process is writing it or was killed doing so"
            raise ProfileUnreadable(str(path), why, f"Wait for it, or: {AGAIN[0].lower()}{AGAIN[1:]}")
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(100)
    page = int.from_bytes(head[16:18], "big")
    page = 65536 if page == 1 else page
    promised = int.from_bytes(head[28:32], "big") * page
    # The size in the header counts only when the change counter agrees with the version that wrote it (SQLite's rule).
    if len(head) < 100 or (head[24:28] == head[92:96] and size < promised):
        why = f"cut off: {size:,} of {promised:,} bytes are there" if len(head) == 100 else "cut off in its header"
        raise ProfileUnreadable(str(path), why, f"The copy or the export was interrupted. {AGAIN}")


def text_of(series: pl.Series) -> pl.Series:
    """Bytes as text. Names are cut by byte in some tools, so broken UTF-8 is real: it becomes U+FFFD."""
    if series.dtype != pl.Binary:
        return series.cast(pl.String)
    try:
        return series.cast(pl.String)
    except pl.exceptions.ComputeError:
        whole = [None if b is None else b.decode("utf-8", "replace") for b in series]
        return pl.Series(series.name, whole, dtype=pl.String)


def _reason(error: Exception) -> str:
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0].rpartition("] ")[2][:200]
