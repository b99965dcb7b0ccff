"""What a notebook says of nsys where a cell gets no capture of its own; nsys is a script here."""

from __future__ import annotations

from pathlib import Path

import pytest

from unstall.notebook.cell import Captured
from unstall.notebook.options import parse
from unstall.notebook.session import Session
from unstall.nsys.ask import ask

TABLE = "echo '   ID   TIME   STATE LAUNCH NAME'; echo '   {number}   00:02   {state}   1 profile'"
UNKNOWN = "whether nsys is capturing this kernel is not known: `nsys sessions list` {}. No capture was started"


def notes(tmp_path: Path, script: str) -> str:
    """What is noted of a cell that runs under this nsys."""
    tool = tmp_path / "nsys"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    captured, ran = Captured(), []
    with Session("7", tool).capture(tmp_path / "cell.sqlite", parse("", "cell"), captured):
        ran.append(1)
    assert ran and captured.path is None
    return "\n".join(captured.notes)


def test_a_kernel_that_is_captured_as_a_whole(tmp_path: Path) -> None:
    said = notes(tmp_path, TABLE.format(number=7, state="Collection"))
    assert said.startswith("the kernel as a whole is being captured by nsys: this cell is the range unstall_cell")


def test_a_session_in_another_state_is_not_called_a_capture(tmp_path: Path) -> None:
    said = notes(tmp_path, TABLE.format(number=7, state="DelayedCollection"))
    assert said == "nsys cannot start a capture for this cell: the kernel's session is in the state DelayedCollection"


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("exit 3", "ends with exit code 3"),
        (TABLE.format(number=8, state="Collection"), "does not list session 7"),
    ],
)
def test_what_nsys_does_not_say_is_not_known(script: str, why: str, tmp_path: Path) -> None:
    assert notes(tmp_path, script).startswith(UNKNOWN.format(why))


def test_an_nsys_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unstall.notebook.session.ask", lambda command: ask(command, seconds=0.3))
    assert notes(tmp_path, "sleep 60").startswith(UNKNOWN.format("does not answer within 0.3 s"))
