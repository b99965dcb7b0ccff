"""A report and a comparison inside a notebook: HTML without scripts, at home on light and dark pages.

In: a :class:`~unstall.model.Report` or :class:`~unstall.model.Comparison`. Out: one element with its own style, all
names escaped, and the same as plain text for a notebook in a terminal. Colours of text and lines are the page's own, so
JupyterLab and VS Code need not be told apart; where a viewer strips the style (GitHub), what is left is plain tables.
Shows what people look at first: verdict, step, findings, ranges; the rest folded away. The whole is
``unstall report --html``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from unstall.lang import Speaker, speaker
from unstall.report import gains, text, words

if TYPE_CHECKING:
    from unstall.model import BreakdownRow, Comparison, Finding, Report, StepFigure, StepsRow

ROWS = 10  # of a table: a notebook is read, the frame behind `report.table(...)` holds the rest
LONGEST_NAME = 80
LONGEST_TEXT = 600
EVIDENCE_SHOWN = 3
THINNEST = 0.4  # percent of the bar: what is there at all is seen

COLOURS = {
    "gpu_compute": "#0a8f6a", "exposed_communication": "#c2699b", "exposed_copy": "#d9a400", "other_process": "#7b8794",
    "data_loading": "#d55e00", "file_io": "#b0571a", "checkpoint": "#8a6a55", "python_cpu": "#3d7cc0",
    "launch": "#56b4e9", "device_latency": "#8cc3e8", "copy_call": "#d8bd50", "alloc": "#5f8f96", "sync": "#8a62a5",
    "lock_wait": "#a88bc4", "gil_wait": "#6c4f8a",
}  # fmt: skip
"""Middle tones, told apart on white and on black; the page of ``--html`` has the same hues."""
OTHER = "#8d959d"
VERDICTS = {"faster": "#0a8f6a", "slower": "#d55e00", "no difference": "#7b8794", "inconclusive": "#b08900"}

STYLE = """
&{font:13px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans KR","Apple SD Gothic Neo",sans-serif;
color:inherit;max-width:60em;margin:.4em 0;font-variant-numeric:tabular-nums;word-break:keep-all;overflow-wrap:anywhere}
& p{margin:.3em 0}& .u-lead{font-size:16px;font-weight:600;line-height:1.35}
& .u-dim{opacity:.72}& b{font-weight:600}
& .u-bar{display:flex;height:18px;margin:.5em 0;border-radius:3px;overflow:hidden;
background:rgba(128,128,128,.2)}
& .u-bar i{display:block;height:100%}
& .u-key{display:inline-block;width:.75em;height:.75em;border-radius:2px;margin-right:.45em}
& table{border-collapse:collapse;margin:.3em 0 .6em;font-size:12px;color:inherit;background:transparent}
& th,& td{padding:2px 10px 2px 0;text-align:right;border:0;background:transparent;color:inherit;
white-space:nowrap;max-width:none}
& th{font-weight:400;opacity:.72;border-bottom:1px solid rgba(128,128,128,.4)}
& tr,& tr:nth-child(even),& tbody tr:hover{background:transparent}
& td:first-child,& th:first-child,& .u-left{text-align:left;white-space:normal}
& details{margin:.25em 0;padding:.3em .7em;border-left:3px solid rgba(128,128,128,.35)}
& details.u-main{border-left-color:#d55e00}& summary{cursor:pointer}
& ul{margin:.2em 0 .2em 1.2em;padding:0}
& code{font:12px/1.4 ui-monospace,Menlo,Consolas,monospace;background:rgba(128,128,128,.16);color:inherit;
border-radius:3px;padding:0 3px}
& .u-chip{color:#fff;border-radius:3px;padding:1px 7px;font-weight:600;margin-right:.5em}
"""
SELECTOR = ".unstall-r" * 3
"""Three times, because JupyterLab's own rules for tables are that particular."""


def to_html(record: Any) -> str | None:
    """The record as one element; ``None`` for any but a report and a comparison."""
    if not _kind(record):
        return None
    parts = _report(record) if _kind(record) == "Report" else _comparison(record)
    style = STYLE.replace("\n", "").replace("&", SELECTOR)
    return f'<div class="unstall-r" lang="{e(record.language)}"><style>{style}</style>{"".join(parts)}</div>'


def to_text(record: Any) -> str | None:
    """The record as a terminal of 100 cells shows it, without colour; ``None`` for any but those two."""
    from unstall.report import comparison, terminal

    shown: dict[str, Any] = {"Report": terminal.lines, "Comparison": comparison.lines}
    if not _kind(record):
        return None
    return "\n".join(line.plain.rstrip() for line in shown[_kind(record)](record, 100))


def _kind(record: Any) -> str:
    name = type(record).__name__
    return name if name in ("Report", "Comparison") else ""


def e(name: object, longest: int = LONGEST_TEXT) -> str:
    """Anybody's text as text: nothing in it is markup, or moves what stands around it."""
    return escape(text.shorten(text.visible(str(name)), longest), quote=True)


# -- a report ---------------------------------------------------------------------------------------------------------


def _report(report: Report) -> list[str]:
    say = speaker(report.language)
    lead, more = words.verdict_parts(report)
    parts = [_facts(report, say), f'<p class="u-lead">{e(lead)}</p>', f"<p>{e(more)}</p>" if more else ""]
    for steps in report.steps:
        parts += [_step(steps, say, several=len(report.steps) > 1), _breakdown(report, steps, say)]
    parts += _findings(report, say)
    parts += [_ranges(report, say), _kernels(report, say), _copies(report, say), _os_calls(report, say)]
    warnings = [(w.code, w.text) for w in report.warnings]
    return [*parts, _notes(say("WARNINGS"), warnings), _notes(say("NOT CHECKED"), words.not_checked(report))]


def _facts(report: Report, say: Speaker) -> str:
    facts = report.profile
    lasted = [say("{time} captured", time=text.duration(facts.duration_ns))] if facts.duration_ns else []
    about = [f"{facts.producer} {facts.producer_version}".strip(), *lasted, *words.gpus(report), *words.users(report)]
    return f'<p class="u-dim"><b>{e(PurePath(facts.path).name)}</b> · {e(" · ".join(about))}</p>'


def _step(steps: StepsRow, say: Speaker, *, several: bool) -> str:
    time = text.duration(steps.step_ns)
    title = say("STEP of pid {pid} {time}", pid=steps.process, time=time) if several else say("STEP {time}", time=time)
    source = text.shorten(steps.source, LONGEST_NAME)
    facts = [say("{level} ({source})", level=words.level(steps, say), source=source)]
    facts += [f"p10–p90 {text.ms(steps.period_ns.p10)}–{text.ms(steps.period_ns.p90)} ms"]
    if steps.unprofiled_ns is not None:
        facts.append(say("without the profiler: {time}", time=text.duration(steps.unprofiled_ns)))
    return f'<p><b>{e(title)}</b> <span class="u-dim">· {e("; ".join(facts))}</span></p>'


def _breakdown(report: Report, steps: StepsRow, say: Speaker) -> str:
    row = words.breakdown_of(report, steps)
    if row is None:
        return ""
    idle = f"{say('GPU idle')}: " if words.has_device(report) else ""
    shown = [("", c) for c in words.on_device(row)] + [(idle, c) for c in words.on_host(row)]
    rows = []
    for label, category in shown:
        name = e(label + words.category(category.name, report.language))
        where = e(", ".join(r.name for r in category.ranges[:3]), LONGEST_NAME)
        key = f'<span class="u-key" style="background:{_colour(category.name)}"></span>'
        figures = f"<td>{text.ms(category.ns)}</td><td>{text.percent(category.percent)}</td>"
        rows.append(f'<tr><td>{key}{name}</td>{figures}<td class="u-left u-dim">{where}</td></tr>')
    head = f"<tr><th>{e(say('WHERE IT GOES'))}</th><th>ms</th><th>%</th><th></th></tr>"
    return f"{_bar(row)}<table>{head}{''.join(rows)}</table>"


def _bar(row: BreakdownRow) -> str:
    pieces = [
        f'<i style="width:{max(c.percent, THINNEST):.2f}%;background:{_colour(c.name)}"></i>'
        for c in [*words.on_device(row), *words.on_host(row)]
        if c.ns
    ]
    return f'<div class="u-bar">{"".join(pieces)}</div>'


def _colour(category: str) -> str:
    return COLOURS.get(category, OTHER)


def _findings(report: Report, say: Speaker) -> list[str]:
    main = [f for f in report.findings if f.main]
    head = [f"<p><b>{e(say('FINDINGS'))}</b></p>"] if main else []
    cards = [_finding(report, f, say, first=i == 0) for i, f in enumerate(main)]
    side = [(f.code, f.title) for f in report.findings if not f.main]
    return [*head, *cards, _notes(say("SIDE NOTES"), side)]


def _finding(report: Report, finding: Finding, say: Speaker, *, first: bool) -> str:
    where = finding.where.range or finding.where.call or finding.where.kernel
    each = "costs {time} a step" if report.steps else "costs {time} of this capture"
    stakes = [say(each, time=text.duration(finding.cost_ns_per_step))]
    if where:
        stakes.append(f"<code>{e(where, LONGEST_NAME)}</code>")
    if finding.predicted_step_ns is not None:
        step = text.duration(finding.predicted_step_ns)
        stakes.append(e(say("step predicted with the fix {step}{interval}", step=step, interval="")))
    if gain := gains.gain(report, finding, say):
        stakes.append(f"<b>{e(gain)}</b>")
    stakes.append(e(say("confidence {level:said}", level=finding.confidence)))
    if finding.needs:
        stakes.append(e(say("can be made only after the remedy of {codes}", codes=", ".join(finding.needs))))
    evidence = "".join(f"<li>{e(shown.text)}</li>" for shown in finding.evidence[:EVIDENCE_SHOWN])
    fix = say(
        "{remedy} ({safety:said}). {text}", remedy=finding.fix.title, safety=finding.fix.safety, text=finding.fix.text
    )
    title = f"<summary><b>{e(finding.title)}</b> <code>{e(finding.code)}</code></summary>"
    body = f"<p>{'; '.join(stakes)}</p><ul>{evidence}</ul><p><b>{e(say('fix'))}</b> {e(fix)}</p>"
    return f'<details class="u-main"{" open" if first else ""}>{title}{body}</details>'


def _ranges(report: Report, say: Speaker) -> str:
    from unstall.report.tables import ranked

    rows = ranked(report.ranges or [], "total")
    nested, several = words.nested(rows), len({r.process for r in rows}) > 1
    device = any(r.gpu_ns is not None for r in rows)
    head = [say("range"), *(["pid"] if several else []), say("count"), say("total ms")]
    head += [
        say("wall %") if nested else say("share %"),
        say("self ms"),
        say("avg ms"),
        *(["GPU ms"] if device else []),
    ]
    cells = [
        [
            e(f"{r.domain}:{r.name}" if r.domain else r.name, LONGEST_NAME),
            *([str(r.process)] if several else []),
            *(text.count(r.instances), text.ms(r.total_ns), text.share(r.percent_of_wall if nested else r.share)),
            *(text.ms(r.self_ns), text.ms(r.avg_ns), *([text.ms(r.gpu_ns)] if device else [])),
        ]
        for r in rows[:ROWS]
    ]
    return _folded(say("RANGES"), len(rows), head, cells, opened=True)


def _kernels(report: Report, say: Speaker) -> str:
    rows = report.kernels or []
    head = [say("kernel"), say("count"), say("total ms"), say("share %"), say("avg µs")]
    cells = [
        [
            e(text.kernel_name(r.name), LONGEST_NAME),
            *(text.count(r.instances), text.ms(r.total_ns), text.share(r.percent), text.us(r.avg_ns)),
        ]
        for r in rows[:ROWS]
    ]
    return _folded(say("KERNELS"), len(rows), head, cells, note=words.of_capture(report, say))


def _copies(report: Report, say: Speaker) -> str:
    rows = report.copies or []
    head = [say("copy"), say("count"), say("total ms"), say("exposed ms"), say("size"), "GB/s"]
    cells = [
        [
            e(f"{r.kind} {r.source} → {r.destination}", LONGEST_NAME),
            *(text.count(r.instances), text.ms(r.total_ns), text.ms(r.exposed_ns)),
            *(text.size(r.bytes), text.number(r.gb_per_s, 2)),
        ]
        for r in rows[:ROWS]
    ]
    note = words.of_capture(report, say, say("exposed: the part that no kernel on the same GPU hides"))
    return _folded(say("COPIES"), len(rows), head, cells, note=note)


def _os_calls(report: Report, say: Speaker) -> str:
    rows = report.osrt or []
    head = [say("call"), say("calls"), say("total ms"), say("share %"), say("avg µs")]
    cells = [
        [e(r.name, LONGEST_NAME), text.count(r.calls), text.ms(r.total_ns), text.share(r.percent), text.us(r.avg_ns)]
        for r in rows[:ROWS]
    ]
    detail = say("all threads added up, waiting included; share: of all calls")
    return _folded(say("OS CALLS"), len(rows), head, cells, note=words.of_capture(report, say, detail, device=False))


# -- a comparison -----------------------------------------------------------------------------------------------------


def _comparison(comparison: Comparison) -> list[str]:
    from unstall.report import comparison as shown

    say = speaker(comparison.language)
    headline, colour = shown.headline(comparison), VERDICTS[comparison.verdict]
    verdict, _, figures = headline.partition(": ")
    reason = comparison.reason[:1].upper() + comparison.reason[1:]
    sides = [(say("before"), comparison.before), (say("after"), comparison.after)]
    longest = max((figure.step_ns or 0 for _, figure in sides), default=0) or 1
    bars = "".join(_side(*side, longest, fill) for side, fill in zip(sides, (OTHER, colour), strict=True))
    head = f"<tr><th></th><th>{e(say('ms a step'))}</th><th>{e(say('steps'))}</th><th></th></tr>"
    return [
        f'<p class="u-lead"><span class="u-chip" style="background:{colour}">{e(verdict)}</span>{e(figures)}</p>',
        f'<p class="u-dim">{e(reason)}</p>',
        f"<table>{head}{bars}</table>",
        _moved(comparison, say),
        _notes(say("WARNINGS"), [(w.code, w.text) for w in comparison.warnings]),
    ]


def _side(name: str, figure: StepFigure, longest: int, fill: str) -> str:
    """One side: its figures, and a bar as long as its step."""
    width = 16 * (figure.step_ns or 0) / longest  # em
    bar = f'<span class="u-key" style="width:{width:.2f}em;background:{fill}"></span>'
    label = f'<span class="u-dim">{e(figure.label, LONGEST_NAME)}</span>'
    cells = f"<td><b>{text.ms(figure.step_ns)}</b></td><td>{text.count(figure.count)}</td>"
    return f'<tr><td>{e(name)}</td>{cells}<td class="u-left">{bar}{label}</td></tr>'


def _moved(comparison: Comparison, say: Speaker) -> str:
    rows = comparison.moved
    cells = []
    for row in rows[:ROWS]:
        name = text.kernel_name(row.name) if row.kind == "kernel" else row.name
        name = words.category(name, comparison.language) if row.kind == "category" else name
        sign = "+" if row.change_ns > 0 else "−"
        times = [say("none") if ns is None else text.ms(ns) for ns in (row.before_ns, row.after_ns)]
        cells.append(
            [e(name, LONGEST_NAME), e(say(row.kind)), *map(e, times), f"<b>{sign}{text.ms(abs(row.change_ns))}</b>"]
        )
    head = [say("what"), say("kind"), say("before"), say("after"), say("change")]
    return _folded(say("WHAT MOVED"), len(rows), head, cells, opened=True)


# -- parts ------------------------------------------------------------------------------------------------------------


def _folded(
    title: str,
    rows: int,
    head: Sequence[str],
    cells: Iterable[Sequence[str]],
    *,
    note: str = "",
    opened: bool = False,
) -> str:
    """A table that can be folded away; cells are HTML already, headings and the note under them are not. Nothing where
    there are no rows."""
    if not rows:
        return ""
    many = f' <span class="u-dim">({ROWS} / {rows})</span>' if rows > ROWS else ""
    top = "".join(f"<th>{e(cell)}</th>" for cell in head)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in cells)
    summary = f"<summary><b>{e(title)}</b>{many}</summary>"
    about = f'<p class="u-dim">{e(note)}</p>' if note else ""
    return f"<details{' open' if opened else ''}>{summary}{about}<table><tr>{top}</tr>{body}</table></details>"


def _notes(title: str, notes: Sequence[tuple[str, str]]) -> str:
    if not notes:
        return ""
    items = "".join(f"<li><code>{e(code)}</code> {e(note)}</li>" for code, note in notes)
    return f"<details><summary><b>{e(title)}</b></summary><ul>{items}</ul></details>"
