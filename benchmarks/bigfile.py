"""Big files for the benchmarks: a real export, repeated in time until it has enough event rows.

Comes in: a small nsys SQLite export. Goes out: a file of the same schema with ``rows`` events; every copy is shifted by
the capture's own span, correlation ids move along, names and callchains are shared as they are in a real long capture.
"""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

EVENTS = (
    "NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "OSRT_API", "SCHED_EVENTS",
)  # fmt: skip


def count_events(path: Path) -> dict[str, int]:
    """Event table → rows."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
        have = {n for (n,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        return {t: db.execute(f'SELECT count(*) FROM "{t}"').fetchone()[0] for t in EVENTS if t in have}


def repeat(source: Path, target: Path, rows: int) -> dict[str, int]:
    """Write ``target``: ``source`` repeated until it has about ``rows`` event rows. Returns rows a table."""
    counts = count_events(source)
    copies = max(1, round(rows / sum(counts.values())))
    shutil.copyfile(source, target)
    db = sqlite3.connect(target)
    db.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -200000;")
    span = max(db.execute(f'SELECT max(start) FROM "{t}"').fetchone()[0] or 0 for t in counts) + 1_000_000
    for table in counts:
        columns = [r[1] for r in db.execute(f'PRAGMA table_info("{table}")')]
        shift = {"start": span, "end": span, "correlationId": 10_000_000}
        picked = ", ".join(f'"{c}" + k.nth * {shift[c]}' if c in shift else f'"{c}"' for c in columns)
        db.execute(f'CREATE TEMP TABLE base AS SELECT * FROM "{table}"')
        db.execute(
            f"WITH RECURSIVE k(nth) AS (VALUES(1) UNION ALL SELECT nth + 1 FROM k WHERE nth < {copies - 1}) "
            f'INSERT INTO "{table}" SELECT {picked} FROM k CROSS JOIN base WHERE {copies} > 1'
        )
        db.execute("DROP TABLE base")
        db.commit()
    db.close()
    return count_events(target)
