"""No output takes the place of what the command reads, whatever the name it is given."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def place(tmp_path: Path, profile_path: Callable[[str], Path]) -> Path:
    """A script, a table of ncu, and a folder of two captures, one of which has a second name."""
    (tmp_path / "train.py").write_text("import torch\n", encoding="utf-8")
    (tmp_path / "table.csv").write_text("ID\n", encoding="utf-8")
    (tmp_path / "job").mkdir()
    for rank in (0, 1):
        (tmp_path / "job" / f"rank{rank}.sqlite").write_bytes(profile_path("slow_loader_window").read_bytes())
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "profile.sqlite").write_bytes(profile_path("slow_loader_window").read_bytes())
    os.link(tmp_path / "job" / "rank0.sqlite", tmp_path / "hard")
    (tmp_path / "soft").symlink_to("train.py")
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        "fix train.py --json train.py",
        "fix train.py --json soft",
        "fix train.py --profile job/rank0.sqlite --json hard",
        "report one --json one/profile.sqlite",
        "compare one one --html one/profile.sqlite",
        "baseline save one --force --output one/profile.sqlite",
        "ranks job --json job/rank0.sqlite",
        "ranks job --html job/rank1.sqlite",
        "ranks job/*.sqlite --markdown hard",
        "try --profile job --json job/rank0.sqlite -- python train.py",
        "try --json train.py -- python train.py",
        "kernel --read table.csv --json table.csv",
        "kernel --read table.csv --csv table.csv",
        "kernel --profile hard --json job/rank0.sqlite -- python train.py",
    ],
)
def test_inputs_are_never_written_over(run: Run, place: Path, words: str) -> None:
    before = {file: file.read_bytes() for file in place.rglob("*") if file.is_file() and "cache" not in file.parts}
    code, out, err = run(*words.split())
    assert (code, out) == (2, "") and "is a file to be read" in err and err.count("\n") == 1
    assert all(file.read_bytes() == content for file, content in before.items())


def test_a_page_beside_the_captures_is_written(run: Run, place: Path) -> None:
    assert run("ranks", "job", "--html", "job/ranks.html", "--no-cache")[0] == 0
    assert run("ranks", "job", "--html", "job/ranks.html", "--no-cache")[0] == 0, "and again"
