"""What is nobody's business, and how it is recognised: secrets, hosts, users, home folders, environment blocks.

Comes in: names and values as they stand in an environment, a command line, a text, or bytes of any kind. Goes out:
whether they are private, and the same without. Knows no file; :mod:`unstall.collect.redact` applies it to one.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

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
PLACEHOLDER = "user"
SYSTEM_USERS = frozenset({"root", "user", "nobody", "ubuntu", "runner"})
LEAST_FORM = 8  # bytes: a shorter piece of a coded secret would be found by chance


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
            text = re.sub(rf"(?<=/){re.escape(user)}(?=[/:\0\s\"']|$)", PLACEHOLDER, text)
        return text

    def learn(self, entry: str) -> None:
        """``NAME=value`` of an environment: a secret, the host's name, the user's."""
        name, _, value = entry.partition("=")
        if is_secret(name, value) and not KEPT.fullmatch(entry):
            self.secrets.add(value)
        elif name in ("USER", "LOGNAME", "USERNAME"):
            self.learn_user(value)
        elif name == "HOME":
            self.learn_user(value.rstrip("/").rpartition("/")[2])
        elif name in ("HOSTNAME", "HOST"):
            self.learn_host(value)

    def learn_user(self, name: str) -> None:
        """A user's name, unless it is everybody's."""
        if name and name.lower() not in SYSTEM_USERS and "/" not in name:
            self.users.add(name)

    def learn_host(self, name: str) -> None:
        """A host's name, unless it is too short to be told from other words."""
        if len(name) >= NAME_LONG:
            self.hosts.add(name)

    def forms(self) -> list[bytes]:
        """The secrets as they may stand in any bytes: plain, UTF-16, base64, quoted for a URL; the longest first."""
        found = {form for secret in self.secrets for form in _forms(secret)}
        return sorted(found, key=lambda form: (-len(form), form))

    def scrub(self, raw: bytes, *, text: bool) -> bytes:
        """Bytes of any kind without any of them. Only a ``text`` may change its length: a structure is none then."""
        for form in self.forms():
            raw = raw.replace(form, GONE.encode() if text else b"x" * len(form))
        names = [*self.hosts, *(f"/{user}" for user in self.users)]
        for coded in (encoded(name, kind) for name in names for kind in ("utf-8", "utf-16-le")):
            raw = raw if text else raw.replace(coded, b"x" * len(coded))
        return raw

    def count(self, what: str, by: int = 1) -> None:
        if by:
            self.counts[what] = self.counts.get(what, 0) + by

    @property
    def text(self) -> str:
        """In words."""
        return ", ".join(f"{n:,} {what}" for what, n in self.counts.items()) or "nothing to take out"


def _forms(secret: str) -> Iterator[bytes]:
    """How one secret may be written."""
    plain = encoded(secret)
    yield plain
    yield encoded(quote(plain))
    yield from (encoded(secret, kind) for kind in ("utf-16-le", "utf-16-be"))
    for before in range(3):  # bytes of the group of three that it begins in
        for coder in (base64.b64encode, base64.urlsafe_b64encode):
            whole = coder(bytes(before) + plain)[(0, 2, 3)[before] : (before + len(plain)) // 3 * 4]
            if len(whole) >= LEAST_FORM:
                yield whole


def decoded(raw: bytes) -> str:
    """Bytes as text; those that are none come back as they were."""
    return raw.decode("utf-8", "surrogateescape")


def encoded(text: str, kind: str = "utf-8") -> bytes:
    """The reverse of :func:`decoded`."""
    return text.encode(kind, "surrogateescape" if kind == "utf-8" else "surrogatepass")


def is_environment(value: str) -> bool:
    """Whether a string is an environment block: NUL between entries, nearly all of them ``NAME=value``."""
    entries = [e for e in value.split("\0") if e]
    return len(entries) > 1 and sum(bool(VARIABLE.match(e)) for e in entries) > len(entries) / 2


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
