"""Findings on real captures whose fault is known, and predictions held against what the remedy really gave.

The ``*_window`` captures come with three step times of one process, all without a profiler in the way: before the
capture, and with the remedy. They are in ``TRUTH``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from unstall.analyze import analyze
from unstall.diagnose import diagnose
from unstall.load import load
from unstall.model import Finding, Report

ProfilePath = Callable[[str], Path]

FIRST = {
    "slow_loader": ("host-data-loading", "data_load"),
    "slow_loader_window": ("host-data-loading", "data_load"),
    "pageable_h2d": ("pageable-copy", "copy_batch"),
    "pageable_h2d_window": ("pageable-copy", "copy_batch"),
    "launch_bound": ("launch-bound", "iteration_body"),
    "launch_bound_window": ("launch-bound", "iteration_body"),
    "item_sync": ("launch-bound", None),
    "item_sync_window": ("launch-bound", None),
    "fp32_matmul": ("fp32-matmul", None),
    "fp32_matmul_window": ("fp32-matmul", None),
    "healthy": ("compute-bound", None),
    "healthy_window": ("compute-bound", None),
    "slow_loader_fixed": ("launch-bound", None),
    "graph_node": ("compute-bound", None),
    "gil_threads": ("gil-contention", "forward"),
    "nsys2022_nvtx_cpu": ("host-data-loading", "data_load"),
}
"""Capture → the code of its first finding, and the range where that is told."""

TRUTH = {
    # capture → unprofiled ms, ms with the remedy, the largest ratio between prediction and truth that passes. Where the
    # fault is the host's the replay decides; where it is a kernel's, data sheets do.
    "slow_loader_window": (26.99, 2.69, 1.25),
    "pageable_h2d_window": (35.31, 10.31, 1.25),
    "launch_bound_window": (19.18, 2.37, 1.25),
    "fp32_matmul_window": (46.13, 8.30, 2.0),
}


def report_of(path: Path, unprofiled_ms: float | None = None) -> Report:
    ns = None if unprofiled_ms is None else round(unprofiled_ms * 1e6)
    return diagnose(analyze(load(path, cache=False), unprofiled_ns=ns))


@pytest.mark.parametrize("capture", FIRST)
def test_first_finding_is_the_known_fault(capture: str, profile_path: ProfilePath) -> None:
    code, place = FIRST[capture]
    report = report_of(profile_path(capture))
    assert [w.text for w in report.warnings if w.code == "rule-crashed"] == []
    first = report.findings[0]
    assert (first.code, first.main) == (code, True)
    assert place is None or first.where.range == place


def test_what_stands_in_the_way_of_the_first_remedy_is_named(profile_path: ProfilePath) -> None:
    """A wait after each layer: no graph holds such a step, and what the graph would gain is not to be had before."""
    found = {f.code: f for f in report_of(profile_path("item_sync_window")).findings}
    assert found["launch-bound"].needs == ["blocking-sync"] and found["blocking-sync"].needs == []


def test_each_process_has_the_gpu_that_it_uses(profile_path: ProfilePath) -> None:
    processes = report_of(profile_path("nccl_2gpu_nsys2026")).profile.processes
    assert [(p.process, p.devices) for p in processes] == [(111, [0]), (112, [1])]


@pytest.mark.parametrize("capture", TRUTH)
def test_prediction_against_the_measured_remedy(capture: str, profile_path: ProfilePath) -> None:
    unprofiled, fixed, most = TRUTH[capture]
    first = report_of(profile_path(capture), unprofiled).findings[0]
    assert first.predicted_step_ns is not None
    ratio = first.predicted_step_ns / 1e6 / fixed
    assert 1 / most <= ratio <= most
    assert first.predicted_speedup == pytest.approx(unprofiled * 1e6 / first.predicted_step_ns, rel=0.01)


@pytest.mark.parametrize("capture", ["healthy", "healthy_window"])
def test_nothing_is_wrong_with_a_healthy_run(capture: str, profile_path: ProfilePath) -> None:
    assert [f.code for f in report_of(profile_path(capture)).findings if f.main] == ["compute-bound"]


@pytest.mark.parametrize(("capture", "unprofiled"), [("item_sync", None), ("item_sync_window", 8.93)])
def test_waits_that_cost_nothing_are_no_large_gain(
    capture: str, unprofiled: float | None, profile_path: ProfilePath
) -> None:
    """49 waits a step; without them the step was 1.1 times faster: launching is the limit either way."""
    found = {f.code: f for f in report_of(profile_path(capture), unprofiled).findings}
    sync: Finding | None = found.get("blocking-sync")
    assert sync is None or (sync.predicted_speedup or 1.0) < 1.2


def test_healthy_kernels_are_named_with_what_limits_them(profile_path: ProfilePath) -> None:
    first = report_of(profile_path("healthy_window")).findings[0]
    text = "\n".join(e.text for e in first.evidence)
    assert "nvjet" in text and "tensor cores" in text and "memory limits" in text


def test_launching_says_how_much_the_profiler_adds(profile_path: ProfilePath) -> None:
    guessed = report_of(profile_path("launch_bound")).findings[0]
    known = report_of(profile_path("launch_bound_window"), 19.18).findings[0]
    assert any("--unprofiled-ms" in e.text for e in guessed.evidence)
    assert any("19.2 ms" in e.text for e in known.evidence)


def test_two_processes_are_told_apart(profile_path: ProfilePath) -> None:
    report = report_of(profile_path("twoproc"))
    (shared,) = (w.text for w in report.warnings if w.code == "shared-gpu")
    assert "no steady step of one meets work of another" in shared  # one had ended when the other had warmed up
    first = report.findings[0]
    assert first.code == "fp32-matmul"
    assert any("817" in e.text for e in first.evidence), "the other process has the same, and is named"
    assert "compute-bound" in {f.code for f in report.findings}


def test_a_capture_without_steps_claims_nothing_of_them(profile_path: ProfilePath) -> None:
    """A second of an inference run whose weights are copied in from pinned memory, with nothing beside the copies."""
    report = report_of(profile_path("nccl_2gpu_nsys2026"))
    first = report.findings[0]
    assert (first.code, first.confidence, first.predicted_step_ns) == ("exposed-copy", "low", None)
    assert all(f.predicted_step_ns is None for f in report.findings)
    told = [e.text for e in first.evidence]
    assert "These are the figures of pid 111; the same in other processes: pid 112" in told
    assert any(t.startswith("Such copies in all: 223, 25.5 GB together") for t in told)
    assert "straggler-rank" in {n.code for n in report.not_checked}


def test_what_was_not_captured_is_not_checked(profile_path: ProfilePath) -> None:
    report = report_of(profile_path("nvtx_lost_nsys2024"))
    assert report.findings == []
    assert {"launch-bound", "host-data-loading", "compute-bound"} <= {n.code for n in report.not_checked}
