"""The words that every output shares: names of categories and tables, and the verdict in a sentence or two.

In: the report. Out: plain strings in the report's language, names in them as they came (outputs escape what they show).
Computes nothing but sums of the breakdown's own figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from unstall.lang import ENGLISH, Speaker, speaker
from unstall.report import gains, text

if TYPE_CHECKING:
    from unstall.model import BreakdownRow, Category, Finding, Process, RangeRow, Report, StepsRow

CATEGORIES = {
    "gpu_compute": "GPU compute",
    "exposed_communication": "exposed communication",
    "exposed_copy": "exposed copies",
    "other_process": "GPU used by another process",
    "sync": "sync calls",
    "alloc": "allocation calls",
    "copy_call": "copy calls",
    "launch": "launch calls",
    "device_latency": "queued, not started",
    "gil_wait": "waiting for the GIL",
    "data_loading": "data loading",
    "checkpoint": "saving or logging",
    "file_io": "file I/O",
    "lock_wait": "waiting on locks",
    "python_cpu": "Python and CPU work",
    "unknown": "unknown",
    "computing_hard": "computing hard",
    "waiting_on_memory": "waiting on memory",
    "computing_lightly": "computing lightly",
    "not_sampled": "not sampled",
}
ON_DEVICE = ("gpu_compute", "exposed_communication", "exposed_copy", "other_process")
NO_COMPUTE = {
    "exposed_communication": "{part} only communicating",
    "exposed_copy": "{part} only copying",
    "other_process": "{part} for another process",
}
"""What else the GPU is busy with but computing for this step."""

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
NOTICED = 1.0  # percent of a step from which what is no computing is told apart in the verdict
AHEAD = 1.05  # step over its time on the host from which the host is said to run ahead (``analyze.steps``)
WAITS = 5  # percent of a step idle from which a GPU does wait for the host (what is less, a launch takes to arrive)
BUSY_ENOUGH = (
    85.0  # percent of the step: above it a sentence about idling would mislead; findings keep the exact figures
)


def category(name: str, language: str = "en") -> str:
    """A category's label; one that is not known here keeps its code."""
    return speaker(language)(CATEGORIES[name]) if name in CATEGORIES else name.replace("_", " ")


def level(steps: StepsRow, say: Speaker) -> str:
    """What a step's time is of: ``median of 30 steady steps``."""
    steady = plural(say, len(steps.samples_ns) + unkept(steps), "steady step")
    if not steps.bursty:
        return say("median of {steps}", steps=steady)
    middle = text.duration(steps.period_ns.median)
    return say("mean of {steps} that come in bursts, median {middle}", steps=steady, middle=middle)


def ahead(steps: StepsRow) -> bool:
    """Whether the host has launched a step well before the GPU is through with it: its time says nothing of the GPU."""
    return steps.limit == "gpu" and steps.step_ns > AHEAD * steps.host_ns


def unkept(steps: StepsRow) -> int:
    """How many steady steps there were whose times a baseline did not keep: the first ones, before its samples."""
    left = steps.count - steps.warmup - len(steps.samples_ns)
    return left if left > 1 and steps.samples_ns else 0  # a last step that nothing follows is no sample either


def plural(say: Speaker, value: int, noun: str) -> str:
    """``1 step``, ``30 steps``, ``2 copies``; other languages count as their catalogue says (``{n} step``)."""
    return text.plural(value, noun) if say.language == ENGLISH else say(f"{{n}} {noun}", n=text.count(value))


def held(report: Report) -> list[str]:
    """What the capture holds, a phrase a table: ``150 ranges``."""
    say, rows = speaker(report.language), report.profile.tables
    return [plural(say, rows[table], noun) for table, noun in TABLES.items() if rows.get(table)]


def gpus(report: Report) -> list[str]:
    """GPUs of one name as one: ``2 × NVIDIA H200``; how many work where the capture does not name them."""
    names = [gpu.name for gpu in report.profile.gpus]
    if not names and len(working(report)) > 1:
        return [plural(speaker(report.language), len(working(report)), "GPU")]
    return [f"{names.count(n)} × {n}" if names.count(n) > 1 else n for n in dict.fromkeys(names)]


def working(report: Report) -> list[int]:
    """Numbers of the GPUs that any process uses."""
    return sorted({device for p in report.profile.processes for device in p.devices})


def process(found: Process, report: Report) -> str:
    """A process, and which GPUs it uses where there are several: ``python3 (pid 111, GPU 0)``."""
    name = text.shorten(PurePath(found.name).name, LONGEST_NAME) or speaker(report.language)("process")
    several = max(len(working(report)), len(report.profile.gpus)) > 1
    used = [f"GPU {', '.join(map(str, found.devices))}"] if several and found.devices else []
    return f"{name} ({', '.join([f'pid {found.process}', *used])})"


def users(report: Report, most: int = 4) -> list[str]:
    """Which process uses which GPUs, where there are several of them."""
    found = report.profile.processes if len(working(report)) > 1 else []
    return [process(p, report) for p in found if p.devices][:most]


def of_capture(report: Report, say: Speaker, *about: str, device: bool = True) -> str:
    """What a table is of, whose figures are no step's: all of the capture, on every GPU, and what its columns mean."""
    many = len(working(report)) if device else 1
    whole = say("whole capture, {gpus} added up", gpus=plural(say, many, "GPU")) if many > 1 else say("whole capture")
    return "; ".join([whole, *about])


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
    say = speaker(report.language)
    first = next((f for f in report.findings if f.main), None)
    if not report.steps:
        found = f"{first.title}." if first else _largest(report, say)
        return _no_steps(report, say), found
    row = breakdown_of(report, report.steps[0])
    if row is None:
        step = text.duration(report.steps[0].step_ns)
        lead = say("A step takes {step}; where it goes cannot be told from this input.", step=step)
        return lead, _largest(report, say)
    more = [*_shared(report), *([_prediction(report, first, say)] if first else [])]
    return _of_step(report, row, report.steps[0].limit, say), " ".join(filter(None, more))


def _no_steps(report: Report, say: Speaker) -> str:
    """Why no step is accounted for, and what is shown instead."""
    lost = any(w.code == "nvtx-lost" for w in report.warnings)
    why = (
        say("NVTX started but not one of its ranges was recorded (the warning nvtx-lost says why), so no step is known")
        if lost
        else say("No repeating step in this capture")
    )
    if any((report.ranges, report.kernels, report.copies, report.api, report.osrt)):
        return say("{why}: the tables are totals.", why=why)
    return say("{why}, and nothing to add up.", why=why)


def cost(time: str, place: str, process: str, say: Speaker, *, stepwise: bool, takes: bool = False) -> str:
    """What a finding costs and where: ``costs 23.5 ms a step mainly in data_load, pid 7``."""
    if stepwise:
        phrase = say("takes {time} a step", time=time) if takes else say("costs {time} a step", time=time)
    else:
        phrase = (
            say("takes {time} of this capture", time=time) if takes else say("costs {time} of this capture", time=time)
        )
    if place:
        phrase = say("{cost} {place}", cost=phrase, place=place)
    return f"{phrase}, {process}" if process else phrase


def _shared(report: Report) -> list[str]:
    """Whose kernels the GPU runs as well, and which GPU: without it, "the GPU" is read as this process's only one."""
    return [f"{w.text}." for w in report.warnings if w.code in ("shared-gpu", "several-gpus")]


def nested(rows: Sequence[RangeRow]) -> bool:
    """Whether some of these ranges lie inside others: their sum then counts an instant twice, and no share of it is
    meant."""
    return any(r.self_ns is not None and r.self_ns < r.total_ns for r in rows)


def breakdown_of(report: Report, steps: StepsRow) -> BreakdownRow | None:
    """The breakdown of the process whose steps these are; ``None`` where the input does not tell."""
    return next((row for row in report.breakdown if row.process == steps.process), None)


def _largest(report: Report, say: Speaker) -> str:
    """What to look at where nothing is known of steps: the range that took the most, if one stands out."""
    rows = [r for r in report.ranges or [] if not r.wrapper and not r.library]
    inside = nested(rows)
    top = rows[0] if rows else None
    share = None if top is None else top.percent_of_wall if inside else top.share
    if top is None or (share or 0) < WORTH_NAMING:
        return ""
    facts = {
        "range": text.shorten(top.name, LONGEST_NAME),
        "total": text.ms(top.total_ns),
        "share": text.percent(share),
    }
    if inside:
        return say("The largest range is {range}: {total} ms, {share} of the time.", **facts)
    return say("The largest range is {range}: {total} ms, {share} of the ranges listed.", **facts)


def _pace(row: BreakdownRow, say: Speaker, *, waits: bool) -> str:
    """What fills most of the GPU's time; the host where it sets the pace of a GPU that waits for it a little."""
    if waits:
        return say("and yet the host sets the pace, by little")
    busy = {c.name: c.ns for c in row.categories}
    longest = max(busy, key=lambda n: busy[n], default="")
    if longest == "exposed_copy":
        return say("copies set the pace, not the host")
    if longest == "exposed_communication":
        return say("communication sets the pace, not the host")
    return say("its kernels set the pace, not the host")


def _of_step(report: Report, row: BreakdownRow, limit: str, say: Speaker) -> str:
    step, idle = text.duration(row.step_ns), sum(c.percent for c in on_host(row))
    if not has_device(report):
        return say("No GPU work was captured; of a {step} step on the host, {most}.", step=step, most=_most(row, say))
    if idle <= 100 - BUSY_ENOUGH:
        facts = {
            "share": text.rough_percent(100 - idle),
            "step": step,
            "pace": _pace(row, say, waits=limit == "host" and idle >= WAITS),
        }
        rest = ", ".join(_no_compute(row, say))
        if rest:
            return say("The GPU is busy {share} of a {step} step ({rest}): {pace}.", rest=rest, **facts)
        return say("The GPU works {share} of a {step} step: {pace}.", **facts)
    share, most = text.rough_percent(idle), _most(row, say, idle=True)
    return say("The GPU idles {share} of a {step} step: {most}.", share=share, step=step, most=most)


def _no_compute(row: BreakdownRow, say: Speaker) -> list[str]:
    """What of a step the GPU is busy and computes nothing of it, as far as it is noticed."""
    shares = [(NO_COMPUTE[c.name], c.percent) for c in row.categories if c.name in NO_COMPUTE]
    return [say(what, part=text.rough_percent(percent)) for what, percent in shares if percent >= NOTICED]


def _most(row: BreakdownRow, say: Speaker, *, idle: bool = False) -> str:
    """The largest category of what the host did, and the range it is in."""
    most = next(iter(on_host(row)), None)
    if most is None:
        return say("nothing stands out")
    what = category(most.name, say.language)
    if most.ranges:
        what += say(" ({range})", range=text.shorten(most.ranges[0].name, LONGEST_NAME))
    time = text.duration(most.ns)
    return say("{time} of it {what}", time=time, what=what) if idle else say("{time} is {what}", time=time, what=what)


def _prediction(report: Report, finding: Finding, say: Speaker) -> str:
    shown = report.steps[0]
    gain = gains.gain(report, finding, say, shown)
    if not gain:
        return ""
    step = text.duration(finding.predicted_step_ns)
    if finding.where.process == shown.process:
        figure = say("{step} a step, {times}", step=step, times=gain)
    else:
        figure = say("{step} a step of pid {pid}, {times}", step=step, pid=finding.where.process, times=gain)
    if finding.confidence != "high":
        figure += say(", confidence {level:said}", level=finding.confidence)
    if finding.needs:
        codes = ", ".join(finding.needs)
        return say(
            "Predicted with the first remedy ({remedy}), which can be made only after that of {codes}: {figure}.",
            remedy=finding.fix.title,
            codes=codes,
            figure=figure,
        )
    return say("Predicted with the first remedy ({remedy}): {figure}.", remedy=finding.fix.title, figure=figure)
