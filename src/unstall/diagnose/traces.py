"""What the rules' own traces (``fires``, ``silent``) are made of.

In: an empty ``unstall.testing.TraceBuilder``, which the caller brings: a rule that imported it would load test code in
every report. Out: the builder, filled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

Trace: TypeAlias = Any
"""An ``unstall.testing.TraceBuilder``."""

US = 1_000
MS = 1_000_000

GEMM = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_bias_TNT"
FP32_GEMM = "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4_kernel"
ADD = (
    "void at::native::vectorized_elementwise_kernel<(int)4, at::native::CUDAFunctor_add<float>, "
    "std::array<char *, (unsigned long)3>>(int, T2, T3)"
)


def steps(t: Trace, period: int, body: Callable[[int, int], None], *, count: int = 8) -> None:
    """``count`` steps in ranges ``step_0`` …, ``period`` ns apart; ``body(index, start)`` fills each."""
    for index in range(count):
        start = index * period
        t.range(f"step_{index}", start, start + period)
        body(index, start)


def launches(t: Trace, at: int, count: int, *, every: int, dur: int, name: str = ADD, call: int = 5 * US) -> int:
    """``count`` launches, one ``every`` ns of host time, each with an operation of ``dur`` ns. Ends when the last
    operation ends; the host's own end is ``at + count * every``.
    """
    free = 0
    for i in range(count):
        start = at + i * every
        begin = max(start + call + 2 * US, free)
        t.launch(name, start, call, kernel_start=begin, kernel_dur=dur)
        free = begin + dur
    return free
