"""What ``unstall kernel`` says, as records: the JSON of the command, field by field.

In: nothing. Out: types. Percentages are of the hardware's peak unless the name says otherwise; unknown is null.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from unstall.model import Evidence, NotChecked, Record

Limit = Literal["memory", "compute", "latency", "unknown"]


class Roofline(Record, kw_only=True):
    """Where the kernel stands under the roofline of fp32 on CUDA cores (null where it is not such a kernel)."""

    flop_per_byte: float | None = None  # of DRAM traffic
    ridge_flop_per_byte: float | None = None  # left of it memory is the roof
    tflop_per_s: float | None = None
    dram_gb_per_s: float | None = None
    compute_percent: float | None = None  # of the busiest pipe of the SMs
    memory_percent: float | None = None  # of the busiest level: DRAM, L2, L1 or shared memory
    dram_percent: float | None = None
    l2_percent: float | None = None
    l1_percent: float | None = None
    tensor_percent: float | None = None


class Occupancy(Record, kw_only=True):
    """Warps on an SM, in percent of what it can hold."""

    achieved_percent: float | None = None
    theoretical_percent: float | None = None
    limiter: str = ""  # registers | shared memory | block size | blocks an SM; empty where warps fill it
    registers_per_thread: int | None = None
    shared_bytes_per_block: int | None = None
    waves: float | None = None  # blocks over what all SMs hold at once


class KernelFix(Record, kw_only=True):
    title: str
    pytorch: str
    triton: str
    cuda: str


class KernelFinding(Record, kw_only=True):
    """One reason why the kernel is slow, the most important first."""

    code: str
    title: str
    evidence: list[Evidence]
    fix: KernelFix


class KernelReport(Record, kw_only=True):
    schema_version: int = 1
    kernel: str
    short_name: str
    chosen: str = ""  # why this kernel
    share_percent: float | None = None  # of all kernel time in the profile that it was chosen from
    launches: int = 0  # measured; figures are their medians
    duration_ns: int | None = None
    grid: list[int] = msgspec.field(default_factory=list)
    block: list[int] = msgspec.field(default_factory=list)
    device: str = ""
    limit: Limit = "unknown"
    summary: str = ""
    roofline: Roofline = msgspec.field(default_factory=Roofline)
    occupancy: Occupancy = msgspec.field(default_factory=Occupancy)
    findings: list[KernelFinding] = msgspec.field(default_factory=list)
    not_checked: list[NotChecked] = msgspec.field(default_factory=list)
    ncu: str = ""
    ncu_version: str = ""
    exit_code: int | None = None  # the program's own; null where it was ended after the measurement
    language: str = "en"
