"""What a terminal shows, held against golden files; and what it must never let through.

After an intended change: ``UNSTALL_UPDATE_GOLDEN=1 pytest tests/cli``, then read the difference.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import samples
from rich.cells import cell_len
from rich.console import Console

from unstall.analyze import analyze
from unstall.diagnose import diagnose
from unstall.model import Evidence, NotChecked, ProfileFacts, Report, Warning_, Where
from unstall.report import inline, terminal
from unstall.report.html import to_html
from unstall.report.markdown import to_markdown
from unstall.testing import TraceBuilder, ms

GOLDEN = Path(__file__).parent / "golden"
HOSTILE = "\x1b[31mred\x1b]0;title\x07\x9b2J\r\n[bold]x[/bold] :smile: \u202egnp.exe <b>&"


class Tty(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def shown(report: Report, monkeypatch: pytest.MonkeyPatch, columns: str = "", **options: object) -> str:
    monkeypatch.setenv("COLUMNS", columns)
    out = io.StringIO()
    terminal.show(report, out, **options)
    return out.getvalue()


def same_as_golden(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("UNSTALL_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("columns", ["80", "160"])
def test_full_report(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    out = shown(samples.full_report(), monkeypatch, columns)
    assert max(map(cell_len, out.splitlines())) <= int(columns)
    same_as_golden(f"full_{columns}.txt", out)


@pytest.mark.parametrize("gpu", [True, False])
def test_without_a_gpu_the_host_has_one_time_a_step(gpu: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ranges are a little shorter than the steps, which count what lies between two of them."""
    t = TraceBuilder(trace=("cuda", "nvtx") if gpu else ("nvtx",), gpu="NVIDIA H200" if gpu else "")
    for i in range(12):
        t.range(f"step_{i}", ms(30) * i, ms(30) * i + ms(29))
        if gpu:
            t.launch("gemm", ms(30) * i, kernel_dur=ms(4))
    report = diagnose(analyze(t.profile()))
    assert ("on the host it takes 29.0 ms" in shown(report, monkeypatch)) is gpu
    assert ("<dt>on the host</dt>" in to_html(report)) is gpu


def test_a_pipe_is_80_wide_and_has_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    out = shown(samples.full_report(), monkeypatch)
    assert out == shown(samples.full_report(), monkeypatch, "80")
    assert "\x1b" not in out
    assert not [line for line in out.splitlines() if line != line.rstrip()], "no trailing blanks"


def test_a_terminal_gets_colours_and_the_same_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = Tty()
    terminal.show(samples.full_report(), out)
    coloured = out.getvalue()
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == shown(samples.full_report(), monkeypatch, "80")


def korean() -> Report:
    names = ["데이터로딩", "순전파", "backward", "역전파와 옵티마이저 그리고 아주 긴 이름의 구간입니다 정말로 깁니다"]
    rows = [samples.a_range(name, 600.0 / (i + 1), 25.0) for i, name in enumerate(names)]
    return samples.full_report(ranges=rows)


def test_korean_names_stay_aligned(monkeypatch: pytest.MonkeyPatch) -> None:
    out = shown(korean(), monkeypatch, "80")
    rows = out.split("RANGES")[1].split("\n\n")[0].splitlines()[2:]
    assert len(rows) == 4
    assert len({cell_len(row.partition(".")[0]) for row in rows}) == 1, "decimal points stand in one cell"
    same_as_golden("korean_80.txt", out)


def hostile() -> Report:
    report = samples.full_report(
        ranges=[samples.a_range(HOSTILE, 600.0, 50.0, domain=HOSTILE), samples.a_range("x" * 5000, 500.0, 50.0)],
        kernels=[samples.a_kernel(HOSTILE, 3.0), samples.a_kernel("k" * 5000, 2.0)],
        warnings=[Warning_(code="odd-name", text=f"range {HOSTILE} {'y' * 5000}")],
        steps=[samples.steps_row(source=f"range:{HOSTILE}", warmup_steps=[HOSTILE])],
    )
    report.profile.path = f"dir/{HOSTILE}.sqlite"
    report.profile.gpus[0].name = HOSTILE
    report.profile.processes[0].name = HOSTILE
    report.breakdown[0].categories[0].ranges[:] = [samples.RangeShare(name=HOSTILE, ns=1)]
    finding = report.findings[0]
    finding.title, finding.fix.text = HOSTILE, HOSTILE
    finding.where = Where(range=HOSTILE, kernel=HOSTILE, call=HOSTILE)
    finding.evidence.append(Evidence(text=HOSTILE))
    return report


@pytest.mark.parametrize("columns", ["60", "80", "160"])
def test_names_cannot_reach_the_terminal(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    out = shown(hostile(), monkeypatch, columns)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", out)
    assert "[bold]x" in out and ":smile:" in out, "markup and emoji codes are text"
    assert max(map(cell_len, out.splitlines())) <= int(columns)
    assert len(out.splitlines()) < 150, "a name of thousands of letters does not fill the screen"


Faces = Callable[[Report, Callable[[Report], str]], str]
FACES: dict[str, Faces] = {
    "terminal": lambda report, shown: shown(report),
    "markdown": lambda report, _: to_markdown(report),
    "html": lambda report, _: to_html(report),
    "notebook": lambda report, _: inline.to_html(report) or "",
}


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(
    ("base", "speedup", "gain"),
    [
        (24_000_000, 8.89, "8.9× from about 24.0 ms without the profiler"),
        (25_310_000, 9.37, "9.4×"),  # the step that is shown
        (25_190_000, 9.33, "9.3× from about 25.2 ms without the profiler"),  # 25.3 / 2.70 is 9.4
        (None, 9.37, "9.4×"),
        (None, 12.0, "12.0× from about 32.4 ms, the mean of all steps"),
    ],
)
def test_a_gain_from_another_step_than_the_one_shown_says_from_which(
    base: int | None, speedup: float, gain: str, face: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = samples.a_finding(baseline_ns=base, predicted_speedup=speedup)
    report = samples.full_report(findings=[found])
    out = " ".join(FACES[face](report, lambda report: shown(report, monkeypatch)).split())
    times, _, step = gain.partition(" from ")
    assert f"2.70 ms a step, {gain}." in out, "the verdict"
    if face == "html":
        assert f"now {step or '25.3 ms'}<" in out and f">{times}<" in out
    else:
        assert out.count(gain) == 2 and out.count(f"{times} from") == (2 if step else 0)


@pytest.mark.parametrize("face", FACES)
def test_a_step_that_was_measured_is_not_about(face: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = samples.a_finding(baseline_ns=24_000_000, predicted_speedup=8.89)
    report = samples.full_report(findings=[found])
    report.steps[0].unprofiled_ns = 24_000_000
    out = " ".join(FACES[face](report, lambda report: shown(report, monkeypatch)).split())
    assert out.count("24.0 ms without the profiler") >= 2 and "about 24.0 ms" not in out


def test_a_remedy_of_another_process_than_the_one_shown_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    report = samples.full_report(findings=[samples.a_finding(where=Where(process=5), baseline_ns=24_000_000)])
    report.steps.append(samples.steps_row(process=5))
    said = " ".join(shown(report, monkeypatch).split())
    assert "2.70 ms a step of pid 5, 8.9× from about 24.0 ms without the profiler" in said


def test_figures_are_never_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    for columns in range(50, 160, 7):
        out = shown(samples.full_report(), monkeypatch, str(columns))
        assert not re.search(r"(?m)^\s*(ms|µs|s|%)\b", out), f"a unit stands alone at {columns} columns"


def test_top_cuts_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    out = shown(samples.full_report(), monkeypatch, top=2)
    ranges = out.split("RANGES")[1].split("\n\n")[0]
    assert "data_load" in ranges and "forward" in ranges and "backward" not in ranges
    assert "2 more" in ranges
    assert "more:" not in shown(samples.full_report(), monkeypatch, top=0)


def first_range(out: str) -> str:
    return out.split("RANGES")[1].split("range  ")[1].splitlines()[1].split()[0]


@pytest.mark.parametrize(("by", "first"), [("total", "data_load"), ("self", "data_load"), ("gpu", "backward")])
def test_by_ranks(by: str, first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert first_range(shown(samples.full_report(), monkeypatch, by=by)) == first


def test_wrappers_are_left_out_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    out = shown(samples.full_report(), monkeypatch, "120")
    assert "wrappers left out: step_* (30)" in out
    assert "\n  step_*" not in out


def test_library_ranges_only_where_the_user_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    cub = samples.a_range("cub::DeviceReduce", 50.0, library=True, domain="CCCL")
    out = shown(samples.full_report(ranges=[samples.a_range("mine", 1.0, 100.0), cub]), monkeypatch)
    assert "cub::DeviceReduce" not in out and "1 library range left out" in " ".join(out.split())
    assert "CCCL:cub::DeviceReduce" in shown(samples.full_report(ranges=[cub]), monkeypatch)


def bare(**other: object) -> Report:
    facts = ProfileFacts(
        path="table.csv", producer="nsys-stats", producer_version="", schema_version="", duration_ns=None
    )
    return Report(profile=facts, **other)


def test_what_is_unknown_is_not_shown_as_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    row = samples.a_range(
        "data_load", 1135.9, 38.5, process=None, steady_total_ns=None, self_ns=None, gpu_ns=None,
        median_ns=None, min_ns=None, max_ns=None, stddev_ns=None,
    )  # fmt: skip
    out = shown(bare(ranges=[row]), monkeypatch, "160")
    assert "1135.9" in out and "38.5" in out
    for column in ("self ms", "GPU ms", "median ms", "steady ms", "pid"):
        assert column not in out
    assert "GPU idle" not in out and "STEP" not in out


def test_steps_of_a_table_have_no_breakdown(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = samples.steps_row(process=None, gpu_busy_ns=None, kernels_per_step=None)
    out = shown(bare(ranges=[samples.a_range("data_load", 1135.9, 38.5)], steps=[steps]), monkeypatch, "100")
    assert "A step takes 25.3 ms; where it goes cannot be told from this input." in out
    assert "WHERE IT GOES" not in out and "pace" not in out and "pid" not in out and "None" not in out


def test_nothing_at_all_is_said_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    out = shown(bare(), monkeypatch)
    assert out.splitlines()[0] == "table.csv · nsys-stats"
    assert "No repeating step" in out


def test_without_gpu_rows_nothing_is_said_of_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    report = samples.full_report(device_total_ns=None, kernels=None, copies=None, findings=[])
    report.breakdown[0].categories = [c for c in report.breakdown[0].categories if c.name in ("data_loading", "launch")]
    out = shown(report, monkeypatch, "120")
    assert "No GPU work was captured" in out
    assert "GPU idle" not in out


def test_findings_of_a_capture_without_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = samples.a_finding(predicted_step_ns=None, predicted_low_ns=None, predicted_speedup=None)
    out = shown(samples.full_report(steps=[], breakdown=[], findings=[finding]), monkeypatch, "120")
    assert "takes 22.6 ms of this capture mainly in data_load" in out
    assert "totals. The main thread loads each batch" in out and "predicted" not in out


def test_what_was_not_checked_for_one_reason_stands_together(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = ["launch-bound", "gil", "fp32-matmul"]
    missing = [NotChecked(code=c, reason="GIL waits" if c == "gil" else "needs GPU work") for c in codes]
    out = shown(samples.full_report(not_checked=missing), monkeypatch)
    assert "  launch-bound, fp32-matmul: needs GPU work\n  gil: GIL waits\n" in out


def test_two_processes_come_out_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    report = samples.full_report()
    report.steps.append(samples.steps_row(process=777))
    report.breakdown.append(samples.breakdown_row())
    report.ranges = [*(report.ranges or []), samples.a_range("data_load", 5.0, 0.5, process=777)]
    out = shown(report, monkeypatch)
    assert "STEP of pid 4242" in out and "STEP of pid 777" in out
    assert re.search(r"data_load +777 ", out)


def test_an_old_locale_gets_plain_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii", errors="backslashreplace")
    terminal.show(samples.full_report(), out)
    out.flush()
    assert b"####" in raw.getvalue()


def test_console_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "132")
    assert terminal.make_console(io.StringIO()).width == 132
    for odd in ("", "0", "wide", "-5"):
        monkeypatch.setenv("COLUMNS", odd)
        assert terminal.make_console(io.StringIO()).width == 80
    assert isinstance(terminal.make_console(Tty()), Console)


def test_every_column_of_the_breakdown_has_a_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "WHERE IT GOES · ms and % of a 25.3 ms step" in shown(samples.full_report(), monkeypatch)


def test_ranges_inside_others_get_no_share_of_a_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    outer = samples.a_range("forward", 100.0, 52.6, self_ns=10_000_000, percent_of_wall=80.0)
    inner = samples.a_range("attention", 90.0, 47.4, percent_of_wall=72.0)
    out = shown(samples.full_report(ranges=[outer, inner]), monkeypatch)
    assert "wall %" in out and "80.0" in out and "52.6" not in out and "self ms" in out
    markdown = to_markdown(samples.full_report(ranges=[outer, inner]))
    assert "| of wall |" in markdown and "80.0 %" in markdown and "52.6 %" not in markdown


def test_a_shared_gpu_is_said_where_the_gpu_is_said_to_work(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = Warning_(code="shared-gpu", text="2 processes (817, 818) share GPU 0")
    out = shown(samples.full_report(warnings=[shared]), monkeypatch)
    assert "2 processes (817, 818) share GPU 0. " in out[: out.index("STEP")].replace("\n", " ")


def test_a_step_of_5000_letters_does_not_fill_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = samples.steps_row(source="range:" + "x" * 5000, warmup_steps=["y" * 5000])
    out = shown(samples.full_report(steps=[steps]), monkeypatch)
    assert "x" * 40 in out and len(out) < 10_000


def test_bars_stay_inside_the_narrowest_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    out = shown(samples.full_report(), monkeypatch, "40")
    assert max(map(cell_len, out[: out.index("FINDINGS")].splitlines())) <= 40
