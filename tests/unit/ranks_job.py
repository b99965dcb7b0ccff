"""A training job of several ranks, simulated: each rank's capture with a known fault in it.

Comes in: what is wrong, with whom. Goes out: one export a rank. Ranks load, compute, reduce two buckets of gradients
(the first beside the compute), and step. A reduction ends on all ranks when the last has come and the data has moved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from unstall.testing import TraceBuilder, ms, us

GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64"
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)"
LOAD, COMPUTE, MOVE = ms(1), ms(8), ms(1)
EPOCH = 1_790_000_000_000_000_000


@dataclass
class Job:
    """``load`` and the others: (rank, step) → ns. ``skew``: how wrong each rank's wall clock is; ``zero``: when its
    capture began. ``groups``: communicator of each rank (ranks of different ones do not wait for each other)."""

    ranks: int = 4
    steps: int = 24
    load: Callable[[int, int], int] = lambda r, s: LOAD
    compute: Callable[[int, int], int] = lambda r, s: COMPUTE
    save: Callable[[int, int], int] = lambda r, s: 0
    move: Callable[[int, int], int] = lambda r, s: MOVE
    pieces: Callable[[int], int] = lambda r: 4
    skew: Mapping[int, int] = field(default_factory=dict)
    zero: Mapping[int, int] = field(default_factory=dict)
    group: Callable[[int], int] = lambda r: 0
    epoch: bool = True
    host: Callable[[int], str] = lambda r: "node"
    stored: bool = True
    first_step: int = 0
    names: str = "step_{}"
    label: str = "profile_rank{}"

    def write(self, folder: Path) -> list[Path]:
        """One export a rank."""
        folder.mkdir(exist_ok=True)
        traces = [self._trace(r) for r in range(self.ranks)]
        begins = [0] * self.ranks
        for step in range(self.steps):
            begins = self._step(traces, begins, step)
        return [t.write(folder / f"{self.label.format(r)}.sqlite") for r, t in enumerate(traces)]

    def _trace(self, rank: int) -> TraceBuilder:
        trace = TraceBuilder(pid=100 + rank, gpu="NVIDIA H200")
        epoch = EPOCH + self.zero.get(rank, 0) + self.skew.get(rank, 0) if self.epoch else None
        return trace.meta(rank=rank if self.stored else None, host=self.host(rank), utc_epoch_ns=epoch)

    def _step(self, traces: list[TraceBuilder], begins: list[int], step: int) -> list[int]:
        """Time runs on one true clock here; each capture counts from its own zero."""
        at = [b + self.load(r, step) + self.save(r, step) for r, b in enumerate(begins)]
        done = [a + us(50) + self.compute(r, step) for r, a in enumerate(at)]
        first = [a + us(50) + self.compute(r, step) // 2 for r, a in enumerate(at)]
        ends = [self._met(first, r, step) for r in range(self.ranks)]
        second = [max(d, e) + us(10) for d, e in zip(done, ends, strict=True)]
        last = [self._met(second, r, step) for r in range(self.ranks)]
        for r in range(self.ranks):
            self._write(traces[r], r, step, begins[r], at[r], (first[r], ends[r]), (second[r], last[r]))
        return [e + us(400) for e in last]

    def _met(self, starts: list[int], rank: int, step: int) -> int:
        members = [s for r, s in enumerate(starts) if self.group(r) == self.group(rank)]
        return max(members) + self.move(rank, step) + us(rank % 3)

    def _write(  # noqa: PLR0917
        self, t: TraceBuilder, r: int, step: int, begin: int, at: int, one: tuple[int, int], two: tuple[int, int]
    ) -> None:  # fmt: skip
        zero = self.zero.get(r, 0)
        begin, at, one, two = begin - zero, at - zero, (one[0] - zero, one[1] - zero), (two[0] - zero, two[1] - zero)
        loaded = begin + self.load(r, step)
        t.range("data_load", begin + us(1), loaded)
        if at > loaded:
            t.range("save_checkpoint", loaded + us(1), at)
        pieces, compute = self.pieces(r), self.compute(r, step)
        for p in range(pieces):
            start = at + us(50) + compute * p // pieces
            stop = at + us(50) + compute * (p + 1) // pieces
            t.launch(GEMM, at + us(2 * p), us(1), kernel_start=start, kernel_dur=stop - start)
        for n, (start, end) in enumerate((one, two)):
            t.launch(ALL_REDUCE, at + us(20 + 2 * n), us(1), kernel_start=start, kernel_dur=end - start, stream=20)
        t.launch("multi_tensor_apply", at + us(30), us(1), kernel_start=two[1] + us(5), kernel_dur=us(300))
        t.sync("context", at + us(35), two[1] + us(350))
        t.range(self.names.format(step + self.first_step), begin, two[1] + us(390))
