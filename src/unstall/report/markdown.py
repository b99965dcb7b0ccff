"""The report for a pull request or an issue: GitHub-flavoured Markdown, short, the long tables folded.

In: a :class:`~unstall.model.Report`. Out: text in which names from the profile stand as code and can be nothing else:
no link, no mention, no HTML, no new table cell.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from unstall.lang import Speaker, speaker
from unstall.report import Output, gains, text, words

if TYPE_CHECKING:
    from unstall.model import BreakdownRow, Finding, Report, StepsRow

ROWS = 10  # a comment is skimmed; the JSON holds the rest
LONGEST_NAME = 120


def to_markdown(report: Report) -> str:
    """The report as one Markdown section."""
    say = speaker(report.language)
    parts = [
        _title(report),
        prose(words.verdict(report)),
        *_steps(report, say),
        *_findings(report, say),
        _ranges(report, say),
        _kernels(report, say),
        _os_calls(report, say),
    ]
    parts += [_list(say("Warnings"), [(w.code, w.text) for w in report.warnings])]
    parts += [_list(say("Not checked"), words.not_checked(report))]
    return "\n\n".join(part for part in parts if part) + "\n"


def code(name: str) -> str:
    """A name as inline code that nothing in it can end: fenced by more backticks than it holds."""
    safe = text.shorten(text.visible(name), LONGEST_NAME)
    fence = "`" * (max(map(len, re.findall(r"`+", safe)), default=0) + 1)
    pad = " " if safe[:1] in ("`", "") or safe[-1:] == "`" else ""
    return f"{fence}{pad}{safe}{pad}{fence}"


_MARKUP = re.compile(r"[\\`*\[\]<>#|~@&]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_LINKED = re.compile(r"(?<=@)(?=\w)|(?<=#)(?=\d)|(?<=:)(?=//)|(?<=www)(?=\.)", re.IGNORECASE)
"""Where bare text becomes a mention, a reference or a link: found in the rendered page, so no escape prevents it."""
_OPENING = re.compile(r"^(?:([-+=])|(\d{1,9})([.)]))(?=[-+= ]|$)")  # a list, a rule or an underline, at a line's start


def prose(sentence: str) -> str:
    """A sentence that may quote names, shown as it is: Markdown's and HTML's own signs are escaped, links broken."""
    unlinked = _LINKED.sub("\u200b", text.visible(sentence).strip())
    escaped = _MARKUP.sub(lambda m: f"&#{ord(m.group())};" if m.group() in "<>&@#" else "\\" + m.group(), unlinked)
    return _OPENING.sub(lambda m: f"\\{m[1]}" if m[1] else f"{m[2]}\\{m[3]}", escaped)


OURS = re.compile(r"`((?:unstall |--(?:trace|sample|cuda-graph-trace|timeunit))[^`]*)`")
"""Commands and options as our texts quote them. Other backticks may be part of somebody's name."""


def told(sentence: str) -> str:
    """Prose in which the commands that it quotes are code."""
    out, at = [], 0
    for found in OURS.finditer(sentence):
        out += [_inner(sentence[at : found.start()]), code(found[1])]
        at = found.end()
    return "".join([*out, _inner(sentence[at:])]) if out else prose(sentence)


def _inner(part: str) -> str:
    """Prose that keeps the spaces around it."""
    return part[: len(part) - len(part.lstrip())] + prose(part) + part[len(part.rstrip()) :] if part.strip() else part


def _title(report: Report) -> str:
    facts = report.profile
    about = [f"{facts.producer} {facts.producer_version}".strip(), *words.gpus(report), *words.users(report)]
    return f"### unstall: {code(PurePath(facts.path).name)}\n\n{prose(' · '.join(about))}"


def _steps(report: Report, say: Speaker) -> list[str]:
    return [_step(report, steps, words.breakdown_of(report, steps), say) for steps in report.steps]


def _step(report: Report, steps: StepsRow, row: BreakdownRow | None, say: Speaker) -> str:
    facts = [words.level(steps, say)]
    if steps.process is not None:
        facts.append(say("process {pid}", pid=steps.process))
    if steps.warmup:
        facts.append(say("{what} left out", what=words.plural(say, steps.warmup, "warm-up step")))
    if steps.unprofiled_ns is not None:
        facts.append(say("{time} without the profiler", time=text.duration(steps.unprofiled_ns)))
    head = f"**{say('Step {time}', time=text.duration(steps.step_ns))}** ({', '.join(facts)})"
    return head if row is None else f"{head}\n\n{_breakdown(report, row, say)}"


def _breakdown(report: Report, row: BreakdownRow, say: Speaker) -> str:
    named = [(words.category(c.name, say.language), c) for c in words.on_device(row)]
    for c in words.on_host(row):
        name = words.category(c.name, say.language)
        named.append((say("GPU idle: {what}", what=name) if words.has_device(report) else name, c))
    cells = [(name, text.ms(c.ns), text.percent(c.percent)) for name, c in named]
    return _table((say("where it goes"), "ms", say("share")), cells)


def _findings(report: Report, say: Speaker) -> list[str]:
    return [_finding(report, f, i, say) for i, f in enumerate((f for f in report.findings if f.main), 1)]


def _finding(report: Report, finding: Finding, number: int, say: Speaker) -> str:
    stakes = [_cost(report, finding, say)]
    if finding.predicted_step_ns is not None:
        step = say("predicted with the fix {step}", step=text.duration(finding.predicted_step_ns))
        stakes.append(", ".join(filter(None, (step, gains.gain(report, finding, say)))))
    stakes.append(say("confidence {level:said}", level=finding.confidence))
    if finding.needs:
        codes = ", ".join(map(code, finding.needs))
        stakes.append(say("can be made only after the remedy of {codes}", codes=codes))
    lines = [f"**{number}. {prose(finding.title)}** ({code(finding.code)}): {'; '.join(stakes)}."]
    lines += [f"- {prose(evidence.text)}" for evidence in finding.evidence]
    fix = say("Fix ({safety:said})", safety=finding.fix.safety)
    return "\n".join([*lines, f"- {fix}: {prose(finding.fix.title)}. {told(finding.fix.text)}"])


def _cost(report: Report, finding: Finding, say: Speaker) -> str:
    where, pid = finding.where.range or finding.where.call or finding.where.kernel, finding.where.process
    place = say("mainly in {places}", places=code(where)) if where else ""
    process = say("process {pid}", pid=pid) if pid is not None and len(report.steps) > 1 else ""
    return words.cost(text.duration(finding.cost_ns_per_step), place, process, say, stepwise=bool(report.steps))


def _ranges(report: Report, say: Speaker) -> str:
    rows = [r for r in report.ranges or [] if not r.wrapper and not r.library]
    several, nested = len({r.process for r in rows}) > 1, words.nested(rows)
    part = say("of wall") if nested else say("share")
    head = (say("range"), *((say("process"),) if several else ()), say("count"), say("total ms"), part)
    cells = [
        (
            code(r.name),
            *((str(r.process),) if several else ()),
            text.count(r.instances),
            text.ms(r.total_ns),
            text.percent(r.percent_of_wall if nested else r.share),
            text.ms(r.avg_ns),
            text.ms(r.gpu_ns),
        )
        for r in rows[:ROWS]
    ]
    table = _table((*head, say("avg ms"), "GPU ms"), cells)
    return _folded(say("Ranges by total time, wrappers left out"), table, len(rows), say)


def _kernels(report: Report, say: Speaker) -> str:
    rows = report.kernels or []
    cells = [
        (
            code(text.kernel_name(r.name)),
            text.count(r.instances),
            text.ms(r.total_ns),
            text.percent(r.percent),
            text.us(r.avg_ns),
        )
        for r in rows[:ROWS]
    ]
    head = (say("kernel"), say("count"), say("total ms"), say("share"), say("avg µs"))
    return _folded(f"{say('Kernels')}, {words.of_capture(report, say)}", _table(head, cells), len(rows), say)


def _os_calls(report: Report, say: Speaker) -> str:
    rows = report.osrt or []
    cells = [
        (code(r.name), text.count(r.calls), text.ms(r.total_ns), text.percent(r.percent), text.us(r.avg_ns))
        for r in rows[:ROWS]
    ]
    head = (say("call"), say("calls"), say("total ms"), say("share"), say("avg µs"))
    return _folded(say("OS calls, all threads added up, waiting included"), _table(head, cells), len(rows), say)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    rule = ["---", *["---:"] * (len(head) - 1)]
    escaped = ([cell.replace("|", "\\|") for cell in row] for row in rows)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *escaped))


def _folded(title: str, table: str, rows: int, say: Speaker) -> str:
    if not rows:
        return ""
    shown = say(" ({shown} of {all})", shown=ROWS, all=rows) if rows > ROWS else ""
    return f"<details><summary>{title}{shown}</summary>\n\n{table}\n\n</details>"


def _codes(names: str) -> str:
    """Codes of ours in a row, each of them as code."""
    return ", ".join(map(code, names.split(", ")))


def _list(title: str, notes: list[tuple[str, str]]) -> str:
    return f"**{title}**\n\n" + "\n".join(f"- {_codes(c)}: {told(t)}" for c, t in notes) if notes else ""


OUTPUT = Output(
    "markdown", "the report as Markdown, for a pull request", lambda rs: "\n".join(map(to_markdown, rs)), joins=True
)
