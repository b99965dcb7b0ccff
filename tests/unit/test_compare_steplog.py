"""Plain step times: what is read, what is passed over, and what is refused with the line that is wrong."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

import unstall
from unstall.compare import steplog
from unstall.errors import NotAProfile, UsageError


def samples(text: str) -> list[float]:
    row = steplog.read(text, "steps.txt").steps[0]
    return [ns / 1e6 for ns in row.samples_ns]


@pytest.mark.parametrize(
    "text",
    [
        "20\n21\n22\n",
        "20.0\r\n21.0\r\n22.0",
        "\ufeff20\n\n  21  \n\t22\n\n",
        "# step times of run 7\n20\n21 # the second\n22\n",
        "step_ms\n20\n21\n22\n",
        "20 ms\n21ms\n22,\n",
        "0.020 s\n0.021 s\n0.022 s\n",
        "20000 us\n21000µs\n22000 us\n",
        "2e1\n2.1E+1\n+22\n",
        "[20, 21, 22]",
        "[\n 20.0,\n 21.0,\n 22.0\n]\n",
    ],
)
def test_read(text: str) -> None:
    assert samples(text) == pytest.approx([20, 21, 22])
    assert steplog.looks_like(text)


def test_a_few_other_lines_are_left_out_and_said() -> None:
    report = steplog.read("\n".join(["20"] * 15 + ["loss 0.1"] + ["21"] * 15), "steps.txt")
    assert report.steps[0].count == 30
    warning = next(w for w in report.warnings if w.code == "stray-lines")
    assert "line 16" in warning.text
    found = unstall.compare(report, report)
    assert "before: " in next(w.text for w in found.warnings if w.code == "stray-lines")


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", "no step times"),
        ("# nothing\n\n", "no step times"),
        ("20\n21\nloss 0.1\n", "line 3"),
        ("20\n-3\n", "line 2"),
        ("20\n0\n", "line 2"),
        ("20\nnan\n", "line 2"),
        ("20\ninf\n", "line 2"),
        ("1 20\n2 21\n", "line 1"),
        ("20 miles\n21 miles\n", "line 1"),
        ("[20, 21", "JSON list"),
        ("[20, null]", "JSON list"),
        ('["a"]', "JSON list"),
        ("x" * 5000 + "\n20\n" + "y\n" * 9, "line 3"),
    ],
)
def test_refused_with_the_place(text: str, where: str) -> None:
    with pytest.raises(NotAProfile) as caught:
        steplog.read(text, "steps.txt")
    line = str(caught.value)
    assert where in line and "steps.txt" in line and "\n" not in line and len(line) < 300


@pytest.mark.parametrize(
    "head", ["SQLite format 3", "Time (%),Total Time\n52.6,100\n", "{}", "", "# only\n", "[", '[{"ts": 1}]']
)
def test_other_files_do_not_look_like_step_times(head: str) -> None:
    assert not steplog.looks_like(head)


@pytest.mark.parametrize("values", [[20.0, -1.0], [0.0], [float("nan")], [float("inf")]])
def test_lists_with_something_else_than_times(values: list[float]) -> None:
    with pytest.raises(UsageError, match="took"):
        unstall.compare(values, [20.0] * 10)


def test_an_empty_list_is_a_side_without_steps() -> None:
    assert unstall.compare([], [20.0] * 10).verdict == "inconclusive"


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    steplog.looks_like(text)
    with contextlib.suppress(NotAProfile):
        assert steplog.read(text, "x").steps


def test_warm_up_is_counted() -> None:
    report = steplog.report([300.0, *[20.0] * 30])
    row = report.steps[0]
    assert (row.count, row.warmup, len(row.samples_ns), row.period_ns.median) == (31, 1, 30, 20_000_000)
    assert row.gpu_busy_ns is None and report.kernels is None, "a log says nothing of the GPU"


def test_times_that_no_step_can_have() -> None:
    log = steplog.read("\n".join(["25.0", "25.4", "24.9"] * 8 + ["1e308"]), "log")
    assert log.steps[0].count == 24 and [w.code for w in log.warnings] == ["stray-lines"]
    with pytest.raises(NotAProfile, match=r"1e\+308"):
        steplog.read(str([25.0] * 20 + [1e308]), "log")
    edited = steplog.read("\n".join(["25.0", "25.4", "24.9"] * 8), "log")
    edited.steps[0].samples_ns += [0, -5, 10**18]
    found = unstall.compare(edited, log)
    assert "impossible-steps" in {w.code for w in found.warnings} and found.before.count == 24
