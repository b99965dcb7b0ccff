"""The tables that a terminal shows: ranges, kernels, copies, CUDA and OS calls, each cut to what people look at.

In: a :class:`~unstall.model.Report`, a width, how many rows. Out: lines. A column whose figures are all unknown is left
out; where the width does not suffice, the least wanted columns are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from rich.text import Text

from unstall.lang import Speaker, speaker
from unstall.report import text, words
from unstall.report.layout import Column, heading, table, wrap

if TYPE_CHECKING:
    from unstall.model import CallRow, CopyRow, RangeRow, Report

By = Literal["total", "self", "gpu"]

CALLS_SHOWN = 5  # calls are context, not the ranking people came for


def ranges(report: Report, width: int, top: int, by: By) -> Iterator[Text]:
    """The user's ranges, ranked."""
    if report.ranges is None:
        return
    say, rows = speaker(report.language), ranked(report.ranges, by)
    yield from heading(say("RANGES"), _ranges_detail(report.ranges, rows, by, say), width)
    if not rows:
        return
    shown = rows[: top or None]
    several = len({r.process for r in rows}) > 1
    columns = _range_columns(shown, by, several, words.nested(rows), say)
    yield from table(Column(say("range"), [_range_name(r) for r in shown]), columns, width)
    yield from _more(len(rows) - len(shown), width, say)


def ranked(rows: list[RangeRow], by: By) -> list[RangeRow]:
    """The user's ranges without wrappers, most first; a library's own only where the user has none."""
    kept = [r for r in rows if not r.wrapper]
    own = [r for r in kept if not r.library] or kept
    key = {"total": lambda r: r.total_ns, "self": lambda r: r.self_ns or 0, "gpu": lambda r: r.gpu_ns or 0}[by]
    return sorted(own, key=key, reverse=True)


BY = {"total": "by total time", "self": "by self time", "gpu": "by GPU time"}


def _ranges_detail(everything: list[RangeRow], rows: list[RangeRow], by: By, say: Speaker) -> str:
    detail = [say(BY[by]) if rows else say("none but wrappers") if everything else say("none recorded")]
    if words.nested(rows):
        detail.append(say("wall: of the process's time, ranges inside others included"))
    elif any(r.share is not None for r in rows):
        detail.append(say("share: of the sum of these rows"))
    wrappers = list(dict.fromkeys(f"{r.name} ({text.count(r.instances)})" for r in everything if r.wrapper))
    if wrappers:
        detail.append(say("wrappers left out: {names}", names=", ".join(text.shorten(w, 40) for w in wrappers[:4])))
    hidden = sum(r.library for r in everything) - sum(r.library for r in rows)
    if hidden:
        detail.append(say("{what} left out", what=words.plural(say, hidden, "library range")))
    return "; ".join(detail)


def _range_name(row: RangeRow) -> str:
    return f"{row.domain}:{row.name}" if row.domain else row.name


def _shares(rows: list[RangeRow], nested: bool, say: Speaker) -> list[Column]:
    """Of the wall time where ranges lie inside others, else of the rows' sum."""
    parts = [r.percent_of_wall if nested else r.share for r in rows]
    title = say("wall %") if nested else say("share %")
    return [Column(title, [text.share(part) for part in parts])] if any(p is not None for p in parts) else []


def _range_columns(rows: list[RangeRow], by: By, several: bool, nested: bool, say: Speaker) -> list[Column]:
    def figures(title: str, cells: Sequence[float | None], rank: int, style: str = "") -> list[Column]:
        return [Column(title, [text.ms(c) for c in cells], style, rank)] if any(c is not None for c in cells) else []

    chosen, inner = {by: "bold"}, 1 if nested else 5  # where ranges nest, own time is what can be compared
    return [
        *([Column("pid", [str(r.process) for r in rows])] if several else []),
        Column(say("count"), [text.count(r.instances) for r in rows], rank=3),
        Column(say("total ms"), [text.ms(r.total_ns) for r in rows], chosen.get("total", "")),
        *_steady(rows, say),
        *_shares(rows, nested, say),
        *figures(say("self ms"), [r.self_ns for r in rows], 0 if by == "self" else inner, chosen.get("self", "")),
        *figures("GPU ms", [r.gpu_ns for r in rows], 0 if by == "gpu" else 1, chosen.get("gpu", "")),
        *figures(say("avg ms"), [r.avg_ns for r in rows], 4),
        *figures(say("median ms"), [r.median_ns for r in rows], 6),
        *figures(say("min ms"), [r.min_ns for r in rows], 8),
        *figures(say("max ms"), [r.max_ns for r in rows], 7),
    ]


def _steady(rows: Sequence[RangeRow | CopyRow], say: Speaker) -> list[Column]:
    """Totals without warm-up, where that is known and makes a difference."""
    if all(r.steady_total_ns in (None, r.total_ns) for r in rows):
        return []
    return [Column(say("steady ms"), [text.ms(r.steady_total_ns) for r in rows], rank=2)]


def kernels(report: Report, width: int, top: int) -> Iterator[Text]:
    """The kernels that took most of the device's time."""
    rows = report.kernels
    if not rows:
        return
    say, shown = speaker(report.language), rows[: top or None]
    runs, kinds = words.plural(say, sum(r.instances for r in rows), "run"), words.plural(say, len(rows), "kernel")
    detail = say("{runs} of {kernels}; share: of the time of all of them", runs=runs, kernels=kinds)
    yield from heading(say("KERNELS"), words.of_capture(report, say, detail), width)
    columns = [
        Column(say("count"), [text.count(r.instances) for r in shown]),
        Column(say("total ms"), [text.ms(r.total_ns) for r in shown], "bold"),
        Column(say("share %"), [text.share(r.percent) for r in shown]),
        Column(say("avg µs"), [text.us(r.avg_ns) for r in shown]),
        Column(say("median µs"), [text.us(r.median_ns) for r in shown], rank=2),
        Column(say("max µs"), [text.us(r.max_ns) for r in shown], rank=1),
    ]
    yield from table(Column(say("kernel"), [text.kernel_name(r.name) for r in shown], least=40), columns, width)
    yield from _more(len(rows) - len(shown), width, say)


def copies(report: Report, width: int, top: int) -> Iterator[Text]:
    """Copies by direction and kind of memory."""
    if not report.copies:
        return
    say, shown = speaker(report.language), report.copies[: top or None]
    detail = words.of_capture(report, say, say("exposed: the part that no kernel on the same GPU hides"))
    yield from heading(say("COPIES"), detail, width)
    columns = [
        Column(say("count"), [text.count(r.instances) for r in shown]),
        Column(say("total ms"), [text.ms(r.total_ns) for r in shown], "bold"),
        Column(say("exposed ms"), [text.ms(r.exposed_ns) for r in shown]),
        *_steady(shown, say),
        Column(say("size"), [text.size(r.bytes) for r in shown]),
        Column("GB/s", [text.number(r.gb_per_s, 2) for r in shown]),
    ]
    yield from table(Column(say("copy"), [f"{r.kind} {r.source} → {r.destination}" for r in shown]), columns, width)
    yield from _more(len(report.copies) - len(shown), width, say)


def calls(report: Report, width: int, top: int) -> Iterator[Text]:
    """The CUDA calls that took most of the host's time."""
    say = speaker(report.language)
    detail = words.of_capture(report, say, say("time on the host, waiting included; share: of all calls"), device=False)
    yield from _calls(report.api, (say("CUDA CALLS"), detail), width, top, say)


def os_calls(report: Report, width: int, top: int) -> Iterator[Text]:
    """The calls of the operating system that took longest: mostly waits, of threads that have nothing to do."""
    say = speaker(report.language)
    detail = words.of_capture(
        report, say, say("all threads added up, waiting included; share: of all calls"), device=False
    )
    yield from _calls(report.osrt, (say("OS CALLS"), detail), width, top, say)


def _calls(rows: list[CallRow] | None, title: tuple[str, str], width: int, top: int, say: Speaker) -> Iterator[Text]:
    if not rows:
        return
    shown = rows[: min(top, CALLS_SHOWN) or None]
    yield from heading(*title, width)
    columns = [
        Column(say("calls"), [text.count(r.calls) for r in shown]),
        Column(say("total ms"), [text.ms(r.total_ns) for r in shown], "bold"),
        Column(say("share %"), [text.share(r.percent) for r in shown]),
        Column(say("avg µs"), [text.us(r.avg_ns) for r in shown]),
        Column(say("median µs"), [text.us(r.median_ns) for r in shown], rank=2),
        Column(say("max µs"), [text.us(r.max_ns) for r in shown], rank=1),
    ]
    yield from table(Column(say("call"), [r.name for r in shown]), columns, width)
    yield from _more(len(rows) - len(shown), width, say)


def _more(left: int, width: int, say: Speaker) -> list[Text]:
    if left <= 0:
        return []
    return wrap(say("{n} more: --top 0 shows all", n=text.count(left)), width, "dim", first="  … ")
