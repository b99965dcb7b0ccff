"""Verdicts: the table of ``verdict``, what blocks one, and what two sides must not be fooled by."""

from __future__ import annotations

import math

import numpy as np
import pytest
from compare_sides import a_copy, a_kernel, noisy, profile, steps
from hypothesis import given, settings
from hypothesis import strategies as st

import unstall
from unstall.compare.verdict import judge
from unstall.errors import UsageError
from unstall.model import Comparison, CopyRow, Gpu, Report, Warning_
from unstall.report.comparison import headline
from unstall.stats import Ratio

INVERSE = {"faster": "slower", "slower": "faster", "no difference": "no difference", "inconclusive": "inconclusive"}


def codes(comparison: Comparison) -> set[str]:
    return {w.code for w in comparison.warnings}


def slower(samples: list[float], by: float = 1.05) -> list[float]:
    return [by * x for x in samples]


# -- the table -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.05, 1.20, "faster"),
        (0.80, 0.95, "slower"),
        (0.99, 1.01, "no difference"),
        (0.96, 1.04, "no difference"),
        (1.005, 1.015, "no difference"),  # certain, and too small to matter
        (1.005, 1.03, "faster"),
        (0.90, 1.02, "inconclusive"),
        (0.98, 1.30, "inconclusive"),
    ],
)
def test_what_an_interval_says(low: float, high: float, verdict: str) -> None:
    assert judge(Ratio(math.sqrt(low * high), low, high))[0] == verdict
    assert judge(Ratio(1 / math.sqrt(low * high), 1 / high, 1 / low))[0] == INVERSE[verdict]


def test_margin_decides_what_no_difference_rules_out() -> None:
    wide = Ratio(1.0, 0.93, 1.07)
    assert judge(wide)[0] == "inconclusive" and judge(wide, 0.1)[0] == "no difference"
    assert judge(Ratio(1.01, 1.005, 1.015), 0.002)[0] == "faster", "a smaller margin makes smaller changes count"


def test_public_function_takes_lists_of_milliseconds() -> None:
    found = unstall.compare(noisy(seed=1), slower(noisy(seed=2)))
    assert found.verdict == "slower" and found.ratio == pytest.approx(1 / 1.05, abs=0.01)
    assert found.before.step_ns == pytest.approx(20e6, rel=0.01) and found.before.count == 100
    assert found.ratio_low < found.ratio < found.ratio_high
    assert found.reason


def test_two_sides_of_one_thing_are_no_difference() -> None:
    assert unstall.compare(noisy(seed=1), noisy(seed=2)).verdict == "no difference"


@pytest.mark.parametrize("margin", [0.0, 1.0, -0.1, math.nan])
def test_a_margin_that_is_none(margin: float) -> None:
    with pytest.raises(UsageError, match="margin"):
        unstall.compare(noisy(), noisy(), margin=margin)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.8, 1.25), st.integers(2, 60))
def test_swapping_the_sides_swaps_the_verdict(seed: int, factor: float, n: int) -> None:
    a, b = noisy(n, seed=seed), slower(noisy(n, seed=seed + 1), factor)
    one, other = unstall.compare(a, b), unstall.compare(b, a)
    assert other.verdict == INVERSE[one.verdict]
    assert one.ratio is not None and other.ratio is not None
    assert one.ratio * other.ratio == pytest.approx(1)
    assert codes(one) == codes(other)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.8, 1.25), st.sampled_from([0.25, 4.0, 1024.0]))
def test_the_unit_changes_nothing(seed: int, factor: float, scale: float) -> None:
    a, b = noisy(40, seed=seed), slower(noisy(40, seed=seed + 1), factor)
    one, other = unstall.compare(a, b), unstall.compare(slower(a, scale), slower(b, scale))
    assert (one.verdict, one.ratio) == (other.verdict, pytest.approx(other.ratio, rel=1e-6))


# -- too little to say anything ------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_too_few_steps_are_inconclusive(n: int) -> None:
    found = unstall.compare([50.0] * n, noisy(100))
    assert found.verdict == "inconclusive" and "too-few-steps" in codes(found)
    assert found.ratio == pytest.approx(2.5, rel=0.01), "the figures are shown all the same"
    assert found.ratio_low is None and found.ratio_high is None, "of one step a side it would be a single point"
    assert headline(found).endswith("2.50×, its interval is not known")


def test_one_sample_a_side_is_inconclusive_even_when_equal() -> None:
    assert unstall.compare([20.0], [20.0]).verdict == "inconclusive"
    assert unstall.compare([20.0], [10.0]).verdict == "inconclusive"


def test_five_steps_a_side_show_a_tenfold_change_and_no_small_one() -> None:
    assert unstall.compare(noisy(5, 25, seed=1), noisy(5, 2.5, seed=2)).verdict == "faster"
    assert unstall.compare(noisy(5, 25, seed=1), noisy(5, 24.5, seed=2)).verdict == "inconclusive"


def test_twenty_steps_that_hang_together_show_a_change_no_machine_makes() -> None:
    """Steps worth two independent ones: 10.9 against 6.5 ms is a verdict, 7.5 against 6.5 is none."""
    wave = np.exp(0.1 * np.sin(2 * np.pi * np.arange(20) / 20))
    assert unstall.compare(list(10.9 * wave), list(6.5 * wave)).verdict == "faster"
    assert unstall.compare(list(6.5 * wave), list(10.9 * wave)).verdict == "slower"
    assert unstall.compare(list(7.5 * wave), list(6.5 * wave)).verdict == "inconclusive"


def test_no_steps_at_all() -> None:
    empty = profile([], row={})
    empty.steps = []
    found = unstall.compare(empty, profile(noisy()))
    assert (found.verdict, found.ratio, found.before.step_ns) == ("inconclusive", None, None)
    assert "no-steps" in codes(found) and found.before.count == 0


def test_the_same_measurement_twice_is_no_difference() -> None:
    wild = noisy(30, noise=0.3)
    found = unstall.compare(profile(wild), profile(wild))
    assert (found.verdict, found.ratio_low, found.ratio_high) == ("no difference", 1.0, 1.0)
    assert "same-samples" in codes(found)
    assert unstall.compare(profile([20.0, 21.0, 22.0]), profile([20.0, 21.0, 22.0])).verdict == "no difference"


# -- what must not fool it -----------------------------------------------------------------------------------


def test_lost_gpu_is_no_win() -> None:
    lost = profile(noisy(ms=2.0), row={"gpu_busy_ns": None, "kernels_per_step": None})
    found = unstall.compare(profile(noisy()), lost)
    assert found.verdict == "inconclusive" and "lost-gpu" in codes(found) and "GPU" in found.reason
    assert unstall.compare(lost, profile(noisy())).verdict == "inconclusive"
    assert unstall.compare(lost, lost).verdict == "no difference", "a CPU program may be compared with itself"
    assert "lost-gpu" not in codes(unstall.compare(noisy(), profile(noisy()))), "of a log that is not known"


def test_another_gpu_gives_no_verdict_unless_asked_for() -> None:
    old, new = profile(noisy()), profile(noisy(ms=10), gpus=[Gpu(device=0, name="NVIDIA A100")])
    found = unstall.compare(old, new)
    assert found.verdict == "inconclusive" and "different-gpu" in codes(found)
    asked = unstall.compare(old, new, across_gpus=True)
    assert asked.verdict == "faster" and "different-gpu" in codes(asked)
    two = profile(noisy(), gpus=[Gpu(device=i, name="NVIDIA H200") for i in range(2)])
    assert "different-gpu" not in codes(unstall.compare(old, two)), "a machine with more of the same"


def test_step_counts_do_not_matter() -> None:
    found = unstall.compare(profile(noisy(40, seed=1)), profile(noisy(400, seed=2)))
    assert found.verdict == "no difference" and (found.before.count, found.after.count) == (40, 400)


def test_profiler_on_one_side_widens_the_interval() -> None:
    log, traced = noisy(seed=1), profile(slower(noisy(seed=2), 1.3))
    found = unstall.compare(log, traced)
    assert found.verdict == "inconclusive" and "profiler-one-side" in codes(found)
    assert unstall.compare(traced, log).verdict == "inconclusive", "a profiler gone is no gain"
    assert unstall.compare(profile(noisy(ms=27)), noisy(ms=2.7)).verdict == "faster", "no profiler costs that much"
    assert unstall.compare(noisy(ms=27), profile(noisy(ms=2.7))).verdict == "faster"


def test_the_unprofiled_level_is_used_where_both_are_known() -> None:
    a = profile(noisy(seed=1, ms=28), row={"unprofiled_ns": 20_000_000})
    b = profile(noisy(seed=2, ms=22), row={"unprofiled_ns": 20_000_000})
    found = unstall.compare(a, b)
    assert found.verdict == "no difference" and found.before.step_ns == pytest.approx(20e6, rel=1e-3)
    assert "without the profiler" in found.before.label
    half = unstall.compare(a, profile(noisy(seed=2, ms=28)))
    assert half.before.step_ns == pytest.approx(28e6, rel=0.01), "one side alone is not moved"


@pytest.mark.parametrize(
    ("paths", "labels"),
    [
        (("runs/a.sqlite", "runs/b.sqlite"), ("a.sqlite", "b.sqlite")),
        (("old/profile.sqlite", "/new/profile.sqlite"), ("old/profile.sqlite", "new/profile.sqlite")),
        (("x/1/p", "y/1/p"), ("x/1/p", "y/1/p")),
        (("p", "y/p"), ("p", "y/p")),
        (("p", "p"), ("p", "p")),
        (("", "p"), ("", "p")),
    ],
)
def test_sides_are_named_apart(paths: tuple[str, str], labels: tuple[str, str]) -> None:
    before, after = (profile(noisy(seed=i), path=path) for i, path in enumerate(paths))
    found = unstall.compare(before, after)
    assert (found.before.label, found.after.label) == labels


def test_other_profilers_are_allowed_for() -> None:
    found = unstall.compare(profile(noisy(ms=24)), profile(noisy(seed=2), producer="kineto"))
    assert found.verdict == "inconclusive" and "different-profiler" in codes(found)


def test_rare_long_steps_that_the_median_does_not_see() -> None:
    calm, saving = noisy(200, seed=1), noisy(200, seed=2)
    saving[::25] = [x + 100 for x in saving[::25]]
    found = unstall.compare(calm, saving)
    assert found.verdict == "inconclusive" and "long-steps" in codes(found)
    saving[::10] = [x + 400 for x in saving[::10]]  # two thirds of the time pass in them
    found = unstall.compare(calm, saving)
    assert found.verdict == "slower" and "bursty-steps" in codes(found) and found.level == "mean"


def test_of_several_processes_the_slowest_is_compared_and_named() -> None:
    def two(fast: float, slow: float, seed: int) -> Report:
        made = profile(noisy(ms=fast, seed=seed))
        made.steps.append(steps(noisy(ms=slow, seed=seed), process=8))
        return made

    found = unstall.compare(two(8, 25, 1), two(4, 25, 2))
    assert found.verdict == "no difference" and "several-processes" in codes(found)
    assert "pid 8" in next(w.text for w in found.warnings if w.code == "several-processes")
    assert unstall.compare(two(8, 25, 1), two(8, 12, 2)).verdict == "faster"


def test_steps_of_one_name_are_compared_with_steps_of_that_name() -> None:
    other = profile(noisy(ms=20, seed=1))
    other.steps.append(steps(noisy(ms=90), process=9, source="range:validate"))
    found = unstall.compare(other, profile(noisy(ms=20, seed=2)))
    assert found.verdict == "no difference"


# -- doubts that are said ------------------------------------------------------------------------------------


def test_nothing_to_doubt() -> None:
    kernels = [a_kernel(f"k{i}", 100 + i, 100) for i in range(5)]
    sides = [profile(noisy(seed=i), kernels=kernels, copies=[a_copy(1, 101)]) for i in (1, 2)]
    assert unstall.compare(*sides).warnings == []


@pytest.mark.parametrize(
    ("code", "before", "after"),
    [
        ("different-rank", {"rank": 0}, {"rank": 3}),
        ("different-version", {"producer_version": "2025.3"}, {"producer_version": "2026.2"}),
        ("different-traces", {"tables": {"osrt": 1}}, {"tables": {"samples": 1}}),
        ("different-work", {"row": {"kernels_per_step": 970.0}}, {"row": {"kernels_per_step": 480.0}}),
        ("different-steps", {"row": {"source": "range:step_*"}}, {"row": {"source": "kernels"}}),
        ("different-batch", {"copies": [a_copy(1, 101, mb=10)]}, {"copies": [a_copy(1, 101, mb=20)]}),
        (
            "clocks",
            {"kernels": [a_kernel(f"k{i}", 100 + 10 * i, 100) for i in range(5)]},
            {"kernels": [a_kernel(f"k{i}", 1.12 * (100 + 10 * i), 100) for i in range(5)]},
        ),
    ],
)
def test_doubts(code: str, before: dict[str, object], after: dict[str, object]) -> None:
    found = unstall.compare(profile(noisy(seed=1), **before), profile(noisy(seed=2), **after))
    assert codes(found) == {code} and found.verdict == "no difference"
    assert codes(unstall.compare(profile(noisy(seed=1), **before), profile(noisy(seed=2), **before))) == set()


@pytest.mark.parametrize(("ms", "verdict"), [(10.0, "inconclusive"), (9.0, "faster")])
def test_a_profiler_may_have_made_a_step_twice_as_long(ms: float, verdict: str) -> None:
    """The most that one was measured to cost is 2.06 times the step."""
    log = unstall.compare.steplog.report(noisy(ms=ms, seed=2))
    found = unstall.compare(profile(noisy(ms=20, noise=0.005, seed=1)), log)
    assert found.verdict == verdict and "profiler-one-side" in codes(found)


def test_one_slower_kernel_is_no_clock() -> None:
    old = [a_kernel(f"k{i}", 100, 100) for i in range(5)]
    new = [*old[:4], a_kernel("k4", 180, 100)]
    assert codes(unstall.compare(profile(noisy(seed=1), kernels=old), profile(noisy(seed=2), kernels=new))) == set()


def test_start_up_copies_do_not_look_like_another_batch() -> None:
    weights = a_copy(50, 4, mb=800, steady=0)
    short = profile(noisy(30, seed=1), copies=[a_copy(1, 31, steady=30), weights])
    long = profile(noisy(300, seed=2), copies=[a_copy(1, 301, steady=300), weights])
    assert "different-batch" not in codes(unstall.compare(short, long))


@pytest.mark.parametrize("unknown", [a_copy(1, 101, mb=None, source="pinned"), a_copy(1, 101, steady=None)])
def test_copies_of_unknown_size_are_not_of_no_size(unknown: CopyRow) -> None:
    """Known copies on both sides, and on one side another of which nothing is known."""
    old, new = profile(noisy(seed=1), copies=[a_copy(1, 101, mb=20)]), profile(noisy(seed=2), copies=[a_copy(1, 101)])
    assert "different-batch" in codes(unstall.compare(old, new))
    new.copies = [a_copy(1, 101), unknown]
    assert "different-batch" not in codes(unstall.compare(old, new))


def test_series_that_drift_or_jump_are_said() -> None:
    generator = np.random.default_rng(1)
    drifting = list(20 * np.exp(np.linspace(0, 0.2, 100) + generator.normal(0, 0.01, 100)))
    jumping = list(np.where(generator.random(100) < 0.5, 20, 24) * np.exp(generator.normal(0, 0.01, 100)))
    slow = list(20 * np.exp(0.1 * np.sin(np.arange(100) / 16)))
    assert "drift" in codes(unstall.compare(drifting, noisy()))
    assert "two-speeds" in codes(unstall.compare(jumping, noisy()))
    assert "correlated" in codes(unstall.compare(slow, noisy()))
    assert "few-steps" in codes(unstall.compare(noisy(12), noisy()))


def test_warm_up_and_run_ahead_are_left_out_and_said() -> None:
    ahead = [2.0] * 15 + [9.0] + noisy(40, 46)
    found = unstall.compare(ahead, [300.0, 90.0, *noisy(40, 46, seed=2)])
    assert found.verdict == "no difference" and {"run-ahead", "warm-up"} <= codes(found)
    assert (found.before.count, found.after.count) == (40, 40)


def test_warm_up_that_a_profile_still_has_is_left_out_too() -> None:
    found = unstall.compare(profile([200.0, *noisy(40, seed=1)]), profile(noisy(40, seed=2)))
    assert "warm-up" in codes(found) and found.before.count == 40


def test_a_side_s_own_warnings_that_bear_on_it_are_passed_on() -> None:
    shared = profile(noisy(seed=1), warnings=[Warning_(code="shared-gpu", text="2 processes share GPU 0")])
    found = unstall.compare(shared, profile(noisy(seed=2)))
    assert [w.text for w in found.warnings] == ["before: 2 processes share GPU 0"]
