"""The replay reproduces what it was made from, and changes what a remedy changes, nothing else."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from unstall.analyze import analyze, program
from unstall.analyze import host as host_side
from unstall.analyze.replay import Change, Replay
from unstall.model import Profile
from unstall.testing import TraceBuilder, ms, us


def replay(profile: Profile, unprofiled_ns: int | None = None) -> Replay:
    analysis = analyze(profile)
    return Replay(analysis, analysis.steps[0], unprofiled_ns)


def loader(load: float = 6.0) -> Profile:
    """10 ms steps: loading, a launch of a 1 ms kernel, a wait that ends with it, 100 µs of Python."""
    t = TraceBuilder()
    for i in range(12):
        at = i * ms(load + 2)
        t.range(f"step_{i}", at, at + ms(load + 2) - us(1))
        t.range("data_load", at, at + ms(load))
        t.launch("gemm", at + ms(load), us(10), kernel_start=at + ms(load) + us(5), kernel_dur=ms(1))
        t.sync("stream", at + ms(load) + us(20), at + ms(load + 1) + us(15))
    return t.profile()


def test_untouched_replay_is_the_measured_step() -> None:
    assert replay(loader()).self_check == pytest.approx(1.0, abs=0.005)


def test_without_loading_the_rest_remains() -> None:
    r = replay(loader(), ms(8))
    view = host_side.view(r.analysis.profile, r.analysis.ranges, r.steps)
    got = r.predict(Change(cut=host_side.loading(view)))
    assert got.step_ns == pytest.approx(ms(2), rel=0.03)
    assert got.low_ns < got.step_ns < got.high_ns


def test_a_wait_for_the_gpu_is_not_a_gain() -> None:
    """GPU-bound: dropping the wait leaves the kernels, which set the pace."""
    t = TraceBuilder()
    for i in range(12):
        at = i * ms(5)
        t.range(f"step_{i}", at, at + ms(5) - us(1))
        t.launch("gemm", at + us(10), us(10), kernel_start=at + us(15), kernel_dur=ms(4.95))
        t.sync("stream", at + us(30), at + ms(4.97))
    r = replay(t.profile(), ms(5))
    got = r.predict(Change(drop_calls=pl.col("kind") == "sync"))
    assert got.step_ns == pytest.approx(ms(4.95), rel=0.01)
    assert got.limit == "gpu_compute"


def test_launches_as_one_graph_leave_the_kernels() -> None:
    t = TraceBuilder()
    for i in range(12):
        at = i * ms(10)
        t.range(f"step_{i}", at, at + ms(10) - us(1))
        for k in range(500):
            t.launch("tiny", at + k * us(18), us(8), kernel_dur=us(2))
    r = replay(t.profile(), ms(9))
    assert r.baseline.step_ns == ms(9)
    got = r.predict(Change(graph=True))
    assert ms(1) < got.step_ns < ms(2.2)  # 500 kernels of 2 µs, 0.33 µs between them, the step's own tail


def test_a_side_stream_hides_the_copy() -> None:
    t = TraceBuilder()
    for i in range(12):
        at = i * ms(10)
        t.range(f"step_{i}", at, at + ms(10) - us(1))
        t.copy("HtoD", at, ms(5), copy_start=at + us(10), copy_dur=ms(4.99))
        t.launch("gemm", at + ms(5), us(10), kernel_dur=ms(4.9))
    r = replay(t.profile(), ms(10))
    got = r.predict(Change(side=pl.col("h2d")))
    assert got.step_ns == pytest.approx(ms(5), rel=0.05)


def test_the_profilers_cost_is_undone_per_call() -> None:
    t = TraceBuilder()
    for i in range(12):
        at = i * ms(10)
        t.range(f"step_{i}", at, at + ms(10) - us(1))
        for k in range(400):
            t.launch("tiny", at + k * us(24), us(14), kernel_dur=us(1))
    r = replay(t.profile(), ms(6))
    assert r.call_cost_ns[1] == pytest.approx(us(10), rel=0.15)  # 4 ms over 400 calls
    assert r.predict(Change()).step_ns == pytest.approx(ms(6), rel=0.02)


def test_without_an_unprofiled_time_the_interval_is_wide() -> None:
    profile = loader()
    assert replay(profile).baseline.confidence != "high"
    known, unknown = replay(profile, ms(8)).baseline, replay(profile).baseline
    assert known.high_ns - known.low_ns < unknown.high_ns - unknown.low_ns


def test_a_capture_without_a_gpu_replays_its_host() -> None:
    t = TraceBuilder(trace=("nvtx",), gpu="")
    for i in range(8):
        t.range(f"step_{i}", i * ms(10), i * ms(10) + ms(9.9))
        t.range("data_load", i * ms(10), i * ms(10) + ms(7))
    r = replay(t.profile(), ms(10))
    view = host_side.view(r.analysis.profile, r.analysis.ranges, r.steps)
    assert r.predict(Change(cut=host_side.loading(view))).step_ns == pytest.approx(ms(3), rel=0.02)


def test_a_stream_is_one_of_its_device_and_context() -> None:
    """Stream 7 of GPU 1 waits for stream 7 of GPU 0: by its number alone it would wait for nobody."""
    t = TraceBuilder()
    for i in range(12):
        at = i * ms(5)
        t.range(f"step_{i}", at, at + ms(5) - us(1))
        t.launch("made", at + us(10), us(10), kernel_start=at + us(30), kernel_dur=ms(2))
        t.sync("stream_wait_event", at + us(30), at + us(35), device=1, context=2)
        t.launch("next", at + us(40), us(10), kernel_start=at + us(60), kernel_dur=us(10))
        t.launch("used", at + us(60), us(10), kernel_start=at + ms(2.1), kernel_dur=ms(1), device=1, context=2)
        t.sync("context", at + us(80), at + ms(4.9))
    program = replay(t.profile()).program
    names, after = program.ops["name"].to_list(), program.after
    assert {names[i]: names[after[i]] if after[i] >= 0 else "" for i in range(len(names))} == {
        "made": "", "next": "", "used": "made",
    }  # fmt: skip


def test_what_was_queued_before_the_window_is_no_lag() -> None:
    """A host that is 10 ms ahead: the window's first operation started so late for want of a turn, not for its lag."""
    calls = pl.DataFrame({"start": [us(2 * k) for k in range(4)]})
    begun = [ms(10) + us(10 * k) for k in range(4)]
    ops = pl.DataFrame({"start": begun, "end": [at + us(9) for at in begun], "call": range(4)})
    lag, pause = program._lags(calls, ops, np.zeros(4, np.int64))
    assert set(lag.tolist()) == {program.USUAL_LAG_NS} and set(pause.tolist()) == {us(1)}


def test_threads_that_contend_wait_less_while_they_are_traced() -> None:
    """8 ms traced, 80 ms without: what is left without the waits is as in the capture, or less, or scaled with it."""
    r = replay(loader(), ms(80))
    view = host_side.view(r.analysis.profile, r.analysis.ranges, r.steps)
    cut = host_side.loading(view)
    slower_host, contended = r.predict(Change(cut=cut)), r.predict(Change(cut=cut, contention=True))
    assert slower_host.step_ns == pytest.approx(ms(20), rel=0.03), "as much of it is left as of the traced step"
    assert contended.step_ns == pytest.approx(ms(2), rel=0.03)
    assert contended.low_ns <= ms(1) and contended.high_ns >= slower_host.step_ns and contended.confidence == "low"
    twin = replay(loader(), ms(9))
    assert twin.predict(Change(cut=cut, contention=True)) == twin.predict(Change(cut=cut)), "a host differs by so much"
