"""Short questions to tools that answer, that hang, and that leave children behind."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path

import fake_nsys
import pytest

from unstall.nsys import discover
from unstall.nsys.ask import ask
from unstall.nsys.discover import Place, find_nsys

VERSION = "NVIDIA Nsight Systems version 2024.5.1.113-a"
HUNG = """#!/bin/sh
trap '' TERM
sleep 300 &
echo $! > "$0.child"
wait
"""
LEFT = f"""#!/bin/sh
sleep 300 &
echo $! > "$0.child"
echo "{VERSION}"
"""


def child_of(script: Path) -> int:
    return int(Path(f"{script}.child").read_text())


def gone(pid: int) -> bool:
    """Dead, or dead and not yet collected by who inherited it."""
    for _ in range(100):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.05)
    return False


def test_an_answer() -> None:
    said = ask(["sh", "-c", "read line; echo out; echo err >&2; exit 3"])
    assert (said.code, said.out, said.err, said.text, said.why) == (3, "out\n", "err\n", "out\nerr\n", "")


def test_it_gets_the_environment() -> None:
    assert ask(["sh", "-c", 'echo "$WORD"'], {"PATH": os.environ["PATH"], "WORD": "here"}).out == "here\n"


def test_what_is_not_there_does_not_answer(tmp_path: Path) -> None:
    said = ask([str(tmp_path / "nothing")])
    assert said.code is None and said.why == "no such file or directory" and not said.text


def test_one_that_hangs_is_ended_with_its_child(tmp_path: Path) -> None:
    script = fake_nsys.executable(tmp_path / "nsys", HUNG)
    said = ask([str(script), "--version"], seconds=0.5)
    assert said.code is None and said.why == "does not answer within 0.5 s"
    assert gone(child_of(script))


def test_a_child_that_holds_the_output_holds_up_nothing(tmp_path: Path) -> None:
    script = fake_nsys.executable(tmp_path / "nsys", LEFT)
    assert ask([str(script), "--version"], seconds=30).out == f"{VERSION}\n"
    assert gone(child_of(script)), "a short question leaves nothing behind"


def test_without_files_in_memory_it_works_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    assert ask(["echo", "here"]).out == "here\n"


def test_an_nsys_that_hangs_does_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discover, "ask", partial(ask, seconds=0.5))
    script = fake_nsys.executable(tmp_path / "nsys", HUNG)
    (found,) = find_nsys(Place(tmp_path, {"PATH": "", "NSYS": str(script)}, "x86_64"))
    assert found.error.startswith("does not answer") and gone(child_of(script))
