"""Hardware counters beside a step: means, the split of GPU compute, and silence without them."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from unstall.analyze import analyze
from unstall.model import Report
from unstall.report.terminal import show
from unstall.testing import TraceBuilder, ms, us

TENSOR, ISSUE = "Tensor Active [Throughput %]", "SM Issue [Throughput %]"
READ, WRITE = "DRAM Read Bandwidth [Throughput %]", "DRAM Write Bandwidth [Throughput %]"
CLOCK = "GPC Clock Frequency [MHz]"


def trace(first: dict[str, float], second: dict[str, float], *, until: int = ms(60), device: int = 0) -> TraceBuilder:
    """Steps of 10 ms: 4 ms of one kernel, 2 ms of another, sampled every 100 µs up to ``until``."""
    t = TraceBuilder()

    def body(b: TraceBuilder, i: int, at: int) -> None:
        b.range(f"step_{i}", at, at + ms(9))
        b.launch("gemm", at + us(10), us(10), kernel_start=at + ms(1), kernel_dur=ms(4))
        b.launch("add", at + us(40), us(10), kernel_start=at + ms(5), kernel_dur=ms(2))
        b.sync("stream", at + us(100), at + ms(7) + us(10))

    t.steps(6, ms(10), body)
    for at in range(us(100), until, us(100)):
        inside = (at - 1) % ms(10)  # a value is of the time before it
        values = first if ms(1) <= inside < ms(5) else second if ms(5) <= inside < ms(7) else {}
        for name in (TENSOR, ISSUE, READ, WRITE):
            t.metric(name, at, values.get(name, 0.0), device=device)
        t.metric(CLOCK, at, 1_755_000_000)
    return t


def parts(report: Report) -> dict[str, int]:
    compute = next(c for c in report.breakdown[0].categories if c.name == "gpu_compute")
    assert not compute.parts or sum(p.ns for p in compute.parts) == compute.ns, "parts add up exactly"
    return {p.name: p.ns for p in compute.parts}


def test_hard_and_waiting_add_up_to_compute() -> None:
    report = analyze(trace({TENSOR: 80, READ: 20}, {READ: 50, WRITE: 30}).profile()).report
    assert parts(report) == {"computing_hard": ms(4), "waiting_on_memory": ms(2)}


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({TENSOR: 59, ISSUE: 10}, "computing_lightly"),
        ({ISSUE: 75}, "computing_hard"),  # fp32 on CUDA cores: no tensor core is active
        ({TENSOR: 70, READ: 65}, "computing_hard"),  # both near their limit: the nearer one counts
        ({TENSOR: 65, READ: 40, WRITE: 30}, "waiting_on_memory"),
    ],
)
def test_thresholds(values: dict[str, float], name: str) -> None:
    found = parts(analyze(trace(values, {}).profile()).report)
    assert found[name] >= ms(4)


def test_means_over_the_step_and_over_compute() -> None:
    report = analyze(trace({TENSOR: 80, READ: 30}, {READ: 60}).profile()).report
    means = {m.scope: m for m in report.gpu_metrics or []}
    assert means["step"].tensor_active_percent == pytest.approx(32, abs=0.5)
    assert means["gpu_compute"].tensor_active_percent == pytest.approx(80 * 4 / 6)
    assert means["gpu_compute"].dram_read_gb_per_s == pytest.approx(0.4 * 4814.304)
    assert means["gpu_compute"].clock_mhz == 1755 and means["gpu_compute"].sm_active_percent is None


def test_what_was_not_sampled_is_said() -> None:
    report = analyze(trace({TENSOR: 80}, {TENSOR: 80}, until=ms(33)).profile()).report
    found = parts(report)
    assert 0 < found["not_sampled"] < found["computing_hard"] + found["not_sampled"] == ms(6)


def test_silent_without_counters(tmp_path: Path) -> None:
    t = TraceBuilder()
    t.steps(6, ms(10), lambda b, i, at: (b.range(f"step_{i}", at, at + ms(9)), b.launch("k", at + 9))[0])
    report = analyze(t.profile()).report
    assert report.gpu_metrics is None and parts(report) == {}


def test_of_another_device_or_of_nothing_known() -> None:
    report = analyze(trace({TENSOR: 80}, {}, device=3).profile()).report
    assert parts(report) == {}, "only the clock of this device is known"
    assert {m.device for m in report.gpu_metrics or []} == {0}


def test_through_a_file_and_onto_a_terminal(tmp_path: Path) -> None:
    from unstall.pipeline import report_of

    report = report_of(trace({TENSOR: 80, READ: 20}, {READ: 50, WRITE: 30}).write(tmp_path / "m.sqlite"))
    assert parts(report) == {"computing_hard": ms(4), "waiting_on_memory": ms(2)}
    out = io.StringIO()
    show(report, out)
    said = " ".join(out.getvalue().split())
    assert "computing hard" in said and "waiting on memory" in said
    assert "tensor cores active 53.3 %" in said and "clock 1,755 MHz" in said
