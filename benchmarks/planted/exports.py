"""Raw capture → slim, clean, compressed export that a repository can hold.

In: ``.qdstrm`` or ``.nsys-rep``. Out: ``NAME.sqlite`` without call chains, environment and host names, and its ``.xz``.
"""

import lzma
import re
import sqlite3
import tarfile
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

DROPPED = ("OSRT_CALLCHAINS", "CUDA_CALLCHAINS", "TARGET_INFO_SYSTEM_ENV", "SCHED_EVENTS", "PROCESS_STREAMS")
TEXT = re.compile(r"(?i)(name(Id)?|textId|symbol|module|message|label)$")
"""Columns that hold ids of StringIds."""
MOST_BYTES = 15 << 20


def make_export(raw: Path, target: Path) -> None:
    """Convert, slim and redact into ``target`` (``.sqlite``), and compress beside it."""
    from unstall.collect.redact import redact
    from unstall.nsys.convert import to_sqlite

    full = target.with_name(f"{target.stem}.full.sqlite")
    to_sqlite(raw, full)
    slim(full)
    redact(full, target, force=True)
    full.unlink()
    with lzma.open(f"{target}.xz", "wb", preset=9 | lzma.PRESET_EXTREME) as packed:
        packed.write(target.read_bytes())


def slim(path: Path) -> None:
    """Drop what diagnosis does not read, in place."""
    with closing(sqlite3.connect(path)) as db:
        names = {r[0] for r in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for table in names & set(DROPPED):
            db.execute(f'DROP TABLE "{table}"')
        if "CUPTI_ACTIVITY_KIND_KERNEL" in names:
            db.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET mangledName = shortName")
        kept = " UNION ".join(
            f'SELECT "{column}" FROM "{table}" WHERE "{column}" IS NOT NULL'
            for table in sorted(names - set(DROPPED) - {"StringIds"})
            for (column,) in db.execute(f"SELECT name FROM pragma_table_info('{table}')")
            if TEXT.search(column) and not table.startswith("ENUM_")
        )
        if kept and "StringIds" in names:
            db.execute(f"DELETE FROM StringIds WHERE id NOT IN ({kept})")
        db.commit()


def pack(files: Iterable[Path], target: Path, most: int = MOST_BYTES) -> list[str]:
    """One archive of files, the smallest first, as many as fit; names of those that did not."""
    left_out, size = [], 0
    with tarfile.open(target, "w") as archive:
        for file in sorted(files, key=lambda p: p.stat().st_size):
            size += file.stat().st_size + 1024
            if size > most:
                left_out.append(file.name)
            else:
                archive.add(file, file.name)
    return left_out
