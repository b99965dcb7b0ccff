"""What comes first, what is merged, what overlaps, and what happens in a few steps only."""

from __future__ import annotations

import re
from collections.abc import Callable

from unstall.analyze import analyze
from unstall.diagnose import diagnose
from unstall.model import Finding, Report
from unstall.testing import TraceBuilder, ms, us

GEMM = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_bias_TNT"
ADD = "void at::native::vectorized_elementwise_kernel<(int)4, at::native::CUDAFunctor_add<float>>"


def report_of(*fill: Callable[[TraceBuilder], None], unprofiled_ns: int | None = None) -> Report:
    trace = TraceBuilder()
    for part in fill:
        part(trace)
    return diagnose(analyze(trace.profile(), unprofiled_ns=unprofiled_ns))


def steps(count: int, period: Callable[[int], int], body: Callable[[TraceBuilder, int, int], None]):  # type: ignore[no-untyped-def]
    def fill(t: TraceBuilder) -> None:
        at = 0
        for i in range(count):
            t.range(f"step_{i}", at, at + period(i))
            body(t, i, at)
            at += period(i)

    return fill


def work(t: TraceBuilder, at: int, dur: int) -> None:
    """One kernel that is waited for."""
    t.launch(GEMM, at, us(10), kernel_dur=dur)
    t.sync("stream", at + us(20), at + dur + us(15))


def codes(report: Report) -> list[str]:
    return [f.code for f in report.findings]


def find(report: Report, code: str) -> Finding:
    return next(f for f in report.findings if f.code == code)


def loading(t: TraceBuilder, i: int, at: int) -> None:
    t.range("data_load", at, at + ms(20))
    work(t, at + ms(20), ms(5))


def test_a_busy_gpu_that_the_host_still_holds_back_is_no_verdict_of_compute() -> None:
    def body(loads: float) -> Callable[[TraceBuilder, int, int], None]:
        def fill(t: TraceBuilder, i: int, at: int) -> None:
            t.range("data_load", at, at + ms(loads))
            work(t, at + ms(loads), ms(25 - loads) - us(50))

        return fill

    report = report_of(steps(8, lambda i: ms(25), body(1.9)))  # 92 % busy
    assert codes(report)[0] == "host-data-loading" and "compute-bound" not in codes(report)
    assert "compute-bound" in codes(report_of(steps(8, lambda i: ms(25), body(1))))


def test_kernels_are_shares_of_the_step() -> None:
    def body(t: TraceBuilder, i: int, at: int) -> None:
        work(t, at + ms(0.3), ms(9.6))

    found = find(report_of(steps(8, lambda i: ms(10), body)), "compute-bound")
    assert any("9.60 ms a step (96 %)" in e.text for e in found.evidence), [e.text for e in found.evidence]


def test_who_holds_the_lock_is_told_of_all_steady_steps() -> None:
    """Not of the typical half alone, in which it may by chance be one of several equal threads."""
    at, t = 0, TraceBuilder()
    for i in range(16):
        each = us(300 + i)
        t.range(f"step_{i}", at, at + 20 * each)
        for k in range(20):
            start = at + k * each
            t.gil("waiting", start, start + each - us(20))
            t.gil("holding", start, start + each - us(20), tid=77 if 4 <= i < 12 else 78)
            t.launch(ADD, start + each - us(15), us(5), kernel_dur=us(20))
        at += 20 * each
    found = find(diagnose(analyze(t.profile())), "gil-contention")
    holders = next(e.text for e in found.evidence if "held by" in e.text)
    shares = [int(n) for n in re.findall(r"\((\d+) %\)", holders)]
    assert len(shares) == 2 and min(shares) > 40, holders


def test_prediction_leaves_what_is_left() -> None:
    found = find(report_of(steps(8, lambda i: ms(25.1), loading)), "host-data-loading")
    assert found.predicted_step_ns is not None and found.predicted_speedup is not None
    assert ms(5) < found.predicted_step_ns < ms(5.3)
    assert 4.5 < found.predicted_speedup < 5.1
    assert found.cost_ns_per_step == ms(20)


def test_prediction_starts_from_the_unprofiled_step_where_it_is_known() -> None:
    found = find(report_of(steps(8, lambda i: ms(25.1), loading), unprofiled_ns=ms(24)), "host-data-loading")
    assert found.predicted_step_ns is not None and found.predicted_speedup is not None
    assert abs(found.predicted_speedup - ms(24) / found.predicted_step_ns) < 0.01


def test_first_iteration_is_no_finding() -> None:
    def body(t: TraceBuilder, i: int, at: int) -> None:
        if i == 0:
            t.range("data_load", at, at + ms(300))
            t.api("cudaMalloc_v3020", at + ms(300), at + ms(390))
        work(t, at + (ms(400) if i == 0 else us(5)), ms(5))

    report = report_of(steps(10, lambda i: ms(410) if i == 0 else ms(5.05), body))
    assert [c for c in codes(report) if c not in ("compute-bound", "blocking-sync")] == []
    assert find(report, "compute-bound").main


def test_what_happens_now_and_then_counts_with_its_share() -> None:
    """A checkpoint of 40 ms in every fifth step of 5 ms: 8 ms a step on average, and the typical step has none."""

    def period(i: int) -> int:
        return ms(5.05) + (ms(40) if i % 5 == 4 else 0)

    def body(t: TraceBuilder, i: int, at: int) -> None:
        work(t, at, ms(5))
        if i % 5 == 4:
            t.range("save_checkpoint", at + ms(5.03), at + ms(45.03))

    report = report_of(steps(31, period, body))
    found = find(report, "host-io")
    assert report.findings[0] is found and found.main
    assert abs(found.cost_ns_per_step - ms(8)) < ms(1)
    assert found.predicted_step_ns is not None and abs(found.predicted_step_ns - ms(5.05)) < us(100)
    assert found.where.range == "save_checkpoint"
    assert any("of the steady steps" in e.text for e in found.evidence)


def test_many_small_gaps_count_as_much_as_one_large() -> None:
    def small(t: TraceBuilder, i: int, at: int) -> None:
        for k in range(100):
            t.launch(ADD, at + k * us(40), us(5), kernel_dur=us(5))

    found = find(report_of(steps(8, lambda i: ms(4), small)), "launch-bound")
    assert found.main and found.cost_ns_per_step > ms(3)


def test_a_wait_for_a_busy_gpu_is_not_a_cost() -> None:
    """The host runs ahead of 5 ms of work and waits 4 ms of it: nothing is gained without the wait."""

    def body(t: TraceBuilder, i: int, at: int) -> None:
        for k in range(50):
            begin = at + us(20) + k * us(100)
            t.launch(ADD, at + k * us(15), us(5), kernel_start=begin, kernel_dur=us(99))
        t.sync("stream", at + us(760), at + us(5025))

    report = report_of(steps(8, lambda i: us(5035), body))
    assert "blocking-sync" not in [f.code for f in report.findings if f.main]
    assert report.findings[0].code == "compute-bound"


def test_what_follows_a_wait_comes_before_the_wait() -> None:
    """Writing a log after the wait: without the wait it would be hidden as well, but the log is the cause."""

    def body(t: TraceBuilder, i: int, at: int) -> None:
        work(t, at, ms(5))
        t.range("write_log", at + ms(5.03), at + ms(7.03))

    report = report_of(steps(8, lambda i: ms(7.05), body))
    assert codes(report)[0] == "host-io"


def test_workers_that_do_not_keep_up_are_told_from_loading_on_the_main_thread() -> None:
    def body(t: TraceBuilder, i: int, at: int) -> None:
        t.range("data_load", at, at + ms(8))
        t.osrt("poll", at + us(50), at + ms(7.9))
        work(t, at + ms(8), ms(5))

    found = find(report_of(steps(8, lambda i: ms(13.1), body)), "host-data-loading")
    assert "keep up" in found.title and "num_workers" in found.fix.text
    assert any("poll" in e.text for e in found.evidence)
    alone = find(report_of(steps(8, lambda i: ms(25.1), loading)), "host-data-loading")
    assert "main thread loads" in alone.title


def test_the_same_in_two_processes_is_one_finding_that_names_both() -> None:
    def in_process(pid: int) -> Callable[[TraceBuilder], None]:
        def fill(t: TraceBuilder) -> None:
            t.process(pid)
            t.gpu(pid % 2)
            steps(8, lambda i: ms(25.1), loading)(t)

        return fill

    report = report_of(in_process(100), in_process(200))
    found = [f for f in report.findings if f.code == "host-data-loading"]
    assert len(found) == 1
    other = {100: "200", 200: "100"}[found[0].where.process or 0]
    assert other in found[0].evidence[1].text, "among those that a terminal shows"
    assert found[0].where.others == [int(other)]


def test_overlapping_findings_name_each_other() -> None:
    """Forty waits between small kernels: the time after each wait is launching as well."""

    def body(t: TraceBuilder, i: int, at: int) -> None:
        for k in range(40):
            start = at + k * us(100)
            t.launch(ADD, start + us(40), us(5), kernel_dur=us(30))
            t.sync("stream", start + us(50), start + us(80))

    report = report_of(steps(8, lambda i: us(4000), body))
    assert "blocking-sync" in find(report, "launch-bound").overlaps
    assert "launch-bound" in find(report, "blocking-sync").overlaps


def test_findings_keep_to_the_devices_terms_of_the_framework() -> None:
    jax = report_of(steps(8, lambda i: ms(25.1), lambda t, i, at: (
        t.range("data_load", at, at + ms(20)), t.launch("loop_add_fusion", at + ms(20), us(10), kernel_dur=ms(5)),
        t.sync("stream", at + ms(20.02), at + ms(25.02)),
    )))  # fmt: skip
    assert "jax.device_put" in find(jax, "host-data-loading").fix.text


def test_cpu_only_loop_finds_its_loading() -> None:
    trace = TraceBuilder(trace=("nvtx",), gpu="")
    for i in range(8):
        trace.range(f"step_{i}", i * ms(10), i * ms(10) + ms(10))
        trace.range("data_load", i * ms(10), i * ms(10) + ms(6))
        trace.range("forward", i * ms(10) + ms(6), i * ms(10) + ms(9.9))
    report = diagnose(analyze(trace.profile()))
    assert codes(report) == ["host-data-loading"]
    assert any("no GPU work" in e.text for e in report.findings[0].evidence)


def test_a_capture_without_a_gpu_is_not_said_to_make_one_wait() -> None:
    trace = TraceBuilder(trace=("nvtx",), gpu="")
    for i in range(8):
        trace.range(f"step_{i}", ms(10 * i), ms(10 * i + 9))
        trace.range("data_load", ms(10 * i), ms(10 * i + 8))
    first = diagnose(analyze(trace.profile())).findings[0]
    assert first.code == "host-data-loading"
    assert "GPU" not in first.title


def test_two_processes_on_one_gpu_make_predictions_unsure() -> None:
    def loading(t: TraceBuilder, i: int, at: int) -> None:
        t.range("data_load", at, at + ms(15))
        work(t, at + ms(16), ms(2))

    def second(t: TraceBuilder) -> None:
        t.process(200)
        steps(12, lambda i: ms(20), loading)(t)

    fill = steps(12, lambda i: ms(20), loading)
    alone, shared = report_of(fill, unprofiled_ns=ms(20)), report_of(fill, second, unprofiled_ns=ms(20))
    assert alone.findings[0].predicted_step_ns is not None and alone.findings[0].confidence != "low"
    assert {f.confidence for f in shared.findings if f.predicted_step_ns is not None} == {"low"}


def test_calls_go_by_the_name_that_the_table_has() -> None:
    def waiting(t: TraceBuilder, i: int, at: int) -> None:
        for k in range(4):
            work(t, at + ms(2 * k), us(100))

    report = report_of(steps(12, lambda i: ms(20), waiting))
    named = [f.where.call for f in report.findings if f.where.call]
    assert named and set(named) <= {row.name for row in report.api or []}
    assert not [e.text for f in report.findings for e in f.evidence if "_v3020" in e.text]


def test_nothing_is_said_of_a_gpu_whose_work_was_not_captured() -> None:
    """One memset or one kernel is all of the device's own window, and nothing of a capture of 7 s."""

    def fill(t: TraceBuilder) -> None:
        t.launch(GEMM, at=us(1), kernel_dur=us(1))
        t.api("cuCtxSynchronize", ms(7000), ms(7001))

    assert codes(report_of(fill)) == []


def test_kernels_that_fill_a_capture_without_steps_are_its_verdict() -> None:
    def fill(t: TraceBuilder) -> None:
        for i, name in enumerate("abcdefgh"):  # nothing repeats: no steps
            t.launch(f"gemm_{name}", us(1) + us(2 * i), kernel_start=ms(1 + 50 * i), kernel_dur=ms(50))

    report = report_of(fill)
    assert (report.steps, codes(report)) == ([], ["compute-bound"])
