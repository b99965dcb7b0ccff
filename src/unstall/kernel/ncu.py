"""Run a program under Nsight Compute's ``ncu`` and bring back its table.

In: a command and a target. Out: the CSV of the launches that were measured, and the program's exit code. The program's
output is its own: ncu's goes to a file. The GPU's clocks are left as they are (``--clock-control none``): a kernel is
judged at the clocks at which it runs.

Counters are asked for in two goes: sections with single counters of ours, and, where this ncu knows one of them not,
sections alone.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from unstall.errors import CollectionFailed, UsageError
from unstall.kernel.target import Target
from unstall.nsys.ask import ask
from unstall.nsys.discover import find_ncu, version_of

SECTIONS = (
    "SpeedOfLight", "Occupancy", "LaunchStats", "MemoryWorkloadAnalysis", "ComputeWorkloadAnalysis", "WarpStateStats",
)  # fmt: skip
COUNTERS = (
    "gpu__time_duration.sum",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active",
    "smsp__thread_inst_executed_per_inst_executed.ratio",
    "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio",
    *(f"smsp__sass_average_data_bytes_per_sector_mem_global_op_{op}.ratio" for op in ("ld", "st")),
    *(f"l1tex__t_{what}_pipe_lsu_mem_global_op_{op}.sum" for op in ("ld", "st") for what in ("sectors", "requests")),
    *(f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{op}.sum" for op in ("ld", "st")),
    *(f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum" for op in ("ld", "st")),
    *(f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum" for op in ("ffma", "fadd", "fmul")),
)
DRIVER = "NVreg_RestrictProfilingToAdminUsers=0"
FAILURES = (
    (r"ERR_NVGPUCTRPERM", "may not read the GPU's counters (ERR_NVGPUCTRPERM)",
     f"Run it as root, in a container with --cap-add SYS_ADMIN, or load the driver with {DRIVER}"),
    (r"driver resource was unavailable|ResourceUnavailable", "the GPU's counters are in use by another tool",
     "End other profilers of this GPU; pause DCGM: dcgmi profile --pause"),
    (r"not supported on|UnsupportedGpu|DriverNotSupported|Cuda driver is not compatible|InsufficientDriver",
     "this ncu does not know this GPU or driver", "Install a newer Nsight Compute, or name one with NCU=/path/to/ncu"),
    (r"LibraryNotLoaded|cannot open shared object", "a library of ncu is missing", "Install Nsight Compute whole"),
    (r"[Nn]o space left", "the disk is full", "Name another TMPDIR"),
)  # fmt: skip
UNKNOWN_COUNTER = re.compile(r"(?i)failed to find metric|unknown metric|metrics? .*(not (found|available)|invalid)")
NOTHING = "No kernels were profiled"
NO_NCU = "Install Nsight Compute (it comes with the CUDA toolkit), or name it with NCU=/path/to/ncu"
SECONDS = 60.0  # for reading the report back


@dataclass(frozen=True)
class Run:
    """A measurement: ``text`` is the CSV, ``code`` the program's exit code (``None`` where ncu ended it)."""

    text: str
    tool: Path
    version: str
    code: int | None


def find(environ: Mapping[str, str] | None = None) -> Path:
    """The ncu to use: ``$NCU``, else the PATH's, else one in the usual places.

    Raises:
        CollectionFailed: there is none.
    """
    env = os.environ if environ is None else environ
    named = env.get("NCU")
    if named:
        path = Path(named) / "ncu" if Path(named).is_dir() else Path(named)
        if not os.access(path, os.X_OK) or not path.is_file():
            raise CollectionFailed(f"NCU={named}", "not a program that can be run", NO_NCU)
        return path
    found = find_ncu()
    if not found:
        raise CollectionFailed(
            "ncu", "not found on the PATH, in CUDA toolkits or in /opt/nvidia/nsight-compute", NO_NCU
        )
    return found[0]


def measure(command: Sequence[str], target: Target, *, keep_running: bool = False, inside: str = "") -> Run:
    """Measure some launches.

    Raises:
        CollectionFailed: see :data:`FAILURES`; or no launch matched.
    """
    tool = find()
    with tempfile.TemporaryDirectory(prefix="unstall-ncu-") as folder:
        report, log = Path(folder, "kernel.ncu-rep"), Path(folder, "ncu.log")
        for counters in (COUNTERS, ()):
            line = [str(tool), *options(target, counters, keep_running, inside), "--log-file", str(log),
                    "--export", str(report), "--force-overwrite", *command]  # fmt: skip
            code = _run(line)
            said = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
            if not (counters and not report.exists() and UNKNOWN_COUNTER.search(said)):
                break
        if not report.exists():
            raise _failure(said, target, code)
        text = _printed(tool, report)
    ended = not keep_running and len(re.findall(r"==PROF== Profiling ", said)) >= target.count
    return Run(text, tool, _version(tool), None if ended else code)


def options(target: Target, counters: Sequence[str], keep_running: bool, inside: str) -> list[str]:
    """ncu's options for a target."""
    line = ["--target-processes", "all", "--clock-control", "none"]
    line += [part for section in SECTIONS for part in ("--section", section)]
    line += ["--metrics", ",".join(counters)] if counters else []
    line += ["--kernel-name-base", "demangled", "--kernel-name", f"regex:{target.pattern}"] if target.pattern else []
    line += ["--launch-skip", str(target.skip), "--launch-count", str(target.count)]
    line += ["--nvtx", "--nvtx-include", f"{inside}/"] if inside else []
    return [*line, "--kill", "no" if keep_running else "yes"]


def _run(line: list[str]) -> int:
    """The exit code, shell style. Ctrl-C reaches ncu and the program as well; we wait for both to end."""
    try:
        process = subprocess.Popen(line)
    except OSError as error:
        raise CollectionFailed(line[0], (error.strerror or str(error)).lower(), NO_NCU) from error
    while True:
        try:
            code = process.wait()
            break
        except KeyboardInterrupt:
            process.send_signal(signal.SIGTERM)
    return 128 - code if code < 0 else code


def _printed(tool: Path, report: Path) -> str:
    line = [str(tool), "--import", str(report), "--csv", "--page", "raw", "--print-units", "base"]
    said = ask(line, {**os.environ, "LC_ALL": "C"}, SECONDS)
    if '"ID"' not in said.out:
        words = said.text.strip().splitlines()
        why = said.why or (words[-1] if words else "it said nothing")
        raise CollectionFailed("ncu", f"did not print its report ({why})", NO_NCU)
    return said.out


def _failure(said: str, target: Target, code: int) -> Exception:
    for pattern, why, hint in FAILURES:
        if re.search(pattern, said):
            return CollectionFailed("ncu", why, hint)
    errors = re.findall(r"==ERROR==\s*(.+)", said)
    if NOTHING in said or (not errors and "==PROF==" in said):
        wanted = f"launch {target.skip + 1} of a kernel like {target.pattern or 'any'!r}"
        hint = "Name another kernel, let the program run longer, or skip fewer launches with --skip"
        return CollectionFailed("ncu", f"the program ended (exit code {code}) before {wanted}", hint)
    if errors:
        return CollectionFailed("ncu", errors[-1].strip().rstrip("."), "Run the program without ncu first")
    return UsageError("ncu", f"left no report (exit code {code})", "Run the program without ncu first")


def _version(tool: Path) -> str:
    return ".".join(map(str, version_of(ask([str(tool), "--version"]).out)))
