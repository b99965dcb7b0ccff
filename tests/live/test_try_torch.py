"""``unstall try`` and ``unstall fix`` on real PyTorch scripts, on the CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytestmark = [pytest.mark.live, pytest.mark.slow]

SCRIPT = """\
import os, sys, time
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, get_worker_info

DIFFERENT = "--different-in-workers" in sys.argv


class Slow(Dataset):
    def __len__(self):
        return 4000

    def __getitem__(self, i):
        time.sleep(0.004)
        g = torch.Generator().manual_seed(i)
        x = torch.randn(16, generator=g)
        return x * 3 if DIFFERENT and get_worker_info() is not None else x


def main():
    torch.set_num_threads(1)
    loader = DataLoader(Slow(), batch_size=8)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    total = 0.0
    for x in loader:
        if "gc-freeze" in os.environ.get("UNSTALL_TRIAL", ""):
            raise RuntimeError("cannot do that")
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print("trained", total)


if __name__ == "__main__":
    main()
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def unstall(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("UNSTALL_") or k == "UNSTALL_CACHE_DIR"}
    line = [sys.executable, "-m", "unstall", *words]
    return subprocess.run(line, cwd=cwd, env=env, capture_output=True, text=True, timeout=600, check=False)


def tried(script: Path, *names: str, more: tuple[str, ...] = ()) -> tuple[dict[str, Any], str]:
    """The rows by name, and what was said meanwhile."""
    only = [w for n in names for w in ("--only", n)]
    command = ["--", sys.executable, script.name, *more]
    done = unstall("try", *only, "--budget", "300", "--steps", "40", "--json", "-", *command, cwd=script.parent)
    assert done.returncode == 0, done.stderr
    return {r["name"]: r for r in json.loads(done.stdout)["rows"]}, done.stderr


def test_loader_fix_is_found_and_measured_a_crash_is_a_row_and_nothing_is_edited(script: Path) -> None:
    rows, said = tried(script, "dataloader-workers", "gc-freeze", "tf32")
    workers = rows["dataloader-workers"]
    # 4 workers wait at the same time: well beyond 1.5 even where two cores are shared with other work
    assert workers["ratio"] > 1.5 and workers["runs"] >= 2
    assert workers["losses"]["verdict"] == "equal", workers["losses"]
    assert rows["gc-freeze"]["verdict"] == "crashed" and "cannot do that" in rows["gc-freeze"]["reason"]
    assert rows["tf32"]["verdict"] == "not applicable"
    assert "exit code 0 is the program's own" in said.splitlines()[-1]
    assert script.read_text() == SCRIPT and [p.name for p in script.parent.iterdir()] == ["train.py"]


def test_what_trains_differently_is_rejected_with_figures(script: Path) -> None:
    rows, _ = tried(script, "dataloader-workers", more=("--different-in-workers",))
    row = rows["dataloader-workers"]
    assert row["verdict"] == "rejected" and row["losses"]["largest"] > 0.5 and "allowed" in row["reason"]


def test_a_remedy_that_only_a_patch_can_bring_is_tried(script: Path) -> None:
    rows, _ = tried(script, "item-after-loop", "sdpa")
    assert rows["item-after-loop"]["losses"]["verdict"] == "equal" and rows["item-after-loop"]["runs"] >= 1
    assert rows["sdpa"]["verdict"] == "not applicable" and "nothing in the script" in rows["sdpa"]["reason"]


def test_the_patched_script_runs_and_trains_the_same(script: Path) -> None:
    short = SCRIPT.replace("return 4000", "return 160").replace("main()\n", "main()\n")
    script.write_text(short.replace("    main()\n", "    torch.manual_seed(0)\n    main()\n"))
    before = subprocess.run(
        [sys.executable, script.name], cwd=script.parent, capture_output=True, text=True, check=True
    )
    done = unstall("fix", script.name, "--apply", "--workers", "2", cwd=script.parent)
    assert done.returncode == 0 and "num_workers=2" in script.read_text(), done.stderr
    after = subprocess.run(
        [sys.executable, "-W", "ignore", script.name], cwd=script.parent, capture_output=True, text=True, check=True
    )
    assert float(after.stdout.split()[1]) == pytest.approx(float(before.stdout.split()[1]), rel=1e-4)


def test_a_program_that_fails_as_it_is_ends_with_its_own_code(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import sys\nsys.exit(9)\n")
    done = unstall("try", "--only", "prefetch", "--", sys.executable, "train.py", cwd=tmp_path)
    assert done.returncode == 9 and "exit code 9" in done.stderr and "Traceback" not in done.stderr
