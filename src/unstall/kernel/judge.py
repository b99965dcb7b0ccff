"""Launches → a report: the kernel that took most of the measured time, its figures, its findings.

In: launches, the target that they were measured for, a language. Out: :class:`~unstall.kernel.records.KernelReport`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from unstall.diagnose import gpus, kernels
from unstall.errors import NotAProfile
from unstall.kernel import rules
from unstall.kernel.counters import Launch
from unstall.kernel.measured import Measured
from unstall.kernel.records import KernelFinding, KernelFix, KernelReport, Occupancy, Roofline
from unstall.kernel.rules import Hit, Line, Skip
from unstall.kernel.target import Target
from unstall.kernel.texts import TEXTS
from unstall.lang import Speaker, speaker
from unstall.model import Evidence, NotChecked

SUMMARIES = {
    "memory": "Memory limits: {memory} of peak, arithmetic {compute}.",
    "compute": "Arithmetic limits: {compute} of peak, memory {memory}.",
    "latency": "Nothing is near its limit (arithmetic {compute}, memory {memory}): it waits.",
    "unknown": "What limits cannot be told: the counters of arithmetic and memory are missing.",
}


def judged(launches: Sequence[Launch], target: Target | None = None, language: str = "en") -> KernelReport:
    """Judge the kernel that took most of the measured time.

    Raises:
        NotAProfile: no launch at all.
    """
    if not launches:
        raise NotAProfile("the text of ncu", "holds no launches", "Measure at least one launch of a kernel")
    m = Measured(_most(launches, target))
    say = speaker(language)
    hits = [hit for rule in rules.RULES for hit in rule(m)]
    found = [_finding(hit, say) for hit in hits if isinstance(hit, Hit)]
    kind = rules.limit_of(m)
    facts = {"compute": rules._percent(m.compute), "memory": rules._percent(m.memory)}
    return KernelReport(
        kernel=m.kernel, short_name=kernels.short(m.kernel), launches=len(m.launches),
        chosen=target.why if target else "", share_percent=target.share if target else None,
        duration_ns=None if m.duration_ns is None else round(m.duration_ns), grid=list(m.grid), block=list(m.block),
        device=m.device, limit=kind, summary=say(SUMMARIES[kind], **facts), roofline=_roofline(m),
        occupancy=_occupancy(m), findings=found, not_checked=list(_unknown(hits, say)), language=language,
    )  # fmt: skip


def _most(launches: Sequence[Launch], target: Target | None) -> list[Launch]:
    """The launches of one kernel and one shape: those of the target's own name where they are among them."""
    own = [x for x in launches if target is not None and target.fits(x.kernel)] or list(launches)
    groups: dict[tuple[str, tuple[int, ...], tuple[int, ...]], list[Launch]] = defaultdict(list)
    for launch in own:
        groups[launch.kernel, launch.grid, launch.block].append(launch)
    return max(groups.values(), key=lambda g: (sum(x.values.get("gpu__time_duration.sum", 0.0) for x in g), len(g)))


def _finding(hit: Hit, say: Speaker) -> KernelFinding:
    text = TEXTS[hit.code]
    fix = KernelFix(title=say(text.fix), pytorch=say(text.pytorch), triton=say(text.triton), cuda=say(text.cuda))
    facts = {name: say(value) if isinstance(value, str) else value for name, value in hit.facts.items()}
    return KernelFinding(
        code=hit.code, title=say(text.title, **facts), evidence=[_evidence(line, say) for line in hit.lines], fix=fix
    )


def _evidence(line: Line, say: Speaker) -> Evidence:
    return Evidence(text=say(line.template, **line.facts), value=line.value, unit=line.unit, source="ncu")


def _unknown(hits: Sequence[Hit | Skip], say: Speaker) -> Iterator[NotChecked]:
    for hit in hits:
        if isinstance(hit, Skip):
            reason = say("its counters are not in this measurement: this GPU or this ncu does not offer them")
            yield NotChecked(code=hit.code, reason=reason)


def _roofline(m: Measured) -> Roofline:
    """Position under the roofline; arithmetic is known for fp32 on CUDA cores alone, so not with tensor cores busy."""
    seconds = (m.duration_ns or 0) / 1e9
    countable = m.flop is not None and m.flop > 0 and (m.tensor is None or m.tensor < rules.IDLE_TENSOR)
    flop = m.flop if countable else None
    peaks = gpus.named(m.device) if m.device else None
    return Roofline(
        flop_per_byte=flop / m.dram_bytes if flop and m.dram_bytes else None,
        ridge_flop_per_byte=1e3 * peaks.fp32 / peaks.memory if flop and peaks else None,
        tflop_per_s=flop / seconds / 1e12 if flop and seconds else None,
        dram_gb_per_s=m.dram_bytes / seconds / 1e9 if m.dram_bytes is not None and seconds else None,
        compute_percent=m.compute, memory_percent=m.memory, dram_percent=m.dram, l2_percent=m.l2, l1_percent=m.l1,
        tensor_percent=m.tensor,
    )  # fmt: skip


def _occupancy(m: Measured) -> Occupancy:
    registers, shared = m.get("launch__registers_per_thread"), m.shared_bytes
    return Occupancy(
        achieved_percent=m.occupancy, theoretical_percent=m.theoretical, limiter=m.limiter, waves=m.waves,
        registers_per_thread=None if registers is None else int(registers),
        shared_bytes_per_block=None if shared is None else int(shared),
    )  # fmt: skip
