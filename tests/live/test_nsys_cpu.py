"""`unstall run` with the nsys of this machine and no GPU: what it records, and what is left when things go wrong."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from runs import LOOP, PATIENT_SECONDS, UNSTALL, environment, last, marked, no_nsys, running, unstall, until

from unstall.nsys.discover import find_nsys

pytestmark = pytest.mark.live

WINDOW = """
import time, unstall
for i in range(30):
    with unstall.step(i), unstall.annotate("work"):
        time.sleep(0.005)
"""
DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open(sys.argv[1], "w").write(str(os.getpid()))
        time.sleep(300)
    os._exit(0)
os.wait()
time.sleep(0.5)
"""
SECRET = "tok_5f0a9c2e7b41d386"


@pytest.fixture(scope="module", autouse=True)
def _nsys() -> None:
    if why := no_nsys():
        pytest.skip(why)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(LOOP)
    return path


def test_run_records_reports_and_redacts(tmp_path: Path, script: Path) -> None:
    room = tempfile.mkdtemp(prefix="test-", dir="/tmp")  # sockets in it need a short name
    done = unstall(
        "run", "--output", "out", "--json", "report.json", "--", sys.executable, script, 20, 0,
        cwd=tmp_path, MY_TOKEN=SECRET, MARK=str(tmp_path), TMPDIR=room,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:2] == ["first line", "last line"] and "data_load" in done.stdout
    assert last(done.stderr) == f"unstall: exit code 0 is the program's own ({Path(sys.executable).name})"
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "profile.nsys-rep",
        "profile.sqlite",
        "report.html",
        "run.json",
    ]
    report = json.loads((tmp_path / "report.json").read_text())
    rows = {row["name"]: row["instances"] for row in report["ranges"]}
    assert rows["data_load"] == rows["forward"] == 20
    assert report["steps"][0]["count"] == 20
    assert any(Path(p["name"]).name.startswith("python") for p in report["profile"]["processes"] if p["has_steps"])
    raw = (tmp_path / "out/profile.sqlite").read_bytes()
    assert SECRET.encode() not in raw and b"first line" not in raw
    assert "MY_TOKEN" in done.stderr and "cannot be redacted" in done.stderr
    assert not marked(tmp_path)
    Path(room).rmdir()  # which fails when anything is left in it


def test_output_streams_as_it_comes(tmp_path: Path) -> None:
    slow = "import sys, time; print('now', flush=True); sys.stdin.readline(); print('then')"
    process = subprocess.Popen(
        [*UNSTALL, "run", "--output", "o", "--", sys.executable, "-c", slow], cwd=tmp_path, env=environment(),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert process.stdout is not None and process.stdin is not None
    assert process.stdout.readline() == "now\n"
    process.stdin.write("\n")
    process.stdin.close()
    assert process.stdout.readline() == "then\n"
    process.stdout.read()
    assert process.wait(PATIENT_SECONDS) == 0
    process.stdout.close()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ([sys.executable, "-c", "import sys; sys.exit(3)"], 3),
        ([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], 137),
        (["sh", "-c", "echo no python here; exit 4"], 4),
    ],
)
def test_the_programs_code_is_ours(tmp_path: Path, words: list[str], code: int) -> None:
    done = unstall("run", "--output", "out", "--", *words, cwd=tmp_path)
    assert done.returncode == code and f"exit code {code} is the program's own" in last(done.stderr)
    assert (tmp_path / "out/profile.sqlite").exists()


def test_killed_run_leaves_no_process_and_no_file(tmp_path: Path, script: Path) -> None:
    process = running(tmp_path, sys.executable, script, 100_000, 0)
    assert any("start-agent" in line for line in marked(tmp_path).values()), "no agent to be ended"
    process.kill()
    process.communicate(timeout=PATIENT_SECONDS)
    assert until(lambda: not marked(tmp_path))
    assert until(lambda: [p.name for p in tmp_path.iterdir()] == ["train.py"])


def test_existing_output_is_kept(tmp_path: Path) -> None:
    first = unstall("run", "--output", "out", "--", "true", cwd=tmp_path)
    before = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "out").iterdir()}
    again = unstall("run", "--output", "out", "--", "touch", "ran", cwd=tmp_path)
    assert first.returncode == 0 and again.returncode == 2 and "holds a capture already" in last(again.stderr)
    assert not (tmp_path / "ran").exists()
    assert before == {p.name: p.stat().st_mtime_ns for p in (tmp_path / "out").iterdir()}
    assert unstall("run", "--force", "--output", "out", "--", "true", cwd=tmp_path).returncode == 0


def test_missing_folders_are_made(tmp_path: Path) -> None:
    done = unstall("run", "--output", "a b/100%q{x}/c", "--", "true", cwd=tmp_path)
    assert done.returncode == 0 and (tmp_path / "a b/100%q{x}/c/profile.sqlite").exists()


def test_daemon_of_the_program_is_ended(tmp_path: Path) -> None:
    (tmp_path / "d.py").write_text(DAEMON)
    done = unstall("run", "--output", "out", "--", sys.executable, "d.py", tmp_path / "pid", cwd=tmp_path)
    assert done.returncode == 0 and "left processes running" in done.stderr
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text()}").exists()


def test_script_without_ranges_is_told_so(tmp_path: Path) -> None:
    done = unstall("run", "--output", "out", "--", sys.executable, "-c", "import time; time.sleep(0.2)", cwd=tmp_path)
    assert done.returncode == 0 and "No NVTX range was recorded: the program writes none" in done.stderr


def test_new_nvtx_under_an_old_nsys_is_recognised(tmp_path: Path, script: Path) -> None:
    if find_nsys()[0].version[:2] > (2024, 2):
        pytest.skip("this nsys records every nvtx")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(tmp_path / "new")]
    if subprocess.run([*pip, "nvtx==0.2.13"], capture_output=True, check=False, timeout=PATIENT_SECONDS).returncode:
        pytest.skip("nvtx 0.2.13 cannot be installed from here")
    new = str(tmp_path / "new")
    done = unstall("run", "--output", "out", "--", sys.executable, script, 5, 0, cwd=tmp_path, PYTHONPATH=new)
    assert done.returncode == 0 and "nvtx 0.2.12 or newer" in done.stderr and "nvtx<0.2.12" in done.stderr


def test_only_some_steps_and_the_step_time_before_them(tmp_path: Path) -> None:
    (tmp_path / "w.py").write_text(WINDOW)
    done = unstall("run", "--steps", "10:20", "--output", "out", "--", sys.executable, "w.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    with closing(sqlite3.connect(tmp_path / "out/profile.sqlite")) as db:
        query = "SELECT count(*) FROM NVTX_EVENTS JOIN StringIds s ON s.id = textId WHERE value = 'work'"
        (count,) = db.execute(query).fetchone()
        (unprofiled,) = db.execute("SELECT value FROM UNSTALL_META WHERE name = 'unprofiled_ns'").fetchone()
    assert 9 <= count <= 11 and int(unprofiled) >= 5_000_000
    never = unstall("run", "--steps", "50:60", "--output", "never", "--", sys.executable, "w.py", cwd=tmp_path)
    assert never.returncode == 0 and "took 30 steps" in never.stderr and not (tmp_path / "never").exists()


def test_samples_that_make_nsys_hang_cost_no_more_than_the_capture(tmp_path: Path, script: Path) -> None:
    done = unstall(
        "run", "--sample", "process-tree", "--output", "out", "--", sys.executable, script, 5, 3,
        cwd=tmp_path, UNSTALL_NSYS_PATIENCE="5", MARK=str(tmp_path),
    )  # fmt: skip
    assert done.returncode == 3, done.stderr  # the program's; or ours, where nsys was told the program's and hung
    assert ("is the program's own" in done.stderr) != ("its own code went with the nsys" in done.stderr)
    assert ("hung after the program had ended" in done.stderr) != (tmp_path / "out/profile.sqlite").exists()
    assert not marked(tmp_path)


def test_report_reads_the_report_itself(tmp_path: Path, script: Path) -> None:
    unstall("run", "--output", "out", "--", sys.executable, script, 8, 0, cwd=tmp_path)
    done = unstall("report", "out/profile.nsys-rep", cwd=tmp_path)
    assert done.returncode == 0 and "data_load" in done.stdout


def test_doctor_finds_it(tmp_path: Path) -> None:
    record = json.loads(unstall("doctor", "--json", "-", cwd=tmp_path).stdout)
    assert record["collector"] == "nsys" and record["nsys"][0]["complete"]
