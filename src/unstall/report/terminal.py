"""The report as a terminal shows it: dense, aligned, readable at 80 columns, the same text without colour in a pipe.

In: a :class:`~unstall.model.Report`, how many rows to show and by what to rank them. Out: lines on a file. Decides
order and wording only; every figure is the report's. Layout and the taming of names are in ``unstall.report.layout``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import PurePath
from typing import IO, TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from unstall.lang import Speaker, speaker
from unstall.report import counters, gains, tables, text, words
from unstall.report.layout import Column, bar, dotted, fit, heading, listed, spark, sticky, table, wrap
from unstall.report.tables import By

if TYPE_CHECKING:
    from unstall.model import BreakdownRow, Category, Finding, Report, StepsRow

WIDEST = 160  # wider lines are harder to follow from a name to its figures
UNEVEN = 1.2  # of the median: steps that all take less than this need no picture
LONGEST_BAR = 60  # cells: longer ones add ink, not information
LONGEST_TEXT = 600  # of a warning: a name of thousands of letters in it must not fill the screen
EVIDENCE_SHOWN = 3
LONGEST_NAME = 60  # of a kernel or a step inside a sentence
LEAST_BAR = 4  # cells: a shorter bar tells nothing that the figure does not
LEAST_NAMES = 4  # cells behind a bar below which no name can be told

COLOURS = {
    "gpu_compute": "green",
    "exposed_communication": "magenta",
    "exposed_copy": "yellow",
    "other_process": "cyan",
    "": "bright_black",  # the sum of what idles
}


def show(report: Report, file: IO[str] | None = None, *, top: int = 10, by: By = "total") -> None:
    """Write the report to ``file`` (standard output by default). ``top`` rows a table, 0 for all of them."""
    console = make_console(file)
    with console.capture() as shown:
        for line in lines(report, min(console.width, WIDEST), top=top, by=by, unicode=_unicode(console)):
            console.print(line, soft_wrap=True, highlight=False, markup=False, emoji=False)
    console.file.write(shown.get())


def make_console(file: IO[str] | None = None) -> Console:
    """A console that is 80 wide in a pipe, whatever terminal the other streams are on; ``COLUMNS`` overrides."""
    console = Console(file=file)
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit() and int(columns):
        console.width = max(int(columns), 40)
    elif not console.file.isatty():
        console.width = 80
    return console


def _unicode(console: Console) -> bool:
    return console.encoding.lower().startswith("utf")


def lines(report: Report, width: int, *, top: int = 10, by: By = "total", unicode: bool = True) -> Iterator[Text]:
    """The whole report, line by line, none longer than ``width`` cells."""
    say = speaker(report.language)
    yield from _facts(report, width, say)
    yield Text()
    yield from wrap(words.verdict(report), width, "bold")
    for steps in report.steps[: top or None]:
        yield from _step(steps, width, say, several=len(report.steps) > 1, unicode=unicode)
        row = words.breakdown_of(report, steps)
        if row is not None:
            yield from _breakdown(report, row, width, say, unicode=unicode)
            yield from counters.lines(report, row, width)
    yield from _findings(report, width, say)
    yield from tables.ranges(report, width, top, by)
    yield from tables.kernels(report, width, top)
    yield from tables.copies(report, width, top)
    yield from tables.calls(report, width, top)
    yield from tables.os_calls(report, width, top)
    yield from _notes(say("WARNINGS"), [(w.code, w.text) for w in report.warnings], width, "yellow")
    yield from _notes(say("NOT CHECKED"), words.not_checked(report), width, "dim")


# -- what was captured ------------------------------------------------------------------------------------------------


def _facts(report: Report, width: int, say: Speaker) -> Iterator[Text]:
    facts = report.profile
    producer = " ".join(p for p in (facts.producer, facts.producer_version) if p)
    head = fit(PurePath(facts.path).name or facts.path, width)
    lasted = say("{time} captured", time=text.duration(facts.duration_ns)) if facts.duration_ns else ""
    yield from _first_bold(dotted([head, producer, lasted]), len(head), width)
    rank = [say("rank {rank}", rank=facts.rank)] if facts.rank is not None else []
    machine = [*words.gpus(report), *_processes(report, say), *rank]
    if machine:
        yield from wrap(dotted(machine), width)
    held = words.held(report)
    if held:
        yield from wrap(dotted([sticky(phrase) for phrase in held]), width, "dim")


def _first_bold(line: str, length: int, width: int) -> list[Text]:
    out = wrap(line, width)
    out[0].stylize("bold", 0, length)
    return out


def _processes(report: Report, say: Speaker, most: int = 4) -> list[str]:
    found = report.profile.processes
    shown = [words.process(p, report) for p in found[:most]]
    left = len(found) - most
    return [*shown, say("{n} more processes", n=left)] if left > 0 else shown


# -- the step and where it goes ---------------------------------------------------------------------------------------


def _step(steps: StepsRow, width: int, say: Speaker, *, several: bool, unicode: bool) -> Iterator[Text]:
    period, time = steps.period_ns, text.duration(steps.step_ns)
    title = say("STEP of pid {pid} {time}", pid=steps.process, time=time) if several else say("STEP {time}", time=time)
    source = text.shorten(steps.source, LONGEST_NAME)
    detail = [say("{level} ({source})", level=words.level(steps, say), source=source)]
    detail += [sticky(f"p10–p90 {text.ms(period.p10)}–{text.ms(period.p90)} ms"), *_pace(steps, say)]
    yield from heading(sticky(title), "; ".join(detail), width)
    if unicode and max(steps.samples_ns, default=0) > UNEVEN * period.median:
        yield Text("  ").append(spark(steps.samples_ns, width - 2), "cyan")
    if facts := _step_facts(steps, say):
        yield from wrap("; ".join(facts), width, first="  ")
    if steps.process is not None or steps.unprofiled_ns is not None:
        yield from wrap(_unprofiled(steps, say), width, first="  ")


def _pace(steps: StepsRow, say: Speaker) -> list[str]:
    """Which resource limits; without device rows nobody can tell."""
    if steps.gpu_busy_ns is None:
        return []
    return [say("the GPU sets the pace") if steps.limit == "gpu" else say("the host sets the pace")]


def _step_facts(steps: StepsRow, say: Speaker) -> list[str]:
    facts = []
    if steps.gpu_busy_ns is not None:  # else the step is the host's, and this all of it but what lies between two steps
        host = say("on the host it takes {time}", time=text.duration(steps.host_ns))
        facts.append(say("{host}, ahead of the GPU", host=host) if words.ahead(steps) else host)
    if len(steps.gpus) > 1:
        facts += [
            say("GPU {device} busy {time}", device="?" if g.device is None else g.device, time=text.duration(g.busy_ns))
            for g in steps.gpus
        ]
    elif steps.gpu_busy_ns is not None:
        facts.append(say("GPU busy {time}", time=text.duration(steps.gpu_busy_ns)))
    if steps.kernels_per_step is not None:
        facts.append(say("{n} GPU operations a step", n=text.count(steps.kernels_per_step)))
    if steps.warmup:
        named = ", ".join(text.shorten(name, LONGEST_NAME) for name in steps.warmup_steps[:3])
        named += " …" if len(steps.warmup_steps) > 3 else ""
        named = named or words.plural(say, steps.warmup, "step")
        facts.append(say("warm-up left out: {steps} ({time})", steps=named, time=text.duration(steps.warmup_ns)))
    if steps.confidence != "high":
        facts.append(say("confidence in these steps: {level:said}", level=steps.confidence))
    return facts


def _unprofiled(steps: StepsRow, say: Speaker) -> str:
    if steps.unprofiled_ns is None:
        return say("without the profiler: not known (tracing adds time); give --unprofiled-ms X")
    return say("without the profiler: {time}", time=text.duration(steps.unprofiled_ns))


def _breakdown(report: Report, row: BreakdownRow, width: int, say: Speaker, *, unicode: bool) -> Iterator[Text]:
    from unstall.model import Category

    yield from heading(say("WHERE IT GOES"), _whole(report, row, say), width)
    device, host = words.on_device(row), words.on_host(row)
    label = say("GPU idle") if words.has_device(report) else say("host")
    idle = Category(name="", ns=sum(c.ns for c in host), percent=sum(c.percent for c in host))
    worked = counters.unfold(device)
    shown = [*(c for _, c in worked), idle, *host]
    names = [*(indent + words.category(c.name, say.language) for indent, c in worked), label]
    names += ["  " + words.category(c.name, say.language) for c in host]
    columns = [Column("ms", [text.ms(c.ns) for c in shown]), Column("%", [text.share(c.percent) for c in shown])]
    block = table(Column("", names), columns, width)
    start = max(line.cell_len for line in block) + 2
    worst = host[0] if host and idle.percent > 100 - words.BUSY_ENOUGH else None
    if width - start < LEAST_BAR:
        yield from block[1:]
        return
    for line, category in zip(block[1:], shown, strict=True):
        line.append(" " * (start - line.cell_len))
        colour = COLOURS.get(category.name, "blue")
        yield _with_bar(line, category, "red" if category is worst else colour, width - start, unicode)


def _whole(report: Report, row: BreakdownRow, say: Speaker) -> str:
    step = text.duration(row.step_ns)
    if words.has_device(report):
        return say("ms and % of a {step} step; idle split by what the host did", step=step)
    return say("ms and % of a {step} step, split by what the host did", step=step)


def _with_bar(line: Text, category: Category, colour: str, room: int, unicode: bool) -> Text:
    """The row, its bar, and behind it the ranges in which the time was spent."""
    longest = min(max(room * 2 // 3, room - 48), LONGEST_BAR)
    drawn = bar(category.percent / 100, longest, unicode)
    line.append(drawn, colour)
    where = [] if category.name in words.ON_DEVICE else [r.name for r in category.ranges]
    left = room - len(drawn) - 1
    return line.append(" " + listed(where, left), "dim") if where and left >= LEAST_NAMES else line


# -- findings ---------------------------------------------------------------------------------------------------------


def _findings(report: Report, width: int, say: Speaker) -> Iterator[Text]:
    main, side = [f for f in report.findings if f.main], [f for f in report.findings if not f.main]
    if main:
        yield from heading(say("FINDINGS"), say("what to do first"), width)
    for i, finding in enumerate(main, 1):
        yield from [Text()] * (i > 1)
        yield from _finding(report, finding, i, width, say)
    if side:
        yield from heading(say("SIDE NOTES"), say("true, but nothing worth acting on is predicted"), width)
    for finding in side:
        place = ", ".join(filter(None, _where(report, finding, say)))
        told = f"{finding.title} ({place})" if place else finding.title
        yield from wrap(f"{told} [{finding.code}]", width, first="  · ")


def _finding(report: Report, finding: Finding, number: int, width: int, say: Speaker) -> Iterator[Text]:
    label = f"  {number} "
    yield from wrap(f"{finding.title} [{finding.code}]", width, "bold", first=label)
    yield from wrap(_stakes(report, finding, say), width, first="    ")
    for evidence in finding.evidence[:EVIDENCE_SHOWN]:
        yield from wrap(evidence.text, width, "dim", first="    · ")
    if len(finding.evidence) > EVIDENCE_SHOWN:
        more = say("{n} more in --markdown, --html and --json", n=len(finding.evidence) - EVIDENCE_SHOWN)
        yield from wrap(more, width, "dim", first="    · ")
    fix = say(
        "{remedy} ({safety:said}). {text}", remedy=finding.fix.title, safety=finding.fix.safety, text=finding.fix.text
    )
    yield from wrap(fix, width, "green", first=f"    {say('fix')} ")
    if finding.needs:
        first = say("can be made only after the remedy of {codes}", codes=", ".join(finding.needs))
        yield from wrap(first, width, first="    ")
    if finding.overlaps:
        same = say("partly the same time as {codes}", codes=", ".join(finding.overlaps))
        yield from wrap(same, width, "dim", first="    ")


def _stakes(report: Report, finding: Finding, say: Speaker) -> str:
    parts = [_cost(report, finding, say)]
    if finding.predicted_step_ns is not None:
        step = text.duration(finding.predicted_step_ns)
        parts.append(
            say("step predicted with the fix {step}{interval}", step=step, interval=_interval(report, finding, say))
        )
    if gain := gains.gain(report, finding, say):
        parts.append(gain)
    parts.append(say("confidence {level:said}", level=finding.confidence))
    return "; ".join([*parts, say("then {limit}", limit=finding.next_limit)] if finding.next_limit else parts)


def _cost(report: Report, finding: Finding, say: Speaker) -> str:
    time, takes = text.duration(finding.cost_ns_per_step), finding.predicted_step_ns is None
    return words.cost(time, *_where(report, finding, say), say, stepwise=bool(report.steps), takes=takes)


def _interval(report: Report, finding: Finding, say: Speaker) -> str:
    low, high = finding.predicted_low_ns, finding.predicted_high_ns
    if low is None or high is None:
        return ""
    facts = {"low": text.ms(low), "high": text.ms(high)}
    if doubt := gains.doubt(report, finding, say):
        return " " + say("({low} to {high} ms, {doubt})", doubt=doubt, **facts)
    return " " + sticky(say("({low} to {high} ms)", **facts))


def _where(report: Report, finding: Finding, say: Speaker) -> tuple[str, str]:
    """The places that most of it is in (seldom all of it), and the process where there are several."""
    where = finding.where
    named = [text.shorten(where.range, LONGEST_NAME)] if where.range else []
    if where.kernel:
        named.append(say("kernel {name}", name=text.shorten(text.kernel_name(where.kernel), LONGEST_NAME)))
    named += [where.call] if where.call else []
    process = where.process if len(report.steps) > 1 else None
    place = say("mainly in {places}", places=", ".join(named)) if named else ""
    return place, "" if process is None else f"pid {process}"


def _notes(title: str, notes: list[tuple[str, str]], width: int, style: str) -> Iterator[Text]:
    if notes:
        yield from heading(title, "", width)
    for code, note in notes:
        yield from wrap(f"{code}: {text.shorten(note, LONGEST_TEXT)}", width, style, first="  ", indent=4)
