"""The untouched replay reproduces the steady step of every shared profile that has steps, within 3 %."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from unstall.analyze import analyze
from unstall.analyze.replay import Replay
from unstall.load import load

NAMES = (
    "fp32_matmul", "fp32_matmul_window", "gil_threads", "graph_node", "healthy", "healthy_window", "item_sync",
    "item_sync_window", "launch_bound", "launch_bound_window", "nsys2022_nvtx_cpu", "nsys2024_gpu", "pageable_h2d",
    "pageable_h2d_window", "slow_loader", "slow_loader_fixed", "slow_loader_window", "twoproc",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_untouched_replay(name: str, profile_path: Callable[[str], Path]) -> None:
    analysis = analyze(load(profile_path(name), cache=False))
    assert analysis.steps
    for steps in analysis.steps:
        assert Replay(analysis, steps).self_check == pytest.approx(1.0, abs=0.03)


MEDIANS_MS = {  # median steady step, as ../shared/profiles/README.md and the issue give it
    "slow_loader": [25.3], "fp32_matmul": [46.1], "twoproc": [25.3, 8.35], "graph_node": [2.52],
}  # fmt: skip


@pytest.mark.parametrize("name", MEDIANS_MS)
def test_step_times(name: str, profile_path: Callable[[str], Path]) -> None:
    report = analyze(load(profile_path(name), cache=False)).report
    found = [row.period_ns.median / 1e6 for row in report.steps]
    assert found == pytest.approx(MEDIANS_MS[name], rel=0.02)
    for row in report.breakdown:
        assert sum(c.ns for c in row.categories) == row.step_ns


def test_the_lab_step(profile_path: Callable[[str], Path]) -> None:
    report = analyze(load(profile_path("slow_loader"), cache=False)).report
    parts = {c.name: c for c in report.breakdown[0].categories}
    busy = sum(c.percent for n, c in parts.items() if n in ("gpu_compute", "exposed_copy"))
    assert 93 <= 100 - busy <= 95
    assert 22e6 <= parts["data_loading"].ns <= 23e6
    assert parts["data_loading"].ranges[0].name == "data_load"
    assert report.steps[0].warmup_steps == ["step_0"]


@pytest.mark.parametrize("name", ["slow_loader", "launch_bound", "fp32_matmul", "healthy"])
def test_steps_without_nvtx_are_the_same(name: str, profile_path: Callable[[str], Path]) -> None:
    """The device operations alone give the period that the ranges give."""
    from dataclasses import replace

    profile = load(profile_path(name), cache=False)
    named = analyze(profile).report.steps[0].period_ns.median
    bare = analyze(replace(profile, ranges=None, marks=None)).report.steps[0]
    assert bare.source == "kernels"
    assert bare.period_ns.median == pytest.approx(named, rel=0.01)
