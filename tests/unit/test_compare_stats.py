"""The statistics alone: what must hold for any samples, and rates of error on made-up ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from unstall import stats
from unstall.compare.settled import settled

Floats = npt.NDArray[np.float64]
RECORDED = sorted((Path(__file__).parents[1] / "data" / "steps").glob("*.txt"))

samples = st.lists(st.floats(0.1, 1000.0), min_size=1, max_size=60)
few = settings(max_examples=40, deadline=None)


def interval(before: object, after: object) -> stats.Ratio:
    return stats.ratio_of_medians(stats.describe(np.asarray(before)), stats.describe(np.asarray(after)))


def remembering(generator: np.random.Generator, n: int, rho: float) -> Floats:
    out, level = np.empty(n), generator.normal()
    for i, shock in enumerate(generator.normal(0, math.sqrt(1 - rho * rho), n)):
        level = rho * level + shock
        out[i] = level
    return out


@few
@given(samples, samples)
def test_interval_holds_the_ratio(before: list[float], after: list[float]) -> None:
    found = interval(before, after)
    assert found.value == pytest.approx(np.median(before) / np.median(after))
    assert 0 < found.low <= found.value * (1 + 1e-12) and found.value <= found.high * (1 + 1e-12)


@few
@given(samples, samples)
def test_swapping_the_sides_inverts_everything(before: list[float], after: list[float]) -> None:
    one, other = interval(before, after), interval(after, before)
    assert (one.value, one.low, one.high) == pytest.approx((1 / other.value, 1 / other.high, 1 / other.low), rel=1e-9)


@few
@given(samples, samples, st.sampled_from([2.0**-20, 0.25, 8.0, 2.0**20]))
@example([1.0], [1.0] * 6 + [2.0] * 3 + [3.0], 2.0**-20)
def test_the_unit_does_not_matter(before: list[float], after: list[float], scale: float) -> None:
    one, other = interval(before, after), interval(np.array(before) * scale, np.array(after) * scale)
    assert (one.value, one.low, one.high) == pytest.approx((other.value, other.low, other.high), rel=1e-6)


@few
@given(samples)
def test_the_same_samples_give_the_same_figures(values: list[float]) -> None:
    one, other = stats.describe(values), stats.describe(values)
    assert one == other
    assert 1 <= one.effective <= one.count or one.count == 1


def test_constant_samples_have_no_spread() -> None:
    found = interval([20.0] * 50, [10.0] * 50)
    assert (found.value, found.low, found.high) == pytest.approx((2.0, 2.0, 2.0))


def test_an_outlier_moves_the_median_little_and_the_mean_much() -> None:
    calm = 10 * np.exp(np.random.default_rng(0).normal(0, 0.02, 100))
    wild = calm.copy()
    wild[::20] *= 30
    assert interval(calm, wild).value == pytest.approx(1, abs=0.01)
    means = stats.ratio_of_means(stats.describe(calm), stats.describe(wild))
    assert means.value < 0.5 and means.high < 1


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.8, 0.9])
def test_correlation_time_is_found(rho: float) -> None:
    generator = np.random.default_rng(2)
    found = [stats.correlation_time(remembering(generator, 2000, rho)) for _ in range(10)]
    assert np.median(found) == pytest.approx((1 + rho) / (1 - rho), rel=0.25)


def test_correlation_widens_the_interval() -> None:
    generator = np.random.default_rng(3)

    def width(rho: float) -> float:
        found = [interval(*np.exp([0.03 * remembering(generator, 300, rho) for _ in range(2)])) for _ in range(9)]
        return float(np.median([math.log(r.high / r.low) for r in found]))

    assert width(0.9) > 2.5 * width(0.0), "300 steps with correlation 0.9 are worth 16"


def test_few_samples_widen_the_interval() -> None:
    x = np.exp(0.02 * np.random.default_rng(4).normal(size=200))
    assert math.log(interval(x[:5], x[5:10]).high) > 4 * math.log(interval(x[:100], x[100:]).high) > 0


def test_drift_through_both_sides_is_no_difference_made() -> None:
    generator = np.random.default_rng(5)
    x = 20 * np.exp(np.linspace(0, 0.1, 200) + generator.normal(0, 0.01, 200))
    found = interval(x[:100], x[100:])
    assert found.value == pytest.approx(math.exp(-0.05), abs=0.01)
    assert found.low < 1 < found.high, "it would have come about without any change"
    assert stats.describe(x).drift == pytest.approx(0.1, abs=0.01)


def test_an_interval_ends_at_samples_and_holds_the_second_level() -> None:
    """Of 100 independent samples about 40 to 60 lie below the true median, and every step between those two counts."""
    x = np.concatenate([np.full(45, 10.0), np.full(55, 20.0)])
    side = stats.describe(np.random.default_rng(8).permutation(x))
    assert side.median == 20 and side.median / math.exp(side.below) == pytest.approx(10), "the other level may be it"
    assert side.above == 0, "no sample is longer"


def test_samples_that_never_meet_are_different_however_slow_they_change() -> None:
    """20 steps that hang together are worth one or two; from a factor of 1.4 on what they show is believed."""
    wave = np.exp(0.1 * np.sin(2 * np.pi * np.arange(20) / 20))
    assert stats.describe(wave).effective < 2
    found = interval(10.9 * wave, 6.5 * wave)
    assert found.low == pytest.approx(10.9 / 6.5 / stats.APART) and found.high == pytest.approx(
        10.9 / 6.5 * stats.APART
    )
    assert interval(1.35 * wave, wave).low < 1, "a level that lasts has done as much"
    assert interval(10.9 * wave[:19], 6.5 * wave[:19]).low < 1, "15 steps of one run were 20 times apart"


def test_a_run_that_drifts_far_is_not_taken_for_two() -> None:
    """Its halves share no step time and lie more than the factor apart; the drift in them explains it."""
    x = np.exp(np.linspace(0, 1, 60) + 0.01 * np.random.default_rng(11).normal(size=60))
    found = interval(x[:30], x[30:])
    assert found.value < 1 / stats.APART and x[:28].max() < x[32:].min()
    assert found.low < 1 < found.high


def test_trends_that_point_opposite_ways_do_not_cancel() -> None:
    up = np.exp(np.linspace(0, 0.1, 100) + 0.005 * np.random.default_rng(10).normal(size=100))
    assert interval(up, up[::-1]).high > 1.08 and interval(up, up[::-1]).low < 1 / 1.08


@pytest.mark.parametrize("n", [20, 30, 100])
@pytest.mark.parametrize("rho", [0.8, 0.95])
def test_large_effects_are_caught_in_correlated_steps(n: int, rho: float) -> None:
    generator = np.random.default_rng(9)
    pairs = [np.exp(0.03 * np.array([remembering(generator, n, rho) for _ in range(2)])) for _ in range(100)]
    assert sum(interval(1.6 * b, a).low > 1 for b, a in pairs) >= 99
    assert sum(r.low > 1 or r.high < 1 for r in (interval(b, a) for b, a in pairs)) <= 8


def test_means_of_bursts_come_from_stretches_that_hold_several() -> None:
    """Every fourth step waits: the means of stretches are alike, though half of all variance is in those steps."""
    x = np.tile([1.0, 1.0, 1.0, 17.0], 25)
    found = stats.ratio_of_means(stats.describe(x), stats.describe(np.roll(x, 1) / 1.3))
    assert found.value == pytest.approx(1.3) and 1 < found.low < found.high < 1.7


def test_a_side_without_a_long_step_does_not_know_that_there_are_none() -> None:
    """Two steps of 4 ms among 20 of 0.18, and by chance none: no three times slower program."""
    some = 0.18 * np.exp(0.02 * np.random.default_rng(12).normal(size=20))
    none = some[::-1].copy()
    some[[2, 14]] = 4.3
    found = stats.ratio_of_means(stats.describe(some), stats.describe(none))
    assert found.value > 3 and found.low < 1


def test_a_short_side_has_no_error_it_could_know() -> None:
    assert stats.describe([3.0]).mean_error == 0 and stats.describe([3.0]).stretches == 1
    assert stats.describe([3.0, 4.0]).mean_error > 0


def errors(draw: Callable[[np.random.Generator], tuple[Floats, Floats]], pairs: int = 200) -> float:
    """Share of A/A pairs whose interval leaves 1 out."""
    generator = np.random.default_rng(6)
    found = [interval(*draw(generator)) for _ in range(pairs)]
    return sum(r.low > 1 or r.high < 1 for r in found) / pairs


def twice(logs: Callable[[np.random.Generator], Floats]) -> Callable[[np.random.Generator], tuple[Floats, Floats]]:
    return lambda g: (np.exp(logs(g)), np.exp(logs(g)))


AA = {
    "independent": twice(lambda g: 0.03 * g.normal(size=60)),
    "correlated": twice(lambda g: 0.03 * remembering(g, 60, 0.8)),
    "slow": twice(lambda g: 0.03 * remembering(g, 100, 0.95)),
    "outliers": twice(lambda g: 0.03 * g.normal(size=60) + (g.random(60) < 0.05) * g.uniform(0.7, 2.3, 60)),
    "drift in each": twice(lambda g: np.linspace(0, 0.1, 60) + 0.02 * g.normal(size=60)),
    "two speeds": twice(lambda g: 0.2 * (g.random(60) < 0.5) + 0.02 * g.normal(size=60)),
}


@pytest.mark.parametrize("name", AA)
def test_an_interval_misses_the_truth_rarely(name: str) -> None:
    assert errors(AA[name]) <= 0.05


def test_a_slowdown_of_five_percent_is_caught() -> None:
    generator = np.random.default_rng(7)
    pairs = [np.exp(generator.normal(0, 0.02, (2, 100))) for _ in range(200)]
    assert sum(interval(b, 1.05 * a).high < 1 for b, a in pairs) >= 190


@pytest.mark.parametrize("file", RECORDED, ids=lambda f: f.stem)
def test_recorded_runs_that_take_turns_agree(file: Path) -> None:
    """Blocks of 25 steps, dealt to two sides in turn: the machine's moods meet both."""
    x = np.loadtxt(file)
    x = x[settled(x).first :]
    found = []
    for start in range(0, x.size - 400, 100):
        mine = (np.arange(400) // 25) % 2 == 0
        found.append(interval(x[start : start + 400][mine], x[start : start + 400][~mine]))
    assert sum(r.low > 1 or r.high < 1 for r in found) <= max(1, 0.1 * len(found))
