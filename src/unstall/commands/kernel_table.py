"""What ``unstall kernel`` found, as text.

In: a :class:`~unstall.kernel.records.KernelReport` and a width. Out: lines: the kernel, what limits it, its place under
the roofline with bars, its warps, and the findings with the remedy in the terms of three frameworks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from unstall.lang import Speaker, speaker
from unstall.report import text
from unstall.report.layout import Column, bar, heading, table, wrap

if TYPE_CHECKING:
    from rich.text import Text

    from unstall.kernel.records import KernelFinding, KernelReport

BAR = 30
FRAMEWORKS = (("PyTorch", "pytorch"), ("Triton", "triton"), ("CUDA", "cuda"))


def render(report: KernelReport, width: int) -> str:
    """Text that fits the width."""
    return "\n".join(line.plain.rstrip() for line in _lines(report, width, speaker(report.language))) + "\n"


def _lines(report: KernelReport, width: int, say: Speaker) -> Iterator[Text]:
    yield from wrap(text.shorten(report.kernel, 400), width, "bold")
    yield from wrap("; ".join(filter(None, _facts(report, say))), width, first="  ")
    yield from wrap(report.summary, width, "bold")
    yield from heading(say("ROOFLINE"), say("percent of the hardware's peak"), width)
    yield from _peaks(report, width, say)
    yield from _position(report, width, say)
    yield from _warps(report, width, say)
    yield from heading(say("WHY IT IS SLOW"), say("most to change first"), width)
    for number, finding in enumerate(report.findings, 1):
        yield from _finding(finding, number, width)
    if report.not_checked:
        yield from heading(say("NOT CHECKED"), "", width)
    for item in report.not_checked:
        yield from wrap(f"{item.code}: {item.reason}", width, "dim", first="  ", indent=4)


def _facts(report: KernelReport, say: Speaker) -> Iterator[str]:
    if report.chosen:
        share = "" if report.share_percent is None else f" ({report.share_percent:.0f} %)"
        yield say.heard(report.chosen) + share
    yield say("{n} launches measured", n=report.launches) if report.launches != 1 else say("one launch measured")
    if report.duration_ns is not None:
        yield say("{time} each", time=text.duration(report.duration_ns))
    if report.grid:
        sizes = {"grid": "×".join(map(str, report.grid)), "block": "×".join(map(str, report.block))}
        yield say("grid {grid}, block {block}", **sizes)
    yield report.device


def _peaks(report: KernelReport, width: int, say: Speaker) -> Iterator[Text]:
    r = report.roofline
    rows = [("arithmetic", r.compute_percent), ("  tensor cores", r.tensor_percent), ("memory", r.memory_percent),
            ("  DRAM", r.dram_percent), ("  L2", r.l2_percent), ("  L1, shared", r.l1_percent)]  # fmt: skip
    known = [(name[: len(name) - len(name.lstrip())] + say(name.strip()), v) for name, v in rows if v is not None]
    figures = Column("%", [text.share(value) for _, value in known])
    lines = table(Column("", [name for name, _ in known]), [figures], width)[1:]
    for line, (_, value) in zip(lines, known, strict=True):
        room = min(BAR, width - line.cell_len - 2)
        yield line.append("  " + bar(min(value, 100) / 100, room, True)) if room > 4 else line


def _position(report: KernelReport, width: int, say: Speaker) -> Iterator[Text]:
    r, parts = report.roofline, []
    if r.dram_gb_per_s is not None:
        parts.append(say("DRAM traffic {rate}", rate=f"{r.dram_gb_per_s:,.0f} GB/s"))
    if r.tflop_per_s is not None:
        parts.append(say("fp32 {rate}", rate=f"{r.tflop_per_s:.2f} TFLOP/s"))
    if r.flop_per_byte is not None and r.ridge_flop_per_byte is not None:
        facts = {"have": f"{r.flop_per_byte:.2f}", "ridge": f"{r.ridge_flop_per_byte:.1f}"}
        left = r.flop_per_byte < r.ridge_flop_per_byte
        side = "memory is its roof" if left else "arithmetic is its roof"
        parts.append(say("{have} FLOP a byte, the ridge is at {ridge}: {side:said}", side=side, **facts))
    if parts:
        yield from wrap("; ".join(parts), width, "dim", first="  ")


def _warps(report: KernelReport, width: int, say: Speaker) -> Iterator[Text]:
    o, parts = report.occupancy, []
    if o.achieved_percent is not None:
        parts.append(say("occupancy {share}", share=f"{o.achieved_percent:.0f} %"))
    if o.theoretical_percent is not None:
        limiter = say(" (limited by {what:said})", what=o.limiter) if o.limiter else ""
        parts.append(say("of at most {share}", share=f"{o.theoretical_percent:.0f} %") + limiter)
    if o.registers_per_thread is not None:
        parts.append(say("{n} registers a thread", n=o.registers_per_thread))
    if o.waves is not None:
        parts.append(say("{n} waves", n=f"{o.waves:.2f}"))
    if parts:
        yield from wrap(", ".join(parts), width, "dim", first="  ")


def _finding(finding: KernelFinding, number: int, width: int) -> Iterator[Text]:
    yield from wrap(f"{finding.title} [{finding.code}]", width, "bold", first=f"  {number} ")
    for evidence in finding.evidence:
        yield from wrap(evidence.text, width, "dim", first="    · ")
    yield from wrap(finding.fix.title, width, "green", first="    → ")
    for label, attribute in FRAMEWORKS:
        yield from wrap(getattr(finding.fix, attribute), width, first=f"      {label:<8}", indent=14)
