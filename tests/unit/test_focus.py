"""The anatomy of a step is read from a bounded run of steady steps; totals and step times are never cut."""

from __future__ import annotations

import pytest

from unstall.analyze import analyze, focus
from unstall.diagnose import diagnose
from unstall.model import TABLES, Analysis, Profile
from unstall.testing import TraceBuilder, ms, us


def long_run(steps: int = 300) -> Profile:
    """10 ms steps that load for 6 ms; the first third takes twice as long."""
    t = TraceBuilder(trace=("cuda", "nvtx", "osrt"))
    at = 0
    for i in range(steps):
        slow = 2 if i < steps // 3 else 1
        t.range(f"step_{i}", at, at + slow * ms(10))
        t.range("data_load", at, at + slow * ms(6))
        t.copy("HtoD", at + slow * ms(6), us(100), copy_dur=us(400))
        t.launch("gemm", at + slow * ms(7), us(10), kernel_dur=ms(1))
        at += slow * ms(10)
    return t.profile()


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> Analysis:
    monkeypatch.setattr(focus, "EVENTS", 100)
    return analyze(long_run())


def test_a_short_run_is_looked_at_whole() -> None:
    analysis = analyze(long_run(40))
    (narrow,) = analysis.focus
    assert narrow.profile is analysis.profile
    assert narrow.steps == analysis.steps


def test_a_long_run_is_cut_to_steps_like_most(cut: Analysis) -> None:
    (narrow,) = cut.focus
    frame = narrow.steps[0].frame
    assert frame.height == focus.LEAST
    assert frame["period_ns"].median() == cut.report.steps[0].period_ns.median == ms(10)
    assert narrow.profile.kernels is not None
    assert narrow.profile.kernels.height == focus.LEAST


def test_what_is_counted_is_counted_over_everything(cut: Analysis) -> None:
    assert cut.report.steps[0].count == 300
    assert cut.report.kernels is not None
    assert cut.report.kernels[0].instances == 300
    (row,) = cut.report.breakdown
    parts = {c.name: c.ns for c in row.categories}
    assert sum(parts.values()) == row.step_ns == ms(10)
    assert parts["data_loading"] == ms(6)


def test_every_table_of_events_is_cut(cut: Analysis) -> None:
    begin, end = ms(500), ms(600)
    t = TraceBuilder(trace=("cuda", "nvtx", "osrt"))
    for at in (ms(1), ms(550), ms(900)):
        t.range("a", at, at + 1)
        t.mark("b", at)
        t.launch("gemm", at)
        t.copy("HtoD", at)
        t.memset(at)
        t.sync("stream", at, at + us(1))
        t.osrt("read", at, at + 1)
        t.library("cublasGemm", at, at + 1)
        t.gil("waiting", at, at + 1)
        t.sched(at, running=True)
        t.sample(at, ["f"])
        t.overhead("flush", at, at + 1)
        t.metric("SMs Active", at, 50)
        t.graph_launch(at, whole=(at, at + 1))
        t.diagnostic("flushed", at=at)
    whole = t.profile()
    less = focus._sliced(whole, begin, end)
    left = {n: less.table(n).height / whole.table(n).height for n in TABLES if {"start", "time"} & set(TABLES[n])}
    assert set(left.values()) == {1 / 3}, left


def test_the_finding_is_the_same(cut: Analysis, monkeypatch: pytest.MonkeyPatch) -> None:
    found = diagnose(cut).findings[0]
    monkeypatch.undo()
    uncut = analyze(long_run())
    assert uncut.focus[0].steps == uncut.steps
    whole = diagnose(uncut).findings[0]
    assert (found.code, found.where.range) == (whole.code, whole.where.range) == ("host-data-loading", "data_load")
    assert found.predicted_step_ns == pytest.approx(whole.predicted_step_ns, rel=0.05)
