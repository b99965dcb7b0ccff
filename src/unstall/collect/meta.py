"""What a capture of ours knows beyond nsys's own tables: ``UNSTALL_META(name, value)``.

Comes in: an export that is ours, and facts. Goes out: the same file with them written in; the loader reads
``unprofiled_ns`` and ``rank`` from there. The shim that became the program is taken out of the process names, and ranks
that one capture holds are written into them.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path


def write(path: Path, facts: Mapping[str, str]) -> None:
    """Add or replace facts."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE IF NOT EXISTS UNSTALL_META (name TEXT PRIMARY KEY, value TEXT)")
        db.executemany("INSERT OR REPLACE INTO UNSTALL_META VALUES (?, ?)", list(facts.items()))
        db.commit()


def name_processes(path: Path, ranks: Mapping[int, str], program: Mapping[int, str] | None = None) -> None:
    """Call the program's process by its name (nsys keeps that of the Python which became it), and ranks by theirs."""
    shims = (sys.executable, os.path.realpath(sys.executable))
    with closing(sqlite3.connect(path)) as db:
        if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'PROCESSES'").fetchone():
            first = [(name, pid, *shims) for pid, name in (program or {}).items()]
            db.executemany("UPDATE PROCESSES SET name = ? WHERE pid = ? AND name IN (?, ?)", first)
            db.executemany("UPDATE PROCESSES SET name = ? WHERE pid = ?", [(n, pid) for pid, n in ranks.items()])
            db.commit()
