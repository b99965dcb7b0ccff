"""`unstall kernel`: reading ncu's CSV, judging it, choosing the kernel, running an ncu that is none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import ncu_csv
import pytest

from unstall import kernel
from unstall.errors import CollectionFailed, NotAProfile, UsageError
from unstall.kernel import counters, ncu, target, texts
from unstall.kernel.records import KernelReport
from unstall.lang import speaker
from unstall.pipeline import report_of
from unstall.testing import TraceBuilder, ms, us

SM = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
MEMORY = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
BYTES = "smsp__sass_average_data_bytes_per_sector_mem_global_op_{}.ratio"
WARPS = "sm__maximum_warps_per_active_cycle_pct"
ACHIEVED = "sm__warps_active.avg.pct_of_peak_sustained_active"
WAVES = "launch__waves_per_multiprocessor"
LATENCY = {SM: 12, MEMORY: 18}


def judged(**changes: Any) -> KernelReport:
    return kernel.read(ncu_csv.raw(changes))


def codes(**changes: Any) -> list[str]:
    return [f.code for f in judged(**changes).findings]


# ---- each rule fires, and is silent on a healthy copy ----------------------------------------------------------------


def test_a_healthy_copy_is_bound_by_memory_and_nothing_else() -> None:
    report = judged()
    assert [f.code for f in report.findings] == ["memory-bound"] and report.limit == "memory"
    assert not report.not_checked
    assert report.duration_ns == 48_000 and report.grid == [4096, 1, 1] and report.device == "NVIDIA H200"
    assert report.roofline.dram_gb_per_s == pytest.approx(201_326_592 / 48_000)
    assert report.roofline.flop_per_byte == pytest.approx(16_777_216 / 201_326_592)
    assert report.roofline.ridge_flop_per_byte == pytest.approx(67_000 / 4_800)


@pytest.mark.parametrize(
    ("changes", "code", "evidence"),
    [
        ({SM: 88, MEMORY: 40}, "compute-bound", "88 %"),
        (LATENCY, "latency-bound", "global memory"),
        ({BYTES.format("ld"): 4, "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 3_200_000}, "uncoalesced-access",
         "4.0 bytes of each 32-byte sector"),
        ({BYTES.format("st"): 8}, "uncoalesced-access", "Stores fill 8.0 bytes"),
        ({BYTES.format("ld"): None, "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": "3,200,000"},
         "uncoalesced-access", "32 sectors a request"),
        ({"smsp__thread_inst_executed_per_inst_executed.ratio": 16.5}, "divergence", "16.5 of the 32"),
        ({"smsp__thread_inst_executed_pred_on_per_inst_executed.ratio": 17}, "divergence", "17.0 of the 32"),
        ({"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum": "3,100",
          "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": "3,200"}, "bank-conflicts", "97 %"),
        ({"Kernel Name": "cutlass_80_simt_sgemm_128x128", SM: 85, MEMORY: 40,
          "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active": 80}, "tensor-cores-idle", "80 %"),
        ({**LATENCY, "Grid Size": "(8, 1, 1)", WAVES: 0.01}, "small-grid", "8 blocks for 132"),
        ({SM: 70, MEMORY: 20, "Grid Size": "(276, 1, 1)", WAVES: 1.05}, "tail-effect", "48 %"),
        ({**LATENCY, WARPS: 6.25, ACHIEVED: 6.2, "launch__occupancy_limit_shared_mem": 2,
          "launch__shared_mem_per_block_dynamic": 102_400}, "low-occupancy", "102.4 kB"),
        ({**LATENCY, WARPS: 25, ACHIEVED: 22, "launch__occupancy_limit_registers": 2,
          "launch__registers_per_thread": 200}, "low-occupancy", "200 registers a thread"),
        ({**LATENCY, ACHIEVED: 30}, "uneven-warps", "30 %"),
    ],
)  # fmt: skip
def test_a_fault_is_named_with_its_figure(changes: dict[str, Any], code: str, evidence: str) -> None:
    report = judged(**changes)
    finding = next((f for f in report.findings if f.code == code), None)
    assert finding is not None, [f.code for f in report.findings]
    assert any(evidence in e.text for e in finding.evidence), [e.text for e in finding.evidence]
    assert finding.fix.pytorch and finding.fix.triton and finding.fix.cuda
    assert "{" not in finding.title + "".join(e.text for e in finding.evidence)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({BYTES.format("ld"): 17}, "uncoalesced-access"),
        ({BYTES.format("ld"): 4, MEMORY: 10, SM: 80}, "uncoalesced-access"),  # memory does not matter to it
        ({"smsp__thread_inst_executed_per_inst_executed.ratio": 29}, "divergence"),
        ({"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum": 100,
          "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": 1000}, "bank-conflicts"),
        ({WARPS: 12.5, SM: 90, MEMORY: 30}, "low-occupancy"),  # as matrix products at full speed have
        ({"Kernel Name": "sm90_xmma_gemm_bf16bf16", SM: 85, MEMORY: 40,
          "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active": 80}, "tensor-cores-idle"),
        ({"Kernel Name": "softmax_kernel", SM: 85, MEMORY: 40,
          "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active": 60}, "tensor-cores-idle"),
        ({SM: 70, MEMORY: 20, WAVES: 7.1}, "tail-effect"),
        ({WAVES: 1.05}, "tail-effect"),  # memory is saturated all the same
    ],
)  # fmt: skip
def test_no_false_alarm(changes: dict[str, Any], code: str) -> None:
    assert code not in codes(**changes)


def test_what_was_not_measured_is_not_clean() -> None:
    missing = [n for n in ncu_csv.HEALTHY if n.startswith(("smsp__", "l1tex__", "launch__", "sm__m"))]
    report = judged(**dict.fromkeys(missing), **{"Kernel Name": "sgemm"})
    assert {n.code for n in report.not_checked} == {
        "uncoalesced-access", "bank-conflicts", "divergence", "small-grid", "low-occupancy",
    }  # fmt: skip
    unknown = judged(**{SM: None, MEMORY: None})
    assert unknown.limit == "unknown" and unknown.roofline.compute_percent is None


# ---- reading ---------------------------------------------------------------------------------------------------------


def test_medians_of_the_kernel_with_the_most_time() -> None:
    mine = [{"Kernel Name": "mine", "gpu__time_duration.sum": t} for t in ("1,000", "9,000", "2,000")]
    report = kernel.read(ncu_csv.raw({"Kernel Name": "other", "gpu__time_duration.sum": 500}, *mine))
    assert (report.kernel, report.launches, report.duration_ns) == ("mine", 3, 2_000)


def test_noise_around_the_table_and_names_with_commas_and_quotes() -> None:
    name = 'void k<float, (int)4>(char const*, "x")'
    text = "==PROF== Connected\nloss 0.1\n" + ncu_csv.raw({"Kernel Name": name}) + "==PROF== Disconnected\r\n"
    assert kernel.read(text).kernel == name


def test_details_page_with_scaled_units() -> None:
    head = (
        "ID,Process ID,Process Name,Host Name,Kernel Name,Context,Stream,Block Size,Grid Size,Device,CC,Section Name,"
    )
    head += "Metric Name,Metric Unit,Metric Value,Rule Name,Rule Type,Rule Description"
    rows = [("Duration", "usecond", "48.00"),
            ("Compute (SM) Throughput", "%", "88.5"), ("Memory Throughput", "%", "31"),
            ("Memory Throughput", "Gbyte/second", "1,500.2"), ("Theoretical Occupancy", "%", "100")]  # fmt: skip
    lines = [",".join(f'"{c}"' for c in head.split(","))]
    lines += [",".join(f'"{c}"' for c in ("0", "9", "p", "h", "k", "1", "7", "(1, 1, 1)", "(2, 1, 1)", "0", "9.0", "S",
                                          *row)) for row in rows]  # fmt: skip
    report = kernel.read("\n".join(lines))
    assert (report.duration_ns, report.limit, report.roofline.memory_percent) == (48_000, "compute", 31)


@pytest.mark.parametrize("text", ["", "==ERROR== nothing", '"ID","Kernel Name"\n', "a,b\n1,2\n"])
def test_no_table(text: str) -> None:
    with pytest.raises(NotAProfile, match="launches"):
        kernel.read(text)


def test_unknown_is_left_out() -> None:
    launch = counters.parse(ncu_csv.raw({SM: "n/a", MEMORY: "(!) n/a"}))[0]
    assert SM not in launch.values and MEMORY not in launch.values


# ---- choosing --------------------------------------------------------------------------------------------------------


def profile(tmp_path: Path) -> Path:
    t = TraceBuilder()

    def body(b: TraceBuilder, i: int, at: int) -> None:
        b.range(f"step_{i}", at, at + ms(9))
        for k in range(4):
            kernel_at = at + us(100) + k * ms(2)
            b.launch("void at::native::<unnamed>::heavy<float, (int)4, AddFunctor>(T1)", at + k * us(20), us(10),
                     kernel_start=kernel_at, kernel_dur=ms(2) - us(5))  # fmt: skip
        b.launch("ncclDevKernel_AllReduce", at + us(90), us(5), kernel_start=at + ms(8) + us(200), kernel_dur=us(700))

    t.steps(12, ms(10), body)
    return t.write(tmp_path / "p.sqlite")


def test_the_kernel_that_the_report_says_matters(tmp_path: Path) -> None:
    found = target.from_report(report_of(profile(tmp_path)))
    assert found is not None and found.name.startswith("void at::native")
    assert found.skip >= 4 * target.WARM_STEPS and found.count == target.COUNT
    assert found.share is not None and found.share > 80
    assert found.fits("void at::native::(anonymous namespace)::heavy<float, 4, AddFunctor>(T1)")
    assert not found.fits("void at::native::(anonymous namespace)::heavy<float, 4, MulFunctor>(T1)")


def test_a_name_is_a_pattern_and_counts_come_from_the_profile(tmp_path: Path) -> None:
    report = report_of(profile(tmp_path))
    assert target.named("heavy", report).skip >= 20
    assert target.named("nothing_like_it", report) == target.Target(pattern="nothing_like_it", why="named by you")
    with pytest.raises(UsageError, match="no regular expression"):
        target.named("gemm(")


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("void at::native::<unnamed>::vec<(int)4, at::native::CUDAFunctor_add<float>>(int, T2)",
         "void at::native::(anonymous namespace)::vec<4, at::native::CUDAFunctor_add<float> >(int, T2)"),
        ("ampere_sgemm_128x64_tn", "ampere_sgemm_128x64_tn"),
        ("triton_poi_fused_add_0", "triton_poi_fused_add_0"),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nn_align1>(T1::Params)",
         "void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nn_align1>(typename T1::Params)"),
    ],
)  # fmt: skip
def test_patterns_find_the_kernel_however_ncu_prints_it(name: str, other: str) -> None:
    import re

    assert re.search(target.pattern_of(name), other)


# ---- running ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tool = ncu_csv.fake(tmp_path / "tools", ncu_csv.raw({"Kernel Name": "k"}))
    monkeypatch.setenv("NCU", str(tool))
    return tool


def run(*line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "unstall", "kernel", *line], capture_output=True, text=True, check=False, timeout=120
    )


def test_the_whole_command(installed: Path, tmp_path: Path) -> None:
    done = run("k", "--skip", "5", "--json", str(tmp_path / "k.json"), "--csv", str(tmp_path / "k.csv"),
               "--", "sh", "-c",
               "echo from the program")  # fmt: skip
    assert done.returncode == 0 and done.stdout.startswith("from the program\n"), done.stderr
    assert "Memory limits" in done.stdout and "PyTorch" in done.stdout
    assert done.stderr.splitlines()[-1].startswith("unstall: exit code 0: sh was ended after the measurement")
    said = json.loads((tmp_path / "k.json").read_bytes())
    assert said["schema_version"] == 1 and said["limit"] == "memory" and said["ncu_version"] == "2025.3.1.0"
    asked = (installed.parent / "asked").read_text()
    for part in (
        "--clock-control\nnone",
        "regex:k",
        "--launch-skip\n5",
        "--launch-count\n3",
        "--kill\nyes",
        "SpeedOfLight",
    ):
        assert part in asked, part
    again = run("--read", str(tmp_path / "k.csv"))
    assert again.returncode == 0 and "Memory limits" in again.stdout


def test_the_programs_own_code_where_it_went_on_to_its_end(installed: Path) -> None:
    done = run("k", "--keep-running", "--json", "-", "--", "sh", "-c", "echo loss; exit 7")
    assert done.returncode == 7 and json.loads(done.stdout)["exit_code"] == 7
    assert "loss" in done.stderr and "exit code 7 is the program's own (sh)" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("said", "expected", "hint"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission", "may not read the GPU's counters",
         "--cap-add SYS_ADMIN"),
        ("==ERROR== Profiling failed because a driver resource was unavailable.", "in use by another tool", "dcgmi"),
        ("==ERROR== Cuda driver is not compatible with Nsight Compute", "does not know this GPU or driver", "newer"),
        ("==WARNING== No kernels were profiled.", "before launch 1", "--skip"),
        ("==ERROR== Something new.", "Something new", "without ncu"),
    ],
)  # fmt: skip
def test_failures_are_one_line_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, expected: str, hint: str
) -> None:
    tool = ncu_csv.fake(tmp_path / "tools", "", trouble=f'echo "{said}" >> "$log"; exit 1')
    monkeypatch.setenv("NCU", str(tool))
    with pytest.raises(CollectionFailed) as failure:
        ncu.measure(["true"], target.Target("k", skip=0))
    assert expected in failure.value.why and hint in failure.value.hint and "\n" not in str(failure.value)


def test_a_counter_that_this_ncu_does_not_know(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trouble = '[ -n "$metrics" ] && { echo "==ERROR== Failed to find metric sm__x" >> "$log"; exit 1; }'
    tool = ncu_csv.fake(tmp_path / "tools", ncu_csv.raw({}), trouble=trouble)
    monkeypatch.setenv("NCU", str(tool))
    assert kernel.examine(["true"], target.Target("k", skip=0)).limit == "memory"


def test_a_program_that_ends_too_soon_is_run_once_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trouble = '[ "$skip" != 0 ] && { echo "==WARNING== No kernels were profiled." >> "$log"; exit 0; }'
    monkeypatch.setenv("NCU", str(ncu_csv.fake(tmp_path / "tools", ncu_csv.raw({}), trouble=trouble)))
    done = run("k", "--", "true")
    assert done.returncode == 0 and "once more, without skipping any" in done.stderr, done.stderr


def test_no_ncu_no_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NCU", str(tmp_path / "nothing"))
    with pytest.raises(CollectionFailed, match="not a program"):
        ncu.find()
    assert run("k").returncode == 2 and run("k", "--", "no-such-program").returncode == 2
    assert run("k", "--", "true").returncode == 3


# ---- words -----------------------------------------------------------------------------------------------------------


def test_every_sentence_has_its_korean() -> None:
    from unstall.lang.ko import kernel as korean

    for text in texts.TEXTS.values():
        for sentence in (text.title, text.fix, text.pytorch, text.triton, text.cuda):
            assert sentence in korean.TEXTS, sentence
    assert set(texts.STALLS.values()) <= set(korean.TEXTS)


def test_korean_report_has_no_english_sentence() -> None:
    report = kernel.read(ncu_csv.raw({**LATENCY, WARPS: 25, "launch__occupancy_limit_registers": 2}), language="ko")
    assert report.summary == speaker("ko")(
        "Nothing is near its limit (arithmetic {compute}, memory {memory}): it waits.", compute="12 %", memory="18 %"
    )
    assert any("가" <= c <= "힣" for f in report.findings for e in f.evidence for c in e.text)
    assert "registers" not in report.findings[0].title
