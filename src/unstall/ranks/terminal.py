"""``unstall ranks`` on a terminal: who is late, why and what it costs; then the ranks, the heat map, the collectives.

In: a report with ``ranks``. Out: lines none longer than the width. Layout and the taming of names are in
``unstall.report.layout``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import IO, TYPE_CHECKING

from rich.text import Text

from unstall.lang import Speaker, speaker
from unstall.ranks import words
from unstall.report import text
from unstall.report.layout import Column, dotted, fit, heading, table, wrap

if TYPE_CHECKING:
    from unstall.model import RankRow, Ranks, Report

SHADES = "░▒▓█"
PLAIN_SHADES = ".:*#"
LONGEST_REASON = 300
MISSING = " "


def show(report: Report, file: IO[str] | None = None, *, top: int = 10) -> None:
    """Write the report to ``file`` (standard output by default). ``top`` ranks, 0 for all of them."""
    from unstall.report.terminal import WIDEST, make_console

    console = make_console(file)
    unicode = console.encoding.lower().startswith("utf")
    with console.capture() as shown:
        for line in lines(report, min(console.width, WIDEST), top=top, unicode=unicode):
            console.print(line, soft_wrap=True, highlight=False, markup=False, emoji=False)
    console.file.write(shown.get())


def lines(report: Report, width: int, *, top: int = 10, unicode: bool = True) -> Iterator[Text]:
    """The whole of it, line by line."""
    merged, say = report.ranks, speaker(report.language)
    assert merged is not None
    yield from wrap(dotted(words.about(report, say)), width, "bold")
    yield Text()
    yield from wrap(words.verdict(report, say), width, "bold")
    yield from _stragglers(merged, width, say)
    yield from _ranks(merged, width, top, say)
    yield from _heat(merged, width, top, unicode, say)
    yield from _collectives(merged, width, top, say)
    yield from _clock(merged, width, say)
    yield from _failed(merged, width, say)
    yield from _warnings(report, width, say)


def _stragglers(merged: Ranks, width: int, say: Speaker) -> Iterator[Text]:
    """All but the first, which is the verdict already."""
    for number, found in enumerate(merged.stragglers[1:], 2):
        if number == 2:
            yield from heading(say("ALSO"), say("most lost first"), width)
        told = f"{words.late(found, merged, say)} {words.reason(found, say)}"
        yield from wrap(told, width, first=f"  {number} ")


def _ranks(merged: Ranks, width: int, top: int, say: Speaker) -> Iterator[Text]:
    every = words.by_lateness(merged)
    rows = every[: top or None]
    known = merged.meeting != "none"
    note = say("ms a step; own: without waiting; costs: what the others wait for it") if known else say("ms a step")
    yield from heading(say("RANKS"), note, width)
    columns = [
        Column(say("step"), [text.ms(r.step_ns) for r in rows], rank=1),
        Column(say("own"), [text.ms(r.own_ns) for r in rows], "bold") if known else None,
        Column(say("waits"), [text.ms(r.wait_ns) for r in rows], rank=2) if known else None,
        Column(say("costs"), [text.ms(r.caused_ns) for r in rows], "red") if known else None,
        Column(say("network"), [text.ms(r.transfer_ns) for r in rows], rank=4) if known else None,
        Column(say("GPU"), [_category(r, "gpu_compute") for r in rows], rank=5),
        Column(say("loading"), [_category(r, "data_loading") for r in rows], rank=6),
        Column(say("last %"), [_percent(r.late_share) for r in rows], rank=7) if known else None,
        Column(say("steps"), [text.count(r.steps) for r in rows], rank=8),
        Column(say("first to look at"), [words.cause_of(r, merged, say) for r in rows], rank=3, left=True),
    ]
    told = [c for c in columns if c and any(cell.strip() not in ("", text.DASH) for cell in c.cells)]
    yield from table(Column(say("rank"), [_name(r, merged) for r in rows], least=8), told, width)
    if len(rows) < len(every):
        more = say("… {count} more ranks: --top 0 shows all", count=len(every) - len(rows))
        yield from wrap(more, width, "dim", first="  ")


def _name(rank: RankRow, merged: Ranks) -> str:
    several = merged.clock is not None and (merged.clock.hosts or 0) > 1
    return f"{rank.rank} {fit(rank.host, 20)}" if several and rank.host else str(rank.rank)


def _category(rank: RankRow, name: str) -> str:
    if rank.breakdown is None or (name == "gpu_compute" and rank.device is None):
        return text.DASH
    return text.ms(next((c.ns for c in rank.breakdown.categories if c.name == name), 0))


def _percent(part: float | None) -> str:
    return text.DASH if part is None else text.share(100 * part)


# -- rank × step ------------------------------------------------------------------------------------------------------


def _heat(merged: Ranks, width: int, top: int, unicode: bool, say: Speaker) -> Iterator[Text]:
    rows = [(r, words.own_steps(r)) for r in words.by_lateness(merged)[: top or None]]
    values = sorted(v for _, row in rows for v in row if v is not None)
    if len(merged.steps) < 2 or not values:
        return
    low, high = values[0], values[min(len(values) - 1, int(0.98 * len(values)))]
    first, last = merged.steps[0], merged.steps[-1]
    what = say("a step without waiting") if merged.meeting != "none" else say("a step")
    detail = say(
        "{what}, steps {first} to {last}; from {low} (light) to {high} (dark)", what=what, first=first, last=last,
        low=text.duration(low), high=text.duration(high),
    )  # fmt: skip
    yield from heading(say("RANK BY STEP"), detail, width)
    label = max(len(str(r.rank)) for r, _ in rows)
    for rank, row in rows:
        cells = shades(row, low, high, width - label - 4, SHADES if unicode else PLAIN_SHADES)
        yield Text(f"  {rank.rank:>{label}}  ", "dim").append(cells, "yellow")


def shades(row: Sequence[int | None], low: int, high: int, width: int, signs: str) -> str:
    """One sign a step, or for the worst of as many steps as a sign must stand for."""
    bins = min(len(row), width)
    out = ""
    for i in range(bins):
        part = [v for v in row[i * len(row) // bins : (i + 1) * len(row) // bins] if v is not None]
        if not part:
            out += MISSING
            continue
        place = (max(part) - low) / (high - low) if high > low else 0.0
        out += signs[min(max(round(place * (len(signs) - 1)), 0), len(signs) - 1)]
    return out


# -- the rest ---------------------------------------------------------------------------------------------------------


def _collectives(merged: Ranks, width: int, top: int, say: Speaker) -> Iterator[Text]:
    rows = merged.collectives[: top or None]
    if not rows:
        return
    yield from heading(say("COLLECTIVES"), say("waiting: beyond the rank that came last"), width)
    columns = [
        Column(say("ranks"), [str(len(r.members)) for r in rows], rank=2),
        Column(say("a step"), [text.count(round(r.per_step, 1)) for r in rows], rank=1),
        Column(say("ms"), [text.ms(r.duration_ns) for r in rows], rank=3),
        Column(say("transfer ms"), [text.ms(r.transfer_ns) for r in rows]),
        Column(say("waiting ms"), [text.ms(r.wait_ns) for r in rows], "red"),
        Column(say("exposed ms a step"), [text.ms(r.exposed_ns) for r in rows], rank=5),
        Column(say("mostly last"), [_last(r.last, r.last_share) for r in rows], rank=4, left=True),
    ]
    names = [f"{r.kind} #{r.communicator}" for r in rows]
    yield from table(Column(say("collective"), names), columns, width)
    if len(rows) < len(merged.collectives):
        more = say("… {count} more: --top 0 shows all", count=len(merged.collectives) - len(rows))
        yield from wrap(more, width, "dim", first="  ")


def _last(rank: int | None, share: float | None) -> str:
    return text.DASH if rank is None or share is None else f"{rank} ({text.rough_percent(100 * share)})"


def _clock(merged: Ranks, width: int, say: Speaker) -> Iterator[Text]:
    if len(merged.ranks) > 1 and merged.clock is not None:
        yield from heading(say("CLOCKS"), "", width)
        yield from wrap(words.clock(merged.clock, say), width, first="  ")


def _failed(merged: Ranks, width: int, say: Speaker) -> Iterator[Text]:
    if merged.failed:
        yield from heading(say("NOT READ"), "", width)
    for failed in merged.failed:
        who = say("rank {rank}, ", rank=failed.rank) if failed.rank is not None else ""
        name = PurePath(failed.file).name or failed.file
        parent = PurePath(failed.file).parent.name
        shown = f"{parent}/{name}" if parent else name
        yield from wrap(f"{who}{shown}: {text.shorten(failed.reason, LONGEST_REASON)}", width, "yellow", "  ", 4)


def _warnings(report: Report, width: int, say: Speaker) -> Iterator[Text]:
    if report.warnings:
        yield from heading(say("WARNINGS"), "", width)
    for warning in report.warnings:
        yield from wrap(f"{warning.code}: {text.shorten(warning.text, 600)}", width, "yellow", "  ", 4)
