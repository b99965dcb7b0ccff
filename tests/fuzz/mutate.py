"""Damage: bytes, pages, rows, types, names, columns and tables of an export; words, lines and values of a text or JSON.

Comes in: a random generator and a good file. Goes out: a damaged copy. The same generator state gives the same damage,
so that an input is known by its seed and number.
"""

from __future__ import annotations

import contextlib
import json
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

PAGE = 4096
NUMBERS = (
    0, 1, -1, 2, 7, 255, 256, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**48, 2**53, 2**62, 2**63 - 1, -(2**31),
    -(2**63), -(2**63) + 1, 10**9, 10**15, 10**18,
)  # fmt: skip
NAMES = (
    "", " ", "\x1b[31m\x1b]0;x\x07", "a\r\nb", "\x00", "a\0b", "=1+1", "|x|`y`", "<script>1</script>", "데이터 🚀",
    "\u202egnp\u202c", "\ud800", "%s%n{0}", "'; DROP TABLE StringIds; --", 'a"b', "step_1", "x" * 5000,
    "(" * 800, "<" * 800, "::" * 400, "9" * 400, "../../etc/passwd", "{name}", "ProfilerStep#3", "Iteration 7",
)  # fmt: skip
VALUES: tuple[Any, ...] = (None, *NUMBERS, 0.5, -0.0, 1e308, float("inf"), *NAMES, b"", b"\xff\xfe\x00", b"\x80" * 40)
WORDS = ("Time (%)", "Total Time (ns)", "Range", "SKIPPED: x", "Processing [a] with [b]...", "nan", "inf", "-", "1e999",
         ",", '"', "\t", "|", "9" * 30, "1,234", "1.234,5", "١٢", "\ufeff", "%", "ns", "[", "{", "}", "# ")  # fmt: skip


def damage(rng: random.Random, source: Path, target: Path) -> str:
    """Write a damaged copy of ``source`` to ``target``; returns how it was damaged."""
    if source.suffix == ".sqlite":
        how = rng.choices((_bytes, _pages, _rows, _schema), (2, 2, 4, 2))[0]
    elif source.suffix == ".json":
        how = rng.choices((_bytes, _words, _values), (1, 1, 4))[0]
    else:
        how = rng.choices((_bytes, _words), (1, 4))[0]
    target.write_bytes(source.read_bytes())
    how(rng, target)
    return f"{source.name} {how.__name__.strip('_')}"


def _bytes(rng: random.Random, path: Path) -> None:
    """A few bytes changed, inserted, or the end cut off."""
    data = bytearray(path.read_bytes())
    start = 100 if rng.random() < 0.7 and len(data) > 200 else 0  # SQLite's header is small and would never be met
    for _ in range(rng.choice((1, 1, 2, 5, 30))):
        at = rng.randrange(start, len(data)) if start or rng.random() < 0.5 else rng.randrange(min(len(data), 120))
        data[at] = rng.randrange(256)
    if rng.random() < 0.1:
        at = rng.randrange(len(data))
        data[at:at] = rng.randbytes(rng.choice((1, 7, PAGE)))
    if rng.random() < 0.15:
        del data[rng.randrange(len(data)) :]
    path.write_bytes(data)


def _pages(rng: random.Random, path: Path) -> None:
    """Whole pages lost, repeated, exchanged, or their own headers damaged."""
    data = bytearray(path.read_bytes())
    count = len(data) // PAGE
    for _ in range(rng.choice((1, 1, 2, 4))):
        a, b = (PAGE * rng.randrange(count) for _ in range(2))
        one, other = data[a : a + PAGE], data[b : b + PAGE]
        what = rng.randrange(5)
        if what == 0:
            data[a : a + PAGE] = bytes(PAGE)
        elif what == 1:
            data[a : a + PAGE] = other
        elif what == 2:
            data[a : a + PAGE], data[b : b + PAGE] = other, one
        elif what == 3:
            data[a : a + 12] = rng.randbytes(12)  # kind of page, free blocks, number of cells
        else:
            data[a : a + PAGE] = rng.randbytes(PAGE)
    path.write_bytes(data)


def _edit(path: Path, change: Callable[[sqlite3.Connection], None]) -> None:
    with closing(sqlite3.connect(path)) as db, contextlib.suppress(sqlite3.Error, OverflowError, UnicodeError):
        db.execute("PRAGMA synchronous = OFF")
        db.execute("PRAGMA journal_mode = OFF")
        db.execute("PRAGMA ignore_check_constraints = ON")
        change(db)
        db.commit()


def _tables(db: sqlite3.Connection) -> list[str]:
    return [n for (n,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]


def _columns(db: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in db.execute(f'PRAGMA table_info("{table}")')]


def _rows(rng: random.Random, path: Path) -> None:
    """Values of rows: other numbers, other types, hostile names; rows doubled and lost."""

    def change(db: sqlite3.Connection) -> None:
        tables = [t for t in _tables(db) if not t.startswith("ENUM_") and db.execute(f'SELECT 1 FROM "{t}"').fetchone()]
        for _ in range(rng.choice((1, 1, 2, 3, 8))):
            table = rng.choice(tables)
            column = rng.choice(_columns(db, table))
            few = f"rowid % {rng.choice((1, 1, 2, 7, 50))} = 0"
            value = rng.choice(VALUES)
            with contextlib.suppress(sqlite3.IntegrityError, UnicodeError):
                match rng.randrange(6):
                    case 0 | 1 | 2:
                        _loosen(db, table)
                        db.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE {few}', [value])
                    case 3:
                        shift = rng.choice((-1, 1, 10**6, -(10**9), 2**40, 2**62))
                        db.execute(f'UPDATE "{table}" SET "{column}" = "{column}" + {shift} WHERE {few}')
                    case 4:
                        db.execute(f'DELETE FROM "{table}" WHERE {few}')
                    case _:
                        _loosen(db, table)
                        for _ in range(rng.choice((1, 1, 3))):
                            db.execute(f'INSERT INTO "{table}" SELECT * FROM "{table}" LIMIT 2000')

    _edit(path, change)


def _loosen(db: sqlite3.Connection, table: str) -> None:
    """The same table without constraints, now and then also without column types."""
    names = _columns(db, table)
    spec = ", ".join(f'"{n}"' for n in names)
    db.execute(f'CREATE TABLE "loose" ({spec})')
    db.execute(f'INSERT INTO loose SELECT {spec} FROM "{table}"')
    db.execute(f'DROP TABLE "{table}"')
    db.execute(f'ALTER TABLE loose RENAME TO "{table}"')


def _schema(rng: random.Random, path: Path) -> None:
    """Tables lost, renamed, exchanged, turned into views; columns lost, renamed, added."""

    def change(db: sqlite3.Connection) -> None:
        for _ in range(rng.choice((1, 1, 2, 4))):
            tables = _tables(db)
            table, other = rng.choice(tables), rng.choice(tables)
            column = rng.choice(_columns(db, table) or ["x"])
            name = rng.choice(NAMES).replace('"', '""').replace("\0", "") or "x"
            statements = (
                (f'DROP TABLE "{table}"',),
                (f'ALTER TABLE "{table}" RENAME TO "{name}"',),
                (f'ALTER TABLE "{table}" RENAME TO "away"', f'ALTER TABLE "{other}" RENAME TO "{table}"'),
                (f'ALTER TABLE "{table}" RENAME TO "away"', f'CREATE VIEW "{table}" AS SELECT * FROM "away"'),
                (f'ALTER TABLE "{table}" DROP COLUMN "{column}"',),
                (f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "{name}"',),
                (f'ALTER TABLE "{table}" ADD COLUMN "{name}" TEXT DEFAULT \'x\'',),
                (f'DELETE FROM "{table}"',),
                (f'CREATE TABLE new AS SELECT * FROM "{table}"', f'DROP TABLE "{table}"',
                 f'CREATE TABLE "{table}" (a PRIMARY KEY, b) WITHOUT ROWID'),
                ("PRAGMA writable_schema = ON", f"UPDATE sqlite_master SET sql = replace(sql, '{column}', '\"') "
                 f"WHERE name = '{table}'"),
            )  # fmt: skip
            with contextlib.suppress(sqlite3.Error):
                for statement in rng.choice(statements):
                    db.execute(statement)

    _edit(path, change)


def _words(rng: random.Random, path: Path) -> None:
    """Lines and words of a text lost, doubled, exchanged, replaced."""
    lines = path.read_text(encoding="utf-8", errors="surrogateescape").split("\n")
    for _ in range(rng.choice((1, 2, 4, 12))):
        i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
        line = lines[i]
        at = rng.randrange(len(line) + 1)
        word = rng.choice((*WORDS, *NAMES, str(rng.choice(NUMBERS))))
        match rng.randrange(7):
            case 0:
                lines[i] = line[:at] + word + line[at:]
            case 1:
                lines[i] = line[:at]
            case 2:
                lines[i], lines[j] = lines[j], lines[i]
            case 3:
                lines[i:i] = lines[j : j + rng.choice((1, 3, 40))]
            case 4 if len(lines) > 2:
                del lines[i]
            case 5:
                cells = line.split(rng.choice((",", "  ", "\t", '"')))
                cells[rng.randrange(len(cells))] = word
                lines[i] = rng.choice((",", "  ", "\t")).join(cells)
            case _:
                lines[i] = line.replace(rng.choice((",", "0", " ", "_", '"')), word, rng.choice((1, -1)))
    text = rng.choice(("\n", "\n", "\r\n", "\r")).join(lines)
    path.write_bytes(text.encode(rng.choice(("utf-8", "utf-8", "utf-8", "utf-16", "latin-1")), "replace"))


def _values(rng: random.Random, path: Path) -> None:
    """Values of a JSON document replaced, lost, doubled, nested."""
    document = json.loads(path.read_text())
    for _ in range(rng.choice((1, 1, 2, 5))):
        places = list(_places(document))
        if not places:
            break
        inside, key = rng.choice(places)
        match rng.randrange(5):
            case 0 | 1:
                value = rng.choice(VALUES)
                inside[key] = value.hex() if isinstance(value, bytes) else value
            case 2:
                del inside[key]
            case 3:
                inside[key] = [inside[key]] * rng.choice((0, 1, 3))
            case _:
                other, place = rng.choice(places)
                with contextlib.suppress(KeyError, IndexError):
                    inside[key] = json.loads(json.dumps(other[place]))
    path.write_text(json.dumps(document, ensure_ascii=rng.random() < 0.5), errors="surrogatepass")


def _places(value: Any) -> Any:
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])
