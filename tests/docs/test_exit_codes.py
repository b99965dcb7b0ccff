"""Every exit code of docs/exit-codes.md that a command can be made to return, provoked (130 and 141: tests/cli)."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pages import ROOT

from unstall import cli


@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with gzip.open(ROOT / "src/unstall/data/slow_loader_window.sqlite.gz") as packed:
        (tmp_path / "run.sqlite").write_bytes(packed.read())
    return tmp_path / "run.sqlite"


def unstall(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["unstall", *arguments])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    return int(stop.value.code or 0)


CODES = [
    (0, ["report", "run.sqlite"], ""),
    (0, ["compare", "run.sqlite", "run.sqlite", "--fail-if", "slower"], "gate passed"),
    (1, ["compare", "run.sqlite", "run.sqlite", "--fail-if", "step_ms > 3"], "step_ms is 27.42"),
    (2, ["report", "run.sqlite", "--step", "("], "not a regular expression"),
    (2, ["report"], "Missing argument"),
    (2, ["explain", "no-such-code"], "no such finding"),
    (2, ["run", "--", "no-such-program"], "no such program"),
    (4, ["report", "no-such-file.sqlite"], "no such file"),
    (4, ["report", "text.txt"], "text.txt"),
]


@pytest.mark.parametrize("case", CODES, ids=[f"{c}-{' '.join(a)}" for c, a, _ in CODES])
def test_code(
    case: tuple[int, list[str], str],
    profile: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    code, arguments, said = case
    profile.with_name("text.txt").write_text("nothing of ours")
    assert unstall(monkeypatch, *arguments) == code
    assert said in capfd.readouterr().err.rstrip().rpartition("\n")[2], "the last line says why"


def test_collection_failed_is_3(
    profile: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("unstall.collect.flow.find_nsys", lambda *_: [])
    assert unstall(monkeypatch, "run", "--collector", "nsys", "--", "true") == 3
    assert "unstall doctor" in capfd.readouterr().err


def test_an_internal_error_is_70(
    profile: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr("unstall.commands.report.run", broken)
    assert unstall(monkeypatch, "report", "run.sqlite") == 70
    assert "UNSTALL_DEBUG=1" in capfd.readouterr().err


@pytest.mark.parametrize(("script", "code"), [("exit 9", 9), ("kill -KILL $$", 137)])
def test_the_code_of_the_program_is_ours(script: str, code: int, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "unstall", "run", "--collector", "builtin", "--", "sh", "-c", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == code, done.stderr
    last = done.stderr.rstrip().rpartition("\n")[2]
    assert re.search(rf"exit code {code} is the program's own", last)
