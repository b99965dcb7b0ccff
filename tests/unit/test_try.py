"""``unstall try``: what losses and step times of runs amount to, and what runs next. The runs are made up here."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

import pytest

from unstall.commands.try_table import render
from unstall.errors import CollectionFailed
from unstall.fix import dataloader_workers
from unstall.fix.remedy import named
from unstall.instrument import Options
from unstall.model import Evidence, Finding, FixText, ProfileFacts, Report, Where
from unstall.trial import Outcome, Plan, attempt, choose, gain, losses, runs
from unstall.trial.runs import Run
from unstall.trial.standing import Standing, standing

STEPS = 60


def curve(*, noise: float = 0.0, seed: int = 0, shift: float = 0.0) -> dict[int, float]:
    draw = random.Random(seed)
    return {s: (2.0 * 0.98**s) * (1 + shift + noise * draw.gauss(0, 1)) for s in range(STEPS)}


def verdict(plain: list[dict[int, float]], changed: list[dict[int, float]], *, redraws: bool = False) -> str:
    return losses.compare(plain, changed, 1e-4, redraws=redraws).verdict


def test_losses_equal_and_within_the_tolerance() -> None:
    assert verdict([curve(), curve()], [curve()]) == "equal"
    assert verdict([curve()], [curve(noise=1e-6)]) == "agree"
    assert verdict([curve()], [curve(shift=1e-2)]) == "differ"
    assert verdict([curve()], []) == verdict([], [curve()]) == "unknown"


def test_losses_that_stray_later_differ_though_they_began_alike() -> None:
    later = {s: v * (1.3 if s > 20 else 1) for s, v in curve().items()}
    assert verdict([curve()], [later]) == "differ"
    assert verdict([curve()], [{**curve(), 40: float("nan")}]) == "differ"


def test_what_strays_is_named_and_no_step_that_does_not() -> None:
    later = {s: v * (1.3 if s > 20 else 1) for s, v in curve().items()}
    said = losses.compare([curve()], [later], 1e-4, redraws=False).text
    means = f"{fmean(later[s] for s in range(10, 60)):.6g}, plain {fmean(curve()[s] for s in range(10, 60)):.6g}"
    assert said.startswith(f"equal in the first 10 steps; mean of steps 10 to 59: {means} (allowed 0.05 %); mean +15 %")
    draws = [curve(noise=0.05, seed=1)], [curve(noise=0.05, seed=2, shift=0.2)]
    said = losses.compare(*draws, 1e-4, redraws=True).text
    assert re.match(r"mean of steps 0 to 59: 1\.\d+, plain 1\.\d+ \(allowed 0.01 %\); mean \+18 %", said)


def test_a_plain_loss_that_is_no_number_hides_no_other() -> None:
    plain = {**curve(), 40: float("nan")}
    assert verdict([plain], [{s: v * (1.3 if s > 20 else 1) for s, v in plain.items()}]) == "differ"
    assert verdict([plain], [{**plain, 40: 1.0}]) == "agree"


def test_other_random_draws_pass_only_where_they_may_and_only_on_the_same_level() -> None:
    plain, other = curve(noise=0.05, seed=1), curve(noise=0.05, seed=2)
    assert verdict([plain], [other]) == "differ"
    assert verdict([plain], [other], redraws=True) == "same level"
    assert verdict([plain, curve(noise=0.05, seed=3)], [other]) == "same level", "the plain runs differ as well"
    assert verdict([plain], [curve(noise=0.05, seed=2, shift=0.2)], redraws=True) == "differ"


def test_the_figures_are_said() -> None:
    found = losses.compare([curve()], [curve(shift=1e-2)], 1e-4, redraws=False)
    assert "1.94001, plain 1.9208 (1 %, allowed 0.01 %); mean +1 %" in found.text
    assert found.largest == pytest.approx(1e-2)


@pytest.mark.parametrize(
    ("shift", "said"),
    [
        (5e-5, "within 0.005 % in the first steps"),
        (4e-6, "within 0.0004 % in the first steps"),
        (3e-8, "agree to 7 digits in the first steps"),
        (1.2e-13, "agree to 12 digits in the first steps"),
    ],
)
def test_losses_that_are_not_equal_are_not_said_to_be_within_nothing(shift: float, said: str) -> None:
    found = losses.compare([curve()], [curve(shift=shift)], 1e-4, redraws=False)
    assert (found.verdict, found.text) == ("agree", said) and found.largest == pytest.approx(shift, rel=0.1)


def test_losses_that_part_only_after_the_first_steps_say_so() -> None:
    later = {s: v * (1 + (1e-5 if s >= losses.FIRST else 0)) for s, v in curve().items()}
    found = losses.compare([curve()], [later], 1e-4, redraws=False)
    assert found.verdict == "agree" and found.largest == 0
    assert re.fullmatch(r"equal in the first 10 steps; mean \+0\.000\d+ % ± 0\.000\d+ %", found.text)


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.0, "0 %"), (0.01, "1 %"), (1.234, "120 %"), (-3.21e-6, "-0.00032 %"), (1e-9, "<0.0001 %")],
)
def test_a_difference_is_never_rounded_to_nothing(value: float, said: str) -> None:
    assert losses._percent(value) == said


def samples(step_ms: float, seed: int) -> list[float]:
    draw = random.Random(seed)
    return [step_ms * 1e6 * (1 + 0.01 * draw.gauss(0, 1)) for _ in range(30)]


def test_gain_and_its_interval() -> None:
    found = gain.measure([samples(20, 1), samples(20, 2)], [samples(5, 3), samples(5, 4)])
    assert found is not None and found.verdict == "faster" and found.tight
    assert found.low <= 4.0 * 1.02 and found.high >= 4.0 * 0.98 and found.low > 3.9 and found.high < 4.1
    same = gain.measure([samples(20, 1), samples(20, 2)], [samples(20, 3), samples(20, 4)])
    assert same is not None and same.verdict == "no difference"
    assert gain.measure([], [samples(5, 3)]) is None


def test_the_ratio_is_that_of_the_times_shown() -> None:
    steps = {True: iter([20, 90, 50]), False: iter([10, 40, 30])}

    def once(command: Sequence[str], names: Sequence[str], **limits: Any) -> Run:
        return Run(0, 0.01, samples(next(steps[not names], 30), 1), curve(), gpu=True)

    outcome = tried(["gc-freeze"], once)
    (row,) = outcome.rows
    assert row.ratio == pytest.approx((outcome.plain_step_ns or 0) / (row.step_ns or 1))


def test_runs_that_differ_among_themselves_make_the_interval_wide() -> None:
    found = gain.measure([samples(20, 1), samples(30, 2)], [samples(19, 3), samples(29, 4)])
    assert found is not None and found.low < 20 / 29 * 1.05 and found.high > 30 / 19 * 0.95
    assert found.verdict == "inconclusive"


ONE_RUN = "one run a side: runs differ by more than steps do"


@pytest.mark.parametrize(
    ("interval", "runs", "plain", "stands"),
    [
        ((4.0, 3.9, 4.1), 1, 1, Standing("faster", "", done=False)),  # believed, should the time be out
        ((1.3, 1.29, 1.31), 1, 2, Standing("inconclusive", ONE_RUN, done=False)),
        ((1.3, 1.29, 1.31), 2, 1, Standing("inconclusive", ONE_RUN, done=False)),
        ((1.3, 1.29, 1.31), 2, 2, Standing("faster", "", done=True)),
        ((1.3, 1.0, 1.6), 2, 2, Standing("inconclusive", "", done=False)),
        ((0.5, 0.49, 0.5), 1, 1, Standing("slower", "given up after one run: at least 100% slower", done=True)),
        ((0.98, 0.90, 1.04), 2, 2, Standing("inconclusive", "given up after 2 runs: at best 4% faster", done=True)),
    ],
)
def test_where_a_candidate_stands(
    interval: tuple[float, float, float], runs: int, plain: int, stands: Standing
) -> None:
    assert standing(gain.Gain(*interval), runs, plain) == stands


Times = dict[str, float]


def world(times: Times, **special: Callable[[], Run]) -> tuple[Callable[..., Run], list[str]]:
    """A program whose step takes ``times[""]`` ms plain, ``times[name]`` with a remedy; and the order of its runs."""
    order: list[str] = []

    def once(command: Sequence[str], names: Sequence[str], **limits: Any) -> Run:
        key = "+".join(names)
        order.append(key)
        if key.replace("-", "_") in special:
            return special[key.replace("-", "_")]()
        return Run(0, 0.01, samples(times[key], len(order)), curve(), gpu=True)

    return once, order


def tried(names: Sequence[str], once: Callable[..., Run], **more: Any) -> Outcome:
    return attempt(Plan(["python", "train.py"], names, **{"predicted": {}, "budget": 60.0, **more}), once=once)


def test_plain_and_changed_runs_alternate_until_it_is_settled() -> None:
    once, order = world({"": 20, "prefetch": 5})
    (row,) = tried(["prefetch"], once, predicted={"prefetch": 4_000_000}).rows
    assert order == ["", "prefetch", "", "prefetch"]
    assert row.verdict == "faster" and row.ratio == pytest.approx(4, rel=0.02)
    assert row.predicted_ratio == pytest.approx(5, rel=0.02)


def test_winners_are_measured_together_and_rivals_are_not_combined() -> None:
    times = {"": 20, "prefetch": 10, "fused-optimizer": 15, "foreach-optimizer": 16, "gc-freeze": 20}
    once, _ = world({**times, "prefetch+fused-optimizer": 5})
    outcome = tried(["prefetch", "fused-optimizer", "foreach-optimizer", "gc-freeze"], once)
    assert [r.name for r in outcome.rows][:2] == ["prefetch + fused-optimizer", "prefetch"]
    assert outcome.rows[0].ratio == pytest.approx(4, rel=0.02)
    assert next(r for r in outcome.rows if r.name == "gc-freeze").verdict == "no difference"
    text = render(outcome, 120)
    assert "prefetch + fused-optimizer" in text and "torch.optim.AdamW(…, fused=True)" in text


def test_a_crash_is_a_row_and_runs_no_more() -> None:
    once, order = world({"": 20, "prefetch": 5}, compile=lambda: Run(1, 0.01, reason="exit code 1: ValueError: no"))
    rows = {r.name: r for r in tried(["compile", "prefetch"], once).rows}
    assert rows["compile"].verdict == "crashed" and "ValueError: no" in rows["compile"].reason
    assert rows["prefetch"].verdict == "faster" and order.count("compile") == 1


def test_a_change_of_training_is_rejected_however_fast_it_is() -> None:
    def other() -> Run:
        return Run(0, 0.01, samples(5, 9), curve(shift=0.1), gpu=True)

    once, order = world({"": 20}, bf16_autocast=other)
    (row,) = tried(["bf16-autocast"], once).rows
    assert row.verdict == "rejected" and "allowed 3 %" in row.reason and order.count("bf16-autocast") == 1
    assert "Nothing that was tried is faster" in render(tried(["bf16-autocast"], once), 100)


def test_without_a_gpu_what_needs_one_is_not_run() -> None:
    def once(command: Sequence[str], names: Sequence[str], **limits: Any) -> Run:
        assert "tf32" not in names
        return Run(0, 0.01, samples(20, 1), curve(), gpu=False)

    assert {r.name: r.verdict for r in tried(["tf32", "gc-freeze"], once).rows}["tf32"] == "not applicable"


def test_a_hopeless_candidate_is_given_up_after_its_first_run() -> None:
    once, order = world({"": 20, "compile": 60, "prefetch": 5})
    rows = {r.name: r for r in tried(["compile", "prefetch"], once).rows}
    assert rows["compile"].verdict == "slower" and order.count("compile") == 1
    assert "given up after one run: at least 1" in rows["compile"].reason
    assert rows["prefetch"].verdict == "faster"


def test_a_candidate_that_can_gain_next_to_nothing_is_given_up_after_two_runs() -> None:
    steps = iter([21, 26, 22, 21, 22, 21])

    def slower() -> Run:
        return Run(0, 0.01, samples(next(steps), 7), curve(), gpu=True)

    once, order = world({"": 20}, gc_freeze=slower)
    (row,) = tried(["gc-freeze"], once).rows
    assert order.count("gc-freeze") == 2 and row.verdict == "slower" and "given up after 2 runs" in row.reason


def test_workers_are_as_many_as_the_profile_advises() -> None:
    said: list[Any] = []

    def once(command: Sequence[str], names: Sequence[str], **limits: Any) -> Run:
        said.append(limits["workers"])
        return Run(0, 0.01, samples(5 if names else 20, len(said)), curve())

    (row,) = tried(["dataloader-workers"], once, workers=7).rows
    assert set(said) == {7} and "num_workers=7" in row.write[0]


def test_the_program_that_is_tried_hears_of_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    env = runs._environ(Options(), named(["dataloader-workers"]), 50, 10.0, 7)
    monkeypatch.setenv(dataloader_workers.ADVISED, env[dataloader_workers.ADVISED])
    assert dataloader_workers.workers() == 7
    assert dataloader_workers.tuned(dataloader_workers.REMEDY, 7).lead == 14


@pytest.mark.parametrize(("ms", "verdict"), [(11, "inconclusive"), (5, "faster")])
def test_one_run_a_side_is_believed_where_no_two_runs_differ_as_much(ms: float, verdict: str) -> None:
    def once(command: Sequence[str], names: Sequence[str], **limits: Any) -> Run:
        return Run(0, 40.0, samples(ms if names else 20, 1), curve())

    (row,) = tried(["prefetch"], once, budget=70.0).rows
    assert (row.runs, row.verdict, "one run a side" in row.reason) == (1, verdict, verdict != "faster")


def test_no_time_is_said() -> None:
    def once(command: Sequence[str], names: Sequence[str], **limits: Any) -> Run:
        return Run(0, 40.0, samples(5 if names else 20, 1), curve())

    rows = {r.name: r for r in tried(["prefetch", "gc-freeze"], once, budget=1.0).rows}
    assert {r.verdict for r in rows.values()} == {"not measured"} and "--budget" in rows["prefetch"].reason


def test_a_program_without_steps_ends_with_its_own_code() -> None:
    with pytest.raises(CollectionFailed, match="gave no step times: exit code 7") as caught:
        tried(["prefetch"], lambda *a, **k: Run(7, 0.01, reason="exit code 7"))
    assert caught.value.exit_code == 7


def test_candidates_come_from_the_findings() -> None:
    def finding(code: str, trial: str | None, step_ns: int | None) -> Finding:
        fix = FixText(title="t", safety="safe", text="t", trial=trial)
        return Finding(
            code=code, title="t", where=Where(), cost_ns_per_step=1, predicted_step_ns=step_ns, predicted_low_ns=None,
            predicted_high_ns=None, predicted_speedup=None, confidence="high", evidence=[Evidence(text="e")], fix=fix,
        )  # fmt: skip

    facts = ProfileFacts(path="p", producer="nsys", producer_version="", schema_version="", duration_ns=1)
    report = Report(
        profile=facts, findings=[finding("host-data-loading", "dataloader-workers", 3), finding("fp32-matmul", None, 4)]
    )
    names, predicted = choose.from_findings(report)
    assert names[0] == "dataloader-workers" and {"prefetch", "tf32"} <= set(names) and "threads" not in names
    assert predicted == {"dataloader-workers": 3}
