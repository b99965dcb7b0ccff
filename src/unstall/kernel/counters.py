"""The CSV of ``ncu`` → launches with their counters.

In: text, with whatever the program or ncu printed around the table; page ``raw`` (a column a counter, units in the
second row) or ``details`` (a row a counter). Out: :class:`Launch` es. Values are numbers in base units (ns, bytes, %);
``n/a`` and words that are no number are left out, so unknown stays unknown.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from unstall.errors import NotAProfile

FIRST = '"ID",'
SCALES = {
    "nsecond": 1.0, "ns": 1.0, "usecond": 1e3, "us": 1e3, "msecond": 1e6, "ms": 1e6, "second": 1e9, "s": 1e9,
    "byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "Tbyte": 1e12,
    "byte/second": 1.0, "Kbyte/second": 1e3, "Mbyte/second": 1e6, "Gbyte/second": 1e9, "Tbyte/second": 1e12,
    "byte/block": 1.0, "Kbyte/block": 1e3, "Mbyte/block": 1e6,
    "hz": 1.0, "Khz": 1e3, "Mhz": 1e6, "Ghz": 1e9, "cycle/second": 1.0, "cycle/nsecond": 1e9, "cycle/usecond": 1e6,
}  # fmt: skip
"""Unit → base unit: ns, bytes, Hz. Without ``--print-units base`` ncu chooses a unit for each value."""
DETAILS = {
    "Duration": "gpu__time_duration.sum",
    "Compute (SM) Throughput": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "Memory Throughput": "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "DRAM Throughput": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "L2 Cache Throughput": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "L1/TEX Cache Throughput": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "Achieved Occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "Theoretical Occupancy": "sm__maximum_warps_per_active_cycle_pct",
    "Registers Per Thread": "launch__registers_per_thread",
    "Waves Per SM": "launch__waves_per_multiprocessor",
    "Block Limit Registers": "launch__occupancy_limit_registers",
    "Block Limit Shared Mem": "launch__occupancy_limit_shared_mem",
    "Block Limit Warps": "launch__occupancy_limit_warps",
    "Block Limit SM": "launch__occupancy_limit_blocks",
    "Dynamic Shared Memory Per Block": "launch__shared_mem_per_block_dynamic",
    "Static Shared Memory Per Block": "launch__shared_mem_per_block_static",
    "Avg. Active Threads Per Warp": "smsp__thread_inst_executed_per_inst_executed.ratio",
    "Avg. Not Predicated Off Threads Per Warp": "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio",
}
"""Label on the details page → counter. ``Memory Throughput`` is there twice, the second time in bytes/s."""


@dataclass
class Launch:
    """One launch that was measured."""

    kernel: str
    grid: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    values: dict[str, float] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)


def parse(text: str) -> list[Launch]:
    """All launches, in the order of the text.

    Raises:
        NotAProfile: no table of ncu, or one without launches.
    """
    rows = list(_rows(text))
    if not rows:
        hint = "Print it with ncu --import FILE.ncu-rep --csv --page raw"
        raise NotAProfile("the text of ncu", "holds no table with launches", hint)
    return _details(rows) if "Metric Name" in rows[0] else _raw(rows)


def _rows(text: str) -> Iterator[dict[str, str]]:
    """The table's rows; each new header begins a new one (a process a table)."""
    lines = text.replace("\r\n", "\n").split("\n")
    start = next((i for i, line in enumerate(lines) if line.startswith(FIRST)), len(lines))
    header: list[str] = []
    kept = (line for line in lines[start:] if line.startswith('"'))
    for row in csv.reader(io.StringIO("\n".join(kept))):
        if row and row[0] == "ID":
            header = row
        elif len(row) >= len(header) - 6:  # rule columns at the end of the details page may be missing
            yield dict(zip(header, row, strict=False))


def _raw(rows: list[dict[str, str]]) -> list[Launch]:
    out: list[Launch] = []
    units: dict[str, str] = {}
    for row in rows:
        if not row.get("ID"):
            units = row
        else:
            launch = _launch(row)
            for name, value in row.items():
                _put(launch, name, value, units.get(name, ""))
            out.append(launch)
    return out


def _details(rows: list[dict[str, str]]) -> list[Launch]:
    found: dict[tuple[str, str], Launch] = {}
    for row in rows:
        key = (row.get("Process ID", ""), row["ID"])
        launch = found.setdefault(key, _launch(row))
        label, unit = row.get("Metric Name", ""), row.get("Metric Unit", "")
        name = DETAILS.get(label, label)
        if label != "Memory Throughput" or unit == "%":
            _put(launch, name, row.get("Metric Value", ""), unit)
    return list(found.values())


def _launch(row: dict[str, str]) -> Launch:
    return Launch(row.get("Kernel Name", ""), _triple(row.get("Grid Size", "")), _triple(row.get("Block Size", "")))


def _triple(text: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", text)[:3])


def _put(launch: Launch, name: str, value: str, unit: str) -> None:
    number = _number(value)
    if number is not None:
        launch.values[name] = number * SCALES.get(unit, 1.0)
    elif value:
        launch.words[name] = value


def _number(value: str) -> float | None:
    """``1,234.5``; ncu writes groups of three in some locales, and ``n/a`` where a counter is unknown."""
    plain = value.replace(",", "").strip()
    try:
        return float(plain) if plain and plain[0] in "-0123456789." else None
    except ValueError:
        return None
