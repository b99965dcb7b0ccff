"""What must not leave the machine is found wherever nsys keeps it, and what the analysis needs stays."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import fake_nsys
import pytest

from unstall.collect.redact import GONE, clean_up, is_environment, is_secret, redact, redact_command, secret_names
from unstall.errors import NotAProfile, ProfileUnreadable, UsageError

SECRET = "hf_AbCdEfGh0123456789"
ENVIRONMENT = "\0".join([
    "PATH=/usr/bin", f"HF_TOKEN={SECRET}", "USER=carol", "HOME=/home/carol", "RANK=3", "WORLD_SIZE=8",
    "BASH_FUNC_x%%=() { echo; }", "HOSTNAME=lab-node-17",
])  # fmt: skip
MORE = f"""
INSERT INTO StringIds VALUES (3, CAST(x'{ENVIRONMENT.encode().hex()}' AS TEXT)), (4, '/home/carol/src/model.py'),
  (5, 'on lab-node-17 now'), (6, 'carol_range'), (7, 'key {SECRET} in a name'),
  (8, CAST(x'{b"/usr/bin/python".hex()}00{b"train.py".hex()}00{b"--key".hex()}00{b"abc".hex()}' AS TEXT)),
  (9, 'what the program printed'), (10, '데이터 로드 🚀'), (11, 'lab-node-170');
CREATE TABLE ProcessStreams (globalPid INTEGER, filenameId INTEGER, contentId INTEGER);
INSERT INTO ProcessStreams VALUES (1, 4, 9);
INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_0:COMMAND', '/home/carol/bin/python'),
  ('PROCESS_0:ARGUMENT_0', 'secret.py'), ('PROCESS_0:WORKING_DIR', '/home/carol'), ('CAPTURE_EVENT_TYPE', 'Cuda'),
  ('PROCESS_0:CUDA_GRAPH_TRACE_OPTIONS:MODE', 'Graph');
INSERT INTO PROCESSES VALUES (16777216, 1, '/home/carol/venv/bin/python');
INSERT INTO NVTX_EVENTS VALUES (1, 2, 59, 'load /home/carol/data {SECRET}', 1, NULL, 0);
"""


@pytest.fixture
def export(tmp_path: Path) -> Path:
    return fake_nsys.small_export(tmp_path / "run.sqlite", environment=ENVIRONMENT, more=MORE)


def values(path: Path, query: str) -> list[str]:
    with closing(sqlite3.connect(path)) as db:
        return [row[0] for row in db.execute(query)]


def test_everything_is_taken_out_and_the_original_is_untouched(export: Path, tmp_path: Path) -> None:
    before = hashlib.sha256(export.read_bytes()).hexdigest()
    found = redact(export, tmp_path / "clean.sqlite")
    assert hashlib.sha256(export.read_bytes()).hexdigest() == before
    raw = (tmp_path / "clean.sqlite").read_bytes()
    for word in (
        SECRET,
        "/home/carol",
        "USER=carol",
        "lab-node-17\0",
        "secret.py",
        "what the program printed",
        "--key",
    ):
        assert word.encode() in export.read_bytes() or word.endswith("\0")
        assert word.encode() not in raw, word
    assert found.secrets == {SECRET} and found.hosts == {"lab-node-17"} and found.users == {"carol"}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["clean.sqlite", "run.sqlite"]


def test_what_the_analysis_needs_stays(export: Path, tmp_path: Path) -> None:
    clean = tmp_path / "clean.sqlite"
    redact(export, clean)
    block = values(clean, "SELECT CAST(value AS BLOB) FROM TARGET_INFO_SYSTEM_ENV WHERE name = 'DeviceEnvironment'")[0]
    assert block == b"RANK=3\0WORLD_SIZE=8"
    strings = values(clean, "SELECT value FROM StringIds ORDER BY id")
    assert strings[:2] == ["forward", "gemm"]
    assert strings[3:] == [
        "/home/user/src/model.py", f"on {GONE} now", "carol_range", f"key {GONE} in a name", "python", GONE,
        "데이터 로드 🚀", "lab-node-170",
    ]  # fmt: skip
    assert values(clean, "SELECT text FROM NVTX_EVENTS WHERE text IS NOT NULL") == [f"load /home/user/data {GONE}"]
    kept = dict(
        zip(
            values(clean, "SELECT name FROM META_DATA_CAPTURE"),
            values(clean, "SELECT value FROM META_DATA_CAPTURE"),
            strict=True,
        )
    )
    assert kept["CAPTURE_EVENT_TYPE"] == "Cuda" and kept["PROCESS_0:CUDA_GRAPH_TRACE_OPTIONS:MODE"] == "Graph"
    assert kept["PROCESS_0:COMMAND"] == "python" and kept["PROCESS_0:ARGUMENT_0"] == GONE
    assert values(clean, "SELECT name FROM PROCESSES") == ["/home/user/venv/bin/python"]


def test_in_place_nothing_stays_in_free_pages(export: Path) -> None:
    clean_up(export)
    raw = export.read_bytes()
    assert SECRET.encode() not in raw and b"what the program printed" not in raw


@pytest.mark.parametrize("name", ["slow_loader_window", "nsys2022_nvtx_cpu", "nsys2024_gpu", "twoproc"])
def test_real_exports_lose_no_event(profile_path: Callable[[str], Path], tmp_path: Path, name: str) -> None:
    source, clean = profile_path(name), tmp_path / "clean.sqlite"
    redact(source, clean)
    tables = values(source, "SELECT name FROM sqlite_master WHERE type = 'table'")
    for table in tables:
        assert values(source, f'SELECT count(*) FROM "{table}"') == values(clean, f'SELECT count(*) FROM "{table}"')
    names = "SELECT value FROM StringIds WHERE value NOT LIKE '%/%' AND NOT instr(CAST(value AS BLOB), x'00')"
    changed = {a for a, b in zip(values(source, names), values(clean, names), strict=True) if a != b}
    assert len(changed) <= 1, changed  # what the program printed, where it is kept


def test_refusals(export: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("hello")
    with pytest.raises(NotAProfile, match="nsys export"):
        redact(other, tmp_path / "x")
    with pytest.raises(ProfileUnreadable, match="no such file"):
        redact(tmp_path / "nothing", tmp_path / "x")
    with pytest.raises(UsageError, match="the profile itself"):
        redact(export, export, force=True)
    with pytest.raises(UsageError, match="exists already"):
        redact(export, other)
    redact(export, other, force=True)
    assert other.read_bytes().startswith(b"SQLite")


def test_damaged_file_leaves_nothing(export: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.sqlite"
    cut.write_bytes(export.read_bytes()[:5000])
    with pytest.raises(ProfileUnreadable):
        redact(cut, tmp_path / "x")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    "where",
    [
        f'CREATE TABLE "{SECRET}" (x)',
        f"CREATE VIEW odd AS SELECT '{SECRET}'",
        f"CREATE TABLE odd (x PRIMARY KEY) WITHOUT ROWID; INSERT INTO odd VALUES ('{GONE}'), ('{SECRET}')",
    ],
)
def test_secret_where_no_value_is_to_be_changed_is_found_by_the_check(export: Path, tmp_path: Path, where: str) -> None:
    with closing(sqlite3.connect(export)) as db:
        db.executescript(where)
    with pytest.raises(ProfileUnreadable, match=r"run\.sqlite: the copy still holds"):
        redact(export, tmp_path / "x")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("text", "yes"),
    [("A=1\0B=2", True), ("A=1", False), ("python\0train.py\0--a=1", False), ("a\0b", False), ("", False)],
)
def test_environment_is_told_from_a_command_line(text: str, yes: bool) -> None:
    assert is_environment(text) == yes


def test_command_line_as_it_may_be_shown() -> None:
    environ = {"HOME": "/home/carol", "WANDB_API_KEY": "0123456789abcdef", "PATH": "/usr/bin"}
    command = [
        "/home/carol/venv/bin/python", "train.py", "--api-key", "zzz", "--token=yyy", "--lr=1", "x0123456789abcdefx",
        "https://me:pw@host/x", "API_KEY=1",
    ]  # fmt: skip
    assert redact_command(command, environ) == [
        "~/venv/bin/python", "train.py", "--api-key", GONE, f"--token={GONE}", "--lr=1", f"x{GONE}x",
        f"https://{GONE}@host/x", f"API_KEY={GONE}",
    ]  # fmt: skip
    assert secret_names(environ) == ["WANDB_API_KEY"]


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN", "GITHUBTOKEN", "TOKEN_2", "access_token", "API_TOKENS", "WANDB_API_KEY", "OPENAI_APIKEY", "DB_PASS",
        "AWS_SECRET_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY_2", "MYSECRETS", "DB_PASSWORD", "PGPASSWD", "NPM_AUTH",
        "GOOGLE_CREDENTIALS", "SSH_PRIVATE_KEY", "HTTP_AUTHORIZATION", "TOKEN_FILE",
    ],
)  # fmt: skip
def test_names_of_secrets(name: str) -> None:
    assert is_secret(name, "x0123456789")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TIKTOKEN_CACHE_DIR", "/data/tiktoken"), ("TIKTOKEN_ENCODINGS_BASE", "http://host/enc"),
        ("TOKENIZERS_PARALLELISM", "false-or-true-12"), ("GIT_AUTHOR_NAME", "carol-123456"),
        ("MAX_TOKENS", "1048576000"), ("XAUTHORITY", "/run/user/0/.Xauthority"),
        ("SSH_AUTH_SOCK", "/tmp/ssh-1/agent.2"),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", "/var/run/token-1"), ("BYPASS_LIST", "a.example,b.example"),
        ("COMPASS_HEADING", "northwest-12"), ("HF_TOKEN", "short"),
    ],
)  # fmt: skip
def test_names_that_only_sound_like_it(name: str, value: str) -> None:
    assert not is_secret(name, value)


def test_an_address_with_a_password_is_a_secret() -> None:
    assert is_secret("https_proxy", "http://carol:pw@proxy:3128") and not is_secret("https_proxy", "http://proxy:3128")


def test_options_of_tokenizers_are_shown() -> None:
    command = ["train.py", "--max-tokens", "512", "--tokenizer", "gpt2", "--token-file", "/t", "--hf-token", "abc"]
    assert redact_command(command, {}) == [*command[:-1], GONE]
