"""Two real ranks over gloo on this machine's CPU, one of them slow: two captures, and the merged report names it.

There are no NCCL kernels here: the ranks meet inside ``backward``, where DDP reduces, and the one that came early waits
there. With nsys the waiting calls are in the capture; with the built-in collector only the phases are.
"""

from __future__ import annotations

import importlib.util
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

import unstall
from unstall.model import Ranks
from unstall.nsys.discover import find_nsys

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
]
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu" / "ranks_train.py"
UNSTALL = (sys.executable, "-m", "unstall")
PATIENT_SECONDS = 180


def train(folder: Path, collector: str, *words: str) -> Ranks:
    """Run the script on two ranks under ``unstall run``, and merge their captures."""
    launch = (sys.executable, "-m", "torch.distributed.run", "--no-python", "--nproc-per-node", "2",
              "--master-port", str(random.randint(20000, 40000)))  # fmt: skip
    record = (*UNSTALL, "run", "--auto", "--collector", collector, "--no-keep-report", "--output", str(folder / "run"))
    program = (sys.executable, str(SCRIPT), *words, "--backend", "gloo", "--small", "--steps", "30", "--after", "0")
    env = {k: v for k, v in os.environ.items() if not k.endswith(("RANK", "WORLD_SIZE"))}
    done = subprocess.run(
        [*launch, *record, "--", *program], env={**env, "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=PATIENT_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    report = unstall.ranks([str(folder / "run")], workers=1, cache=False)
    assert report.ranks and [r.rank for r in report.ranks.ranks] == [0, 1] and not report.ranks.failed
    assert all(r.rank_from == "capture" for r in report.ranks.ranks)
    return report.ranks


def check(found: Ranks, rank: int, cause: str) -> None:
    assert found.meeting == "host"
    late = found.stragglers[0]
    assert (late.rank, late.always, late.cause) == (rank, True, cause), found.stragglers
    early = found.ranks[1 - rank]
    assert (early.wait_ns or 0) > 5 * (found.ranks[rank].wait_ns or 0), "the early rank waits for the late one"
    assert early.breakdown and any(c.name == "rank_wait" for c in early.breakdown.categories)


def test_more_layers_with_the_built_in_collector(tmp_path: Path) -> None:
    check(train(tmp_path, "builtin", "more_layers", "--slow", "1", "--extra", "30"), 1, "compute")


def test_slow_loading_with_nsys(tmp_path: Path) -> None:
    if not any(tool.complete for tool in find_nsys()):
        pytest.skip("no nsys with a working importer on this machine")
    check(train(tmp_path, "nsys", "slow_loading", "--slow", "1", "--late-ms", "60"), 1, "data-loading")
