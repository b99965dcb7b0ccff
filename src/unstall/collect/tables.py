"""Where an export keeps what is private: the tables and columns to look into, found by what is there.

Comes in: an open export. Goes out: its tables with the columns that may hold text, or all of them; and the names of
those rows of the small tables whose value says who, where or with what arguments.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Iterator

Columns = dict[str, list[str]]
"""Table → some of its columns."""

META = ("META_DATA_CAPTURE", "META_DATA_EXPORT", "EXPORT_META_DATA", "UNSTALL_META")
ENVIRONMENT = "TARGET_INFO_SYSTEM_ENV"
TOLD = re.compile(
    r"HOST|USER|COMMAND$|ARGUMENT|WORKING_DIR|ENVIRONMENT|DISPLAY_NAME|_PATH|_FILE$|PARAM_(IN|OUT)PUT|SESSION_ID|^argv$"
    r"|StoragePath|InstallDir|MachineId|SerialNumber", re.IGNORECASE
)  # fmt: skip
HOSTS = re.compile(r"^(Hostname|EXPORT_HOST|DEVICE_DISPLAY_NAME|HostName)$")
MOST_FACTS = 1_000_000  # there are some hundreds; a view might have no end
TEXT_TYPES = ("TEXT", "VARCHAR", "CHAR", "CLOB")


def tables_of(db: sqlite3.Connection) -> list[str]:
    """Names of the tables."""
    return [n for (n,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]


def facts_of(db: sqlite3.Connection) -> Iterator[tuple[object, object]]:
    """Names and values of the small tables that hold them, be they tables or views over some."""
    for table in (*META, ENVIRONMENT):
        with contextlib.suppress(sqlite3.OperationalError):  # not there, or a view that cannot be read
            yield from db.execute(f"SELECT name, value FROM {table} LIMIT {MOST_FACTS}").fetchall()


def columns_of(db: sqlite3.Connection, *, text_only: bool) -> Columns:
    """Columns of every table: all of them, or those made for text (or for nothing in particular)."""
    found = {}
    for table in tables_of(db):
        rows = db.execute(f"PRAGMA table_info({quoted(table)})").fetchall()
        names = [r[1] for r in rows if not text_only or not r[2] or r[2].upper().startswith(TEXT_TYPES)]
        if names:
            found[table] = names
    return found


def quoted(name: str) -> str:
    """A name as SQL can take it, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'
