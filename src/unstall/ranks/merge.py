"""Summaries of all files → :class:`~unstall.model.Ranks`: number, match, align, find the waits, judge.

In: file summaries, in any order. Out: the record that outputs render, and warnings. Holds the summaries and arrays of
ranks × kept steps (or collectives); no capture.
"""

from __future__ import annotations

import warnings as python_warnings
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from unstall.model import (
    BreakdownRow,
    Category,
    CollectiveRow,
    RankClock,
    RankFinding,
    RankRow,
    Ranks,
    Straggler,
    Warning_,
    Where,
)
from unstall.ranks import clocks as clock_side
from unstall.ranks import matching, numbers, waits
from unstall.ranks.collectives import KINDS
from unstall.ranks.judge import SHARE, Judge
from unstall.ranks.numbers import Numbered
from unstall.ranks.relation import relate
from unstall.ranks.summary import FileSummary

TAKEN_FROM = ("exposed_communication", "lock_wait", "python_cpu", "file_io", "unknown")
"""Categories of a report in which waiting for another rank hides: on the device the first, on a CPU the others."""


def merge(files: Sequence[FileSummary]) -> tuple[Ranks, list[Warning_]]:
    """Everything that can be said of all ranks together."""
    with python_warnings.catch_warnings():
        python_warnings.simplefilter("ignore", RuntimeWarning)  # a mean over ranks that all lack a step is NaN
        return _merge(files)


def _merge(files: Sequence[FileSummary]) -> tuple[Ranks, list[Warning_]]:
    every, failed, said = numbers.assign(files)
    relation = relate(every)
    ranks = [every[i] for i in relation.core]
    steps = matching.steps_of(ranks)
    found = matching.collectives_of(ranks, steps.shift)
    clocks = clock_side.align(ranks, found)
    waited = waits.find(ranks, steps, found, clocks) if ranks else waits.nothing(steps.period.shape)
    judge = Judge(ranks, steps, waited, clocks)
    rows = [_row(judge, i, clock_side.row(clocks, i, r)) for i, r in enumerate(ranks)]
    rows = sorted([*rows, *(_alone(every[i], len(steps.keys)) for i in relation.others)], key=lambda r: r.rank)
    stragglers = judge.stragglers()
    _told_to_the_late(rows, stragglers)
    merged = Ranks(
        ranks=rows,
        stragglers=stragglers,
        imbalance=judge.imbalance(),
        failed=failed,
        missing=numbers.missing([r.rank for r in every], failed),
        files=len(files),
        step_ns=round(judge.step_ns) or None,
        matched_steps=len(steps.keys),
        steps=[str(k) for k in steps.keys],
        collectives=_collectives(judge),
        meeting=waited.kind,
        clock=clock_side.summary(clocks, [r.clock for r in rows if r.clock], every) if ranks else None,
    )
    return merged, [*relation.warnings(every), *said, *_warnings(merged, judge, found), *_common(files)]


# -- a rank -----------------------------------------------------------------------------------------------------------


def _row(judge: Judge, index: int, clock: RankClock) -> RankRow:
    rank, waited = judge.ranks[index], judge.waits
    told, own = rank.summary, _Own(judge, index)
    return RankRow(
        rank=rank.rank, rank_from=rank.source, file=rank.file.file, host=rank.file.host, process=told.process,
        gpu=told.gpu, device=told.device, step_ns=told.median_ns, steps=told.steps, warmup=told.warmup,
        own_ns=own.mean(judge.steps.period, waited.wait), wait_ns=own.mean(waited.wait),
        transfer_ns=own.mean(waited.transfer) if waited.kind == "collectives" else None,
        late_share=float(waited.last[index] / waited.joined[index]) if waited.joined[index] else None,
        caused_ns=own.mean(waited.cost), breakdown=_breakdown(told.breakdown, own.share()),
        findings=list(_findings(told.findings, told.median_ns, own.mean(waited.wait))), clock=clock,
        periods_ns=_whole(judge.steps.period[index]), waits_ns=_whole(waited.wait[index]),
    )  # fmt: skip


def _alone(rank: Numbered, steps: int) -> RankRow:
    """A rank that nothing is matched with."""
    told = rank.summary
    return RankRow(
        rank=rank.rank, rank_from=rank.source, file=rank.file.file, host=rank.file.host, process=told.process,
        gpu=told.gpu, device=told.device, step_ns=told.median_ns, steps=told.steps, warmup=told.warmup,
        breakdown=told.breakdown, findings=told.findings, periods_ns=[None] * steps, waits_ns=[None] * steps,
    )  # fmt: skip


class _Own:
    """Figures of one rank over the covered steps."""

    def __init__(self, judge: Judge, index: int) -> None:
        self._judge, self._index, self._at = judge, index, judge.waits.covered

    def mean(self, table: matching.Floats, less: matching.Floats | None = None) -> int | None:
        values = table[self._index, self._at] - (0 if less is None else less[self._index, self._at])
        values = values[np.isfinite(values)]
        return round(float(values.mean())) if len(values) else None

    def share(self) -> float:
        """Waiting in the middle one of the steps, as a part of it: the breakdown is of a typical step."""
        both = [t[self._index, self._at] for t in (self._judge.waits.wait, self._judge.steps.period)]
        parts = both[0] / both[1]
        parts = parts[np.isfinite(parts)]
        return float(np.median(parts)) if len(parts) else 0.0


def _whole(values: matching.Floats) -> list[int | None]:
    return [round(v) if np.isfinite(v) else None for v in values.tolist()]


def _breakdown(row: BreakdownRow | None, share: float) -> BreakdownRow | None:
    """Waiting for other ranks as a category of its own, taken from those it was counted in; the sum stays exact."""
    if row is None or not share:
        return row
    left, categories = round(share * row.step_ns), {c.name: c for c in row.categories}
    taken = 0
    for name in TAKEN_FROM:
        if name in categories and taken < left and (name == TAKEN_FROM[0]) == (TAKEN_FROM[0] in categories):
            piece = min(left - taken, categories[name].ns)
            categories[name] = _category(categories[name], categories[name].ns - piece, row.step_ns)
            taken += piece
    waiting = _category(Category(name="rank_wait", ns=0, percent=0.0), taken, row.step_ns)
    return msgspec.structs.replace(row, categories=[c for c in (*categories.values(), waiting) if c.ns])


def _category(row: Category, ns: int, step_ns: int) -> Category:
    return msgspec.structs.replace(row, ns=ns, percent=100 * ns / step_ns)


def _findings(findings: Iterable[RankFinding], step: int | None, wait: int | None) -> Iterable[RankFinding]:
    """The rank's own, but what only waits for another rank is not the network's."""
    for finding in findings:
        if finding.code == "exposed-communication" and wait:
            left = max(finding.cost_ns_per_step - wait, 0)
            if left >= SHARE * (step or 0):
                yield msgspec.structs.replace(finding, cost_ns_per_step=left, predicted_step_ns=None)
        else:
            yield finding


def _told_to_the_late(rows: list[RankRow], stragglers: Iterable[Straggler]) -> None:
    """A rank that is always late has that among its findings, first."""
    by_rank = {r.rank: r for r in rows}
    for late in stragglers:
        if late.always and late.rank is not None:
            title = f"The other ranks wait for rank {late.rank}"
            finding = RankFinding(
                code="straggler-rank", title=title, where=Where(range=late.range), predicted_step_ns=None,
                cost_ns_per_step=late.cost_ns_per_step, confidence=late.confidence,
            )  # fmt: skip
            by_rank[late.rank].findings.insert(0, finding)


# -- what they share --------------------------------------------------------------------------------------------------


def _collectives(judge: Judge) -> list[CollectiveRow]:
    steps = max(len(judge.waits.covered), 1)
    rows = []
    for g in judge.waits.groups:
        late = g.last[g.last >= 0]
        most = int(np.bincount(late).argmax()) if len(late) else None
        rows.append(
            CollectiveRow(
                kind=KINDS[g.kind], communicator=g.communicator, members=[judge.ranks[i].rank for i in g.members],
                matched=g.duration.shape[1], per_step=g.duration.shape[1] / steps,
                duration_ns=round(float(np.nanmedian(g.duration))), transfer_ns=round(float(np.median(g.fastest))),
                wait_ns=round(float(np.nanmean(g.duration - g.fastest))),
                exposed_ns=round(float(np.nansum(g.exposed)) / len(g.members) / steps),
                last=judge.ranks[most].rank if most is not None else None,
                last_share=float((g.last == most).mean()) if most is not None else None,
            )
        )  # fmt: skip
    return sorted(rows, key=lambda r: -r.exposed_ns)


def _warnings(merged: Ranks, judge: Judge, found: matching.Collectives | None) -> Iterable[Warning_]:
    if merged.meeting == "none" and len(judge.ranks) > 1:
        text = (
            "No collective and no phase was found in which the ranks wait for each other: steps are compared, waits "
            "are unknown."
        )
        yield Warning_(code="ranks-not-coupled", text=text)
    if merged.meeting == "host":
        text = (
            f"The captures hold no collectives of a GPU: ranks are taken to meet in {judge.waits.phase}, and what it "
            "takes beyond the shortest is waiting."
        )
        yield Warning_(code="ranks-meet-on-host", text=text)
    if found is not None and found.unmatched:
        text = f"Most collectives of ranks {_some(found.unmatched)} are shared by nobody: their waits are unknown."
        yield Warning_(code="collectives-unmatched", text=text)
    if merged.clock and merged.clock.by in ("none", "mixed") and len(merged.ranks) > 1:
        text = "Not all captures can be put on one clock: waits come from durations, which need none."
        yield Warning_(code="clocks-not-aligned", text=text)
    if merged.missing:
        yield Warning_(code="ranks-missing", text=f"No file for ranks {_some(merged.missing)}.")
    stepless = [r.rank for r in merged.ranks if r.step_ns is None]
    if stepless:
        yield Warning_(code="no-steps", text=f"No steps were found in the captures of ranks {_some(stepless)}.")


def _some(values: Sequence[int], most: int = 12) -> str:
    """``0–3, 7, 9``."""
    runs: list[tuple[int, int]] = []
    for value in values:
        runs[-1:] = [(runs[-1][0], value)] if runs and runs[-1][1] == value - 1 else [*runs[-1:], (value, value)]
    shown = [f"{a}–{b}" if b > a else f"{a}" for a, b in runs[:most]]
    return ", ".join([*shown, "…"] if len(runs) > most else shown)


def _common(files: Sequence[FileSummary]) -> list[Warning_]:
    """Warnings of the captures' own reports: each once, with how many said it."""
    good = [f for f in files if not f.error]
    counts = Counter(code for f in good for code in {w.code for w in f.warnings})
    first = {w.code: w.text for f in reversed(good) for w in f.warnings}
    return [
        Warning_(code=code, text=f"{text} (in {n} of {len(good)} captures)")
        for code, n in counts.most_common()
        if (text := first[code])
    ]
