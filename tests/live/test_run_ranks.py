"""Many ranks: one capture each where each is wrapped, all in one where their launcher is, nothing overwritten."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from runs import LOOP, PATIENT_SECONDS, UNSTALL, environment, no_nsys, unstall

from unstall.ranks import ranks as merged

pytestmark = pytest.mark.live
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")

GLOO = """
import sys, time
import torch
import torch.distributed as dist
import unstall
dist.init_process_group("gloo")
total = torch.ones(4)
for i in range(20):
    with unstall.step(i), unstall.annotate(f"on_{dist.get_rank()}"):
        dist.all_reduce(total)
        time.sleep(0.005)
time.sleep(1.5)  # the supervisor looks once a second
dist.destroy_process_group()
"""
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2")


@pytest.fixture(params=["nsys", "builtin"])
def collector(request: pytest.FixtureRequest) -> str:
    if request.param == "nsys" and (why := no_nsys()):
        pytest.skip(why)
    return str(request.param)


def ranges(report: Path) -> set[str]:
    return {r["name"] for r in json.loads(report.read_text())["ranges"]} & {"on_0", "on_1"}


def together(folder: Path) -> list[tuple[int, str]]:
    """Ranks as the command that was named finds them, and where their numbers are from."""
    report = merged([str(folder / "out")], workers=1, cache=False).ranks
    assert report and not report.failed and not report.missing
    return [(r.rank, r.rank_from) for r in report.ranks]


@needs_torch
def test_ranks_that_are_wrapped_have_a_capture_each(tmp_path: Path, collector: str) -> None:
    (tmp_path / "train.py").write_text(GLOO)
    inside = [*UNSTALL, "run", "--collector", collector, "--output", "out", "--json", "r.json", "--"]
    done = subprocess.run(
        [*TORCHRUN, "--no-python", *inside, sys.executable, "train.py"], cwd=tmp_path,
        env=environment(OMP_NUM_THREADS="1"), capture_output=True, text=True, timeout=PATIENT_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["rank-0", "rank-1"]
    for rank in (0, 1):
        assert ranges(tmp_path / f"r-rank-{rank}.json") == {f"on_{rank}"}
        assert json.loads((tmp_path / f"out/rank-{rank}/run.json").read_text())["rank"] == rank
        assert f"unstall rank {rank}: exit code 0 is the program's own" in done.stderr
    assert not (tmp_path / "r.json").exists()
    assert [line for line in done.stderr.splitlines() if "unstall ranks" in line] == [
        "unstall rank 0: when all ranks have ended, side by side: unstall ranks out"
    ]
    assert together(tmp_path) == [(0, "capture"), (1, "capture")]


@needs_torch
def test_launcher_that_is_wrapped_has_one_capture_with_its_ranks_named(tmp_path: Path, collector: str) -> None:
    (tmp_path / "train.py").write_text(GLOO)
    words = ("run", "--collector", collector, "--output", "out", "--json", "r.json", "--", *TORCHRUN, "train.py")
    done = unstall(*words, cwd=tmp_path, OMP_NUM_THREADS="1", SLURM_PROCID="1", SLURM_NTASKS="2")  # the second node
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "r-rank-1.json").read_text())
    assert {"train.py rank 0", "train.py rank 1"} <= {p["name"] for p in report["profile"]["processes"]}
    assert ranges(tmp_path / "r-rank-1.json") == {"on_0", "on_1"}
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["rank-1"]
    assert together(tmp_path) == [(0, "process name"), (1, "process name")]


@needs_torch
def test_run_names_the_command_that_shows_its_ranks(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(GLOO)
    words = ("run", "--collector", "builtin", "--output", "out", "--", *TORCHRUN, "train.py")
    done = unstall(*words, cwd=tmp_path, OMP_NUM_THREADS="1")
    *_, told, last = done.stderr.splitlines()
    assert told == "unstall: 2 ranks are in it, side by side: unstall ranks out"
    assert last.startswith("unstall: exit code 0 is the program's own"), done.stderr
    assert together(tmp_path) == [(0, "process name"), (1, "process name")]


def test_ranks_of_slurm_at_the_same_time(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(LOOP)
    line = [*UNSTALL, "run", "--collector", "builtin", "--", sys.executable, "train.py", "5", "0"]
    started = [
        subprocess.Popen(
            line, cwd=tmp_path, env=environment(SLURM_PROCID=str(rank), SLURM_NTASKS="2", SLURM_JOB_ID="4711"),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        for rank in range(2)
    ]  # fmt: skip
    assert [process.wait(PATIENT_SECONDS) for process in started] == [0, 0]
    captures = sorted(str(p.parent.relative_to(tmp_path)) for p in tmp_path.rglob("profile.sqlite"))
    assert captures == ["unstall-out/train-4711/rank-0", "unstall-out/train-4711/rank-1"]
