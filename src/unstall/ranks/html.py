"""``unstall ranks`` as one page: a self-contained HTML file with the heat map of rank by step.

In: a report with ``ranks``. Out: HTML that opens from disk and asks no network for anything. Names reach it through a
template that escapes all it is given, after :func:`~unstall.report.text.visible`; the map's figures are numbers in a
JSON block that holds no ``<``; the page's own policy runs only the scripts that it was written with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from unstall.lang import Speaker, speaker
from unstall.ranks import words
from unstall.report import text
from unstall.report import words as shared
from unstall.report.html.embed import asset, embedded, policy

if TYPE_CHECKING:
    from unstall.model import CollectiveRow, FailedRank, RankRow, Ranks, Report

MOST_ROWS = 1024
"""Ranks drawn: more would be thinner than a pixel. The ones that cost the others most are among them."""
LONGEST = 200
SEGMENTS = 8


def to_html(report: Report) -> str:
    """The page."""
    merged, say = report.ranks, speaker(report.language)
    assert merged is not None
    style = asset("unstall.report.html", "page.css") + asset("unstall.ranks", "ranks.css")
    early, script = asset("unstall.report.html", "early.js"), asset("unstall.ranks", "ranks.js")
    environment = Environment(
        loader=PackageLoader("unstall.ranks", "assets"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    rows = words.by_lateness(merged)[:MOST_ROWS]
    return environment.get_template("page.html").render(
        say=say, language=report.language, version=report.unstall_version, policy=policy([style], [early, script]),
        style=Markup(style), early=Markup(early), script=Markup(script), about=words.about(report, say),
        verdict=_shown(words.verdict(report, say)), also=_also(merged, say), known=merged.meeting != "none",
        ranks=[_rank(r, merged, say) for r in rows], left_out=len(merged.ranks) - len(rows),
        collectives=[_collective(c) for c in merged.collectives[:MOST_ROWS]], clock=words.clock(merged.clock, say),
        failed=[_failed(f, say) for f in merged.failed[:MOST_ROWS]], legend=_legend(merged, say),
        warnings=[(w.code, _shown(w.text)) for w in report.warnings], map=_map(merged, rows, say),
        drawn=any(p is not None for r in rows for p in r.periods_ns) and len(merged.steps) > 1,
    )  # fmt: skip


def _shown(name: str) -> str:
    return text.visible(text.shorten(name, 4 * LONGEST))


def _also(merged: Ranks, say: Speaker) -> list[str]:
    return [_shown(f"{words.late(s, merged, say)} {words.reason(s, say)}") for s in merged.stragglers[1:]]


def _rank(rank: RankRow, merged: Ranks, say: Speaker) -> dict[str, Any]:
    """One row of the table."""
    return {
        "rank": rank.rank,
        "file": _shown(text.shorten(rank.file, LONGEST)),
        "host": _shown(text.shorten(rank.host, LONGEST)),
        "late": any(s.rank == rank.rank for s in merged.stragglers),
        "cause": words.cause_of(rank, merged, say),
        "cells": [
            (text.ms(ns), ns)
            for ns in (rank.step_ns, rank.own_ns, rank.wait_ns, rank.caused_ns, rank.transfer_ns)
        ],
        "bar": _bar(rank),
    }  # fmt: skip


def _bar(rank: RankRow) -> list[tuple[str, float, float]]:
    """Where the rank's step goes: (category, from, width), percent of the step."""
    if rank.breakdown is None:
        return []
    out, at = [], 0.0
    for c in sorted(rank.breakdown.categories, key=lambda c: (c.name == "rank_wait", -c.ns))[:SEGMENTS]:
        out.append((c.name, round(at, 3), round(c.percent, 3)))
        at += c.percent
    return out


def _legend(merged: Ranks, say: Speaker) -> list[tuple[str, str]]:
    names = {c.name: c.ns for r in merged.ranks if r.breakdown for c in r.breakdown.categories}
    present = sorted(names, key=lambda n: -sum(_ns(r, n) for r in merged.ranks))
    waiting = say("waiting for a later rank")
    return [(n, waiting if n == "rank_wait" else say(shared.CATEGORIES.get(n, n))) for n in present[: 2 * SEGMENTS]]


def _ns(rank: RankRow, name: str) -> int:
    return sum(c.ns for c in rank.breakdown.categories if c.name == name) if rank.breakdown else 0


def _collective(row: CollectiveRow) -> dict[str, Any]:
    times = (row.duration_ns, row.transfer_ns, row.wait_ns, row.exposed_ns)
    return {
        "name": f"{row.kind} #{row.communicator}", "ranks": words.numbers(row.members, 6),
        "cells": [text.count(round(row.per_step, 1)), *map(text.ms, times)],
        "last": text.DASH if row.last is None else f"{row.last} ({text.rough_percent(100 * (row.last_share or 0))})",
    }  # fmt: skip


def _failed(row: FailedRank, say: Speaker) -> tuple[str, str]:
    who = say("rank {rank}, ", rank=row.rank) if row.rank is not None else ""
    return who + _shown(text.shorten(row.file, LONGEST)), _shown(row.reason)


def _map(merged: Ranks, rows: Sequence[RankRow], say: Speaker) -> Markup:
    """What the script draws: microseconds, −1 where a rank lacks the step."""

    def micro(values: Sequence[int | None]) -> list[int]:
        return [-1 if v is None else round(v / 1000) for v in values]

    data = {
        "steps": merged.steps,
        "ranks": [r.rank for r in rows],
        "own": [micro(words.own_steps(r)) for r in rows],
        "wait": [micro(r.waits_ns) for r in rows],
        "period": [micro(r.periods_ns) for r in rows],
        "say": {
            "cell": say("rank [rank], step [step]: [period] ms, of which [wait] ms waiting"),
            "plain": say("rank [rank], step [step]: [period] ms"),
            "none": say("rank [rank], step [step]: not captured"),
        },
    }
    return embedded(data)
