"""Where steady state begins: slow starts, fast starts, and series that have neither."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from compare_sides import noisy

from unstall.compare.settled import settled

TRUTHS = sorted((Path(__file__).parents[3] / "shared" / "profiles").glob("*.truth.json"))

# host times of a GPU-bound run: the launch queue takes 11 steps at once, the 12th waits for room
AHEAD = [2.99, 2.26, 2.16, 1.98, 1.9, 1.74, 1.69, 2.06, 2.13, 1.77, 1.68, 44.78]
AFTER = [50.5, 51.22, 51.21, 51.37, 51.81, 51.67, 51.55, 55.13, 61.47, 57.64, 54.27, 53.05, 52.66, 52.92, 52.31, 51.79]


def test_run_ahead_is_left_out() -> None:
    found = settled(AHEAD + AFTER)
    assert (found.first, found.reason) in {(11, "run-ahead"), (12, "run-ahead")}


def test_run_ahead_longer_than_the_rest() -> None:
    x = [1.5] * 25 + [16.55, 46.15, 46.15, 46.1, 46.2, 46.09, 46.15]
    assert settled(x).first == 26


def test_the_step_in_which_the_queue_fills_goes_too() -> None:
    assert settled([2.0] * 10 + [9.0] + [20.0] * 20).first == 11


def test_warm_up_is_left_out() -> None:
    found = settled([290.0, 31.0, *noisy(40)])
    assert (found.first, found.reason) == (2, "warm-up")


@pytest.mark.parametrize(
    "x",
    [
        noisy(100),
        [7.3, 8.9] * 30,  # two speeds in turn
        [10.0, 10.0, 10.0, 30.0] * 20,  # accumulation: every fourth step is long
        [30.0, 10.0, 10.0, 10.0] * 20 + [30.0] * 3,
        list(np.linspace(20, 24, 50)),
        [20.0],
        [20.0, 21.0],
    ],
    ids=["noise", "alternating", "accumulating", "long last steps", "drift", "one", "two"],
)
def test_steady_series_are_kept_nearly_whole(x: list[float]) -> None:
    assert settled(x).first <= 1


def test_a_long_slow_start_is_cut_to_half_at_most() -> None:
    assert settled([100.0] * 30 + [10.0] * 10).first <= 20


def test_nothing_to_settle() -> None:
    assert settled([]).first == 0 and settled([]).words(0, "x") == []


@pytest.mark.parametrize("file", TRUTHS, ids=lambda f: f.name.partition(".")[0])
def test_real_host_times_settle_at_the_measured_step(file: Path) -> None:
    truth = json.loads(file.read_text(encoding="utf-8"))
    x = np.array(truth["host_step_ms"])
    assert np.median(x[settled(x).first :]) == pytest.approx(truth["unprofiled_ms"], rel=0.06)


def test_real_host_times_are_at_hand() -> None:
    if not TRUTHS:
        pytest.skip("no ../shared/profiles/*.truth.json beside this repository")
