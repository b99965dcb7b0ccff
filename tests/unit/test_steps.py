"""Steps are found for any naming, warm-up is set apart, the limiting resource gives the period."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from unstall.analyze import analyze, ranges
from unstall.analyze.device import device_ops
from unstall.analyze.steps import confidence, find_steps, warmup
from unstall.diagnose import diagnose
from unstall.errors import UsageError
from unstall.model import Profile, StepTable
from unstall.report import terminal
from unstall.testing import TraceBuilder, ms, us


def steps_of(profile: Profile, pattern: str | None = None) -> tuple[StepTable, ...]:
    nested = None if profile.ranges is None else ranges.nest(profile.ranges)
    return find_steps(nested, profile.marks, device_ops(profile), pattern=pattern)


def loop(name: str, count: int = 12, period: int = ms(10), first: int = 1) -> TraceBuilder:
    """A host-bound loop: one range a step with two kernels; ``first`` stretches the first step."""
    t = TraceBuilder()
    at = 0
    for i in range(count):
        length = period * (first if i == 0 else 1)
        t.range(name.format(i), at, at + length - us(10))
        t.launch("gemm", at + us(100))
        t.launch("relu", at + us(300))
        at += length
    return t


@pytest.mark.parametrize(
    "name",
    [
        "step_{}",
        "train step {}",
        "iteration",
        "train/step",
        "ProfilerStep#{}",
        "Iteration {}",
        "iter {}",
        "스텝 {}",
        "batch_{}",
    ],
)
def test_any_naming(name: str) -> None:
    (steps,) = steps_of(loop(name).profile())
    assert steps.frame.height == 12
    assert steps.steady["period_ns"].median() == ms(10)


def test_first_step_is_warm_up() -> None:
    (steps,) = steps_of(loop("step_{}", first=8).profile())
    assert steps.frame["warmup"].to_list() == [True] + [False] * 11


def test_even_steps_have_no_warm_up() -> None:
    (steps,) = steps_of(loop("step_{}").profile())
    assert not steps.frame["warmup"].any()


@pytest.mark.parametrize(
    ("period", "warm"),
    [
        # threads that contend for the GIL, as an H200's host measured them
        ((351, 24, 32, 31, 22, 22, 34, 31, 24, 30, 32, 23, 31, 23, 33, 23, 21, 21, 33, 28, 21, 22, 33, 34, 25, 24), 1),
        ((351, 24, 60, 31, 22, 22, 34, 31, 24, 30, 32, 23, 31, 23, 33, 23, 21, 21, 33, 28, 21, 22, 33, 34, 25, 24), 3),
        ((300, 20, 28, 20, 20, 20, 20, 20, 20, 20), 3),  # far above later steps that are all alike
        ((20, 20, 20, 20, 20, 20, 20, 20, 20, 90), 0),
    ],
)
def test_a_first_step_within_the_spread_of_later_ones_is_no_warm_up(period: tuple[int, ...], warm: int) -> None:
    assert warmup(np.array(period) * ms(1)) == warm


def test_a_stream_that_copies_ahead_does_not_set_the_pace() -> None:
    """Batches are copied on their own stream, two steps before they are used and as fast as the bus allows."""
    t = TraceBuilder()
    for i in range(24):
        at = i * ms(1)  # the host runs ahead
        t.range(f"step_{i}", at, at + us(900))
        t.copy("HtoD", at + us(50), copy_start=at + us(60), copy_dur=us(300), stream=20)
        t.launch("gemm", at + us(100), kernel_start=us(500) + i * ms(10), kernel_dur=ms(9.9), stream=7)
    (steps,) = steps_of(t.profile())
    assert steps.limit == "gpu"
    assert steps.step_ns == pytest.approx(ms(10), rel=0.01)


def test_optimizer_step_is_not_a_step() -> None:
    t = TraceBuilder()
    for i in range(10):
        t.range("iteration", i * ms(10), i * ms(10) + ms(9))
        t.range("optimizer.step", i * ms(10) + ms(5), i * ms(10) + ms(6))
        t.launch("gemm", i * ms(10) + ms(1))
    (steps,) = steps_of(t.profile())
    assert steps.source == "range:iteration"


def test_run_ahead_takes_the_gpu_period() -> None:
    t = TraceBuilder()
    for i in range(20):
        t.range(f"step_{i}", i * ms(2), i * ms(2) + ms(1.9))
        t.launch("gemm", i * ms(2) + us(100), kernel_start=us(200) + i * ms(46), kernel_dur=ms(46) - us(1))
    (steps,) = steps_of(t.profile())
    assert steps.limit == "gpu"
    assert steps.steady["period_ns"].median() == ms(46)


def test_phases_without_a_wrapper() -> None:
    t = TraceBuilder()
    for i in range(10):
        at = i * ms(10)
        t.range("load", at, at + ms(6))
        t.range("forward", at + ms(6), at + ms(9))
        t.launch("gemm", at + ms(7))
    (steps,) = steps_of(t.profile())
    assert steps.source == "phase:load"
    assert steps.frame.height == 9
    assert steps.steady["period_ns"].unique().to_list() == [ms(10)]


def test_kernels_alone_give_steps() -> None:
    t = TraceBuilder(trace=("cuda",))
    for i in range(30):
        at = i * ms(5)
        for k in range(20):
            t.launch(f"layer{k % 4}", at + k * us(50))
        t.launch("adam", at + us(1500))
    (steps,) = steps_of(t.profile())
    assert steps.source == "kernels"
    assert steps.frame["period_ns"].median() == ms(5)
    assert steps.frame["ops"].median() == 21


@pytest.mark.parametrize(
    ("times", "names", "sure"), [(5, "abcd", "low"), (40, "a", "low"), (40, "abc", "low"), (40, "abcd", "medium")]
)
def test_a_short_or_plain_repetition_is_weak_evidence(times: int, names: str, sure: str) -> None:
    t = TraceBuilder(trace=("cuda",))
    for i in range(times):
        for k, name in enumerate(names):
            t.launch(name, i * ms(5) + k * us(50))
    report = diagnose(analyze(t.profile()))
    assert [row.confidence for row in report.steps] == [sure]
    assert sure != "low" or {f.confidence for f in report.findings} == {"low"}


def test_unrelated_kernels_are_no_steps() -> None:
    t = TraceBuilder(trace=("cuda",))
    for i in range(200):
        t.launch(f"k{(i * i) % 61}", i * us(100))
    assert steps_of(t.profile()) == ()


def test_two_processes_come_out_apart() -> None:
    t = TraceBuilder(pid=100)
    for i in range(10):
        t.range("train_step", i * ms(8), i * ms(8) + ms(7))
        t.launch("gemm", i * ms(8) + us(100), kernel_dur=us(50))
    t.process(200)
    for i in range(10):
        t.range("train_step", i * ms(25), i * ms(25) + ms(24))
        t.launch("gemm", i * ms(25) + us(100), kernel_dur=us(90))
    found = {s.process: s.steady["period_ns"].median() for s in steps_of(t.profile())}
    assert sorted(found.values()) == [ms(8), ms(25)]


def test_marks_delimit_steps() -> None:
    t = TraceBuilder()
    for i in range(10):
        t.mark(f"step {i}", i * ms(4))
        t.launch("gemm", i * ms(4) + us(100))
    (steps,) = steps_of(t.profile())
    assert steps.source.startswith("marker")
    assert steps.steady["period_ns"].unique().to_list() == [ms(4)]


def test_the_user_may_name_them() -> None:
    profile = loop("work {}").profile()
    (steps,) = steps_of(profile, "^work")
    assert steps.source == "regex:work *"
    assert steps.frame.height == 12


@pytest.mark.parametrize("pattern", ["(", "nothing like it"])
def test_a_bad_pattern_is_one_line(pattern: str) -> None:
    with pytest.raises(UsageError) as error:
        steps_of(loop("step_{}").profile(), pattern)
    assert "\n" not in str(error.value)


def test_windows_abut() -> None:
    (steps,) = steps_of(loop("step_{}").profile())
    frame = steps.frame
    assert (frame["end"][:-1] == frame["start"][1:]).all()
    assert frame.select((pl.col("end") - pl.col("start") == pl.col("period_ns")).all()).item()


def test_bursts_of_one_kernel_are_not_the_steps() -> None:
    t = TraceBuilder(trace=("cuda",))
    for i in range(8):
        for k in range(5):
            t.launch("gemm", ms(10 * i) + us(30 * k))
    assert steps_of(t.profile()) == (), "30 us between two kernels of a burst are not the 10 ms of a step"


def test_a_pause_now_and_then_hides_no_steps() -> None:
    t = TraceBuilder(trace=("cuda",))
    for i in range(100):
        at = ms(10 * i) + (ms(5000) if i >= 70 else 0)  # an evaluation
        for k, name in enumerate(("gemm", "relu", "adam")):
            t.launch(name, at + us(30 * k))
    (steps,) = steps_of(t.profile())
    assert steps.steady["period_ns"].median() == ms(10)


def test_of_many_processes_the_busiest_are_examined_and_the_others_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unstall.analyze.assemble.MOST_PROCESSES", 2)
    t = TraceBuilder()
    for pid in (100, 200, 300):
        t.process(pid)
        for i in range(10):
            t.range(f"step_{i}", i * ms(8), i * ms(8) + ms(7))
            t.launch("gemm", i * ms(8), kernel_dur=us(pid))
    report = diagnose(analyze(t.profile()))
    assert [row.process for row in report.steps] == [300, 200, 100]
    assert [row.process for row in report.breakdown] == [300, 200]
    assert {f.where.process for f in report.findings} <= {300, 200}
    (left,) = (n for n in report.not_checked if n.code == "processes")
    assert left.reason.startswith("1 of 3 processes")


def test_what_takes_no_time_is_no_step() -> None:
    t = TraceBuilder()
    for i in range(8):
        t.range(f"step_{i}", ms(1), ms(1))
        t.copy("HtoD", 0, dur=0, copy_dur=0)
    report = diagnose(analyze(t.profile()))
    assert report.steps == [] and list(terminal.lines(report, 80))


def test_a_loop_that_only_an_uneven_host_paces_has_steps() -> None:
    t = TraceBuilder(trace=("cuda",))
    at = 0
    for i in range(60):  # quartiles of the periods: 190 and 310 us, as a JAX loop on the H200 has them
        for k, name in enumerate("ab"):
            t.launch(name, at + k * us(40))
        at += us(190) if i % 2 else us(310)
    (steps,) = steps_of(t.profile())
    assert (steps.source, steps.frame.height) == ("kernels", 59)
    assert confidence(steps) == "low"


@pytest.mark.parametrize(("size", "batch"), [(4, False), (4096, True)])
def test_the_copy_of_a_constant_is_no_batch(size: int, batch: bool) -> None:
    t = TraceBuilder()
    t.copy("HtoD", us(1), bytes=size)
    assert device_ops(t.profile())["h2d"].to_list() == [batch]


@pytest.mark.parametrize(("between", "count"), [(us(400), 12), (ms(7), 11)])
def test_the_last_step_lacks_what_lies_between_two(between: int, count: int) -> None:
    """``for batch in loader: with step(): …``: loading is no part of the last step, for no step follows."""
    t = TraceBuilder()
    for i in range(12):
        t.range("step", ms(10 * i), ms(10 * i + 10) - between)
        t.launch("gemm", ms(10 * i) + us(100))
    (steps,) = steps_of(t.profile())
    row = analyze(t.profile()).report.steps[0]
    assert steps.frame.height == row.count == 12, "it is a step, though no sample"
    assert steps.steady.height == count == len(row.samples_ns)
    assert row.period_ns.p10 == ms(10) and row.samples_ns.count(ms(10)) == 11


def test_the_last_step_goes_by_the_mean_of_what_lies_between() -> None:
    """Batches come in fours: most steps begin at once, every fourth waits for the loader."""
    t, at = TraceBuilder(), 0
    for i in range(20):
        at += ms(16) if i % 4 == 0 else us(1)
        t.range("step", at, at + ms(1))
        t.launch("gemm", at + us(100))
        at += ms(1)
    row = analyze(t.profile()).report.steps[0]
    assert len(row.samples_ns) == 19 and row.bursty and row.period_ns.mean > ms(4)


def test_a_copy_ahead_makes_no_long_last_step() -> None:
    """The batch of the next step is still being copied when the next step's kernels begin."""
    t = TraceBuilder()
    for i in range(12):
        t.range("step", ms(i), ms(i + 1) - us(1))
        t.launch("gemm", ms(i) + us(100), kernel_start=ms(10 * i + 1), kernel_dur=ms(10) - us(1), stream=7)
        t.copy("HtoD", ms(i) + us(200), copy_start=ms(10 * i + 8), copy_dur=ms(6), stream=20)
    (steps,) = steps_of(t.profile())
    assert steps.limit == "gpu" and steps.steady["period_ns"].unique().to_list() == [ms(10)]


def test_few_steps_are_all_kept() -> None:
    (steps,) = steps_of(loop("step_{}", count=3).profile())
    assert steps.frame.height == 3
    t = TraceBuilder()
    for i in range(3):
        t.range("step", ms(10 * i), ms(10 * i + 4))
    (steps,) = steps_of(t.profile())
    assert steps.frame.height == 3, "without the last one there would be no steps at all"
