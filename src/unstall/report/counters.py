"""Hardware counters under the breakdown: what GPU compute consists of, and a line of means.

In: the report. Out: rows for the breakdown's table, and lines. Silent where the capture has no counters.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.text import Text

from unstall.lang import Speaker, speaker
from unstall.report import text
from unstall.report.layout import wrap

if TYPE_CHECKING:
    from unstall.model import BreakdownRow, Category, GpuMetricsRow, Report

MOSTLY = 90.0  # percent of the step: a GPU that computes for longer says the same of both


def unfold(categories: list[Category]) -> list[tuple[str, Category]]:
    """Each category, and behind it what it consists of: (indent, row)."""
    from unstall.model import Category

    out: list[tuple[str, Category]] = []
    for category in categories:
        out.append(("", category))
        out += [("  ", Category(name=p.name, ns=p.ns, percent=p.percent)) for p in category.parts]
    return out


def lines(report: Report, row: BreakdownRow, width: int) -> Iterator[Text]:
    """The means as lines under the breakdown."""
    for sentence in sentences(report, row):
        yield from wrap(sentence, width, "dim", first="  ")


def sentences(report: Report, row: BreakdownRow) -> Iterator[str]:
    """Means over the steady steps, and over GPU compute alone where the GPU idles for long."""
    say = speaker(report.language)
    means = {m.scope: m for m in report.gpu_metrics or [] if m.process == row.process}
    busy = sum(c.percent for c in row.categories if c.name == "gpu_compute")
    if "step" in means:
        yield say("GPU counters: {means}", means=said(means["step"], say))
    if "gpu_compute" in means and busy < MOSTLY:
        yield say("while it computes: {means}", means=said(means["gpu_compute"], say))


def said(mean: GpuMetricsRow, say: Speaker) -> str:
    """``SMs active 92 %, instructions issued 34 %, tensor cores active 51 %, DRAM read 1,210 GB/s …``."""
    shares = {
        "SMs active {value}": mean.sm_active_percent,
        "instructions issued {value}": mean.sm_issue_percent,
        "tensor cores active {value}": mean.tensor_active_percent,
        "DRAM reads {value}": mean.dram_read_percent,
        "DRAM writes {value}": mean.dram_write_percent,
    }
    rates = {"DRAM reads {value}": mean.dram_read_gb_per_s, "DRAM writes {value}": mean.dram_write_gb_per_s}
    known = {template: share for template, share in shares.items() if share is not None}
    parts = [say(template, value=_with_rate(share, rates.get(template))) for template, share in known.items()]
    parts += [say("clock {value}", value=f"{mean.clock_mhz:,.0f} MHz")] if mean.clock_mhz is not None else []
    return ", ".join(parts)


def _with_rate(share: float, rate: float | None) -> str:
    return text.percent(share) + (f" ({rate:,.0f} GB/s)" if rate is not None else "")
