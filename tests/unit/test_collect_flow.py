"""From a command to a folder, with an nsys made of shell that does everything wrong that was seen."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import fake_nsys
import pytest

import unstall
from unstall.collect import Capture, CollectOptions, builtin, finish, flow
from unstall.collect.machine import Machine
from unstall.collect.nsys import Recorded
from unstall.collect.process import Ended
from unstall.errors import CollectionFailed, ProfileUnreadable, UsageError
from unstall.nsys.discover import Nsys

STEPS = """
import time, unstall
for i in range(12):
    with unstall.step(i):
        time.sleep(0.002)
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.endswith(("RANK", "WORLD_SIZE")) or name.startswith(("SLURM", "UNSTALL_")):
            monkeypatch.delenv(name)


def run(
    monkeypatch: pytest.MonkeyPatch, command: list[str], *, tools: list[Nsys] | None = None, wrong: str = "",
    refused: str = "--none", said: list[str] | None = None, environ: dict[str, str] | None = None, **options: object,
) -> Capture:  # fmt: skip
    found = [fake_nsys.tool(Path("tools").absolute(), wrong=wrong, refused=refused)] if tools is None else tools
    monkeypatch.setattr(flow, "find_nsys", lambda: found)
    asked = CollectOptions(**{"output": Path("out"), **options})  # type: ignore[arg-type]
    say = (said if said is not None else []).append
    return unstall.collect(command, asked, say=say, environ={**os.environ, **(environ or {})})


def codes(capture: Capture) -> set[str]:
    return {note.code for note in capture.notes}


def test_capture_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = {"HF_TOKEN": "hf_AbCdEfGh0123"}
    capture = run(monkeypatch, ["sh", "-c", "exit 3", "--token", "x"], environ=secret)
    assert capture.exit_code == 3 and capture.collector == "nsys" and capture.version == "2024.5.1"
    assert capture.directory == tmp_path / "out" and capture.sqlite == tmp_path / "out/profile.sqlite"
    assert sorted(p.name for p in capture.directory.iterdir()) == ["profile.nsys-rep", "profile.sqlite", "run.json"]
    assert capture.size_bytes == sum(p.stat().st_size for p in capture.directory.iterdir())
    record = json.loads((capture.directory / "run.json").read_text())
    assert record["exit_code"] == 3 and record["command"][-1] == "[redacted]"
    assert "hf_AbCdEfGh0123" not in json.dumps(record) and b"lab-node-17" not in capture.sqlite.read_bytes()
    note = next(n for n in capture.notes if n.code == "report-holds-environment")
    assert "HF_TOKEN" in note.text and (capture.directory / "profile.nsys-rep").stat().st_mode & 0o077 == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "tools"]


def test_report_can_be_left_out_and_redaction_too(monkeypatch: pytest.MonkeyPatch) -> None:
    capture = run(monkeypatch, ["true"], keep_report=False, redact=False)
    assert capture.report is None and capture.directory is not None and capture.sqlite is not None
    assert sorted(p.name for p in capture.directory.iterdir()) == ["profile.sqlite", "run.json"]
    assert b"lab-node-17" in capture.sqlite.read_bytes()


def test_capture_that_cannot_be_cleaned_is_kept_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    tool = fake_nsys.tool(Path("tools").absolute())
    more = 'CREATE TABLE "hf_AbCdEfGh0123" (data)'
    fake_nsys.small_export(tool.path.parent / "export.sqlite", environment="HF_TOKEN=hf_AbCdEfGh0123\0A=1", more=more)
    capture = run(monkeypatch, ["true"], tools=[tool])
    assert capture.sqlite is not None and "not-redacted" in codes(capture)


def test_launcher_whose_tasks_are_elsewhere_is_said_before_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("srun").write_text("#!/bin/sh\nexit 0\n")
    Path("srun").chmod(0o755)
    said: list[str] = []
    capture = run(monkeypatch, [str(Path("srun").absolute()), "python"], said=said)
    assert "launcher-elsewhere" in codes(capture) and said[0].startswith("srun has its tasks started by SLURM")
    assert "launcher-elsewhere" not in codes(run(monkeypatch, ["true"], output=Path("other")))


def test_stream_is_imported_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    capture = run(monkeypatch, ["true"], wrong="stream", said=said)
    assert capture.sqlite is not None and capture.report is not None and capture.report.suffix == ".nsys-rep"
    assert any(line.startswith("importing") for line in said)


def test_stream_that_cannot_be_imported_is_kept_and_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    tool = fake_nsys.tool(Path("tools").absolute(), wrong="stream")
    (tool.importer or Path()).write_text("#!/bin/sh\nexit 2\n")
    capture = run(monkeypatch, ["sh", "-c", "exit 4"], tools=[tool])
    assert capture.exit_code == 4 and capture.sqlite is None
    assert capture.report is not None and capture.report.name == "profile.qdstrm" and capture.report.exists()
    assert "stream-only" in codes(capture)


def test_report_that_landed_elsewhere_is_brought_home(monkeypatch: pytest.MonkeyPatch) -> None:
    capture = run(monkeypatch, ["true"], wrong="elsewhere")
    assert capture.sqlite is not None and "landed-elsewhere" in codes(capture)


def test_what_nsys_exports_by_itself_is_not_left_unredacted(monkeypatch: pytest.MonkeyPatch) -> None:
    capture = run(monkeypatch, ["true"], wrong="exports repeats")
    assert capture.directory is not None and "export-removed" in codes(capture) and "several-reports" in codes(capture)
    names = ["profile-2.nsys-rep", "profile.nsys-rep", "profile.sqlite", "run.json"]
    assert sorted(p.name for p in capture.directory.iterdir()) == names
    assert run(monkeypatch, ["true"], wrong="exports", redact=False, force=True).directory == capture.directory
    assert (capture.directory / "capture.sqlite").exists()


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_no_room_for_the_export_leaves_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    move = shutil.move
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "move", lambda a, b: full() if Path(b).suffix == ".sqlite" else move(a, b))
        capture = run(monkeypatch, ["sh", "-c", "exit 3"])
    assert capture.exit_code == 3 and capture.sqlite is None and capture.report is not None
    assert any(
        n.code == "not-exported" and "No space left on device. `unstall report`" in n.text for n in capture.notes
    )


def test_no_room_for_the_clean_copy_leaves_no_unredacted_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(path: Path) -> None:
        raise ProfileUnreadable(str(path), "damaged", "no") from sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(finish.redact, "clean_up", no_room)
    capture = run(monkeypatch, ["sh", "-c", "exit 3"])
    assert capture.exit_code == 3 and capture.directory is not None and "not-kept" in codes(capture)
    assert sorted(p.name for p in capture.directory.iterdir()) == ["profile.nsys-rep", "run.json"]


@pytest.mark.parametrize("collector", ["nsys", "builtin"])
def test_no_room_at_all_costs_the_capture_and_not_the_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, collector: str
) -> None:
    monkeypatch.setattr(shutil, "move", full)
    monkeypatch.setattr(builtin, "merge", full)
    code = f"{STEPS}\nraise SystemExit(3)"
    capture = run(monkeypatch, [sys.executable, "-c", code], collector=collector)
    assert capture.exit_code == 3 and capture.directory is None and "not-kept" in codes(capture)
    assert "no-report" not in codes(capture) and sorted(p.name for p in tmp_path.iterdir()) == ["tools"]


FINISHING = """
import signal, os, sys, threading
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import fake_nsys, unstall
from unstall.collect import flow
flow.find_nsys = lambda: [fake_nsys.tool(Path("tools").absolute(), wrong=sys.argv[2])]
def say(line):
    print(line, flush=True)
    if sys.argv[3] in line or "once more" in line:
        threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGTERM]).start()
done = unstall.collect(["sh", "-c", "exit 3"], unstall.CollectOptions(output=Path("out")), say=say)
print(done.exit_code, *sorted(os.listdir("out")) if done.directory else "", sep=",")
"""


@pytest.mark.parametrize("wrong", ["slow-export", ""])
def test_second_signal_gives_the_export_up_and_keeps_the_report(tmp_path: Path, wrong: str) -> None:
    line = [sys.executable, "-c", FINISHING, str(Path(__file__).parent), wrong, "exporting" if wrong else "never said"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    said = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert ("SIGTERM: the capture is being finished; once more gives it up" in said) == bool(wrong)
    assert any("was not exported: given up" in text for text in said) == bool(wrong)
    assert said[-1] == ("3,profile.nsys-rep,run.json" if wrong else "3,profile.nsys-rep,profile.sqlite,run.json")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "tools"]


def test_no_report_leaves_nothing_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    capture = run(monkeypatch, ["sh", "-c", "exit 5"], wrong="no-report")
    assert capture.exit_code == 5 and capture.directory is None and "no-report" in codes(capture)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["tools"]


def test_nsys_that_hangs_costs_the_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSTALL_NSYS_PATIENCE", "1")
    capture = run(monkeypatch, ["sh", "-c", "exit 6"], wrong="hang")
    assert capture.directory is None and "nsys-hung" in codes(capture)


def test_option_that_nsys_refuses_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    capture = run(monkeypatch, ["true"], refused="--wait=*")
    assert capture.sqlite is not None and "option-refused" in codes(capture)
    capture = run(monkeypatch, ["true"], trace=("nvtx", "refused"), force=True)
    assert capture.sqlite is not None and any("refused" in n.text for n in capture.notes)


def test_users_own_option_that_is_refused_is_an_error_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["touch", str(tmp_path / "ran")]
    with pytest.raises(CollectionFailed, match=r"unrecognised option '--mine'.*--nsys-args"):
        run(monkeypatch, command, refused="--mine", nsys_args=("--mine",))
    assert not (tmp_path / "ran").exists() and not (tmp_path / "out").exists()


def test_crash_of_nsys_before_the_program_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = tmp_path / "count"
    capture = run(monkeypatch, ["sh", "-c", f"echo x >> {count}"], wrong="crash")
    assert capture.sqlite is not None and count.read_text() == "x\n"


@pytest.mark.parametrize("tools", ["none", "incomplete"])
def test_without_a_usable_nsys_the_built_in_collector_records(monkeypatch: pytest.MonkeyPatch, tools: str) -> None:
    broken = Nsys(Path("/opt/nsys"), (2025, 3, 1), "", Path("/opt/QdstrmImporter"), ("libdw.so.1",))
    said: list[str] = []
    capture = run(monkeypatch, [sys.executable, "-c", STEPS], tools=[] if tools == "none" else [broken], said=said)
    assert capture.collector == "builtin" and capture.sqlite is not None and capture.exit_code == 0
    first = next(line for line in said if "built-in collector" in line)
    assert "option-ignored" not in codes(capture)
    assert ("No nsys was found" if tools == "none" else "lacks libdw.so.1") in first and "unstall doctor" in first


NEW = {"nvtx": "0.2.17", "driver": ""}


@pytest.mark.parametrize(("nsys", "here", "options", "expected"), [
    ("2022.4.2", NEW, {"steps": (5, 9)}, "builtin"),
    ("2022.4.2", NEW, {"auto": True}, "builtin"),
    ("2022.4.2", NEW, {"auto": True, "collector": "nsys"}, "nsys, and told"),
    ("2022.4.2", NEW, {}, "nsys, and told"),
    ("2022.4.2", {**NEW, "driver": "570.1"}, {"auto": True}, "nsys, and told"),
    ("2022.4.2", {**NEW, "nvtx": "0.2.11"}, {"auto": True}, "nsys"),
    ("2024.5.1", NEW, {"auto": True}, "nsys"),
])  # fmt: skip
def test_nsys_that_would_not_hear_our_ranges_is_used_only_for_a_gpu(
    monkeypatch: pytest.MonkeyPatch, nsys: str, here: dict[str, str], options: dict[str, object], expected: str
) -> None:
    monkeypatch.setattr(flow, "pip_nvtx_version", lambda: here["nvtx"])
    monkeypatch.setattr(Machine, "driver", here["driver"])
    said: list[str] = []
    tool = fake_nsys.tool(Path("tools").absolute(), nsys)
    capture = run(monkeypatch, [sys.executable, "-c", STEPS], tools=[tool], said=said, **options)
    assert capture.collector == expected.partition(",")[0]
    assert any("no range of pip nvtx 0.2.17" in line for line in said) == (expected in ("builtin", "nsys, and told"))


def test_what_only_nsys_does_is_said_where_it_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"trace": ("nvtx",), "graph_nodes": True, "nsys_args": ("--x",)}
    capture = run(monkeypatch, [sys.executable, "-c", STEPS], tools=[], **asked)
    (note,) = [n for n in capture.notes if n.code == "option-ignored"]
    assert note.text.endswith("--trace, --graph-nodes, --nsys-args.")


def test_nsys_that_was_asked_for_is_not_replaced_in_silence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CollectionFailed, match="none was found"):
        run(monkeypatch, ["true"], tools=[], collector="nsys")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [[], ["no-such-program-here"], ["/etc/passwd"]])
def test_nothing_starts_without_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    with pytest.raises(UsageError):
        run(monkeypatch, command)
    assert not (tmp_path / "out").exists()


def test_step_time_before_the_window_is_stored_with_the_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    capture = run(monkeypatch, [sys.executable, "-c", STEPS], steps=(8, 10))
    assert capture.unprofiled_ns is not None and capture.unprofiled_source == "before the captured steps"
    assert capture.sqlite is not None
    with closing(sqlite3.connect(capture.sqlite)) as db:
        (value,) = db.execute("SELECT value FROM UNSTALL_META WHERE name = 'unprofiled_ns'").fetchone()
    assert int(value) == capture.unprofiled_ns >= 2_000_000  # it sleeps as long
    assert unstall.load(capture.sqlite).meta.unprofiled_ns == capture.unprofiled_ns


def test_calibration_runs_first_and_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    forever = STEPS.replace("range(12)", "range(400)")
    said: list[str] = []
    capture = run(monkeypatch, [sys.executable, "-c", forever], calibrate=0.7, said=said)
    assert capture.unprofiled_source == "calibration" and (capture.unprofiled_ns or 0) >= 2_000_000
    assert said[0].startswith("calibrating")


def test_ranks_write_one_capture_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for rank in ("0", "1"):
        capture = run(monkeypatch, ["true"], environ={"RANK": rank, "WORLD_SIZE": "2"})
        assert capture.directory == tmp_path / f"out/rank-{rank}" and capture.rank == int(rank)
        assert capture.sqlite is not None and unstall.load(capture.sqlite).meta.rank == int(rank)


@pytest.mark.parametrize(("told", "code", "lost"), [(7, 7, False), (None, 3, True)])
def test_code_that_went_with_a_hung_nsys_is_not_called_the_programs(told: int | None, code: int, lost: bool) -> None:
    """nsys waits for the program itself: what it was told, nobody else can ask for."""
    ended = Ended(137, program_code=told, started=True, stuck=True)
    made = flow._capture(Recorded(ended), Nsys(Path("nsys"), (2022, 4, 2)), 1.0)
    assert (made.exit_code, made.exit_code_lost) == (code, lost)
