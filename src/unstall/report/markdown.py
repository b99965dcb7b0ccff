"""The report for a pull request or an issue: GitHub-flavoured Markdown, short, the long tables folded.

In: a :class:`~unstall.model.Report`. Out: text in which names from the profile stand as code and can be nothing else:
no link, no mention, no HTML, no new table cell.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from unstall.report import Output, text, words

if TYPE_CHECKING:
    from unstall.model import BreakdownRow, Finding, Report, StepsRow

ROWS = 10  # a comment is skimmed; the JSON holds the rest
LONGEST_NAME = 120


def to_markdown(report: Report) -> str:
    """The report as one Markdown section."""
    parts = [
        _title(report),
        prose(words.verdict(report)),
        *_steps(report),
        *_findings(report),
        _ranges(report),
        _kernels(report),
    ]
    parts += [_list("Warnings", [(w.code, w.text) for w in report.warnings])]
    parts += [_list("Not checked", words.not_checked(report))]
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


def _title(report: Report) -> str:
    facts = report.profile
    about = [f"{facts.producer} {facts.producer_version}".strip(), *dict.fromkeys(gpu.name for gpu in facts.gpus)]
    return f"### unstall: {code(PurePath(facts.path).name)}\n\n{prose(' · '.join(about))}"


def _steps(report: Report) -> list[str]:
    return [_step(report, steps, words.breakdown_of(report, steps)) for steps in report.steps]


def _step(report: Report, steps: StepsRow, row: BreakdownRow | None) -> str:
    facts = [f"median of {text.plural(steps.count - steps.warmup, 'steady step')}"]
    facts += [f"process {steps.process}"] if steps.process is not None else []
    facts += [f"{text.plural(steps.warmup, 'warm-up step')} left out"] if steps.warmup else []
    facts += [f"{text.duration(steps.unprofiled_ns)} without the profiler"] if steps.unprofiled_ns is not None else []
    head = f"**Step {text.duration(steps.period_ns.median)}** ({', '.join(facts)})"
    if row is None:
        return head
    idle = "GPU idle: " if words.has_device(report) else ""
    named = [(words.category(c.name), c) for c in words.on_device(row)]
    named += [(idle + words.category(c.name), c) for c in words.on_host(row)]
    cells = [(name, text.ms(c.ns), text.percent(c.percent)) for name, c in named]
    return f"{head}\n\n" + _table(("where it goes", "ms", "share"), cells)


def _findings(report: Report) -> list[str]:
    return [_finding(report, f, i) for i, f in enumerate((f for f in report.findings if f.main), 1)]


def _finding(report: Report, finding: Finding, number: int) -> str:
    stakes = [_cost(report, finding)]
    if finding.predicted_step_ns is not None:
        gain = f", {text.speedup(finding.predicted_speedup)}" if finding.predicted_speedup is not None else ""
        stakes.append(f"predicted with the fix {text.duration(finding.predicted_step_ns)}{gain}")
    stakes.append(f"confidence {finding.confidence}")
    lines = [f"**{number}. {prose(finding.title)}** ({code(finding.code)}): {'; '.join(stakes)}."]
    lines += [f"- {prose(evidence.text)}" for evidence in finding.evidence]
    return "\n".join([*lines, f"- Fix ({finding.fix.safety}): {prose(finding.fix.title)}. {prose(finding.fix.text)}"])


def _cost(report: Report, finding: Finding) -> str:
    where, process = finding.where.range or finding.where.call or finding.where.kernel, finding.where.process
    each = "a step" if report.steps else "of this capture"
    place = f" mainly in {code(where)}" if where else ""
    pid = f", process {process}" if process is not None and len(report.steps) > 1 else ""
    return f"costs {text.duration(finding.cost_ns_per_step)} {each}{place}{pid}"


def _ranges(report: Report) -> str:
    rows = [r for r in report.ranges or [] if not r.wrapper and not r.library]
    several, nested = len({r.process for r in rows}) > 1, words.nested(rows)
    head = ("range", *(("process",) if several else ()), "count", "total ms", "of wall" if nested else "share")
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
    table = _table((*head, "avg ms", "GPU ms"), cells)
    return _folded("Ranges by total time, wrappers left out", table, len(rows))


def _kernels(report: Report) -> str:
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
    return _folded("Kernels", _table(("kernel", "count", "total ms", "share", "avg µs"), cells), len(rows))


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    rule = ["---", *["---:"] * (len(head) - 1)]
    escaped = ([cell.replace("|", "\\|") for cell in row] for row in rows)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *escaped))


def _folded(title: str, table: str, rows: int) -> str:
    if not rows:
        return ""
    shown = f" ({ROWS} of {rows})" if rows > ROWS else ""
    return f"<details><summary>{title}{shown}</summary>\n\n{table}\n\n</details>"


def _list(title: str, notes: list[tuple[str, str]]) -> str:
    return f"**{title}**\n\n" + "\n".join(f"- {code(c)}: {prose(t)}" for c, t in notes) if notes else ""


OUTPUT = Output(
    "markdown", "the report as Markdown, for a pull request", lambda rs: "\n".join(map(to_markdown, rs)), joins=True
)
