"""The built-in collector with torch: on a GPU its rows must fit the ranges around them; without one it says so."""

from __future__ import annotations

import importlib.util
import json
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

import unstall
from unstall.collect import builtin
from unstall.instrument import PARTS, Options, environment

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
]

LOOP = """
    import torch, torch.nn as nn
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    data = torch.utils.data.TensorDataset(torch.randn(640, 512), torch.randn(640, 512))
    for epoch in range(2):
        for x, y in torch.utils.data.DataLoader(data, batch_size=32):
            loss = nn.functional.mse_loss(model(x.to(device)), y.to(device))
            optimizer.zero_grad(); loss.backward(); optimizer.step()
            loss.item()
"""


def has_gpu() -> bool:
    code = "import torch, sys; sys.exit(not torch.cuda.is_available())"
    return subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def record(folder: Path, **options: object) -> Path:
    script = folder / "train.py"
    script.write_text(textwrap.dedent(LOOP))
    asked = Options(parts=PARTS, record=str(folder / "parts"), **options)  # type: ignore[arg-type]
    made = builtin.record([sys.executable, str(script)], environment(asked), folder=folder)
    assert made.ended.code == 0 and made.sqlite is not None and made.notes == ()
    return made.sqlite


@pytest.mark.parametrize("window", [None, (10, 30)])
def test_gpu_rows_fit_the_ranges_around_them(tmp_path: Path, window: tuple[int, int] | None) -> None:
    if not has_gpu():
        pytest.skip("no NVIDIA GPU that torch can use")
    path = record(tmp_path, steps=window, window="record" if window else "")
    profile = unstall.load(path)
    assert profile.kernels is not None and profile.api is not None and profile.copies is not None
    assert profile.gpus is not None and len(profile.gpus) >= 1
    joined = profile.kernels.join(profile.api, on=["process", "correlation"], suffix="_call")
    assert len(joined) == len(profile.kernels), "every kernel has its launch"
    assert (joined["start"] >= joined["start_call"]).all(), "no kernel starts before its launch"
    assert profile.ranges is not None
    calls = profile.api.filter(pl.col("name").cast(pl.String).str.contains("LaunchKernel"))
    outside = uncovered(calls, profile.ranges.filter(pl.col("name").cast(pl.String).str.starts_with("step_")))
    assert outside <= 0.02 * len(calls), "launches lie in the steps that made them"
    with closing(sqlite3.connect(path)) as db:
        meta = dict(db.execute("SELECT name, value FROM UNSTALL_META"))
    assert int(meta["gpu_clock_error_ns"]) < 200_000
    assert not {"kernels", "copies", "api"} & set(json.loads(meta["not_collected"]))
    report = unstall.report_of(path)
    ranges = {row.name: row for row in report.ranges or []}
    assert ranges["forward"].gpu_ns and ranges["backward"].gpu_ns and ranges["optimizer"].gpu_ns
    assert report.steps[0].gpu_busy_ns


def uncovered(calls: pl.DataFrame, steps: pl.DataFrame) -> int:
    """Calls that begin in none of the steps, which do not overlap."""
    steps = steps.filter(pl.col("end").is_not_null()).sort("start").select(begin="start", finish="end")
    placed = calls.sort("start").join_asof(steps, left_on="start", right_on="begin")
    return placed.filter(pl.col("finish").is_null() | (pl.col("start") > pl.col("finish"))).height


def test_threads_of_autograd_are_known(tmp_path: Path) -> None:
    if not has_gpu():
        pytest.skip("no NVIDIA GPU that torch can use")
    profile = unstall.load(record(tmp_path))
    assert profile.api is not None and profile.ranges is not None
    known = set(profile.threads["thread"]) if profile.threads is not None else set()
    launches = profile.api.filter(pl.col("name").cast(pl.String).str.contains("LaunchKernel"))
    assert launches["thread"].n_unique() == 2, "the main thread, and autograd's of the device"
    assert set(launches["thread"]) <= known


def test_without_a_gpu_it_says_so(tmp_path: Path) -> None:
    if has_gpu():
        pytest.skip("there is a GPU")
    path = record(tmp_path)
    profile = unstall.load(path)
    assert profile.kernels is None and profile.api is None
    assert profile.ranges is not None and profile.samples is not None
    with closing(sqlite3.connect(path)) as db:
        meta = dict(db.execute("SELECT name, value FROM UNSTALL_META"))
    assert "kernels" in json.loads(meta["not_collected"])
    assert not any(path.parent.glob("parts/kineto*"))
