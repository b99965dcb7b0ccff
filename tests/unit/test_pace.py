"""Median or mean: where steps come in bursts the median says nothing of the pace."""

from __future__ import annotations

import pytest

from unstall.analyze import analyze
from unstall.compare import compare
from unstall.model import Report
from unstall.pace import bursty, pace
from unstall.report import inline, markdown, terminal
from unstall.testing import TraceBuilder, ms, us

WAITS = [1.0, 1.0, 1.0, 17.0] * 6


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        (WAITS, True),
        ([17.0, 17.0, 1.0, 1.0, 17.0] * 4, True),  # the other way round: most wait
        ([10.0] * 40 + [60.0], False),  # one outlier
        ([10.0] * 99 + [60.0] + [10.0] * 99 + [60.0], False),  # saving now and then moves the mean by 5 %
        ([40.0] * 9 + [10.0] * 21, False),  # a beginning
        ([10.0] * 21 + [40.0] * 9, False),  # an end
        ([10.0 + i % 3 for i in range(40)], False),
        (WAITS[:7], False),  # too few to tell
        ([0.0] * 10, False),
    ],
)
def test_bursty(samples: list[float], expected: bool) -> None:
    assert bursty(samples) is expected


def test_pace_is_the_throughput_of_bursts_and_the_median_of_the_rest() -> None:
    assert pace(WAITS) == 5.0
    assert pace([10.0] * 40 + [60.0]) == 10.0
    assert pace([3.0]) == 3.0


def loading_every_fourth_step(period: int = ms(1), wait: int = ms(16), count: int = 48) -> Report:
    """A loader with too few workers: three batches lie ready, the fourth is waited for."""
    trace, at = TraceBuilder(), 0
    for i in range(count):
        took = wait if i % 4 == 3 else us(20)
        trace.range("data_load", at, at + took)
        trace.launch("gemm", at + took + us(100), kernel_dur=us(400))
        trace.range(f"step_{i}", at, at + took + period - us(20))
        at += took + period
    return analyze(trace.profile()).report


def test_report_of_bursts_gives_the_mean_and_says_so() -> None:
    report = loading_every_fourth_step()
    (steps,) = report.steps
    assert steps.bursty and steps.step_ns == pytest.approx(ms(5), rel=0.02)
    assert steps.period_ns.median == pytest.approx(ms(1.02), rel=0.01)
    (row,) = report.breakdown
    assert row.step_ns == steps.step_ns
    shares = {c.name: c.percent for c in row.categories}
    assert shares["data_loading"] == pytest.approx(100 * 16.06 / 20.06, abs=3)
    in_terminal = " ".join(str(line) for line in terminal.lines(report, 200))
    for shown in (in_terminal, markdown.to_markdown(report), str(inline.to_html(report))):
        assert "come in bursts, median 1.02 ms" in shown and "mean of 48 steady steps" in shown


def test_compare_of_bursts_is_of_throughput() -> None:
    slow, fast = loading_every_fourth_step(), loading_every_fourth_step(wait=us(20))
    found = compare(slow, fast)
    assert found.level == "mean" and "bursty-steps" in {w.code for w in found.warnings}
    assert found.before.step_ns == pytest.approx(ms(5), rel=0.02)
    assert found.ratio == pytest.approx(5 / 1.02, rel=0.03)
    assert found.verdict == "faster"
