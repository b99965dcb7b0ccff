"""Gates: the language, the figures, what fails and with which words, and what cannot be checked."""

from __future__ import annotations

import contextlib
import re

import pytest
from compare_sides import a_breakdown, a_copy, a_range, noisy, profile
from hypothesis import given
from hypothesis import strategies as st

import unstall
from unstall.compare import gate
from unstall.compare.baseline import slim
from unstall.compare.expression import parse
from unstall.compare.metrics import Known
from unstall.compare.sides import choose
from unstall.errors import GateFailed, UsageError
from unstall.model import TABLES, Finding, FixText, NotChecked, Report, Where
from unstall.report.json import from_json, to_json

CODES = {"launch-bound", "pageable-copy"}
CATEGORIES = {
    "gpu_compute": ("kernels",),
    "data_loading": ("ranges", "copies"),
    "file_io": ("osrt",),
    "gil_wait": ("gil",),
}


def finding(code: str, main: bool = True) -> Finding:
    return Finding(
        code=code, title="t", where=Where(), cost_ns_per_step=1, predicted_step_ns=None, predicted_low_ns=None,
        predicted_high_ns=None, predicted_speedup=None, confidence="high", evidence=[], main=main,
        fix=FixText(title="f", safety="safe", text="do it"),
    )  # fmt: skip


def hold(expression: str, before: Report, after: Report) -> None:
    gate.check([parse(expression)], choose(before, after)[1], unstall.compare(before, after), Known(CODES, CATEGORIES))


def side(ms: float = 20.0, seed: int = 2, **other: object) -> Report:
    return profile(noisy(ms=ms, seed=seed), **other)


@pytest.mark.parametrize(
    "expression",
    [
        "slower", "step_ms > 25", "step_ms>25 and ratio<0.95", "slower or faster", "p90_ms >= 25", "mean_ms > 25",
        "max_ms > 25", "before_step_ms < 25", "slowdown_percent > 40", "gpu_busy_percent < 51", "gpu_busy_ms > 14",
        "kernels_per_step == 40", "steps != 7", "ratio_high < 1", "ratio_low < 1", "p10_ms > 25",
        "faster or step_ms > 25", "findings > 0", "findings.launch-bound >= 1", "category.data_loading_ms > 1",
        "category.data_loading_percent > 90", "category.file_io_ms < 1", "steps >= 1e2 and slower",
    ],
)  # fmt: skip
def test_fails(expression: str) -> None:
    after = side(30, findings=[finding("launch-bound")], breakdown=[a_breakdown(gpu_compute=1, data_loading=20)])
    with pytest.raises(GateFailed) as caught:
        hold(expression, side(20, 1), after)
    assert str(caught.value).startswith("gate failed: ") and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "expression", ["slower", "faster", "inconclusive", "step_ms > 30", "step_ms > 30 and no-difference", "findings > 0"]
)
def test_holds(expression: str) -> None:
    hold(expression, side(20, 1), side(20, findings=[finding("launch-bound", main=False)]))


def test_the_line_says_the_figure_and_the_limit() -> None:
    with pytest.raises(GateFailed, match=r"step_ms is (29|30)\.\d+ \(step_ms > 25\)"):
        hold("step_ms > 25", side(20, 1), side(30))
    with pytest.raises(GateFailed, match=r"slower \([\d.]+ ms → [\d.]+ ms a step, 0\.6\d+×, 95 %"):
        hold("slower", side(20, 1), side(30))


def test_an_interval_of_too_few_steps_is_not_known() -> None:
    with pytest.raises(GateFailed, match=r"ratio_low is not known: .*1 steady step, and fewer than 5"):
        hold("ratio_low < 1.1", profile([20.0]), profile([10.0]))


def test_all_that_fail_are_named() -> None:
    before, after = side(20, 1), side(30)
    with pytest.raises(GateFailed, match=r"step_ms.*; .*slower"):
        gates = [parse(e) for e in ("step_ms > 25", "faster", "slower")]
        gate.check(gates, choose(before, after)[1], unstall.compare(before, after))


def test_inconclusive_is_not_slower_and_can_be_refused() -> None:
    before, after = profile(noisy(6)), profile(noisy(6, noise=0.5, seed=3))
    hold("slower", before, after)
    with pytest.raises(GateFailed, match="inconclusive"):
        hold("slower or inconclusive", before, after)


@pytest.mark.parametrize(
    "expression", ["gpu_busy_percent < 50", "findings > 0", "kernels_per_step > 9", "category.data_loading_ms > 1"]
)
def test_what_is_not_known_is_not_clean(expression: str) -> None:
    log = unstall.compare.steplog.report(noisy())
    with pytest.raises(GateFailed, match="could not be checked"):
        hold(expression, side(20, 1), log)


def test_a_rule_that_could_not_run_has_not_found_nothing() -> None:
    after = side(20, not_checked=[NotChecked(code="pageable-copy", reason="no copies")])
    hold("findings.launch-bound > 0", side(20, 1), after)
    words = r"findings\.pageable-copy is not known of after \(a\.sqlite\): pageable-copy was not checked \(no copies\)$"
    with pytest.raises(GateFailed, match=words):
        hold("findings.pageable-copy > 0", side(20, 1), after)


def test_the_number_of_findings_is_not_known_where_a_rule_could_not_run() -> None:
    rank = NotChecked(code="launch-bound", reason="one rank", applies=False)
    section = NotChecked(code="samples", reason="no samples")
    hold("findings > 0", side(20, 1), side(20, not_checked=[rank, section]))
    gone = [NotChecked(code=c, reason=f"no {c}") for c in sorted(CODES)]
    after = side(20, findings=[finding("launch-bound")], not_checked=gone)
    for expression in ("findings > 1", "findings == 1", "findings <= 1", "findings != 2"):
        with pytest.raises(GateFailed, match=r"not checked \(no launch-bound\), nor were pageable-copy$"):
            hold(expression, side(20, 1), after)
    hold("findings < 1", side(20, 1), after)
    with pytest.raises(GateFailed, match=r"findings is 1 \(findings > 0\)$"):
        hold("findings > 0", side(20, 1), after)


def test_a_table_of_sums_has_no_findings_to_count() -> None:
    after = side(20, not_checked=[NotChecked(code="findings", reason="only sums")])
    for expression in ("findings > 0", "findings.launch-bound > 0"):
        with pytest.raises(GateFailed, match=r"findings were not checked \(only sums\)"):
            hold(expression, side(20, 1), after)


def test_a_category_takes_no_time_only_where_it_would_have_been_seen() -> None:
    shares, gone = [a_breakdown(gpu_compute=5)], [NotChecked(code="gil", reason="GIL waits: not traced")]
    after = side(20, breakdown=shares, tables={"kernels": 1, "osrt": 0}, not_checked=gone)
    hold("category.file_io_ms > 1", side(20, 1), after)
    with pytest.raises(GateFailed, match=r"gil_wait_ms is not known of after \(a\.sqlite\): GIL waits: not traced$"):
        hold("category.gil_wait_ms > 1", side(20, 1), after)
    with pytest.raises(GateFailed, match=r"needs ranges or copies, which the capture lacks"):
        hold("category.data_loading_percent > 1", side(20, 1), after)
    after.breakdown = [a_breakdown(data_loading=5)]
    with pytest.raises(GateFailed, match=r"data_loading_ms is 5 "):
        hold("category.data_loading_ms > 1", side(20, 1), after)


def test_every_category_says_which_tables_tell_of_it() -> None:
    from unstall.analyze.breakdown import CATEGORIES as ALL
    from unstall.analyze.breakdown import TOLD_BY

    assert tuple(TOLD_BY) == ALL and {t for tables in TOLD_BY.values() for t in tables} <= TABLES.keys()


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("category.data_laoding_ms", "category.data_loading_ms"), ("category.data_loading", "category.data_loading_ms"),
        ("findings.pagable-copy", "findings.pageable-copy"), ("step_time_ms", "step_ms"), ("finding", "findings"),
    ],
)  # fmt: skip
def test_the_nearest_name_is_said(name: str, near: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"Did you mean {near}? ")):
        gate.understand([parse(f"slower or {name} > 3")], Known(CODES, CATEGORIES))


def test_a_word_is_not_clean_where_nothing_could_be_compared() -> None:
    for before, after in ((side(20, 1), profile([])), (profile([]), side(20, 1))):
        for expression in ("slower", "faster", "slower and ratio < 1", "no-difference"):
            with pytest.raises(GateFailed, match=r"could not be checked: (before|after): no steady steps"):
                hold(expression, before, after)
        with pytest.raises(GateFailed, match="gate failed: inconclusive"):
            hold("slower or inconclusive", before, after)


def test_unknown_matters_only_where_the_outcome_hangs_on_it() -> None:
    log = unstall.compare.steplog.report(noisy())
    hold("gpu_busy_percent < 50 and step_ms > 1000", side(20, 1), log)
    with pytest.raises(GateFailed, match="step_ms is"):
        hold("gpu_busy_percent < 50 or step_ms > 1", side(20, 1), log)


@pytest.mark.parametrize(
    "text",
    ["", "  ", "step_ms", "step_ms >", "step_ms > fast", "> 30", "step_ms > 30 ms", "step_ms > 30 step_ms < 3",
     "slower and", "or slower", "30 < step_ms", "step_ms => 30", "__import__('os')", "slower; rm", "no difference",
     "step_ms > 1e400", "step_ms > -1e999"],
)  # fmt: skip
def test_not_an_expression(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert "docs/compare.md" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "name",
    ["step_time > 3", "findings.nonsense > 0", "findings. > 0", "category.x > 1", "steps.x > 1",
     "category.data_laoding_ms > 5", "category.computing_hard_percent > 5", "category._ms > 1"],
)  # fmt: skip
def test_no_such_figure(name: str) -> None:
    with pytest.raises(UsageError, match=r"no such figure|no finding has that code|no category has that name"):
        hold(name, side(20, 1), side())


@given(st.text(max_size=40))
def test_any_text_is_an_expression_or_refused(text: str) -> None:
    with contextlib.suppress(UsageError):
        assert parse(text).groups


# -- budgets -------------------------------------------------------------------------------------------------

TOML = """
fail_if = ["slower", "ratio < 0.9 and steps > 20"]
step_ms = 30
gpu_busy_percent = 60
"findings" = 0
category.data_loading_ms = { max = 5 }
p90_ms = { min = 1, max = 40 }
[findings_of]
"""


def test_budget_in_toml_and_json() -> None:
    toml = gate.budget(TOML.replace("[findings_of]\n", ""), "b.toml")
    json = gate.budget(
        '{"budget": {"fail_if": ["slower", "ratio < 0.9 and steps > 20"], "step_ms": 30, "gpu_busy_percent": 60, '
        '"findings": 0, "category": {"data_loading_ms": {"max": 5}}, "p90_ms": {"min": 1, "max": 40}}}', "b.json",
    )  # fmt: skip
    assert [e.text for e in toml] == [e.text for e in json]
    assert [e.text for e in toml][2:] == [
        "step_ms > 30", "gpu_busy_percent < 60", "findings > 0", "category.data_loading_ms > 5", "p90_ms < 1",
        "p90_ms > 40",
    ]  # fmt: skip


def test_budget_of_one_finding() -> None:
    gates = gate.budget('{"findings": {"pageable-copy": 0}, "fail_if": "slower"}', "b.json")
    assert [e.text for e in gates] == ["findings.pageable-copy > 0", "slower"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "JSON"), ("= 3", "TOML"), ("", "no limits"), ("{}", "no limits"), ('{"budget": 3}', "no limits"),
        ('{"step_ms": "30"}', "no number"), ('{"step_ms": true}', "no number"), ('{"fail_if": ["oops"]}', "no verdict"),
        ('{"step_ms": {"max": null}}', "no number"), ("step_ms = {}", "no limit given"), ("fail_if = []", "no limits"),
        ("[findings]", "no limit given"), ('{"step_ms": 30, "step_ms": 9999}', "given twice"),
    ],
)  # fmt: skip
def test_budget_refused(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        gate.budget(text, "budget.toml")


# -- baseline ------------------------------------------------------------------------------------------------


def test_baseline_compares_like_the_report_and_keeps_no_secrets() -> None:
    report = side(20, 1, path="/home/kim/secret/run.sqlite", host="gpu-17", findings=[finding("launch-bound")])
    kept = from_json(to_json(slim(report)))
    assert unstall.compare(kept, side(30)) == unstall.compare(report, side(30))
    assert b"kim" not in to_json(kept) and b"gpu-17" not in to_json(kept)
    assert kept.profile.path == "run.sqlite" and [f.code for f in kept.findings] == ["launch-bound"]


def test_baseline_of_a_long_run_stays_small() -> None:
    long = profile(noisy(50_000))
    kept = slim(long)
    assert len(kept.steps[0].samples_ns) == 1000 and len(to_json(kept)) < 20_000
    assert unstall.compare(kept, long).verdict == "no difference"


def test_a_baseline_of_a_long_run_copies_as_much_a_step_and_takes_as_long_in_its_ranges() -> None:
    """Of 4000 steps it keeps 1000 samples, and the sums of all."""
    n = 4000
    long = profile(noisy(n), copies=[a_copy(1, n, steady=n)], ranges=[a_range("forward", 5, n)])
    found = unstall.compare(slim(long), long)
    assert "different-batch" not in {w.code for w in found.warnings} and found.moved == []


def test_blanks_and_long_texts_cost_nothing_and_hide_no_reason() -> None:
    assert parse("slower" + " " * 100_000 + "or ratio<1").names == ("ratio",)
    with pytest.raises(UsageError) as error:
        parse("slower" + " " * 100_000 + "$")
    assert len(str(error.value)) < 500 and "understood from '$'" in str(error.value)
