"""How a run ends: by signals to us or to everybody, by a time that is over, by an nsys that dies."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from runs import LOOP, PATIENT_SECONDS, last, marked, no_nsys, running, unstall

pytestmark = pytest.mark.live

COLLECTORS = ("nsys", "builtin")
ENDLESS = """
import itertools, time, unstall
for i in itertools.count():
    with unstall.step(i), unstall.annotate("work"):
        time.sleep(0.05 if i < 20 else 0.005)  # longer before the window than --duration
"""


@pytest.fixture(params=COLLECTORS)
def collector(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    if name == "nsys" and (why := no_nsys()):
        pytest.skip(why)
    return name


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(LOOP)
    return path


def under_way(folder: Path, script: Path, collector: str) -> subprocess.Popen[str]:
    return running(folder, sys.executable, script, 100_000, 0, options=("--collector", collector, "--json", "r.json"))


def hit(process: subprocess.Popen[str], whom: str, number: signal.Signals, folder: Path) -> None:
    """``everybody`` is what a batch system signals: every process of the job, whatever session it is in."""
    if whom == "us":
        process.send_signal(number)
    elif whom == "group":
        os.killpg(process.pid, number)
    else:
        found = [pid for pid, line in marked(folder).items() if whom == "everybody" or whom in line]
        assert found, f"no {whom} there"
        for pid in found:
            with contextlib.suppress(ProcessLookupError):  # one that has just ended, of those that only look around
                os.kill(pid, number)


@pytest.mark.parametrize(
    ("collector", "whom", "number"),
    [
        ("nsys", "us", signal.SIGINT),
        ("nsys", "group", signal.SIGTERM),
        ("nsys", "everybody", signal.SIGTERM),
        ("nsys", "everybody", signal.SIGINT),
        ("builtin", "everybody", signal.SIGTERM),
        ("builtin", "everybody", signal.SIGINT),
    ],
    indirect=["collector"],
)
def test_stopped_run_keeps_what_was_captured(
    tmp_path: Path, script: Path, collector: str, whom: str, number: signal.Signals
) -> None:
    process = under_way(tmp_path, script, collector)
    hit(process, whom, number, tmp_path)
    _, err = process.communicate(timeout=PATIENT_SECONDS)
    assert process.returncode == 128 + number, err
    assert last(err).startswith(f"unstall: exit code {128 + number} is the program's own")
    assert last(err).endswith(f": {number.name})") and f"{number.name}: the program was told to end" in err
    assert err.count("\nKeyboardInterrupt\n") == (number == signal.SIGINT), "once, as in a terminal"
    report = json.loads((tmp_path / "r.json").read_text())
    assert {r["name"]: r["instances"] for r in report["ranges"]}["data_load"] > 50
    assert not marked(tmp_path)


def test_signal_to_everybody_while_the_capture_is_exported_loses_nothing(tmp_path: Path, script: Path) -> None:
    if why := no_nsys():
        pytest.skip(why)
    process = running(tmp_path, sys.executable, script, 300, 3)
    assert process.stderr is not None
    while "exporting" not in process.stderr.readline():
        continue
    hit(process, "everybody", signal.SIGTERM, tmp_path)
    _, err = process.communicate(timeout=PATIENT_SECONDS)
    assert process.returncode == 3 and "captured by nsys" in err, err
    assert {"profile.nsys-rep", "profile.sqlite", "run.json"} <= {p.name for p in (tmp_path / "out").iterdir()}
    assert not marked(tmp_path)


def test_program_outlives_an_nsys_that_is_killed(tmp_path: Path, script: Path) -> None:
    if why := no_nsys():
        pytest.skip(why)
    process = running(tmp_path, sys.executable, script, 400, 5)
    hit(process, "--start-agent", signal.SIGKILL, tmp_path)
    out, err = process.communicate(timeout=PATIENT_SECONDS)
    assert process.returncode == 5 and "last line" in out, err
    assert "while the program ran, and the program went on without it" in err and "no capture was kept" in err
    assert not marked(tmp_path) and not (tmp_path / "out").exists()


def test_duration_counts_from_the_first_chosen_step_and_ends_the_program(tmp_path: Path, collector: str) -> None:
    (tmp_path / "endless.py").write_text(ENDLESS)
    done = unstall(
        "run", "--collector", collector, "--steps", "20:100000", "--duration", "0.6", "--output", "out",
        "--json", "r.json", "--", sys.executable, "endless.py", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 143 and "--duration 0.6: the time of capturing was over" in done.stderr, done.stderr
    assert "ended before step 100000" in done.stderr
    report = json.loads((tmp_path / "r.json").read_text())
    assert 0 < report["steps"][0]["count"] < 200 and report["steps"][0]["unprofiled_ns"] > 5_000_000


def test_steps_that_were_not_reached_are_counted(tmp_path: Path, collector: str) -> None:
    (tmp_path / "endless.py").write_text(f"print('first line', flush=True)\n{ENDLESS}")
    options = ("--collector", collector, "--steps", "50000:50010")
    process = running(tmp_path, sys.executable, "endless.py", options=options)
    hit(process, "everybody", signal.SIGTERM, tmp_path)
    _, err = process.communicate(timeout=PATIENT_SECONDS)
    assert process.returncode == 143, err
    assert re.search(r"Steps 50000:50010 were never captured: the program took \d+ steps", err), err
    assert "no capture was kept" in err and "Nothing was recorded" not in err


def test_delay_and_duration(tmp_path: Path, script: Path, collector: str) -> None:
    done = unstall(
        "run", "--collector", collector, "--delay", "1", "--duration", "1", "--output", "out", "--json", "r.json",
        "--", sys.executable, script, 100_000, 0, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 143 and "--duration 1: the time of capturing was over" in done.stderr, done.stderr
    (row,) = [r for r in json.loads((tmp_path / "r.json").read_text())["ranges"] if r["name"] == "data_load"]
    assert 0 < row["instances"] < 300, "at most as many as fit into that time"


def test_delay_that_the_program_does_not_live_to_see(tmp_path: Path, script: Path) -> None:
    words = ("run", "--collector", "builtin", "--delay", "60", "--output", "out", "--", sys.executable, script, 3, 4)
    done = unstall(*words, cwd=tmp_path)
    assert done.returncode == 4 and "the program ended before --delay was over" in done.stderr
    assert not (tmp_path / "out").exists()


def test_steps_and_delay_are_one_too_many(tmp_path: Path) -> None:
    done = unstall("run", "--steps", "1:2", "--delay", "1", "--", "touch", "ran", cwd=tmp_path)
    assert done.returncode == 2 and "--delay: not with --steps" in done.stderr and not (tmp_path / "ran").exists()
