"""Whether captures are ranks of one job at all: steps of unrelated runs have the same numbers, and nothing in common.

In: numbered ranks. Out: the rows that belong together, most first, and what speaks against the rest.

Times that do not overlap are enough, where clocks can be believed so far; else two things must speak against it, since
one job may well run on two kinds of GPU, or lose a rank early. Collectives that end together overrule all of it: clocks
of hosts are wrong at times, and nothing else holds ends within microseconds of each other over a whole capture.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from unstall.model import Warning_
from unstall.ranks import clocks, matching
from unstall.ranks.numbers import Numbered
from unstall.ranks.words import LONGEST_NAME, numbers
from unstall.report import text

NS = 10**9
ONE_CLOCK_NS, CLOCKS_NS = 1 * NS, 10 * NS
"""Captures further apart than this were not taken together: on one host; on several, where a clock that nobody sets
drifts by some seconds a day (50 ppm)."""
DRIFT = 50e-6
HOLD_NS = 100_000
"""Ends of collectives that stay this close over a capture, beyond the drift of two clocks, are of the same ones."""
FEWER = 2.0
"""Times as many steps as the other has: more than a capture that was cut short by chance."""
ENOUGH = 2  # things that must speak against it
MOST_GROUPS = 32  # that are told apart: the rest is one more


@dataclass(frozen=True)
class Relation:
    """``core``: rows of the ranks that are matched. ``others``: the rest; ``against``: what tells them apart."""

    core: list[int]
    others: list[int]
    against: list[str]

    def warnings(self, ranks: Sequence[Numbered]) -> list[Warning_]:
        """What to say of it."""
        if not self.others:
            return []
        why = "; ".join(self.against)
        if self.core:
            core, others = (numbers([ranks[i].rank for i in rows]) for rows in (self.core, self.others))
            told = (
                f"Ranks {others} do not look like ranks of the same job as {core}: {why}. Steps are matched and waits "
                f"are told among ranks {core} only."
            )
            return [Warning_(code="ranks-unrelated", text=told)]
        told = (
            f"The captures do not look like ranks of one job: {why}. Their steps are not matched, and nobody is "
            "charged with waiting."
        )
        return [Warning_(code="ranks-unrelated", text=told)]


def relate(ranks: Sequence[Numbered]) -> Relation:
    """Which of them belong together. A group of one is no job: nothing is matched then."""
    groups = _groups(ranks)
    if len(groups) > 1:
        groups = _rejoined(groups, ranks)
    first, *rest = sorted(groups, key=len, reverse=True) or [[]]
    if not rest:
        return Relation(list(range(len(ranks))), [], [])
    against = list(_against(ranks[first[0]], ranks[rest[0][0]]))
    if len(first) == 1:
        return Relation([], list(range(len(ranks))), against)
    return Relation(sorted(first), sorted(i for group in rest for i in group), against)


def _groups(ranks: Sequence[Numbered]) -> list[list[int]]:
    """Each rank joins the first group whose first member it may belong to; processes of one capture do."""
    groups: list[list[int]] = []
    for i, rank in enumerate(ranks):
        home = next((g for g in groups if _together(ranks[g[0]], rank)), None)
        if home is None and len(groups) > MOST_GROUPS:
            home = groups[-1]
        if home is None:
            groups.append([i])
        else:
            home.append(i)
    return groups


def _rejoined(groups: list[list[int]], ranks: Sequence[Numbered]) -> list[list[int]]:
    """Groups whose collectives end together are one, whatever else speaks against it."""
    found = matching.collectives_of(ranks, matching.steps_of(ranks).shift)
    spread = clocks.align(ranks, found).residual
    limit = [max(HOLD_NS, DRIFT * (r.file.duration_ns or 0)) for r in ranks]
    held = {int(i) for i in np.flatnonzero(spread <= limit)}
    coupled = [g for g in groups if held & {*g}]
    joined = sorted(i for g in coupled for i in g)
    return [*([joined] if joined else []), *(g for g in groups if g not in coupled)]


def _together(one: Numbered, two: Numbered) -> bool:
    if one.file is two.file:
        return True
    doubts = _doubts(one, two)
    return not _apart(one, two) and not (next(doubts, "") and next(doubts, ""))


def _against(one: Numbered, two: Numbered) -> Iterator[str]:
    """Everything that speaks against these two."""
    later, earlier = (two, one) if (two.file.epoch_ns or 0) > (one.file.epoch_ns or 0) else (one, two)
    apart = _apart(one, two)
    if apart:
        yield f"rank {later.rank} was captured {_for_people(apart)} after the capture of rank {earlier.rank} had ended"
    yield from _doubts(one, two)


def _apart(one: Numbered, two: Numbered) -> int:
    """Between the two captures, ns; 0 where they overlap, or clocks do not tell."""
    begins = [r.file.epoch_ns for r in (one, two)]
    if None in begins:
        return 0
    ends = [b + (r.file.duration_ns or 0) for b, r in zip(begins, (one, two), strict=True) if b is not None]
    gap = max(b for b in begins if b is not None) - min(ends)
    return gap if gap > (ONE_CLOCK_NS if clocks.hosts([one, two]) == 1 else CLOCKS_NS) else 0


def _doubts(one: Numbered, two: Numbered) -> Iterator[str]:
    """What speaks against these two, each alone not enough; what is unknown of one says nothing."""
    a, b = one.summary, two.summary
    if a.program and b.program and a.program != b.program:
        yield f"rank {one.rank} is {_short(a.program)} and rank {two.rank} is {_short(b.program)}"
    elif a.source and b.source and a.source != b.source:
        yield f"steps of rank {one.rank} are {_short(a.source)} and of rank {two.rank} {_short(b.source)}"
    if a.gpu and b.gpu and a.gpu != b.gpu:
        yield f"{_short(a.gpu)} on rank {one.rank} and {_short(b.gpu)} on rank {two.rank}"
    if a.steps and b.steps and max(a.steps, b.steps) > FEWER * min(a.steps, b.steps):
        yield f"{a.steps:,} steps on rank {one.rank} and {b.steps:,} on rank {two.rank}"
    if a.meetings and b.meetings and not np.isin(a.meetings.code.array(), b.meetings.code.array()).any():
        yield f"no collective of rank {one.rank} is one of rank {two.rank}"


def _short(name: str) -> str:
    return text.shorten(name, LONGEST_NAME)


def _for_people(ns: int) -> str:
    """A time between runs, which may be years."""
    span = timedelta(seconds=ns // NS)
    if span.days > 1:
        return f"{span.days:,} days"
    hours, minutes = span.total_seconds() / 3600, span.total_seconds() / 60
    return f"{hours:.1f} hours" if hours >= 2 else f"{minutes:.0f} minutes" if minutes >= 2 else f"{span.seconds:,} s"
