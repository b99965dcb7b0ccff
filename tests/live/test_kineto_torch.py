"""What torch's own profiler writes here (CPU only): steps, operators, stacks, plain and packed."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from unstall.load import load
from unstall.pipeline import report_of

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
]

SCRIPT = """
import sys, time, torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
optimizer = torch.optim.AdamW(model.parameters())
def load_batch():
    time.sleep(0.004)
    return torch.randn(32, 64), torch.randint(0, 10, (32,))
def train(path, stack):
    with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=1, warmup=1, active=6), with_stack=stack,
                 on_trace_ready=lambda p: p.export_chrome_trace(path)) as p:
        for _ in range(8):
            with record_function("data_load"):
                x, y = load_batch()
            with record_function("forward"):
                loss = torch.nn.functional.cross_entropy(model(x), y)
            with record_function("backward"):
                optimizer.zero_grad(); loss.backward()
            optimizer.step(); p.step()
train(sys.argv[1], False)
train(sys.argv[2], True)
"""


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("kineto")
    (folder / "train.py").write_text(SCRIPT)
    made = folder / "plain.json", folder / "stack.json.gz"
    line = [sys.executable, "-W", "ignore", "train.py", *map(str, made)]
    subprocess.run(line, cwd=folder, check=True, capture_output=True, timeout=120)
    return made


def test_steps_phases_and_the_finding(traces: tuple[Path, Path]) -> None:
    report = report_of(traces[0])
    steps = report.steps[0]
    assert steps.source == "range:ProfilerStep#*" and steps.count == 6
    rows = {r.name: r for r in report.ranges or []}
    assert rows["data_load"].instances == 6 and rows["data_load"].total_ns >= 6 * 4_000_000
    assert rows["aten::addmm"].library and not rows["Optimizer.step#AdamW.step"].library
    assert report.findings[0].code == "host-data-loading" and report.findings[0].where.range == "data_load"
    assert report.profile.producer == "kineto" and report.kernels is None


def test_stacks_name_the_function_that_sleeps(traces: tuple[Path, Path]) -> None:
    profile = load(traces[1])
    assert profile.samples is not None and profile.frames is not None
    symbols = set(profile.frames["symbol"].cast(pl.String).unique())
    assert "load_batch (train.py)" in symbols
    asleep = [r for r in report_of(traces[1]).samples or [] if "sleep" in r.symbol]
    assert asleep and asleep[0].kind == "python" and asleep[0].samples > 100
