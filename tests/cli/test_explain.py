"""``unstall explain``: every code, the list, and a code that there is not."""

from __future__ import annotations

import subprocess
import sys

import pytest

from unstall.commands import explain
from unstall.diagnose import registry


def cli(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = "from unstall.cli import main; main()"
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)


def test_explains_a_finding() -> None:
    done = cli("explain", "pageable-copy")
    assert (done.returncode, done.stderr) == (0, "")
    assert "non_blocking=True" in done.stdout and "When it is a false alarm" in done.stdout


@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize("code", [r.code for r in registry.rules()])
def test_no_two_remedies_have_the_same_heading(code: str, language: str) -> None:
    headings = [line for line in registry.rule(code).explain(language).splitlines() if line.startswith("**")]
    assert headings and len(set(headings)) == len(headings)


def test_unknown_code_is_one_line_and_exit_code_2() -> None:
    done = cli("explain", "pagable-copy")
    assert done.returncode == 2
    assert done.stdout == "" and done.stderr.count("\n") == 1
    assert "pageable-copy" in done.stderr


def test_without_a_code_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    explain.run()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [r.code for r in registry.rules()]
