"""Text as ``ncu --csv`` prints it, and an ncu made of shell that leaves it behind, for tests.

Counter names, the row of units and the columns in front are those of ncu 2022 to 2025 (page ``raw``).
"""

from __future__ import annotations

import csv
import io
import stat
from pathlib import Path
from typing import Any

FRONT = {
    "ID": "0", "Process ID": "41", "Process Name": "python3", "Host Name": "127.0.0.1", "Kernel Name": "k",
    "Context": "1", "Stream": "7", "Block Size": "(256, 1, 1)", "Grid Size": "(4096, 1, 1)", "Device": "0", "CC": "9.0",
}  # fmt: skip
UNITS = {"gpu__time_duration.sum": "ns", "dram__bytes_read.sum": "byte", "dram__bytes_write.sum": "byte",
         "device__attribute_display_name": ""}  # fmt: skip
HEALTHY: dict[str, Any] = {
    "gpu__time_duration.sum": "48,000",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": 20.5,
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": 91.25,
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": 91.25,
    "lts__throughput.avg.pct_of_peak_sustained_elapsed": 55,
    "l1tex__throughput.avg.pct_of_peak_sustained_active": 30,
    "dram__bytes_read.sum": "134,217,728",
    "dram__bytes_write.sum": "67,108,864",
    "sm__warps_active.avg.pct_of_peak_sustained_active": 88,
    "sm__maximum_warps_per_active_cycle_pct": 100,
    "launch__registers_per_thread": 24,
    "launch__occupancy_limit_registers": 10,
    "launch__occupancy_limit_shared_mem": 32,
    "launch__occupancy_limit_warps": 8,
    "launch__occupancy_limit_blocks": 32,
    "launch__shared_mem_per_block_static": 0,
    "launch__shared_mem_per_block_dynamic": 0,
    "launch__waves_per_multiprocessor": 3.88,
    "launch__sm_count": 132,
    "smsp__thread_inst_executed_per_inst_executed.ratio": 32,
    "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio": 31.2,
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio": 32,
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio": 32,
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": "1,600,000",
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": "100,000",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum": 0,
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum": 0,
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": 0,
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum": 0,
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active": 0,
    "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active": 4,
    "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": 0,
    "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum": "16,777,216",
    "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum": 0,
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio": 20,
    "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio": 2,
    "smsp__average_warps_issue_stalled_selected_per_issue_active.ratio": 1,
    "device__attribute_display_name": "NVIDIA H200",
}


def raw(*launches: dict[str, Any]) -> str:
    """Page ``raw``: one launch a dict of what differs from a healthy copy; ``None`` leaves a counter out."""
    rows = [{**FRONT, **HEALTHY, **{"ID": str(i)}, **launch} for i, launch in enumerate(launches)]
    names = [n for n in dict.fromkeys(n for r in rows for n in r) if any(r.get(n) is not None for r in rows)]
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(names)
    writer.writerow(["" if n in FRONT else UNITS.get(n, "%" if "pct" in n else "") for n in names])
    writer.writerows([str(r.get(n, "n/a")) for n in names] for r in rows)
    return out.getvalue()


SCRIPT = """#!/bin/sh
here=$(dirname "$0")
[ "$1" = --version ] && {{ echo "Nsight Compute CLI"; echo "Version 2025.3.1.0 (build 1)"; exit 0; }}
[ "$1" = --import ] && {{ cat "$2"; exit 0; }}
printf '%s\\n' "$@" >> "$here/asked"; echo "--" >> "$here/asked"
while [ $# -gt 0 ]; do
  case "$1" in
  --log-file) log=$2; shift;;
  --export) out=$2; shift;;
  --section|--metrics|--kernel-name|--kernel-name-base|--launch-skip|--launch-count|--kill|--target-processes) 
    [ "$1" = --metrics ] && metrics=1; [ "$1" = --launch-skip ] && skip=$2; shift;;
  --clock-control|--nvtx-include) shift;;
  -*) ;;
  *) break;;
  esac
  shift
done
echo "==PROF== Connected to process 41" > "$log"
{trouble}
"$@"
code=$?
for i in {launches}; do echo "==PROF== Profiling \\"k\\" - $i (1/{count}): 0%....100% - 20 passes" >> "$log"; done
cp "$here/kernel.csv" "$out"
exit $code
"""


def fake(folder: Path, text: str, *, trouble: str = "", launches: int = 3) -> Path:
    """An ``ncu`` in ``folder`` that runs the program, measures ``launches`` and prints ``text`` on ``--import``."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kernel.csv").write_text(text, encoding="utf-8")
    tool = folder / "ncu"
    numbers = " ".join(map(str, range(launches)))
    tool.write_text(SCRIPT.format(trouble=trouble, launches=numbers, count=launches), encoding="utf-8")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    return tool
