"""The counters of some launches of one kernel, by what they mean.

In: launches of one kernel. Out: :class:`Measured`, medians over the launches; ``None`` where no launch has the counter.
Names of counters differ between architectures; each property lists its candidates.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from unstall.kernel.counters import Launch

WARP = 32
STALLED = re.compile(r"smsp__average_warps?_(?:issue|latency_issue)_stalled_(\w+?)_per_issue_active\.ratio")
LIMITS = {
    "registers": "launch__occupancy_limit_registers",
    "shared memory": "launch__occupancy_limit_shared_mem",
    "block size": "launch__occupancy_limit_warps",
    "blocks an SM": "launch__occupancy_limit_blocks",
}


@dataclass(frozen=True)
class Measured:
    """Medians of the launches of one kernel."""

    launches: Sequence[Launch]

    @property
    def kernel(self) -> str:
        return self.launches[0].kernel

    @property
    def grid(self) -> tuple[int, ...]:
        return self.launches[0].grid

    @property
    def block(self) -> tuple[int, ...]:
        return self.launches[0].block

    @property
    def device(self) -> str:
        names = ("device__attribute_display_name", "Device Name")
        return next((self.launches[0].words[n] for n in names if n in self.launches[0].words), "")

    def get(self, *names: str) -> float | None:
        """The median of the first of these counters that is known."""
        for name in names:
            found = [x.values[name] for x in self.launches if name in x.values]
            if found:
                return median(found)
        return None

    def total(self, *names: str) -> float | None:
        """The sum of those of these counters that are known; ``None`` without any."""
        found = [v for n in names if (v := self.get(n)) is not None]
        return sum(found) if found else None

    @property
    def duration_ns(self) -> float | None:
        return self.get("gpu__time_duration.sum", "gpu__time_duration.avg")

    @property
    def compute(self) -> float | None:
        return self.get("sm__throughput.avg.pct_of_peak_sustained_elapsed")

    @property
    def memory(self) -> float | None:
        return self.get("gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed")

    @property
    def dram(self) -> float | None:
        return self.get(
            "dram__throughput.avg.pct_of_peak_sustained_elapsed",
            "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
        )

    @property
    def l2(self) -> float | None:
        return self.get("lts__throughput.avg.pct_of_peak_sustained_elapsed")

    @property
    def l1(self) -> float | None:
        return self.get(
            "l1tex__throughput.avg.pct_of_peak_sustained_active", "l1tex__throughput.avg.pct_of_peak_sustained_elapsed"
        )

    @property
    def tensor(self) -> float | None:
        """Busiest tensor pipe: Hopper's is called gmma, older ones hmma, imma …"""
        found = [
            v for x in self.launches for n, v in x.values.items()
            if re.search(r"pipe_tensor\w*(_cycles_active|\.)\S*pct", n) and "breakdown" not in n
        ]  # fmt: skip
        return max(found) if found else None

    @property
    def fma(self) -> float | None:
        return self.get(
            "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active",
            "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active",
        )

    @property
    def dram_bytes(self) -> float | None:
        return self.total("dram__bytes_read.sum", "dram__bytes_write.sum")

    @property
    def flop(self) -> float | None:
        """fp32 operations on CUDA cores; a fused multiply-add counts two."""
        ops = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
        fma = self.get(ops.format("ffma"))
        return None if fma is None else 2 * fma + (self.total(ops.format("fadd"), ops.format("fmul")) or 0)

    @property
    def occupancy(self) -> float | None:
        return self.get("sm__warps_active.avg.pct_of_peak_sustained_active")

    @property
    def theoretical(self) -> float | None:
        return self.get("sm__maximum_warps_per_active_cycle_pct")

    @property
    def limiter(self) -> str:
        """What allows the fewest blocks on an SM; empty where the warps themselves fill it."""
        known = {name: v for name, counter in LIMITS.items() if (v := self.get(counter)) is not None}
        if not known or (self.theoretical or 0) >= 100:
            return ""
        return min(known, key=lambda n: known[n])

    @property
    def shared_bytes(self) -> float | None:
        return self.total("launch__shared_mem_per_block_static", "launch__shared_mem_per_block_dynamic")

    @property
    def waves(self) -> float | None:
        return self.get("launch__waves_per_multiprocessor")

    @property
    def blocks(self) -> int | None:
        size = 1
        for n in self.grid:
            size *= n
        return size if self.grid else None

    @property
    def sms(self) -> int | None:
        found = self.get("launch__sm_count", "device__attribute_multiprocessor_count")
        return None if found is None else int(found)

    def used_of_sector(self, op: str) -> float | None:
        """Bytes used of each 32-byte sector that global loads (``ld``) or stores (``st``) move, at best 32."""
        return self.get(f"smsp__sass_average_data_bytes_per_sector_mem_global_op_{op}.ratio")

    def sectors(self, op: str) -> float | None:
        """Sectors a warp's request to global memory touches: 4 for fp32, 16 for 16-byte vectors, at worst 32."""
        total, requests = (
            self.get(f"l1tex__t_{what}_pipe_lsu_mem_global_op_{op}.sum") for what in ("sectors", "requests")
        )
        if total is not None and requests:
            return total / requests
        return self.get(f"l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_{op}.ratio")

    @property
    def bank_conflicts(self) -> float | None:
        """Share of shared-memory wavefronts that only bank conflicts caused."""
        conflicts, waves = (
            self.total(*(f"l1tex__data_{what}_mem_shared_op_{op}.sum" for op in ("ld", "st")))
            for what in ("bank_conflicts_pipe_lsu", "pipe_lsu_wavefronts")
        )
        if conflicts is None or waves is None:
            conflicts = self.get("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum")
            waves = self.get("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum")
        return None if conflicts is None or not waves else min(conflicts / waves, 1.0)

    @property
    def active_threads(self) -> float | None:
        """Threads of a warp that take part in an instruction, of 32."""
        return self.get("smsp__thread_inst_executed_per_inst_executed.ratio")

    @property
    def unpredicated_threads(self) -> float | None:
        """Those whose result counts: the compiler turns short branches into predicates."""
        return self.get("smsp__thread_inst_executed_pred_on_per_inst_executed.ratio")

    @property
    def stall(self) -> tuple[str, float] | None:
        """What warps wait for most between two instructions, and its share of the waiting."""
        found: dict[str, float] = {}
        for name in {n for x in self.launches for n in x.values}:
            match = STALLED.fullmatch(name)
            if match and "not_issued" not in name and match[1] != "selected":
                found[match[1]] = self.get(name) or 0.0
        whole = sum(found.values())
        if not whole:
            return None
        most = max(found, key=lambda n: found[n])
        return most, found[most] / whole
