"""Nothing of what we start outlives us, whoever is killed and however; signals reach the program in good order."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import fake_nsys
import pytest

import unstall.collect.supervise as supervise_script
from unstall.collect.nsys import through_shim
from unstall.collect.process import MARK, kill_marked, run_quietly, supervise

PATIENT_SECONDS = 30  # for things that take well under one; a loaded machine may need more
RUN = """
import os, sys
from pathlib import Path
from unstall.collect.process import supervise
remove = [Path(p) for p in os.environ.get("REMOVE", "").split()]
ended = supervise(sys.argv[1:], os.environ, remove=remove)
print(ended.code, ",".join(ended.signals), flush=True)
"""
WAITING = "import signal, sys, time; print('ready', flush=True); time.sleep(300)"


def until(true: Callable[[], bool]) -> bool:
    """Wait until something is so."""
    deadline = time.monotonic() + PATIENT_SECONDS
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def start(*command: str, **environ: str) -> subprocess.Popen[str]:
    """A process of its own that supervises ``command``."""
    return subprocess.Popen(
        [sys.executable, "-c", RUN, *command], stdout=subprocess.PIPE, text=True, env={**os.environ, **environ}
    )


def pids_in(path: Path, count: int) -> list[int]:
    assert until(lambda: path.exists() and len(path.read_text().split()) >= count)
    return [int(p) for p in path.read_text().split()]


def supervisor_of(process: subprocess.Popen[str]) -> int:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return int(children.read_text().split()[0])


def test_output_input_and_code_are_the_programs_own() -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN, "sh", "-c", 'read x; echo "got $x"; echo no >&2; exit 7'],
        input="typed\n", capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["got typed", "7 "] and done.stderr == "no\n"


def test_death_by_signal_is_told_like_a_shell_does() -> None:
    assert supervise(["sh", "-c", "kill -9 $$"], os.environ).code == 137


@pytest.mark.parametrize(("command", "code"), [(["/nonexistent/program"], 127), (["/etc/passwd"], 126)])
def test_program_that_cannot_be_started(command: list[str], code: int) -> None:
    ended = supervise(command, os.environ)
    assert ended.code == code and ended.error and not ended.started


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)], ids=str
)
def test_signals_to_us_end_the_program(number: signal.Signals, code: int) -> None:
    if signal.getsignal(number) == signal.SIG_IGN:
        pytest.skip(f"{number.name} is ignored where these tests run, as under nohup, and so it is by what they start")
    process = start(sys.executable, "-c", WAITING)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    process.send_signal(number)
    out, _ = process.communicate(timeout=PATIENT_SECONDS)
    assert out.split() == [str(code), number.name]


def test_ctrl_c_again_and_again_ends_a_program_that_does_not_listen() -> None:
    deaf = "import signal, time; [signal.signal(s, signal.SIG_IGN) for s in (2, 15)]; " + WAITING
    process = start(sys.executable, "-c", deaf)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
    out, _ = process.communicate(timeout=PATIENT_SECONDS)
    assert out.split() == ["137", "SIGINT,SIGINT,SIGINT"]


DAEMON = """
import os, sys, time
open(sys.argv[1], "a").write(str(os.getpid()) + ' ')
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open(sys.argv[1], "a").write(str(os.getpid()) + ' ')
        time.sleep(300)
    os._exit(0)
os.wait()
END
"""


def test_daemon_of_the_program_is_ended_and_named(tmp_path: Path) -> None:
    ended = supervise([sys.executable, "-c", DAEMON.replace("END", ""), str(tmp_path / "pids")], os.environ)
    pids = pids_in(tmp_path / "pids", 2)
    assert ended.code == 0 and ended.left and not any(map(alive, pids))


@pytest.mark.parametrize("victim", ["us", "the supervisor"])
def test_whoever_is_killed_nothing_stays(tmp_path: Path, victim: str) -> None:
    half = tmp_path / "half"
    half.mkdir()
    code = DAEMON.replace("END", "time.sleep(300)")
    process = start(sys.executable, "-c", code, str(tmp_path / "pids"), REMOVE=str(half))
    pids = pids_in(tmp_path / "pids", 2)
    assert all(map(alive, pids))
    os.kill(process.pid if victim == "us" else supervisor_of(process), signal.SIGKILL)
    assert until(lambda: not any(map(alive, pids)))
    if victim == "us":
        assert until(lambda: not half.exists())
    process.communicate(timeout=PATIENT_SECONDS)


def test_marked_processes_are_found_wherever_they_are() -> None:
    process = subprocess.Popen(["sleep", "300"], env={**os.environ, MARK: "of this test"}, start_new_session=True)
    assert until(lambda: b"of this test" in Path(f"/proc/{process.pid}/environ").read_bytes())
    assert kill_marked("of this test") == [process.pid]
    assert process.wait(PATIENT_SECONDS) == -signal.SIGKILL


def profile(folder: Path, program: str, environ: Mapping[str, str] | None = None, **how: str) -> object:
    """A program under a fake nsys, supervised as the real one is."""
    tool = fake_nsys.nsys(folder / "nsight-systems/target-linux-x64", **how)
    env = {k: v for k, v in {**os.environ, "TMPDIR": ""}.items() if v}
    line = [str(tool), "profile", f"--output={folder / 'x'}", *through_shim(["sh", "-c", program], env, folder / "pid")]
    return supervise(
        line, {**env, **(environ or {})}, out=folder / "out", err=folder / "err", folders=[tool.parent],
        shim=folder / "pid",
    )  # fmt: skip


def test_program_under_a_profiler_writes_to_our_streams_and_not_through_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ended = profile(tmp_path, 'echo out; echo err >&2; echo "tmp=$TMPDIR"; exit 3', {"TMPDIR": "/not/its/own"})
    said = capfd.readouterr()
    assert (said.out, said.err) == ("out\ntmp=\n", "err\n")
    assert "Generated:" in (tmp_path / "out").read_text() and "out\n" not in (tmp_path / "out").read_text()
    assert ended.started and not ended.piped and ended.code == 3  # type: ignore[attr-defined]


def test_profiler_that_hangs_after_the_program_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSTALL_NSYS_PATIENCE", "1")
    ended = profile(tmp_path, "exit 3", wrong="hang")
    assert ended.stuck and ended.started  # type: ignore[attr-defined]


@pytest.mark.parametrize(("program", "code"), [("exit 7", 7), ("kill -9 $$", 137), ("exit 0", 0)])
def test_the_code_of_a_program_that_a_hung_launcher_did_not_ask_for(program: str, code: int) -> None:
    child = subprocess.Popen(["sh", "-c", program])
    assert until(lambda: not alive(child.pid))
    assert supervise_script._code_of_zombie(child.pid) == code
    child.wait()
    with pytest.raises(OSError, match="No such"):
        supervise_script._code_of_zombie(child.pid)


def test_agent_that_detaches_itself_does_not_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_OF", str(tmp_path))
    profile(tmp_path, "exit 0", wrong="agent")
    found = subprocess.run(["pgrep", "-fx", "sleep 300"], capture_output=True, text=True, check=False).stdout.split()
    assert [p for p in found if alive(int(p)) and _carries(int(p), f"AGENT_OF={tmp_path}")] == []


def _carries(pid: int, entry: str) -> bool:
    """Whether that stands in its environment: the same test may run beside, under another Python."""
    try:
        return entry.encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def test_tool_is_run_with_its_words_kept(tmp_path: Path) -> None:
    assert run_quietly(["sh", "-c", "echo out; echo err >&2; exit 5"], os.environ, tmp_path) == (5, "out\nerr\n")
    assert list(tmp_path.iterdir()) == []
