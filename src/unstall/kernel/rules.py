"""Why a kernel is slow: one small rule a reason, each with its threshold and where that comes from.

In: :class:`~unstall.kernel.measured.Measured`. Out: :class:`Hit` s in the order in which they are worth acting on: what
wastes the unit that limits first, then what leaves it idle, then what limits by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from unstall.diagnose import kernels
from unstall.kernel.measured import WARP, Measured
from unstall.kernel.records import Limit
from unstall.kernel.texts import STALLS

NEAR = 60.0
"""Percent of peak from which a unit limits. The line of Nsight Compute's guided analysis: below it for arithmetic and
memory alike, latency limits."""
TAIL = 0.25
"""Share of the time that the last wave may waste: 1.1 waves take the time of 2."""
FEW_WARPS = 50.0
"""Percent of an SM's warps. Half of them hide latency in most kernels; matrix products live with a quarter, so the rule
speaks only where nothing else is near its limit."""
UNEVEN = 0.6
"""Warps that are there on average, of those that would fit: below, most of the time some have already finished."""
USED = 16.0
"""Bytes of a 32-byte sector: with half of them unused, the same traffic could carry twice the data."""
SECTORS = 17.0
"""Sectors a request: 16 is a full warp of 16-byte vectors, more cannot be contiguous."""
TOUCHES = 20.0
"""Percent of peak that memory must reach for its access pattern to matter."""
TOGETHER = 24.0
"""Active threads a warp, of 32: below three quarters, a quarter of the arithmetic is thrown away."""
COUNTED = 20.0
"""The same where short branches became predicates; boundary checks alone leave 28 to 31."""
CONFLICTS = 0.3
"""Share of wavefronts: a two-way conflict is one half, wide vector accesses leave up to a fifth uncounted for."""
SHARED = 30.0
"""Percent of peak that L1 and shared memory must reach for bank conflicts to matter."""
IDLE_TENSOR = 1.0
BUSY_FMA = 30.0
"""Percent of peak of the fp32 pipe from which arithmetic is what it does."""
STALLED = 0.3
"""Share of all waiting from which a reason is named."""


@dataclass(frozen=True)
class Line:
    """A sentence of evidence: an English template, the words that go in, the figure behind it."""

    template: str
    value: float | None = None
    unit: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Hit:
    code: str
    lines: tuple[Line, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Skip:
    """A rule whose counters are not in the measurement."""

    code: str


Rule = Callable[[Measured], Iterator[Hit | Skip]]


def limit_of(m: Measured) -> Limit:
    """What limits: the unit that is nearest to its peak, or neither."""
    if m.compute is None or m.memory is None:
        return "unknown"
    if max(m.compute, m.memory) < NEAR:
        return "latency"
    return "memory" if m.memory > m.compute else "compute"


def uncoalesced(m: Measured) -> Iterator[Hit | Skip]:
    """Bytes used of each sector, or, where that was not counted, more sectors a request than vectors can need."""
    known = False
    for op, template in (
        ("ld", "Loads use {used} of each 32-byte sector"),
        ("st", "Stores fill {used} of each 32-byte sector"),
    ):
        used, sectors = m.used_of_sector(op), m.sectors(op)
        known |= used is not None or sectors is not None
        if (m.memory or 100.0) < TOUCHES:
            continue
        wide = Line(
            "{sectors} sectors a request (4 are enough for fp32)", sectors, "sectors", {"sectors": _figure(sectors)}
        )
        if used is not None and 0 < used < USED:
            line = Line(template, used, "bytes", {"used": f"{used:.1f} bytes"})
            yield Hit("uncoalesced-access", (line, wide) if sectors else (line,))
            return
        if used is None and sectors is not None and sectors > SECTORS:
            yield Hit("uncoalesced-access", (wide,))
            return
    if not known:
        yield Skip("uncoalesced-access")


def bank_conflicts(m: Measured) -> Iterator[Hit | Skip]:
    share = m.bank_conflicts
    if share is None and m.l1 is None:
        yield Skip("bank-conflicts")
    if share is not None and share >= CONFLICTS and (m.l1 is None or m.l1 >= SHARED):
        ways = 1 / (1 - share) if share < 0.999 else WARP
        template = "{share} of the passes over shared memory only repeat for bank conflicts ({ways} threads to a bank)"
        line = Line(template, share, "", {"share": f"{100 * share:.0f} %", "ways": _figure(ways)})
        yield Hit("bank-conflicts", (line,))


def divergence(m: Measured) -> Iterator[Hit | Skip]:
    active, counted = m.active_threads, m.unpredicated_threads
    if active is None and counted is None:
        yield Skip("divergence")
    if (active is not None and active < TOGETHER) or (counted is not None and counted < COUNTED):
        threads = min(x for x in (active, counted) if x is not None)
        line = Line("{threads} of the 32 threads of a warp take part in an instruction", threads, "threads",
                    {"threads": f"{threads:.1f}"})  # fmt: skip
        yield Hit("divergence", (line,))


def tensor_idle(m: Measured) -> Iterator[Hit | Skip]:
    """A matrix product (by its name, or by its fp32 pipe) without tensor cores."""
    family = kernels.family(m.kernel)
    arithmetic = family in (kernels.FP32_GEMM, kernels.GEMM, kernels.CONV, kernels.ATTENTION, kernels.TENSOR_GEMM)
    if m.tensor is None:
        if arithmetic:
            yield Skip("tensor-cores-idle")
        return
    busy = m.fma is not None and m.fma >= BUSY_FMA and limit_of(m) != "memory"
    if m.tensor < IDLE_TENSOR and busy and arithmetic:
        facts = {"tensor": _percent(m.tensor), "fma": _percent(m.fma)}
        yield Hit("tensor-cores-idle", (
            Line("Tensor cores are busy {tensor} of the time, the fp32 units {fma}", m.tensor, "%", facts),
        ))  # fmt: skip


def small_grid(m: Measured) -> Iterator[Hit | Skip]:
    """Fewer blocks than multiprocessors, or less than one wave; else a last wave that is nearly empty."""
    if m.waves is None and m.sms is None:
        yield Skip("small-grid")
        return
    blocks, sms, waves = m.blocks, m.sms, m.waves
    few = (blocks is not None and sms is not None and blocks < sms) or (
        sms is None and waves is not None and waves < 0.25
    )
    if few:
        facts = {"blocks": f"{blocks:,}" if blocks is not None else "?", "sms": f"{sms:,}" if sms else "?"}
        yield Hit(
            "small-grid", (Line("{blocks} blocks for {sms} multiprocessors", blocks, "blocks", facts), *_waves(m))
        )
    elif waves is not None and waves > 0 and limit_of(m) != "memory":
        wasted = 1 - waves / math.ceil(waves)
        if wasted >= TAIL and (waves > 1 or wasted >= 0.5):
            facts = {"share": f"{100 * wasted:.0f} %"}
            last = Line("the last wave leaves {share} of the GPU's time unused", wasted, "", facts)
            yield Hit("tail-effect", (*_waves(m), last))


def _waves(m: Measured) -> tuple[Line, ...]:
    if m.waves is None:
        return ()
    return (Line("{waves} waves: blocks over what all multiprocessors hold at once", m.waves, "waves",
                 {"waves": f"{m.waves:.2f}"}),)  # fmt: skip


def low_occupancy(m: Measured) -> Iterator[Hit | Skip]:
    """Only where latency limits: a kernel near a limit needs no more warps."""
    if m.theoretical is None:
        yield Skip("low-occupancy")
        return
    if limit_of(m) != "latency":
        return
    if m.theoretical < FEW_WARPS and m.limiter:
        yield Hit("low-occupancy", tuple(_limits(m)), {"limiter": m.limiter})
    elif m.occupancy is not None and m.occupancy < UNEVEN * m.theoretical and (m.waves or 0) >= 1:
        facts = {"achieved": _percent(m.occupancy), "theoretical": _percent(m.theoretical)}
        yield Hit("uneven-warps", (
            Line("{achieved} of an SM's warps are there on average, {theoretical} would fit", m.occupancy, "%", facts),
        ))  # fmt: skip


def _limits(m: Measured) -> Iterator[Line]:
    facts = {"theoretical": _percent(m.theoretical), "achieved": _percent(m.occupancy)}
    yield Line("At most {theoretical} of an SM's warps fit, {achieved} are there on average", m.theoretical, "%", facts)
    registers, shared = m.get("launch__registers_per_thread"), m.shared_bytes
    if m.limiter == "registers" and registers is not None:
        yield Line("{n} registers a thread", registers, "registers", {"n": f"{registers:.0f}"})
    if m.limiter == "shared memory" and shared is not None:
        yield Line("{n} kB of shared memory a block", shared, "bytes", {"n": f"{shared / 1e3:.1f}"})


def limits(m: Measured) -> Iterator[Hit | Skip]:
    """The unit that limits, with its distance from the roof; what warps wait for where none does."""
    kind = limit_of(m)
    if kind == "unknown":
        yield Skip("memory-bound")
        return
    facts = {"compute": _percent(m.compute), "memory": _percent(m.memory)}
    both = Line(
        "Arithmetic reaches {compute} of its peak, memory {memory}", max(m.compute or 0, m.memory or 0), "%", facts
    )
    yield Hit(
        {"memory": "memory-bound", "compute": "compute-bound"}.get(kind, "latency-bound"), (both, *_more(m, kind))
    )


def _more(m: Measured, kind: Limit) -> Iterator[Line]:
    if kind == "memory":
        levels = {"DRAM": m.dram, "L2": m.l2, "L1/shared": m.l1}
        told = [f"{name} {_percent(value)}" for name, value in levels.items() if value is not None]
        if told:
            yield Line("Of their peaks: {levels}", m.dram, "%", {"levels": ", ".join(told)})
    stall = m.stall
    if kind == "latency" and stall is not None and stall[1] >= STALLED:
        facts = {"share": f"{100 * stall[1]:.0f} %", "what": STALLS.get(stall[0], stall[0].replace("_", " "))}
        yield Line("{share} of the waiting between instructions is for {what:said}", stall[1], "", facts)


RULES: tuple[Rule, ...] = (
    tensor_idle, uncoalesced, bank_conflicts, divergence, small_grid, low_occupancy, limits,
)  # fmt: skip


def _percent(value: float | None) -> str:
    return "?" if value is None else f"{value:.0f} %" if value >= 9.95 or value == 0 else f"{value:.1f} %"


def _figure(value: float | None) -> str:
    return "?" if value is None else f"{value:.0f}" if value >= 9.95 else f"{value:.1f}"
