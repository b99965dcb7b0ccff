"""The text of ``nsys stats`` in every dress: the lab's own output exactly, old and new versions, and any text."""

from __future__ import annotations

import csv
import io
import json
import random
from itertools import accumulate
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unstall import model
from unstall.analyze import analyze
from unstall.errors import NotAProfile, ProfileUnreadable, UnstallError
from unstall.load import stats_csv
from unstall.load.stats_csv import read, sniff, stats
from unstall.testing import TraceBuilder, ms

LAB = Path(__file__).parents[1] / "data" / "lab"
ORACLES = Path(__file__).parents[3] / "shared" / "oracles"
CSV = (LAB / "nvtx_sum_output.txt").read_bytes().decode()
CONSOLE = (LAB / "stats_console_output.txt").read_bytes().decode()
BARS = (LAB / "stats_true_console.txt").read_bytes().decode()

HEADER = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Style,Range"


def row(name: str, total: int = 100, instances: int = 1, style: str = "PushPop") -> str:
    each = total // instances
    return f"10.0,{total},{instances},{each}.0,{each}.0,{each},{each},0.0,{style},{name}"


def table(*rows: str, header: str = HEADER) -> str:
    return "\n".join([header, *rows, ""])


def names(text: str | bytes) -> list[str]:
    return [name for t in stats(text) for name in t.frame["name"].to_list()]


def codes(report: model.Report) -> set[str]:
    return {w.code for w in report.warnings}


# --------------------------------------------------------------------------------------------------------------------
# The lab
# --------------------------------------------------------------------------------------------------------------------


def test_the_lab_ranking_comes_out_exactly() -> None:
    report = read(LAB / "nvtx_sum_output.txt")
    assert report.ranges is not None
    shown = [(r.name, round(r.total_ns / 1e6, 1), round(r.share or 0, 1)) for r in report.ranges if not r.wrapper]
    assert shown == [
        ("data_load", 1135.9, 38.5),
        ("backward", 694.1, 23.6),
        ("forward", 556.6, 18.9),
        ("optimizer", 519.4, 17.6),
        ("h2d_transfer", 40.6, 1.4),
    ]
    assert [r.total_ns for r in report.ranges if r.instances == 50] == [
        1135904229, 694057698, 556649880, 519399446, 40617226,
    ]  # fmt: skip


def test_the_lab_wrappers_are_one_family_left_out_and_said() -> None:
    report = read(CSV, path="lab.txt")
    [wrapper] = [r for r in report.ranges or [] if r.wrapper]
    assert (wrapper.name, wrapper.members, wrapper.instances, wrapper.share) == ("step_*", 30, 30, None)
    assert (wrapper.min_ns, wrapper.max_ns) == (26185669, 1631355508)
    assert "step_*" in next(w.text for w in report.warnings if w.code == "wrapper-by-name")
    assert report.profile.path == "lab.txt"


def test_the_lab_truncated_row_is_left_out_and_said() -> None:
    [found] = stats(CSV)
    assert (found.report, found.frame.height) == ("nvtx_sum", 35)
    assert [n.code for n in found.notes] == ["truncated-row"]
    assert 26150390 not in found.frame["total_ns"].to_list()


def test_the_lab_steps_are_samples_of_the_host_and_too_long_as_the_shortest_are_cut_off() -> None:
    report = read(CSV)
    [step] = report.steps
    assert (step.source, step.count, step.warmup, step.warmup_steps) == ("table:step_*", 30, 1, ["step_0"])
    assert step.samples_ns[:2] == [33841972, 33315513]  # step_1, step_2: in the order of their numbers
    assert step.period_ns.median == 26824314
    assert step.confidence == "low"
    assert {"host-steps-only", "steps-cut-off"} <= codes(report)
    assert "at least 19 of 49" in next(w.text for w in report.warnings if w.code == "steps-cut-off")


def test_a_table_says_nothing_that_it_cannot_know() -> None:
    report = read(CONSOLE)
    assert report.profile.duration_ns is None
    for r in report.ranges or []:
        assert (r.process, r.self_ns, r.gpu_ns, r.percent_of_wall, r.steady_total_ns) == (None,) * 5
    assert [(s.process, s.gpu_busy_ns, s.kernels_per_step) for s in report.steps] == [(None, None, None)]
    assert [(c.source, c.exposed_ns) for c in report.copies or []] == [("unknown", None)]
    assert {"breakdown", "findings"} <= {n.code for n in report.not_checked}
    assert report.breakdown == []
    assert report.findings == []


def test_the_console_gives_every_section() -> None:
    tables = {t.report: t for t in stats(CONSOLE)}
    shown = {name: t.frame.height for name, t in tables.items() if t.skipped is None}
    assert shown == {
        "nvtx_sum": 35,
        "osrt_sum": 37,
        "cuda_api_sum": 24,
        "cuda_gpu_kern_sum": 20,
        "cuda_gpu_mem_time_sum": 2,
        "cuda_gpu_mem_size_sum": 2,
    }
    skipped = {name: t.skipped for name, t in tables.items() if t.skipped is not None}
    assert len(skipped) == 13
    assert (skipped["openmp_sum"] or "").endswith("does not contain OpenMP event data.")
    assert tables["nvtx_sum"].title == "NVTX Range Summary"
    assert tables["nvtx_sum"].source == "/home/user/slow_loader.sqlite"
    assert tables["nvtx_sum"].version == "2024.2.3"


def test_the_console_report_has_every_section() -> None:
    report = read(CONSOLE)
    sections = ("ranges", "kernels", "copies", "memsets", "api", "osrt")
    assert [len(getattr(report, s)) for s in sections] == [6, 20, 1, 1, 24, 37]
    assert report.profile.producer_version == "2024.2.3"
    copy = (report.copies or [])[0]
    assert (copy.kind, copy.instances, copy.total_ns, copy.bytes) == ("HtoD", 66, 12593988, 163615000)
    assert copy.gb_per_s == pytest.approx(12.99, abs=0.005)
    assert [s.period_ns.median for s in report.steps] == [25245500]
    assert report.steps[0].confidence == "medium"


def test_progress_bars_and_thousands_separators_change_nothing() -> None:
    plain, barred = read(CONSOLE), read(BARS)
    for section in ("ranges", "kernels", "copies", "memsets", "api", "osrt", "steps"):
        assert getattr(plain, section) == getattr(barred, section), section


def test_kernel_names_that_the_console_cut_are_not_merged() -> None:
    kernels = [k.name for k in read(CONSOLE).kernels or []]
    assert len(kernels) > len(set(kernels))
    assert "names-cut" in codes(read(CONSOLE))


# --------------------------------------------------------------------------------------------------------------------
# Dress: what pasting, terminals and operating systems do to a text
# --------------------------------------------------------------------------------------------------------------------


def wrapped(text: str, width: int) -> str:
    lines = text.split("\n")
    return "\n".join(line[i : i + width] for line in lines for i in range(0, max(len(line), 1), width))


@pytest.mark.parametrize(
    "dress",
    [
        pytest.param(lambda t: t.replace("\n", "\r\n"), id="crlf"),
        pytest.param(lambda t: t.replace("\n", "\r\r\n"), id="crcrlf"),
        pytest.param(lambda t: "\ufeff" + t, id="bom"),
        pytest.param(lambda t: t.strip(), id="stripped"),
        pytest.param(lambda t: "\n".join(line.strip() for line in t.split("\n")), id="every line stripped"),
        pytest.param(lambda t: "\n".join("        " + line for line in t.split("\n")), id="indented"),
        pytest.param(lambda t: "\n".join("> " + line for line in t.split("\n")), id="quoted"),
        pytest.param(lambda t: "\n".join("// " + line for line in t.split("\n")), id="comment"),
        pytest.param(lambda t: t.replace("\n", "\n\n"), id="double-spaced"),
        pytest.param(lambda t: "".join(f"\x1b[1m{line}\x1b[0m\n" for line in t.split("\n")), id="coloured"),
        pytest.param(
            lambda t: "loss, time, total (s)\n1,2\n$ nsys stats x\n" + t + "\n$ echo done\ndone\n", id="shell"
        ),
        pytest.param(lambda t: t.encode("utf-16"), id="utf-16 of a Windows shell"),
        pytest.param(lambda t: t.encode("utf-16-le"), id="utf-16 without a mark"),
        pytest.param(lambda t: wrapped(t, 80), id="wrapped at 80"),
        pytest.param(lambda t: wrapped(t, 101), id="wrapped at 101"),
        pytest.param(lambda t: wrapped(t, 132), id="wrapped at 132"),
    ],
)
def test_a_console_paste_survives(dress) -> None:  # type: ignore[no-untyped-def]
    plain, dressed = read(CONSOLE), read(dress(CONSOLE))
    for section in ("ranges", "kernels", "copies", "memsets", "api", "osrt", "steps"):
        assert getattr(plain, section) == getattr(dressed, section), section


def test_shifted_columns_give_the_same_figures_or_none() -> None:
    lines = CONSOLE.split("\n")
    rng = random.Random(7)
    shifted = [" " * rng.randrange(6) + line.lstrip(" ") if line.startswith("  ") else line for line in lines]
    assert read("\n".join(shifted)).ranges == read(CONSOLE).ranges


def test_a_boxed_table_is_read() -> None:
    box = """
+----------+-----------------+-----------+---------+-------------+
| Time (%) | Total Time (ns) | Instances |  Style  |    Range    |
+----------+-----------------+-----------+---------+-------------+
|     75.0 |     315,074,427 |         1 | PushPop | :Matrix Mul |
|     25.0 |     105,024,809 |         3 | PushPop | :Load       |
+----------+-----------------+-----------+---------+-------------+
"""
    lines = box.translate(str.maketrans("-|+", "─│┼"))
    for text in (box, lines):
        [found] = stats(text)
        assert found.frame.select("total_ns", "name").rows() == [(315074427, ":Matrix Mul"), (105024809, ":Load")]


def test_undecodable_bytes_are_replaced_and_said_once() -> None:
    report = read(table(row("caf\xe9"), row("ok"), row("\xff\xfe")).encode("latin-1"))
    assert [w.code for w in report.warnings].count("text-decoding") == 1
    assert {r.name for r in report.ranges or []} == {"caf\ufffd", "ok", "\ufffd\ufffd"}


# --------------------------------------------------------------------------------------------------------------------
# Names: nsys quotes for commas alone, doubles nothing, and leaves line breaks
# --------------------------------------------------------------------------------------------------------------------


def printed(name: str) -> str:
    """A name as nsys writes it into a CSV."""
    return f'"{name}"' if "," in name else name


@pytest.mark.parametrize(
    "name",
    [
        'a,"b"\nc', "a\nb", 'say "hi"', '"quoted"', "a, b, c", "", "데이터 로드 🚀", "x" * 5000, ",", '",',
        "tab\there", "1.0,2,3", "line\n12", "<script>|`x`", "Time (%)", "f<int, 4>(float*)",
    ],
)  # fmt: skip
def test_names_survive_the_quasi_csv(name: str) -> None:
    assert names(table(row("first", 300), row(printed(name), 200), row("last"))) == ["first", name, "last"]


@given(st.text(st.sampled_from('ab,"\n :1é…'), max_size=10), st.text(st.sampled_from('ab,"é1'), max_size=6))
def test_most_names_survive_and_none_harms_its_neighbours(one: str, two: str) -> None:
    text = table(row("first", 300), row(printed(one), 200), row(printed(two), 150), row("last"))
    found = stats(text)[0].frame
    assert found["total_ns"].to_list() == [300, 200, 150, 100]
    assert (found["name"][0], found["name"][3]) == ("first", "last")


@given(st.lists(st.text(st.sampled_from('ab,"\n :1é'), max_size=8), max_size=5), st.sampled_from(",\t;"), st.booleans())
def test_a_proper_csv_file_is_read_as_well(labels: list[str], delimiter: str, every: bool) -> None:
    """Saved again by a spreadsheet or by pandas with everything quoted: quotes doubled, line breaks inside."""
    buffer = io.StringIO()
    style = csv.QUOTE_ALL if every else csv.QUOTE_MINIMAL
    writer = csv.writer(buffer, delimiter=delimiter, quoting=style, lineterminator="\n")
    writer.writerow(HEADER.split(","))
    for label in [*labels, "last"]:
        writer.writerow([*row("", 100).split(",")[:-1], label])
    found = stats(buffer.getvalue())[0].frame
    if every:
        assert found["name"].to_list() == [*labels, "last"]
    else:  # unquoted headers: nsys's own reading has priority where both are possible
        assert found["name"][-1] == "last"


def test_a_name_in_the_first_column_may_break_lines() -> None:
    header = "Range,Style,Total Proj Time (ns),Total Range Time (ns),Range Instances,Proj Avg (ns)"
    [found] = stats(f'{header}\n:a\nb,PushPop,10,20,1,10.0\n":c,"d",PushPop,30,40,2,15.0\n:e,PushPop,5,6,1,5.0\n')
    assert found.report == "nvtx_gpu_proj_sum"
    assert found.frame["name"].to_list() == [":a\nb", ':c,"d', ":e"]
    assert found.frame["total_proj_ns"].to_list() == [10, 30, 5]


def test_two_name_columns_are_told_apart_by_their_quotes() -> None:
    header = "NVTX Range,Style,PID,TID,NVTX Inst,Kern Inst,Total Time (ns),Avg (ns),Kernel Name"
    [found] = stats(f'{header}\n":step, one",PushPop,1,2,3,4,500,125.0,"void k<int, 4>(a, b)"\n')
    assert found.report == "nvtx_kern_sum"
    assert found.frame.select("nvtx_range", "kernel_name", "total_ns").row(0) == (
        ":step, one", "void k<int, 4>(a, b)", 500,
    )  # fmt: skip


# --------------------------------------------------------------------------------------------------------------------
# Truncation and damage
# --------------------------------------------------------------------------------------------------------------------

WHOLE = table(row("data_load", 500, 5), *[row(f"step_{i}", 90 - i) for i in range(12)])


@pytest.mark.parametrize("cut", range(1, len(row("step_11", 79))))
def test_a_text_cut_anywhere_in_its_last_row_keeps_the_rows_before(cut: int) -> None:
    whole, [found] = stats(WHOLE)[0].frame, stats(WHOLE[: -1 - cut])
    assert found.frame.head(12).equals(whole.head(12))
    seen = found.frame.height == 12  # a name that lost its end can be any name: then its figures are right
    assert seen == ("truncated-row" in [n.code for n in found.notes])
    assert seen or found.frame["total_ns"][12] == 79
    assert seen == (cut >= len("step_11") or cut == 1)  # step_1 is there already


def test_a_name_cut_to_an_earlier_one_is_left_out() -> None:
    text = table(row("step_1", 300), row("step_10", 200)).rstrip("\n")[:-1]
    assert text.endswith("step_1")
    [found] = stats(text)
    assert found.frame["name"].to_list() == ["step_1"]
    assert [n.code for n in found.notes] == ["truncated-row"]


def test_damaged_rows_are_counted_and_their_neighbours_kept() -> None:
    [found] = stats(table(row("a", 300), "10.0,20", "10.0,x,1,1.0,1.0,1,1,0.0,PushPop,b", row("c")))
    assert found.frame["name"].to_list() == ["a", "c"]
    assert [(n.code, n.text[:26]) for n in found.notes] == [("damaged-rows", "Damaged rows left out: 2. ")]


def test_impossible_figures_do_not_enter_a_report() -> None:
    report = read(table(row("a", 300), row("b").replace("100", str(10**30)), row("c", -5)))
    assert [r.name for r in report.ranges or []] == ["a"]


# --------------------------------------------------------------------------------------------------------------------
# Versions and formats
# --------------------------------------------------------------------------------------------------------------------

OLD = """
CUDA API Statistics:

 Time(%)  Total Time (ns)  Num Calls    Average    Minimum    Maximum           Name
 -------  ---------------  ---------  -----------  -------  -----------  ------------------
    98.0        1,437,665          1  1,437,665.0  1,437,665  1,437,665  cuModuleUnload
     2.0           35,921          4      8,980.2    1,040       19,667  cuMemcpyDtoH_v2


CUDA Kernel Statistics:

 Time(%)  Total Time (ns)  Instances   Average   Minimum  Maximum          Name
 -------  ---------------  ---------  ---------  -------  -------  ---------------------
   100.0          222,080          1  222,080.0  222,080  222,080  void add<int>(int, T1)


CUDA Memory Operation Statistics (by time):

 Time(%)  Total Time (ns)  Operations    Average    Minimum   Maximum       Operation
 -------  ---------------  ----------  -----------  -------  ---------  ------------------
   100.0        4,194,961           4  1,048,740.3    2,911  1,400,294  [CUDA memcpy HtoD]


CUDA Memory Operation Statistics (by size in KiB):

   Total     Operations   Average   Minimum   Maximum       Operation
 ----------  ----------  ---------  -------  ---------  ------------------
 31,457.280           4  7,864.320    0.000  1,048.576  [CUDA memcpy HtoD]


NVTX Push-Pop Range Statistics:

 Time(%)  Total Time (ns)  Instances     Average       Minimum      Maximum       Range
 -------  ---------------  ---------  -------------  -----------  -----------  ------------
    67.6    3,889,587,729          5  777,917,545.8  777,031,465  778,565,183  Process Loop
"""


def test_tables_of_2021_are_read() -> None:
    assert [t.report for t in stats(OLD)] == [
        "cuda_api_sum", "cuda_gpu_kern_sum", "cuda_gpu_mem_time_sum", "cuda_gpu_mem_size_sum", "nvtx_pushpop_sum",
    ]  # fmt: skip
    report = read(OLD)
    [kernel] = report.kernels or []
    assert (kernel.total_ns, kernel.median_ns, kernel.stddev_ns) == (222080, None, None)
    [copy] = report.copies or []
    assert (copy.kind, copy.bytes) == ("HtoD", round(31457.280 * 1024))
    assert [(r.name, r.style, r.total_ns) for r in report.ranges or []] == [("Process Loop", "push_pop", 3889587729)]
    assert [c.name for c in report.api or []] == ["cuModuleUnload", "cuMemcpyDtoH"]


def test_launch_shapes_of_2022_are_one_kernel() -> None:
    text = (
        "Processing [a.sqlite] with [/opt/nsight-systems/2022.4.2/host/reports/gpukernsum.py]...\n"
        "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),GridXYZ,BlockXYZ,Name\n"
        '60.0,600,2,300.0,300.0,100,500,282.8,   8   16    1, 128    1    1,"void k<float, 4>(int)"\n'
        '40.0,400,4,100.0,100.0,90,110,8.2,   8    1    1, 128    1    1,"void k<float, 4>(int)"\n'
    )
    [found] = stats(text)
    assert (found.report, found.version, found.frame["gridxyz"][0]) == ("cuda_gpu_kern_sum", "2022.4.2", "8   16    1")
    [kernel] = read(text).kernels or []
    samples = pl.Series([100, 500, 90, 98, 102, 110])  # two launches and four with these very sums
    assert (kernel.instances, kernel.total_ns, kernel.min_ns, kernel.max_ns) == (6, 1000, 90, 500)
    assert kernel.median_ns is None
    assert kernel.stddev_ns == pytest.approx(samples.std(), rel=1e-3)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("nvtxsum", "nvtx_sum"),
        ("nvtxppsum", "nvtx_pushpop_sum"),
        ("nvtxsssum", "nvtx_startend_sum"),
        ("nvtxkernsum", "nvtx_kern_sum"),
        ("gpukernsum:base", "cuda_gpu_kern_sum"),
        ("cudaapisum", "cuda_api_sum"),
        ("gpumemtimesum", "cuda_gpu_mem_time_sum"),
        ("osrtsum", "osrt_sum"),
        ("cuda_gpu_kern_sum:nvtx-name:base", "cuda_gpu_kern_sum"),
        ("something_new", "something_new"),
    ],
)
def test_report_names_of_every_version(old: str, new: str) -> None:
    for announced in (
        f"Processing [x] with [/r/{old.partition(':')[0]}.py]... ",
        f"[3/8] Executing '{old}' stats report",
    ):
        assert [t.report for t in stats(f"{announced}\n{table(row('a'))}")] == [new]


def test_the_name_of_a_file_names_its_report(tmp_path: Path) -> None:
    header = HEADER.replace("Instances", "Num Calls").replace(",Style,Range", ",Name")
    body = table(row("poll").replace("PushPop,", ""), header=header)
    path = tmp_path / "run_7_cuda_api_sum.csv"
    path.write_text(body)
    assert [t.report for t in stats(path)] == ["cuda_api_sum"]
    assert [t.report for t in stats(body)] == ["osrt_sum"]  # by its names


@pytest.mark.parametrize(
    ("unit", "factor", "exact"),
    [
        ("ns", 1, True), ("us", 1e3, True), ("µs", 1e3, True), ("usec", 1e3, True), ("ms", 1e6, False),
        ("milliseconds", 1e6, False), ("s", 1e9, False), ("sec", 1e9, False),
    ],
)  # fmt: skip
def test_time_units_become_nanoseconds(unit: str, factor: float, exact: bool) -> None:
    header = HEADER.replace("(ns)", f"({unit})")
    [found] = stats(table("10.0,12.5,2,6.25,6.25,6.0,6.5,0.0,PushPop,a", header=header))
    assert found.frame.select("total_ns", "avg_ns", "max_ns").row(0) == (
        round(12.5 * factor), 6.25 * factor, round(6.5 * factor),
    )  # fmt: skip
    assert [n.code for n in found.notes] == ([] if exact else ["rounded-times"])


def as_json(labels: list[str]) -> str:
    """As nsys prints it: quotes escaped, line breaks not."""
    keys = HEADER.split(",")
    rows = [
        dict(zip(keys, [1.5, 100, 1, 100.0, 100.0, 100, 100, 0.0, "PushPop", label], strict=True)) for label in labels
    ]
    return "[" + ",\n".join(json.dumps(r, ensure_ascii=False).replace("\\n", "\n") for r in rows) + "]\n"


@given(st.lists(st.text(st.sampled_from('ab,"\n{}[]:é'), max_size=8), min_size=1, max_size=4))
def test_json_with_raw_line_breaks(labels: list[str]) -> None:
    text = f"Processing [x] with [/r/nvtx_sum.py]...\n{as_json(labels)}\n{table(row('next'))}"
    assert names(text) == [*labels, "next"]


def test_json_that_is_cut_off_gives_the_rows_before() -> None:
    [found] = stats("\n" + as_json(["a", "b", "c"])[:-20])
    assert found.frame["name"].to_list() == ["a", "b"]
    assert [n.code for n in found.notes] == ["truncated-row"]


def test_several_csv_reports_in_one_stream() -> None:
    kernels = table('50.0,10,1,10.0,10.0,10,10,0.0,"k<a, b>"', header=HEADER.replace(",Style,Range", ",Name"))
    text = f"Generating SQLite file\n\n{table(row('a'))}\n{kernels}\nSKIPPED: x does not contain GPU memory data.\n"
    found = {t.report: t.skipped for t in stats(text)}
    assert list(found) == ["nvtx_sum", "cuda_gpu_kern_sum", "cuda_gpu_mem_time_sum"]
    report = read(text)
    assert [k.name for k in report.kernels or []] == ["k<a, b>"]
    assert report.copies is None
    assert "GPU memory data" in next(n.reason for n in report.not_checked if n.code == "copies")


def test_a_trace_may_have_empty_cells() -> None:
    text = (
        "Start (ns),Duration (ns),CorrId,Bytes (MB),SrcMemKd,Device,Strm,Name\n"
        '1000,200,12,,,NVIDIA H200 (0),7,"void k<int, float>(a, b)"\n'
        "1300,20,13,4.194,Pageable,NVIDIA H200 (0),7,[CUDA memcpy Host-to-Device]\n"
    )
    frame = stats(text)[0].frame
    assert frame["bytes"].to_list() == [None, 4194000.0]
    assert frame["start_ns"].to_list() == [1000, 1300]


# --------------------------------------------------------------------------------------------------------------------
# Ranges: domains, GIL, families, wrappers
# --------------------------------------------------------------------------------------------------------------------


def listed(*rows: str) -> dict[tuple[str, str], model.RangeRow]:
    return {(r.domain, r.name): r for r in read(table(*rows)).ranges or []}


def test_domains_of_new_versions() -> None:
    found = listed(row(":data_load"), row("my domain:load"), row(":a:b"), row(":aten::mm"), row("CCCL:cub::DeviceScan"))
    assert set(found) == {
        ("", "data_load"), ("my domain", "load"), ("", "a:b"), ("", "aten::mm"), ("CCCL", "cub::DeviceScan"),
    }  # fmt: skip
    assert found["CCCL", "cub::DeviceScan"].library


def test_a_colon_in_a_name_of_old_versions_is_the_users() -> None:
    found = listed(row("load: images"), row("train:step"), row("aten::mm"), row("NCCL:ncclAllReduce"))
    assert set(found) == {("", "load: images"), ("", "train:step"), ("", "aten::mm"), ("NCCL", "ncclAllReduce")}


@pytest.mark.parametrize("prefix", ["GIL Trace:", ""])
def test_gil_rows_are_kept_apart(prefix: str) -> None:
    report = read(table(row(f"{prefix}Holding GIL", 9000, 9), row(f"{prefix}Waiting for GIL", 800), row("load")))
    assert [(r.name, r.share) for r in report.ranges or []] == [("load", 100.0)]
    assert "Holding GIL" in next(w.text for w in report.warnings if w.code == "gil-rows")


def steps_of(*totals: int, name: str = "step_{}") -> list[str]:
    return [row(name.format(i), t) for i, t in enumerate(totals)]


@pytest.mark.parametrize("name", ["step_{}", ":step_{}", "iteration {}", "train step {}", "ProfilerStep#{}", "스텝 {}"])
def test_numbered_ranges_that_occur_once_are_wrappers(name: str) -> None:
    load = ":load" if name.startswith(":") else "load"
    report = read(table(row(load, 200, 4), *steps_of(900, 100, 101, 102, name=name)))
    by = {r.wrapper: r for r in report.ranges or []}
    assert by[True].name == name.lstrip(":").format("*")
    assert (by[False].name, by[False].share) == ("load", 100.0)
    [step] = report.steps
    assert (step.count, step.warmup, step.samples_ns) == (4, 1, [100, 101, 102])


def test_warm_up_is_told_as_of_a_capture() -> None:
    """One normal step among slow ones is forgiven, whichever way the step times came."""
    totals = (900, 101, 800, 100, 102, 101, 100, 103)
    [step] = read(table(row("load", 200, 4), *steps_of(*totals))).steps
    t = TraceBuilder()
    for i, (at, total) in enumerate(zip(accumulate(totals, initial=0), totals, strict=False)):
        t.range(f"step_{i}", ms(at), ms(at + total))
    [capture] = analyze(t.profile()).report.steps
    assert step.warmup == capture.warmup == 3
    assert step.warmup_steps == capture.warmup_steps


def test_what_another_numbered_family_could_enclose_is_no_wrapper() -> None:
    rows = [*steps_of(100, 100, 100), *steps_of(40, 40, 40, name="load_batch_{}"), row("forward", 90, 3)]
    assert {r.name: r.wrapper for r in read(table(*rows)).ranges or []} == {
        "step_*": True, "load_batch_*": False, "forward": False,
    }  # fmt: skip


def test_layers_that_ran_once_are_no_wrapper() -> None:
    rows = [row("forward", 900), *[row(f"layer_{i}", 50) for i in range(8)]]
    assert {r.name: r.wrapper for r in read(table(*rows)).ranges or []} == {"forward": False, "layer_*": False}


def test_numbered_names_alone_are_not_all_wrappers() -> None:
    report = read(table(*steps_of(100, 100, 100)))
    assert [(r.name, r.wrapper, r.share) for r in report.ranges or []] == [("step_*", False, 100.0)]
    assert "wrapper-by-name" not in codes(report)


def test_a_repeating_step_that_is_longer_than_its_peers_is_a_wrapper() -> None:
    report = read(table(row("train/step", 1000, 5), row("train/fwd", 600, 5), row("train/opt", 200, 5)))
    assert {r.name: r.wrapper for r in report.ranges or []} == {
        "train/step": True,
        "train/fwd": False,
        "train/opt": False,
    }
    assert "wrapper-by-total" in codes(report)
    assert report.steps == []  # a table of sums holds no single times
    assert "steps" in {n.code for n in report.not_checked}


def test_start_end_ranges_are_told_apart() -> None:
    found = read(table(row("a", 300), row("a", 100, style="StartEnd"))).ranges or []
    assert [(r.name, r.style, r.total_ns) for r in found] == [("a", "push_pop", 300), ("a", "start_end", 100)]


def test_two_profiles_in_one_text_are_not_added_up() -> None:
    one, two = (f"Processing [{p}.sqlite] with [/r/nvtx_sum.py]...\n{table(row(p))}\n" for p in ("a", "b"))
    report = read(one + two)
    assert [r.name for r in report.ranges or []] == ["a"]
    assert "several-profiles" in codes(report)
    repeated = read(f"{table(row('a'))}\n{table(row('b'))}")
    assert [r.name for r in repeated.ranges or []] == ["a"]
    assert "repeated-report" in codes(repeated)


# --------------------------------------------------------------------------------------------------------------------
# Against nsys's own figures
# --------------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not ORACLES.is_dir(), reason=f"the recorded nsys tables are not in {ORACLES}")
def test_every_recorded_table_is_read_cell_by_cell() -> None:
    paths = sorted(ORACLES.glob("*.csv"))
    assert len(paths) > 30
    for path in paths:
        with path.open(newline="") as file:
            expected = list(csv.DictReader(file))  # these names hold no quotes: proper CSV reads them too
        [found] = stats(path)
        assert path.stem.endswith(f"_{found.report}")
        assert found.frame.height == len(expected)
        for cells, printed_row in zip(found.frame.iter_rows(), expected, strict=True):
            assert [str(c) for c in cells] == [
                str(type(c)(v)) for c, v in zip(cells, printed_row.values(), strict=True)
            ]


@pytest.mark.skipif(not ORACLES.is_dir(), reason=f"the recorded nsys tables are not in {ORACLES}")
def test_projected_times_join_their_ranges() -> None:
    text = "\n".join((ORACLES / f"slow_loader_{r}.csv").read_text() for r in ("nvtx_sum", "nvtx_gpu_proj_sum"))
    spans = {r.name: r.gpu_span_ns for r in read(text).ranges or []}
    assert spans["forward"] == 71305627
    assert spans["data_load"] is None  # launched nothing: nsys lists no row


# --------------------------------------------------------------------------------------------------------------------
# Errors, sniffing, and any text at all
# --------------------------------------------------------------------------------------------------------------------


def test_an_empty_file_names_the_next_step(tmp_path: Path) -> None:
    path = tmp_path / "x_nvtx_sum.csv"
    path.touch()
    with pytest.raises(ProfileUnreadable, match=r"is empty.*run `nsys stats` again"):
        read(path)
    for text in ("", b"", "\n \n"):
        with pytest.raises(ProfileUnreadable, match="is empty"):
            stats(text)


def test_skipped_reports_alone_are_an_error_that_says_why() -> None:
    text = "\nSKIPPED: x.sqlite does not contain NV Tools Extension (NVTX) data.\n"
    assert [(t.report, t.skipped) for t in stats(text)] == [
        ("nvtx_sum", "x.sqlite does not contain NV Tools Extension (NVTX) data.")
    ]
    with pytest.raises(ProfileUnreadable, match=r"does not contain NV Tools Extension.*--trace"):
        read(text)


@pytest.mark.parametrize(
    "text",
    [
        "hello\nworld\n", "epoch,total,avg,min,max\n1,2,3,4,5\n", '[{"ph": "X", "ts": 1}]\n', "25.3\n25.1\n",
        "ERROR: Report 'foo' could not be found.\n", "--  --\n1  2\n",
    ],
)  # fmt: skip
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(NotAProfile, match="nsys stats"):
        read(text)
    assert not sniff(text.encode())


def test_a_path_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    for path in (tmp_path / "none.csv", tmp_path, "x" * 5000, "a\0b"):
        with pytest.raises(ProfileUnreadable) as caught:
            read(path)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 600


def test_a_file_of_gigabytes_is_refused_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(table(row("a")))
    monkeypatch.setattr(stats_csv, "LARGEST", 10)
    with pytest.raises(ProfileUnreadable, match="SQLite"):
        stats(path)


def test_sniff_knows_each_dress() -> None:
    dresses = (CSV, CONSOLE, BARS, OLD, table(row("a")), as_json(["a"]), table(row("a")).replace(",", "\t"))
    assert [sniff(text.encode()[:4096]) for text in dresses] == [True] * 7
    assert sniff(CSV.encode("utf-16")[:4096])
    others = (b"", b"SQLite format 3\0", b'{"traceEvents": []}', b'{"schema_version": 1}', b"step,ms\n1,2\n")
    assert [sniff(head) for head in others] == [False] * 5


def test_reports_survive_json() -> None:
    import msgspec

    for text in (CSV, CONSOLE, OLD):
        report = read(text)
        assert msgspec.json.decode(msgspec.json.encode(report), type=model.Report) == report


SOURCES = (CSV, CONSOLE, BARS, OLD, WHOLE, "\n" + as_json(["a", "b\nc"]), wrapped(CONSOLE, 90))
_TOKENS = [
    "\n",
    "\r",
    ",",
    '"',
    "\0",
    "--",
    "[{",
    "}]",
    "…",
    "\ufeff",
    "9" * 30,
    "-1",
    "1e400",
    "nan",
    "é",
    "\t",
    "|",
    "step_3",
]


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A real text with pieces cut out, doubled, swapped and overwritten."""
    text = draw(st.sampled_from(SOURCES))
    for _ in range(draw(st.integers(1, 6))):
        i, j = sorted(draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
        j = min(j, i + draw(st.sampled_from([0, 1, 3, 40, 2000])))
        middle = draw(st.sampled_from(["", text[i:j] * 2, *_TOKENS]))
        text = text[:i] + middle + text[j:]
    return text


def read_or_refuse(text: str | bytes) -> None:
    try:
        report = read(text)
    except UnstallError as error:
        assert "\n" not in str(error)
        return
    assert isinstance(report, model.Report)
    for r in report.ranges or []:
        assert r.total_ns >= 0
        assert r.instances >= r.members >= 1
    shares = [r.share for r in report.ranges or [] if r.share is not None]
    assert not shares or sum(shares) == pytest.approx(100) or sum(shares) == 0


@settings(max_examples=150, deadline=None)
@given(mutated())
def test_any_mutation_of_real_text_gives_a_report_or_one_line(text: str) -> None:
    read_or_refuse("\n" + text)


@settings(max_examples=100, deadline=None)
@given(mutated(), st.integers(0, 3), st.binary(max_size=4), st.randoms())
def test_any_mutation_of_its_bytes_as_well(text: str, encoding: int, junk: bytes, rng: random.Random) -> None:
    data = bytearray(text.encode(["utf-8", "utf-16", "utf-16-le", "latin-1"][encoding], errors="replace"))
    for _ in range(5):
        at = rng.randrange(len(data) + 1)
        data[at : at + len(junk)] = junk
    read_or_refuse(bytes(data))
    sniff(bytes(data[:4096]))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.sampled_from([*HEADER.split(","), *_TOKENS, "Processing [x] with [y.py]...", "SKIPPED: ", " ** A (b):"])
    )
)
def test_any_pile_of_its_words_as_well(words: list[str]) -> None:
    read_or_refuse("\n" + ",".join(words))


@pytest.mark.parametrize(
    "text", ["\n \nx\n-- --\n--\n--", "\n\n\n--  --\n-  -\n", "\n--\n", "\nTime (%)  Total (ns)\n--------  ----------"]
)
def test_rulers_without_their_headers_are_refused(text: str) -> None:
    """Found by mutation: a blank line in the place of a wrapped header."""
    read_or_refuse(text)


def test_half_a_character_in_json_or_text() -> None:
    """An escape may hold one half of a pair; no file can."""
    rows = '[\n {"Time (%)": "100.0", "Total Time (ns)": "5", "Instances": "1", "Range": "\\ud800x"}\n]'
    assert stats(rows)[0].frame["name"].to_list() == ["\ufffdx"]
    text = "Time (%),Total Time (ns),Instances,Range\n100.0,5,1,\udc80y\n"
    assert stats(text)[0].frame["name"].to_list() == ["\ufffdy"]
