"""The words that every output shares: names of categories and tables, and the verdict in a sentence or two.

In: the report. Out: plain strings, names in them as they came (outputs escape what they show). Computes nothing but
sums of the breakdown's own figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from unstall.report import text

if TYPE_CHECKING:
    from unstall.model import BreakdownRow, Category, Finding, RangeRow, Report, StepsRow

CATEGORIES = {
    "gpu_compute": "GPU compute",
    "exposed_communication": "exposed communication",
    "exposed_copy": "exposed copies",
    "other_process": "GPU used by another process",
    "sync": "sync calls",
    "alloc": "allocation calls",
    "copy_call": "copy calls",
    "launch": "launch calls",
    "device_latency": "launch latency",
    "gil_wait": "waiting for the GIL",
    "data_loading": "data loading",
    "checkpoint": "saving or logging",
    "file_io": "file I/O",
    "lock_wait": "waiting on locks",
    "python_cpu": "Python and CPU work",
    "unknown": "unknown",
}
ON_DEVICE = ("gpu_compute", "exposed_communication", "exposed_copy", "other_process")

TABLES = {
    "ranges": "range",
    "kernels": "kernel",
    "copies": "copy",
    "memsets": "memset",
    "graphs": "graph replay",
    "api": "CUDA call",
    "osrt": "OS call",
    "library": "library call",
    "gil": "GIL row",
    "samples": "CPU sample",
    "gpu_metrics": "GPU metric row",
}

LONGEST_NAME = 80  # of a range inside a sentence
WORTH_NAMING = 10.0  # percent: a "largest" of less says nothing
BUSY_ENOUGH = (
    85.0  # percent of the step: above it a sentence about idling would mislead; findings keep the exact figures
)


def category(name: str) -> str:
    """A category's label; one that is not known here keeps its code."""
    return CATEGORIES.get(name, name.replace("_", " "))


def on_device(row: BreakdownRow) -> list[Category]:
    """The categories in which the GPU works, as the report orders them."""
    return [c for c in row.categories if c.name in ON_DEVICE]


def on_host(row: BreakdownRow) -> list[Category]:
    """The categories that split the GPU's idle time by what the host did, most first."""
    return sorted((c for c in row.categories if c.name not in ON_DEVICE), key=lambda c: -c.ns)


def not_checked(report: Report) -> list[tuple[str, str]]:
    """What could not be checked, those of one reason together: (codes, reason)."""
    codes: dict[str, list[str]] = {}
    for item in report.not_checked:
        codes.setdefault(item.reason, []).append(item.code)
    return [(", ".join(together), reason) for reason, together in codes.items()]


def has_device(report: Report) -> bool:
    """Whether the capture holds device work; without it nothing can be said of the GPU, idle or not."""
    return report.device_total_ns is not None and report.device_total_ns > 0


def verdict(report: Report) -> str:
    """What holds the step back, in a sentence or two."""
    return " ".join(filter(None, verdict_parts(report)))


def verdict_parts(report: Report) -> tuple[str, str]:
    """The verdict itself, and what else there is to say of it (may be empty)."""
    first = next((f for f in report.findings if f.main), None)
    if not report.steps:
        found = f"{first.title}." if first else _largest(report)
        return "No repeating step in this capture: the tables are totals.", found
    row = breakdown_of(report, report.steps[0])
    if row is None:
        step = text.duration(report.steps[0].period_ns.median)
        return f"A step takes {step}; where it goes cannot be told from this input.", _largest(report)
    more = [*_shared(report), *([_prediction(first)] if first else [])]
    return _of_step(report, row), " ".join(filter(None, more))


def _shared(report: Report) -> list[str]:
    """Whose kernels the GPU runs as well: without it, "the GPU works" is read as this process's own work."""
    return [f"{w.text}." for w in report.warnings if w.code == "shared-gpu"]


def nested(rows: Sequence[RangeRow]) -> bool:
    """Whether some of these ranges lie inside others: their sum then counts an instant twice, and no share of it is
    meant."""
    return any(r.self_ns is not None and r.self_ns < r.total_ns for r in rows)


def breakdown_of(report: Report, steps: StepsRow) -> BreakdownRow | None:
    """The breakdown of the process whose steps these are; ``None`` where the input does not tell."""
    return next((row for row in report.breakdown if row.process == steps.process), None)


def _largest(report: Report) -> str:
    """What to look at where nothing is known of steps: the range that took the most, if one stands out."""
    rows = [r for r in report.ranges or [] if not r.wrapper and not r.library]
    inside = nested(rows)
    top = rows[0] if rows else None
    share = None if top is None else top.percent_of_wall if inside else top.share
    if top is None or (share or 0) < WORTH_NAMING:
        return ""
    most = f"{text.ms(top.total_ns)} ms, {text.percent(share)} of the {'time' if inside else 'ranges listed'}"
    return f"The largest range is {text.shorten(top.name, LONGEST_NAME)}: {most}."


def _pace(row: BreakdownRow) -> str:
    """What fills most of the GPU's time, as the subject of a sentence."""
    busy = {c.name: c.ns for c in row.categories}
    names = {"exposed_copy": "copies set", "exposed_communication": "communication sets"}
    return names.get(max(busy, key=lambda n: busy[n]), "its kernels set")


def _of_step(report: Report, row: BreakdownRow) -> str:
    step = text.duration(row.step_ns)
    idle = sum(c.percent for c in on_host(row))
    if not has_device(report):
        return f"No GPU work was captured; of a {step} step on the host, {_most(on_host(row), 'is')}."
    if idle <= 100 - BUSY_ENOUGH:
        return f"The GPU works {text.rough_percent(100 - idle)} of a {step} step: {_pace(row)} the pace, not the host."
    return f"The GPU idles {text.rough_percent(idle)} of a {step} step: {_most(on_host(row), 'of it')}."


def _most(categories: list[Category], link: str) -> str:
    """The largest category and the range it is in."""
    if not categories:
        return "nothing stands out"
    most = categories[0]
    where = f" ({text.shorten(most.ranges[0].name, LONGEST_NAME)})" if most.ranges else ""
    return f"{text.duration(most.ns)} {link} {category(most.name)}{where}"


def _prediction(finding: Finding) -> str:
    if finding.predicted_step_ns is None or finding.predicted_speedup is None:
        return ""
    figure = f"{text.duration(finding.predicted_step_ns)} a step, {text.speedup(finding.predicted_speedup)}"
    if finding.confidence != "high":
        figure += f", confidence {finding.confidence}"
    return f"Predicted with the first remedy ({finding.fix.title}): {figure}."
