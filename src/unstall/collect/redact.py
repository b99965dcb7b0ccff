"""A copy of an export without what is nobody's business: environment, command lines, host and user names, user paths.

Comes in: an SQLite export of nsys (any version) or of the built-in collector. Goes out: a clean copy, checked: what was
recognised as a secret, a host or a user's name is in it nowhere, not even in a free page.

nsys keeps the whole environment of the program, tokens included, three times over: in ``TARGET_INFO_SYSTEM_ENV`` (one
string, NUL between the variables), as ``/proc/PID/environ`` in ``StringIds``, and, of *other* processes on the machine,
there too. SQLite's text functions stop at the first NUL, so everything here looks at bytes. What the analysis needs
stays: the launcher's rank variables, device numbers, names of ranges, kernels and threads.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from unstall.errors import NotAProfile, ProfileUnreadable, UsageError

GONE = "[redacted]"
KEPT = re.compile(  # variables that say how a run was set up and nothing of whom
    r"(RANK|LOCAL_RANK|GROUP_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|CUDA_VISIBLE_DEVICES|OMP_NUM_THREADS"
    r"|OMPI_COMM_WORLD_(RANK|SIZE|LOCAL_RANK)|PMIX?_(RANK|SIZE)|SLURM_(PROCID|LOCALID|NTASKS)"
    r"|CUDA_(LAUNCH_BLOCKING|MODULE_LOADING|DEVICE_MAX_CONNECTIONS)|PYTORCH_(CUDA_)?ALLOC_CONF|UNSTALL_[A-Z_]+)=[\w.:,\s-]*"
)
SECRET_NAME = re.compile(  # the ends of words count: TOKENIZERS_PARALLELISM, TIKTOKEN_… and GIT_AUTHOR_NAME are none
    r"(?<!TIK)TOKEN(?![A-Z])|(API|ACCESS|AUTH|REFRESH|BEARER)[-_]?TOKENS|SECRET|PASSW(OR)?D|PASSPHRASE|CREDENTIAL"
    r"|(?<!BY)(?<!COM)PASS(?![A-Z])|AUTH(?![A-Z])|AUTHORIZATION|(API|ACCESS|PRIVATE|SIGNING)[-_]?KEY(?![A-Z])",
    re.IGNORECASE,
)
PLACE_NAME = re.compile(r"([-_](DIR|PATH|HOME|CACHE|SOCK)|FILE)$", re.IGNORECASE)
"""Says where something lies, not what it is: SSH_AUTH_SOCK, TOKEN_FILE. Only where the value is a path."""
LOGIN = re.compile(r"\w+://[^/@\s:]+:[^/@\s]+@")
"""An address with a password in it, as in http_proxy or DATABASE_URL."""
SECRET_LONG, WORD_LONG = 8, 16  # characters: a shorter value, or a shorter plain word, would be found everywhere
NAME_LONG = 4  # a host called "vm" would be cut out of names that mean something else
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.()%]*=")
HOME = re.compile(r"(/(?:home|Users|export/home|u|users|lustre/users|scratch/users)/)([^/\0\s\"':]+)")
HOME_LIKE = ("%/home/%", "%/Users/%", "%/users/%", "%/u/%")
WORDS_AT_ONCE = 200  # SQLite allows expressions 1000 deep
PLACEHOLDER = "user"
SYSTEM_USERS = frozenset({"root", "user", "nobody", "ubuntu", "runner"})

META = ("META_DATA_CAPTURE", "META_DATA_EXPORT", "EXPORT_META_DATA", "UNSTALL_META")
ENVIRONMENT = "TARGET_INFO_SYSTEM_ENV"
TOLD = re.compile(  # rows of the small tables whose value says who, where or with what arguments
    r"HOST|USER|COMMAND$|ARGUMENT|WORKING_DIR|ENVIRONMENT|DISPLAY_NAME|_PATH|_FILE$|PARAM_(IN|OUT)PUT|SESSION_ID|^argv$"
    r"|StoragePath|InstallDir|MachineId|SerialNumber", re.IGNORECASE
)  # fmt: skip
HOSTS = re.compile(r"^(Hostname|EXPORT_HOST|DEVICE_DISPLAY_NAME|HostName)$")


@dataclass
class Found:
    """What was taken out, by kind, and the words that must be found nowhere afterwards.

    A secret is taken out wherever it stands, a host's name as a word of its own, a user's name as a part of a path:
    a user called ``data`` must not cost the range ``data_load`` its name.
    """

    counts: dict[str, int] = field(default_factory=dict)
    secrets: set[str] = field(default_factory=set)
    hosts: set[str] = field(default_factory=set)
    users: set[str] = field(default_factory=set)

    @property
    def words(self) -> list[str]:
        """All of them, as they may stand in a text; the longest first."""
        paths = {f"/{user}" for user in self.users}
        return sorted(self.secrets | self.hosts | paths, key=lambda w: (-len(w), w))

    def take_out(self, text: str) -> str:
        """``text`` without any of them."""
        for word in sorted((w for w in self.secrets if w in text), key=len, reverse=True):
            text = text.replace(word, GONE)
        for host in (h for h in self.hosts if h in text):
            text = re.sub(rf"(?<![A-Za-z0-9_]){re.escape(host)}(?![A-Za-z0-9_])", GONE, text)
        for user in (u for u in self.users if u in text):
            text = re.sub(rf"(?<=/){re.escape(user)}(?=[/:\0]|$)", PLACEHOLDER, text)
        return text

    def count(self, what: str, by: int = 1) -> None:
        if by:
            self.counts[what] = self.counts.get(what, 0) + by

    @property
    def text(self) -> str:
        """In words."""
        return ", ".join(f"{n:,} {what}" for what, n in self.counts.items()) or "nothing to take out"


def redact(source: Path, target: Path, *, force: bool = False) -> Found:
    """Write a clean copy of ``source`` to ``target``; complete or absent, ``source`` is only read.

    Raises:
        NotAProfile: ``source`` is no SQLite export.
        UsageError: ``target`` exists already (and ``force`` is not given), is ``source`` itself, or cannot be written.
        ProfileUnreadable: the file is damaged, or the copy still holds something after all (then it is removed).
    """
    _check(source, target, force)
    work = target.with_name(f".{target.name[:60]}.work")
    try:
        origin = sqlite3.connect(f"file:{_quoted(source)}?mode=ro", uri=True)
        with closing(origin), closing(sqlite3.connect(work)) as copy:
            copy.execute("PRAGMA synchronous = OFF")  # it is thrown away when anything goes wrong
            origin.backup(copy)
        found = clean_up(work)
        work.replace(target)
        return found
    except sqlite3.DatabaseError as error:
        raise ProfileUnreadable(str(source), f"cannot be copied ({error})", "Export it again") from error
    except OSError as error:
        raise UsageError(str(target), f"cannot be written ({error.strerror})", "Name another file") from error
    finally:
        work.unlink(missing_ok=True)


def clean_up(path: Path) -> Found:
    """Redact a file that is ours. It is written anew at the end: SQLite leaves old text in the gaps of its pages, with
    ``secure_delete`` as well.

    Raises:
        ProfileUnreadable: something stayed after all; the file is then as it was, but for what was found.
    """
    clean = path.with_name(f".{path.name[:60]}.clean")
    try:
        with closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA synchronous = OFF")
            db.execute("PRAGMA journal_mode = OFF")  # a journal would hold what we take out; the file is a copy anyway
            db.text_factory = _text
            found = _take_out(db)
            db.execute("VACUUM INTO ?", [str(clean)])
        verify(clean, found)
        clean.replace(path)
        return found
    finally:
        clean.unlink(missing_ok=True)


def _take_out(db: sqlite3.Connection) -> Found:
    found = Found()
    tables = _text_columns(db)
    _learn(db, tables, found)
    for table in {*META, ENVIRONMENT} & tables.keys():
        _small_table(db, table, found)
    _streams(db, tables, found)
    for table, columns in tables.items():
        for column in columns:
            _rewrite(db, table, column, found)
    db.commit()
    return found


def verify(path: Path, found: Found) -> None:
    """Raise when a secret is still in the file, as bytes anywhere, or a name is still in one of its texts."""
    left = _holds(path, found.secrets)
    with closing(sqlite3.connect(path)) as db:
        db.text_factory = _text
        for table, columns in _text_columns(db).items():
            for column in columns:
                left |= any(found.take_out(v) != v for _, v in _suspects(db, table, column, found))
    if left:
        raise ProfileUnreadable(str(path), "the copy still holds something to be taken out", "Do not share the profile")


def _holds(path: Path, words: set[str]) -> bool:
    needles = [_bytes(w) for w in words]
    if not needles:
        return False
    pattern = re.compile(b"|".join(map(re.escape, needles)))
    overlap, tail = max(map(len, needles)), b""
    with path.open("rb") as file:
        while chunk := file.read(1 << 22):
            if pattern.search(tail + chunk):
                return True
            tail = chunk[-overlap:]
    return False


def environment_kept(block: str) -> str:
    """An environment block (NUL between variables) with only what the analysis needs."""
    return "\0".join(entry for entry in block.split("\0") if KEPT.fullmatch(entry))


def redact_command(command: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """A command line as it may be shown: without values that look like secrets, home folders shortened."""
    home = environ.get("HOME", "")
    secrets = [v for n, v in environ.items() if is_secret(n, v)]
    words, hide = [], False
    for word in command:
        name, equals, _ = word.partition("=")
        shown = GONE if hide else word
        hide = word.startswith("-") and not equals and _takes_secret(word)
        if equals and _takes_secret(name):
            shown = f"{name}={GONE}"
        for secret in secrets:
            shown = shown.replace(secret, GONE)
        shown = re.sub(r"(\w+://)[^/@\s]+@", rf"\1{GONE}@", shown)
        words.append(HOME.sub("~", shown.replace(home, "~") if len(home) > 1 else shown))
    return words


def secret_names(environ: Mapping[str, str]) -> list[str]:
    """Names of the variables whose values look like secrets."""
    return sorted(n for n, v in environ.items() if is_secret(n, v))


def is_secret(name: str, value: str) -> bool:
    """Whether a variable's value looks like something that nobody else should know."""
    if LOGIN.search(value):
        return True
    if PLACE_NAME.search(name) and value.startswith(("/", "~", "./", "../")):
        return False
    return bool(SECRET_NAME.search(name)) and len(value) >= (WORD_LONG if value.isalpha() else SECRET_LONG)


def _takes_secret(option: str) -> bool:
    return bool(SECRET_NAME.search(option)) and not PLACE_NAME.search(option)


def _check(source: Path, target: Path, force: bool) -> None:
    try:
        with source.open("rb") as file:
            head = file.read(16)
    except OSError as error:
        raise ProfileUnreadable(str(source), (error.strerror or str(error)).lower(), "Check the path") from error
    if not head.startswith(b"SQLite format 3\0"):
        hint = "A .nsys-rep cannot be redacted: export it (nsys export --type sqlite FILE) and redact the export"
        raise NotAProfile(str(source), "not an SQLite export", hint)
    if target.exists() and source.samefile(target):
        raise UsageError(str(target), "is the profile itself", "Name another file with --output")
    if target.exists() and not force:
        raise UsageError(str(target), "exists already", "Name another file, or replace it with --force")


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _quoted(path: Path) -> str:
    return str(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def _text_columns(db: sqlite3.Connection) -> dict[str, list[str]]:
    """Columns that may hold text, of every table that is not an enumeration of nsys's own."""
    names = [n for (n,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    columns = {}
    for name in names:
        rows = db.execute(f'PRAGMA table_info("{name}")').fetchall() if not name.startswith("ENUM_") else []
        text = [r[1] for r in rows if r[2].upper().startswith(("TEXT", "VARCHAR", "CHAR", "CLOB")) or not r[2]]
        if text:
            columns[name] = text
    return columns


def _learn(db: sqlite3.Connection, tables: dict[str, list[str]], found: Found) -> None:
    """Host names, user names and secrets, from the places where they are called so."""
    for table in {*META, ENVIRONMENT} & tables.keys():
        for name, value in db.execute(f'SELECT name, value FROM "{table}"'):
            if HOSTS.match(str(name)) and isinstance(value, str) and len(value) >= NAME_LONG:
                found.hosts.add(value)
            if str(name).upper().endswith("USER_NAME") and isinstance(value, str):
                found.users |= _users(value)
    for block in _blocks(db, tables):
        for entry in block.split("\0"):
            name, _, value = entry.partition("=")
            if is_secret(name, value) and not KEPT.fullmatch(entry):
                found.secrets.add(value)
            elif name in ("USER", "LOGNAME", "USERNAME"):
                found.users |= _users(value)
            elif name == "HOME":
                found.users |= _users(Path(value).name)
            elif name in ("HOSTNAME", "HOST") and len(value) >= NAME_LONG:
                found.hosts.add(value)


def _users(name: str) -> set[str]:
    return {name} if name and name.lower() not in SYSTEM_USERS and "/" not in name else set()


def _blocks(db: sqlite3.Connection, tables: dict[str, list[str]]) -> Iterator[str]:
    """Every environment block of the file."""
    for table, column in (("StringIds", "value"), (ENVIRONMENT, "value"), ("META_DATA_CAPTURE", "value")):
        if column in tables.get(table, []):
            yield from (v for (v,) in _with_nul(db, table, column) if is_environment(v))


def _with_nul(db: sqlite3.Connection, table: str, column: str) -> Iterator[tuple[str]]:
    yield from db.execute(f'SELECT "{column}" FROM "{table}" WHERE instr(CAST("{column}" AS BLOB), x\'00\')')


def is_environment(value: str) -> bool:
    """Whether a string is an environment block: NUL between entries, nearly all of them ``NAME=value``."""
    entries = [e for e in value.split("\0") if e]
    return len(entries) > 1 and sum(bool(VARIABLE.match(e)) for e in entries) > len(entries) / 2


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
        _update(db, table, "value", new, rowid)


def _streams(db: sqlite3.Connection, tables: dict[str, list[str]], found: Found) -> None:
    """What the program printed is stored as well."""
    if (
        "ProcessStreams" not in {n for (n,) in db.execute("SELECT name FROM sqlite_master")}
        or "StringIds" not in tables
    ):
        return
    rows = db.execute(
        "SELECT DISTINCT s.rowid FROM StringIds s JOIN ProcessStreams p ON s.id = p.contentId WHERE length(s.value)"
    ).fetchall()
    for (rowid,) in rows:
        _update(db, "StringIds", "value", GONE, rowid)
    found.count("captured outputs", len(rows))


def _rewrite(db: sqlite3.Connection, table: str, column: str, found: Found) -> None:
    """Environment blocks, command lines, home folders and learnt words in one column, whatever the table."""
    for rowid, value in list(_suspects(db, table, column, found)):
        new = _cleaned(value, found)
        if new != value:
            _update(db, table, column, new, rowid)


def _suspects(db: sqlite3.Connection, table: str, column: str, found: Found) -> Iterator[tuple[int, str]]:
    """Rows that may hold something, found by SQLite itself: tables of events have millions."""
    plain = [f"instr(CAST(\"{column}\" AS BLOB), x'00')", *(f"\"{column}\" LIKE '{like}'" for like in HOME_LIKE)]
    words = [_bytes(w) for w in found.words]
    for first in range(0, max(1, len(words)), WORDS_AT_ONCE):
        some = words[first : first + WORDS_AT_ONCE]
        tests = [*(plain if first == 0 else []), *[f'instr(CAST("{column}" AS BLOB), ?)'] * len(some)]
        query = (
            f'SELECT rowid, "{column}" FROM "{table}" WHERE typeof("{column}") = \'text\' AND ({" OR ".join(tests)})'
        )
        try:
            yield from db.execute(query, some).fetchall()
        except sqlite3.OperationalError:  # a table without row ids holds no text of a user in any version
            return


def _cleaned(value: str, found: Found) -> str:
    if "\0" in value.rstrip("\0"):
        if is_environment(value):
            found.count("environments")
            return environment_kept(value)
        found.count("command lines")
        return Path(value.partition("\0")[0]).name
    new = found.take_out(value)
    found.count("names and secrets", int(new != value))
    clean = HOME.sub(rf"\g<1>{PLACEHOLDER}", new)
    found.count("user paths", int(clean != new))
    return clean


def _update(db: sqlite3.Connection, table: str, column: str, value: str, rowid: int) -> None:
    db.execute(f'UPDATE "{table}" SET "{column}" = CAST(? AS TEXT) WHERE rowid = ?', [_bytes(value), rowid])
