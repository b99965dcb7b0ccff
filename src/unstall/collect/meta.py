"""What a capture of ours knows beyond nsys's own tables: ``UNSTALL_META(name, value)``.

Comes in: an export that is ours, and facts. Goes out: the same file with them written in; the loader reads
``unprofiled_ns`` and ``rank`` from there. The shell that started the program is taken out of the process names.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

SHELLS = ("/bin/sh", "/bin/dash", "/usr/bin/dash", "/bin/bash", "/usr/bin/sh", "/usr/bin/bash", "/bin/busybox")


def write(path: Path, facts: Mapping[str, str]) -> None:
    """Add or replace facts."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE IF NOT EXISTS UNSTALL_META (name TEXT PRIMARY KEY, value TEXT)")
        db.executemany("INSERT OR REPLACE INTO UNSTALL_META VALUES (?, ?)", list(facts.items()))
        db.commit()


def name_program(path: Path, pid: int, name: str) -> None:
    """Call process ``pid`` by the program's name: nsys keeps that of the shell that became the program."""
    with closing(sqlite3.connect(path)) as db:
        if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'PROCESSES'").fetchone():
            marks = ", ".join("?" * len(SHELLS))
            db.execute(f"UPDATE PROCESSES SET name = ? WHERE pid = ? AND name IN ({marks})", (name, pid, *SHELLS))
            db.commit()
