"""Traces of any shape and tables of any text, made up by hypothesis: a report whose figures fit each other."""

from __future__ import annotations

import contextlib
import csv
import io

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unstall.analyze import analyze
from unstall.compare.expression import parse
from unstall.diagnose import diagnose
from unstall.errors import UnstallError
from unstall.load import stats
from unstall.model import Report
from unstall.report import terminal
from unstall.report.json import from_json, to_json
from unstall.testing import TraceBuilder

SOME = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
TIMES = st.integers(0, 10**9) | st.integers(0, 2**40)
LENGTHS = st.integers(0, 10**7) | st.integers(0, 2**40)
KNOWN = ["step_1", "step_2", "load", "forward", "", "ProfilerStep#3", "epoch", "nccl", "데이터"]
NAMES = st.sampled_from(KNOWN) | st.text()
KINDS = ["range", "open", "mark", "launch", "copy", "memset", "sync", "osrt", "api", "graph"]
EVENTS = st.lists(st.tuples(st.sampled_from(KINDS), TIMES, LENGTHS, NAMES), max_size=60)


def built(events: list[tuple[str, int, int, str]], repeat: int, pids: list[int]) -> TraceBuilder:
    """The events, several times over, in each process: whatever repeats may be taken for steps."""
    t = TraceBuilder(pid=pids[0], trace=("cuda", "nvtx", "osrt"))
    for pid in pids:
        t.process(pid)
        for i in range(repeat):
            for kind, at, length, name in events:
                _add(t, kind, at + i * 2**31, length, name)
    return t


def _add(t: TraceBuilder, kind: str, at: int, length: int, name: str) -> None:
    match kind:
        case "range":
            t.range(name, at, at + length)
        case "open":
            t.range(name, at, None)
        case "mark":
            t.mark(name, at)
        case "launch":
            t.launch(name, at, kernel_start=at + length, kernel_dur=length)
        case "copy":
            t.copy("DtoH", at, copy_dur=length, bytes=length)
        case "memset":
            t.memset(at, memset_dur=length)
        case "sync":
            t.sync("stream", at, at + length)
        case "graph":
            t.graph_launch(at, whole=(at, at + length))
        case "osrt":
            t.osrt(name, at, at + length)
        case _:
            t.api(name, at, at + length)


def consistent(report: Report) -> None:
    """What no report may be without, whatever it was made of."""
    assert from_json(to_json(report)) == report
    for row in report.breakdown:
        assert sum(c.ns for c in row.categories) == row.step_ns and all(c.ns >= 0 for c in row.categories)
    for steps in report.steps:
        assert steps.period_ns.p10 <= steps.period_ns.median <= steps.period_ns.p90
        last = steps.count - steps.warmup - len(steps.samples_ns)
        assert last in (0, 1), "the last step may be no sample"
    for finding in report.findings:
        assert finding.cost_ns_per_step >= 0
        assert (finding.predicted_low_ns or 0) <= (finding.predicted_step_ns or 0) <= (finding.predicted_high_ns or 0)
    assert not [w.text for w in report.warnings if w.code.endswith("crashed")]
    for width in (80, 32):
        assert all(line.cell_len <= width for line in terminal.lines(report, width))


@SOME
@given(EVENTS, st.sampled_from([1, 5, 12]), st.lists(st.integers(1, 2**22), min_size=1, max_size=3, unique=True))
def test_a_trace_of_any_shape(events: list[tuple[str, int, int, str]], repeat: int, pids: list[int]) -> None:
    consistent(diagnose(analyze(built(events, repeat, pids).profile())))


HEAD = ["Time (%)", "Total Time (ns)", "Instances", "Avg (ns)", "Med (ns)", "Min (ns)", "Max (ns)", "StdDev (ns)"]
NUMBERS = st.integers(-5, 10**12).map(str) | st.floats().map(str) | st.text(max_size=6)


@SOME
@given(st.lists(st.tuples(*[NUMBERS] * len(HEAD), NAMES), max_size=12), st.sampled_from([",", "\t"]))
def test_a_table_of_any_text(rows: list[tuple[str, ...]], between: str) -> None:
    out = io.StringIO()
    written = [[cell.replace("\0", "") for cell in row] for row in rows]  # Python 3.10's csv writes no NUL
    csv.writer(out, delimiter=between).writerows([[*HEAD, "Range"], *written])
    with contextlib.suppress(UnstallError):
        consistent(stats(out.getvalue()))


@given(st.text() | st.text("<>=!0123456789.eE+-and orstep_ms\t ", max_size=200))
def test_an_expression_of_any_text(text: str) -> None:
    with contextlib.suppress(UnstallError):
        parse(text)
