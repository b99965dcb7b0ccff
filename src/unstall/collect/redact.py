"""A copy of an export without what is nobody's business: environment, command lines, host and user names, user paths.

Comes in: an SQLite export of nsys (any version) or of the built-in collector. Goes out: a clean copy, checked: what was
recognised as a secret, a host or a user's name is in it nowhere, not even in a free page.

nsys keeps the whole environment of the program, tokens included, three times over: in ``TARGET_INFO_SYSTEM_ENV`` (one
string, NUL between the variables), as ``/proc/PID/environ`` in ``StringIds``, and, of *other* processes on the machine,
there too. SQLite's text functions stop at the first NUL, so everything here looks at bytes. What the analysis needs
stays: the launcher's rank variables, device numbers, names of ranges, kernels and threads.

Columns made for text are gone through first. Only where the bytes of the copy still hold something is every value of
every column gone through, for other codings too (UTF-16, base64): that takes minutes where events are many.
"""

from __future__ import annotations

import contextlib
import mmap
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from unstall.collect.private import (
    GONE,
    HOME,
    PLACEHOLDER,
    Found,
    decoded,
    encoded,
    environment_kept,
    is_environment,
    is_secret,
    redact_command,
    secret_names,
)
from unstall.collect.tables import ENVIRONMENT, HOSTS, META, TOLD, Columns, columns_of, facts_of, quoted, tables_of
from unstall.errors import NotAProfile, ProfileUnreadable, UsageError

__all__ = ["GONE", "Found", "clean_up", "is_environment", "is_secret", "redact", "redact_command", "secret_names"]

HOME_LIKE = ("%/home/%", "%/Users/%", "%/users/%", "%/u/%")
WORDS_AT_ONCE = 200  # SQLite allows expressions 1000 deep


def redact(source: Path, target: Path, *, force: bool = False) -> Found:
    """Write a clean copy of ``source`` to ``target``; complete or absent, ``source`` is only read.

    Raises:
        NotAProfile: ``source`` is no SQLite export.
        UsageError: ``target`` exists already (and ``force`` is not given), is ``source`` itself, or cannot be written.
        ProfileUnreadable: the file is damaged, or the copy still holds something after all (then it is removed).
    """
    _check(source, target, force)
    try:
        with tempfile.TemporaryDirectory(prefix=f".{target.name[:60]}.", dir=target.parent) as room:
            work = Path(room) / "copy.sqlite"
            shutil.copyfile(source, work)
            mode = work.stat().st_mode  # as new files are here; the one that takes its place is SQLite's
            found = clean_up(work, called=str(source))
            work.chmod(mode)
            work.replace(target)
        return found
    except OSError as error:
        raise UsageError(str(target), f"cannot be written ({error.strerror})", "Name another file") from error


def clean_up(path: Path, *, called: str = "") -> Found:
    """Redact a file that is ours. It is written anew at the end: SQLite leaves old text in the gaps of its pages, with
    ``secure_delete`` as well.

    Raises:
        ProfileUnreadable: it is damaged, or something stayed after all; the file is then as it was, but for what was
            found.
    """
    clean = path.with_name(f".{path.name[:60]}.clean")
    try:
        with _opened(path) as db:
            found = _take_out(db)
            _written_anew(db, clean)
            if _holds(clean, found):
                _everywhere(db, found)
                _written_anew(db, clean)
        _verify(clean, found, called or str(path))
        clean.replace(path)
        return found
    except (sqlite3.Error, UnicodeError) as error:  # Python shows SQLite's words as UTF-8, and they may quote the file
        raise ProfileUnreadable(called or str(path), f"damaged SQLite file ({error})", "Export it again") from error
    finally:
        clean.unlink(missing_ok=True)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA synchronous = OFF")
        db.execute("PRAGMA journal_mode = OFF")  # a journal would hold what we take out; the file is a copy anyway
        db.text_factory = decoded
        yield db


def _written_anew(db: sqlite3.Connection, clean: Path) -> None:
    db.commit()
    clean.unlink(missing_ok=True)
    db.execute("VACUUM INTO ?", [str(clean)])


def _take_out(db: sqlite3.Connection) -> Found:
    found = Found()
    tables = columns_of(db, text_only=True)
    _learn(db, tables, found)
    for table in {*META, ENVIRONMENT} & tables.keys():
        if {"name", "value"} <= set(tables[table]):
            _small_table(db, table, found)
    _streams(db, tables, found)
    db.create_function("without", 1, lambda raw: encoded(_cleaned(decoded(raw), found)))
    for table, columns in tables.items():
        for column in columns:
            for test, words in _tests(column, found):
                new = f"CAST(without(CAST({quoted(column)} AS BLOB)) AS TEXT)"
                where = f"typeof({quoted(column)}) = 'text' AND ({test})"
                _rewrite(db, table, column, where=where, new=new, words=words)
    return found


def _everywhere(db: sqlite3.Connection, found: Found) -> None:
    """Every value of every column, of any type and in any coding."""

    def text(raw: bytes) -> bytes:
        return found.scrub(encoded(_cleaned(decoded(raw), found)), text=True)

    db.create_function("scrubbed_text", 1, text)
    db.create_function("scrubbed_blob", 1, lambda raw: found.scrub(raw, text=False))
    for table, columns in columns_of(db, text_only=False).items():
        for column in columns:
            name = quoted(column)
            new = f"CAST(scrubbed_text(CAST({name} AS BLOB)) AS TEXT)"
            _rewrite(db, table, column, where=f"typeof({name}) = 'text'", new=new)
            _rewrite(db, table, column, where=f"typeof({name}) = 'blob'", new=f"scrubbed_blob({name})")


def _rewrite(
    db: sqlite3.Connection, table: str, column: str, *, where: str, new: str, words: Sequence[bytes] = ()
) -> None:
    """A value that may not change (a key that would occur twice) stays, and is found by the check."""
    with contextlib.suppress(sqlite3.IntegrityError):
        db.execute(f"UPDATE OR IGNORE {quoted(table)} SET {quoted(column)} = {new} WHERE {where}", words)


def _tests(column: str, found: Found) -> Iterator[tuple[str, list[bytes]]]:
    """What may hold something, as SQL: tables of events have millions of rows."""
    name = quoted(column)
    plain = [f"instr(CAST({name} AS BLOB), x'00')", *(f"{name} LIKE '{like}'" for like in HOME_LIKE)]
    words = [encoded(w) for w in found.words]
    for first in range(0, max(1, len(words)), WORDS_AT_ONCE):
        some = words[first : first + WORDS_AT_ONCE]
        tests = [*(plain if first == 0 else []), *[f"instr(CAST({name} AS BLOB), ?)"] * len(some)]
        yield " OR ".join(tests), some


def _holds(path: Path, found: Found) -> bool:
    """Whether the bytes of the file may still hold one of them; a host or a user may also be found by chance."""
    names = [*found.hosts, *(f"/{user}/" for user in found.users)]
    coded = [encoded(name, kind) for name in names for kind in ("utf-8", "utf-16-le")]
    return _any_in(path, [*found.forms(), *coded])


def _any_in(path: Path, words: list[bytes]) -> bool:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return any(content.find(word) >= 0 for word in words)


def _verify(path: Path, found: Found, called: str) -> None:
    """Raise when a secret is still in the file, as bytes anywhere, or a name is still in one of its texts."""
    left = _any_in(path, found.forms())
    with _opened(path) as db:
        for table, columns in columns_of(db, text_only=True).items():
            for column in columns:
                left |= any(found.take_out(v) != v for v in _suspects(db, table, column, found))
    if left:
        raise ProfileUnreadable(called, "the copy still holds something to be taken out", "Do not share the profile")


def _suspects(db: sqlite3.Connection, table: str, column: str, found: Found) -> Iterator[str]:
    name = quoted(column)
    for test, words in _tests(column, found):
        rows = db.execute(f"SELECT {name} FROM {quoted(table)} WHERE typeof({name}) = 'text' AND ({test})", words)
        yield from (value for (value,) in rows.fetchall())


def _check(source: Path, target: Path, force: bool) -> None:
    try:
        with source.open("rb") as file:
            head = file.read(16)
    except OSError as error:
        raise ProfileUnreadable(str(source), (error.strerror or str(error)).lower(), "Check the path") from error
    if not head.startswith(b"SQLite format 3\0"):
        hint = "A .nsys-rep cannot be redacted: export it (nsys export --type sqlite FILE) and redact the export"
        raise NotAProfile(str(source), "not an SQLite export", hint)
    for beside in (source.with_name(source.name + end) for end in ("-wal", "-journal")):
        if beside.is_file() and beside.stat().st_size:
            raise ProfileUnreadable(
                str(source), f"unfinished: {beside.name} lies beside it", "Wait, or export it again"
            )
    if target.exists() and source.samefile(target):
        raise UsageError(str(target), "is the profile itself", "Name another file with --output")
    if target.exists() and not force:
        raise UsageError(str(target), "exists already", "Name another file, or replace it with --force")
    if target.is_dir():
        raise UsageError(str(target), "is a folder", "Name a file in it with --output")


def _learn(db: sqlite3.Connection, tables: Columns, found: Found) -> None:
    """Host names, user names and secrets, from the places where they are called so."""
    for name, value in facts_of(db):
        if HOSTS.match(str(name)) and isinstance(value, str):
            found.learn_host(value)
        if str(name).upper().endswith("USER_NAME") and isinstance(value, str):
            found.learn_user(value)
    for block in _blocks(db, tables):
        for entry in block.split("\0"):
            found.learn(entry)


def _blocks(db: sqlite3.Connection, tables: Columns) -> Iterator[str]:
    """Every environment block of the file."""
    for table, columns in tables.items():
        for name in map(quoted, columns):
            where = f"typeof({name}) = 'text' AND instr(CAST({name} AS BLOB), x'00')"
            rows = db.execute(f"SELECT {name} FROM {quoted(table)} WHERE {where}").fetchall()
            yield from (value for (value,) in rows if is_environment(value))


def _small_table(db: sqlite3.Connection, table: str, found: Found) -> None:
    rows = db.execute(f'SELECT rowid, name, value FROM "{table}"').fetchall()
    for rowid, name, value in rows:
        if not isinstance(value, str) or not value:
            continue
        if is_environment(value):
            new = environment_kept(value)
            found.count("environments")
        elif TOLD.search(str(name)):
            new = Path(value).name if str(name).endswith("COMMAND") and "\0" not in value else GONE
            found.count("facts of the host, the user or the command")
        else:
            continue
        _update(db, table, new, rowid)


def _streams(db: sqlite3.Connection, tables: Columns, found: Found) -> None:
    """What the program printed is stored as well."""
    if "ProcessStreams" not in tables_of(db) or "StringIds" not in tables:
        return
    rows = db.execute(
        "SELECT DISTINCT s.rowid FROM StringIds s JOIN ProcessStreams p ON s.id = p.contentId WHERE length(s.value)"
    ).fetchall()
    for (rowid,) in rows:
        _update(db, "StringIds", GONE, rowid)
    found.count("captured outputs", len(rows))


def _cleaned(value: str, found: Found) -> str:
    """Environment blocks, command lines, home folders and learnt words taken out of one text."""
    if "\0" in value.rstrip("\0"):
        if is_environment(value):
            found.count("environments")
            return environment_kept(value)
        found.count("command lines")
        return found.take_out(Path(value.partition("\0")[0]).name)
    new = found.take_out(value)
    found.count("names and secrets", int(new != value))
    clean = HOME.sub(rf"\g<1>{PLACEHOLDER}", new)
    found.count("user paths", int(clean != new))
    return clean


def _update(db: sqlite3.Connection, table: str, value: str, rowid: int) -> None:
    db.execute(f'UPDATE "{table}" SET value = CAST(? AS TEXT) WHERE rowid = ?', [encoded(value), rowid])
