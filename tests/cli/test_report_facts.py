"""What a report says lest its figures mislead: the same on a terminal, in Markdown, on the page, in a notebook."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any

import pytest
import samples

from unstall.model import CallRow, Category, Gpu, Period, Process, Report, Warning_
from unstall.report import inline, terminal
from unstall.report.html import to_html
from unstall.report.html.charts import plot
from unstall.report.markdown import to_markdown

MS = 1_000_000


def on_terminal(report: Report) -> str:
    return "\n".join(line.plain for line in terminal.lines(report, 160))


FACES: dict[str, Callable[[Report], str]] = {
    "terminal": on_terminal,
    "markdown": to_markdown,
    "html": to_html,
    "notebook": lambda report: inline.to_html(report) or "",
}
every_face = pytest.mark.parametrize("face", FACES)


def told(face: str, report: Report) -> str:
    """What is read there, on one line, without markup."""
    plain = re.sub(r"<(style|script)\b.*?</\1>|<[^>]+>", " ", FACES[face](report), flags=re.DOTALL)
    return " ".join(html.unescape(plain).replace("`", "").replace("\\", "").split())


def two_gpus(*gpus: Gpu) -> Report:
    report = samples.full_report()
    report.profile.gpus = list(gpus)
    report.profile.processes = [Process(process=111, name="a/python3", devices=[0]), Process(process=112, devices=[1])]
    return report


@every_face
def test_several_gpus_are_told_and_which_process_uses_which(face: str) -> None:
    out = told(face, two_gpus())
    assert "2 GPUs" in out and "python3 (pid 111, GPU 0)" in out and "process (pid 112, GPU 1)" in out
    assert "whole capture, 2 GPUs added up" in out
    assert "2 × NVIDIA H200" in told(face, two_gpus(*(Gpu(device=i, name="NVIDIA H200") for i in (0, 1))))


@every_face
def test_of_one_gpu_there_is_no_number(face: str) -> None:
    report = samples.full_report()
    report.profile.processes[0].devices = [0]
    out = told(face, report)
    assert "GPU 0" not in out and "added up" not in out and "whole capture" in out


def test_a_gpu_of_several_that_alone_works_is_named() -> None:
    report = two_gpus(Gpu(device=0, name="A"), Gpu(device=1, name="B"))
    report.profile.processes.pop()
    assert "A · B · python3 (pid 111, GPU 0)" in on_terminal(report)


def nvtx_lost(**other: Any) -> Report:
    nothing: dict[str, Any] = dict.fromkeys(("kernels", "copies", "api", "device_total_ns"))
    lists: dict[str, Any] = {"steps": [], "breakdown": [], "findings": [], "ranges": []}
    return samples.full_report(**{**nothing, **lists, "warnings": [Warning_(code="nvtx-lost", text="Why.")], **other})


def calls(*names: str) -> list[CallRow]:
    return [
        CallRow(name=n, calls=20, total_ns=402 * MS, avg_ns=20.1 * MS, median_ns=None, min_ns=1, max_ns=2,
                stddev_ns=None, percent=99.7)
        for n in names
    ]  # fmt: skip


@every_face
def test_lost_ranges_are_the_first_thing_said_and_os_calls_are_shown(face: str) -> None:
    out = told(face, nvtx_lost(osrt=calls("clock_nanosleep")))
    lead = "NVTX started but not one of its ranges was recorded (the warning nvtx-lost says why), so no step is known"
    assert f"{lead}: the tables are totals." in out
    assert re.search(r"clock_nanosleep (\| )?20 (\| )?402\.0 (\| )?99\.7", out)
    assert "all threads added up, waiting included" in out
    assert f"{lead}, and nothing to add up." in told(face, nvtx_lost())


def test_a_terminal_shows_the_longest_os_calls_of_many() -> None:
    out = on_terminal(samples.full_report(osrt=calls(*(f"call_{i}" for i in range(12)))))
    assert "call_4" in out and "call_5" not in out and "… 7 more: --top 0 shows all" in out


@every_face
def test_a_gpu_that_copies_is_busy_and_does_not_work(face: str) -> None:
    report = samples.full_report(findings=[])
    parts = [("gpu_compute", 28.5), ("exposed_copy", 70.2), ("exposed_communication", 0.3), ("launch", 1.0)]
    report.breakdown[0].categories = [Category(name=n, ns=round(p * MS), percent=p) for n, p in parts]
    out = told(face, report)
    assert "The GPU is busy 99 % of a 25.3 ms step (70 % only copying): copies set the pace" in out
    assert "GPU works" not in out


@pytest.mark.parametrize(("limit", "host", "ahead"), [("gpu", 4, True), ("host", 4, False), ("gpu", 25, False)])
def test_a_host_that_runs_ahead_is_said_to(limit: str, host: int, ahead: bool) -> None:
    report = samples.full_report(steps=[samples.steps_row(limit=limit, host_ns=host * MS)])
    time = f"{host}.00 ms" if host < 10 else f"{host}.0 ms"
    assert (f"on the host it takes {time}, ahead of the GPU" in on_terminal(report)) is ahead
    assert (f"{time}, ahead of the GPU" in told("html", report)) is ahead


@every_face
def test_what_must_come_first_is_said_where_the_gain_is(face: str) -> None:
    report = samples.full_report(findings=[samples.a_finding(code="launch-bound", needs=["blocking-sync"])])
    out = told(face, report)
    assert ", which can be made only after that of blocking-sync: 2.70 ms a step" in out
    assert "can be made only after the remedy of blocking-sync" in out
    assert "can be made" not in told(face, samples.full_report())


@pytest.mark.parametrize("face", ["terminal", "html"])
@pytest.mark.parametrize(
    ("high", "unprofiled", "why"),
    [
        (28, None, "as unsure as the step without the profiler"),
        (28, 24, "perhaps no gain"),
        (23, None, ""),
        (23, 24, ""),
    ],
)
def test_an_interval_beyond_the_step_it_starts_from_says_why(
    high: int, unprofiled: int | None, why: str, face: str
) -> None:
    found = samples.a_finding(baseline_ns=24 * MS, predicted_speedup=8.89, predicted_high_ns=high * MS)
    steps = samples.steps_row(unprofiled_ns=None if unprofiled is None else unprofiled * MS)
    out = told(face, samples.full_report(findings=[found], steps=[steps]))
    ends = r"2\.40 (ms )?to " + f"{high}" + r"\.0 ms"
    assert re.search(rf"\({ends}{', ' + why if why else ''}\)", out)


@every_face
def test_findings_that_start_from_one_step_all_say_so(face: str) -> None:
    """25.2 ms reads like the 25.3 that are shown in one speedup, and does not in the other."""
    first = samples.a_finding(baseline_ns=25_190_000, predicted_speedup=9.33)
    second = samples.a_finding(code="launch-bound", baseline_ns=25_190_000, predicted_step_ns=23_000_000,
                               predicted_speedup=1.1)  # fmt: skip
    out = told(face, samples.full_report(findings=[first, second]))
    assert out.count("about 25.2 ms without the profiler") == 3, "the verdict, and each of the two"
    assert "now 25.3 ms" not in out


@every_face
def test_all_steps_of_a_thinned_baseline_are_counted(face: str) -> None:
    steps = samples.steps_row(count=2901, samples_ns=[25 * MS] * 1000, warmup_steps=[])
    assert "2,900 steady steps" in told(face, samples.full_report(steps=[steps]))
    drawn = plot(steps)
    assert drawn is not None and drawn.numbers[-1] == 2900


def test_the_last_step_that_nothing_follows_is_no_sample() -> None:
    steps = samples.steps_row(count=30, samples_ns=[25 * MS] * 28, period_ns=Period(median=25, p10=25, p90=25))
    assert "28 steady steps" in on_terminal(samples.full_report(steps=[steps]))
