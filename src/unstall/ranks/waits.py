"""Who waited for whom: every wait goes to the rank that came last, not to the network.

In: matched steps and collectives (or, on a CPU, phases), and the clock. Out: :class:`Waits`.

A collective ends for nobody before the last has come, so the member that came last has the shortest kernel, and what
another's kernel takes beyond that is waiting. What the shortest takes is the transfer. Durations need no common clock.
Waiting that compute hides costs nothing: compute runs beside the first part of the kernel, so the hidden part is taken
from the wait first. Where the members of a group are not the members of the capture (tensor parallelism), those whose
collectives end together form a group.

Without collectives in the captures (gloo on a CPU) ranks still meet: in the phase that ends at the same time on all of
them though it began at different times. There a rank's wait is what its phase takes beyond the shortest, or what it
spends in waiting calls beyond the least, whichever tells the ranks further apart.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from unstall.ranks.clocks import Clocks, hosts
from unstall.ranks.collectives import PAIRED, TOGETHER
from unstall.ranks.matching import Collectives, Floats, Ints, Steps, base_of, zero_of
from unstall.ranks.numbers import Numbered

TIE_NS, TIE = 5_000, 0.05
"""Members that differ by less, in ns and in parts of the shortest, came together: kernels of one collective differ by
microseconds even when all wait at the door."""
TOGETHER_NS = 100_000
"""Ends of one collective lie closer than this; those of two groups, which nothing holds together, do not."""
SAMPLE = 64  # collectives that decide who forms a group
USUALLY = 90  # percentile of the distances that must be so close: within a step two groups may keep pace by chance
MEETS = 0.5
"""Ends of a meeting phase are at most this part as far apart as its starts."""
LATE_STARTS = 0.02  # of a step: starts closer than this do not tell a meeting from any other phase
NAMED = re.compile(r"(?i)all_?reduce|all_?gather|reduce_?scatter|barrier|gloo:|nccl:|c10d|backward|sync")
"""Where ranks meet by what is known of frameworks, if clocks do not tell: DDP reduces inside ``backward``."""


@dataclass
class Group:
    """Collectives of one communicator and one set of members."""

    communicator: int
    kind: int
    members: Ints  # rows
    columns: Ints
    duration: Floats
    fastest: Floats
    wait: Floats
    exposed: Floats
    last: Ints  # row of the member that came last; −1 where they came together


@dataclass
class Waits:
    """Of shape (ranks, steps), ns: waiting, transfer, and what each rank made all others wait together.

    ``charged`` is the sum of the others' waits, ``cost`` their mean. ``covered`` are the steps (indices) in which that
    is known. ``home``: ranks of the same number wait for each other most.
    """

    kind: Literal["collectives", "host", "none"]
    wait: Floats
    transfer: Floats
    charged: Floats
    cost: Floats
    home: Ints
    covered: Ints
    joined: Ints  # collectives of each rank that were no tie
    last: Ints  # of those, the ones that it entered last
    groups: list[Group] = field(default_factory=list)
    phase: str = ""
    certain: bool = True  # else the phase is known by its name alone


def find(ranks: Sequence[Numbered], steps: Steps, found: Collectives | None, clocks: Clocks) -> Waits:
    """The waits of all ranks."""
    shape = steps.period.shape
    if found is not None:
        waits = _of_collectives(found, steps, shape)
        if len(waits.covered) or not shape[1]:
            return waits
    return _on_host(ranks, steps, clocks)


def nothing(shape: tuple[int, ...]) -> Waits:
    """Nothing is known of any wait."""
    count = np.zeros(shape[0], np.int64)
    blank = np.full(shape, np.nan)
    wait, transfer, charged, cost = (blank.copy() for _ in range(4))
    none = np.empty(0, np.int64)
    return Waits("none", wait, transfer, charged, cost, count.copy(), none, count, count.copy())


# -- on the device ----------------------------------------------------------------------------------------------------


def _of_collectives(found: Collectives, steps: Steps, shape: tuple[int, ...]) -> Waits:
    waits = nothing(shape)
    waits.kind = "collectives"
    waits.groups = list(_groups(found))
    at = np.searchsorted(steps.keys, found.step)
    inside = (at < len(steps.keys)) & (steps.keys[np.minimum(at, max(len(steps.keys) - 1, 0))] == found.step)
    waits.covered = np.unique(at[inside])
    tables = (waits.wait, waits.transfer, waits.charged, waits.cost)
    for table in tables:
        table[:, waits.covered] = 0.0
    for group in waits.groups:
        _book(waits, group, np.where(inside, at, -1)[group.columns], found.weight)
    waits.home = _homes(waits.groups, shape[0])
    absent = ~np.isfinite(found.duration).any(axis=1)
    for table in tables:
        table[absent] = np.nan
    return waits


def _homes(groups: Sequence[Group], count: int) -> Ints:
    """For each rank the group in which it waits most."""
    home, most = np.full(count, -1, np.int64), np.full(count, -1.0)
    sums: dict[tuple[int, bytes], Floats] = {}
    for group in groups:
        key = (group.communicator, group.members.tobytes())
        sums[key] = sums.get(key, np.zeros(len(group.members))) + np.nansum(group.wait, axis=1)
    for number, ((_, members), waited) in enumerate(sums.items()):
        rows = np.frombuffer(members, np.int64)
        more = waited.sum() > most[rows]
        home[rows[more]], most[rows[more]] = number, waited.sum()
    return home


def _groups(found: Collectives) -> list[Group]:
    """Collectives by communicator, members and kind."""
    out = []
    for number in np.unique(found.communicator):
        own = found.communicator == number
        for members in _members(found, own):
            for kind in np.unique(found.kind[own]):
                columns = np.flatnonzero(own & (found.kind == kind))
                group = _group(found, int(number), int(kind), members, columns)
                if group is not None:
                    out.append(group)
    return out


def _members(found: Collectives, own: np.ndarray) -> list[Ints]:
    """Rows of the ranks that share a communicator's collectives: their ends move together from one to the next."""
    together = own & np.isin(found.kind, list(TOGETHER))
    columns = np.flatnonzero(together if together.any() else own)
    end, duration = found.end[:, columns], found.duration[:, columns]
    rows = np.flatnonzero(np.isfinite(end).any(axis=1))
    if len(rows) < 2 or not together.any():
        return [rows]
    limit = TOGETHER_NS + 0.1 * float(np.nanmedian(np.nanmin(duration[rows], axis=0)))
    some = np.unique(np.linspace(0, end.shape[1] - 1, SAMPLE).astype(np.int64))
    return _clusters(end[:, some], rows, limit)


def _clusters(end: Floats, rows: Ints, limit: float) -> list[Ints]:
    """Each rank joins the first group whose first member's ends move with its own; clocks may be any distance apart."""
    firsts: list[int] = []
    groups: list[list[int]] = []
    for row in rows:
        moved = np.abs(np.diff(end[row] - end[firsts], axis=1)) if firsts else np.empty((0, 0))
        known = np.isfinite(moved).sum(axis=1) >= 2
        apart = np.array([np.nanpercentile(m, USUALLY) if k else np.inf for m, k in zip(moved, known, strict=True)])
        if len(apart) and apart.min() <= limit:
            groups[int(apart.argmin())].append(int(row))
        else:
            firsts.append(int(row))
            groups.append([int(row)])
    if end.shape[1] < 4:  # too few to tell groups apart: one
        return [rows]
    return [np.array(g) for g in groups]


def _group(found: Collectives, number: int, kind: int, members: Ints, columns: Ints) -> Group | None:
    if len(members) < 2:
        return None
    duration, exposed = found.duration[np.ix_(members, columns)], found.exposed[np.ix_(members, columns)]
    several = np.isfinite(duration).sum(axis=0) >= 2
    if not several.any():
        return None
    duration, exposed, columns = duration[:, several], exposed[:, several], columns[several]
    fastest = np.nanmin(duration, axis=0)
    wait = duration - fastest
    if kind in PAIRED:
        wait = np.where(np.isfinite(wait), 0.0, np.nan)
    tie = np.nanmax(duration, axis=0) - fastest <= np.maximum(TIE_NS, TIE * fastest)
    last = members[np.nanargmin(duration, axis=0)]
    last = np.where(tie | (kind in PAIRED), -1, last)
    seen = np.clip(wait - (duration - exposed), 0.0, exposed)
    return Group(number, kind, members, columns, duration, fastest, seen, exposed, last)


def _book(waits: Waits, group: Group, step: Ints, weight: int) -> None:
    """Add a group's collectives to the tables."""
    inside = step >= 0
    wait = np.nan_to_num(group.wait) * weight
    moved = np.nan_to_num(group.exposed) * weight - wait
    for i, row in enumerate(group.members):
        np.add.at(waits.wait[row], step[inside], wait[i, inside])
        np.add.at(waits.transfer[row], step[inside], moved[i, inside])
    late = group.last >= 0
    waits.joined[group.members] += np.isfinite(group.duration[:, late]).sum(axis=1)
    np.add.at(waits.last, group.last[late], 1)
    charged = late & inside
    paid, others = wait[:, charged].sum(axis=0), np.isfinite(group.duration[:, charged]).sum(axis=0) - 1
    np.add.at(waits.charged, (group.last[charged], step[charged]), paid)
    np.add.at(waits.cost, (group.last[charged], step[charged]), paid / others)


# -- on the host ------------------------------------------------------------------------------------------------------


def _on_host(ranks: Sequence[Numbered], steps: Steps, clocks: Clocks) -> Waits:
    waits = nothing(steps.period.shape)
    stepping = np.flatnonzero(np.isfinite(steps.period).any(axis=1))
    if len(stepping) < 2 or not _coupled(steps, stepping) or not clocks.comparable:
        return waits
    tables = _phase_tables(ranks, steps)
    phase, waits.certain = _meeting(tables, steps, stepping, ranks)
    if not phase:
        return waits
    start, _, total = tables[phase]
    full = np.isfinite(total[stepping]).all(axis=0)
    waits.kind, waits.phase, waits.covered = "host", phase, np.flatnonzero(full)
    spent = _waiting(ranks, steps, total, stepping)
    wait = spent[:, full] - np.nanmin(spent[stepping][:, full], axis=0)
    if waits.certain and spent is total:
        early = np.nanmax(start[stepping][:, full], axis=0) - start[:, full]
        wait = np.minimum(wait, early)  # a phase that is long for another reason is not waiting for anybody
    waits.wait[:, waits.covered] = wait
    for table in (waits.transfer, waits.charged, waits.cost):
        table[:, waits.covered] = 0.0 * wait
    _charge_host(waits, wait, steps, stepping)
    return waits


def _coupled(steps: Steps, rows: Ints) -> bool:
    """Whether these ranks go through their steps side by side: over the run none gets ahead by more than a step."""
    both = np.isfinite(steps.start[rows]).all(axis=0)
    if both.sum() < 3:
        return False
    ahead = steps.start[rows][:, both]
    ahead = ahead - ahead[0]
    third = max(ahead.shape[1] // 3, 1)
    gained = np.median(ahead[:, -third:], axis=1) - np.median(ahead[:, :third], axis=1)
    return bool(np.ptp(gained) <= 1.5 * np.nanmedian(steps.period[rows]))


def _phase_tables(ranks: Sequence[Numbered], steps: Steps) -> dict[str, tuple[Floats, Floats, Floats]]:
    """Phase → start, end (on the wall clock) and time in it, of shape (ranks, steps)."""
    base = base_of(ranks)
    names = {p.name for r in ranks for p in r.summary.phases}
    out = {}
    for name in sorted(names):
        tables = tuple(np.full(steps.period.shape, np.nan) for _ in range(3))
        for i, rank in enumerate(ranks):
            phase = next((p for p in rank.summary.phases if p.name == name), None)
            if phase is not None:
                rows = [steps.row(v, rank, i) for v in (phase.start, phase.end, phase.total)]
                there = rows[2] >= 0
                for table, row, zero in zip(tables, rows, (zero_of(rank, base), zero_of(rank, base), 0.0), strict=True):
                    table[i] = np.where(there, row + zero, np.nan)
        out[name] = tables
    return out  # type: ignore[return-value]


def _meeting(
    tables: dict[str, tuple[Floats, Floats, Floats]], steps: Steps, rows: Ints, ranks: Sequence[Numbered]
) -> tuple[str, bool]:
    """The phase in which the ranks meet, and whether the clock says so."""
    common = {n: t for n, t in tables.items() if np.isfinite(t[2][rows]).all(axis=0).mean() >= 0.5}
    period = float(np.nanmedian(steps.period[rows]))
    gained = {}
    for name, (start, end, _) in common.items():
        first, last = (float(np.nanmedian(np.ptp(t[rows], axis=0))) for t in (start, end))
        if first > LATE_STARTS * period and last <= MEETS * first:
            gained[name] = first - last
    if gained and hosts([ranks[i] for i in rows]) in (1, None):
        return max(gained, key=lambda n: gained[n]), True
    return next((n for n in sorted(common, key=lambda n: -np.nansum(common[n][2])) if NAMED.search(n)), ""), False


def _waiting(ranks: Sequence[Numbered], steps: Steps, total: Floats, rows: Ints) -> Floats:
    """Time that may be waiting: the meeting phase, or the calls that wait, where these tell the ranks further apart."""
    calls = np.full(total.shape, np.nan)
    for i, rank in enumerate(ranks):
        if "lock_wait" in rank.summary.categories:
            calls[i] = steps.row(rank.summary.categories["lock_wait"], rank, i)
    if not np.isfinite(calls[rows]).any(axis=1).all():
        return total
    calls = np.minimum(calls, total)
    apart = [float(np.nanmedian(np.ptp(t[rows], axis=0))) for t in (calls, total)]
    return calls if apart[0] > apart[1] else total


def _charge_host(waits: Waits, wait: Floats, steps: Steps, rows: Ints) -> None:
    """Each step's waits go to the rank that waited least, unless all came together."""
    own = wait[rows]
    tie = np.nanmax(own, axis=0) <= LATE_STARTS * np.nanmedian(steps.period[rows])
    last = rows[np.nanargmin(own, axis=0)]
    for column in np.flatnonzero(~tie):
        at = (last[column], waits.covered[column])
        waits.charged[at], waits.cost[at] = np.nansum(own[:, column]), np.nansum(own[:, column]) / (len(rows) - 1)
    waits.joined[rows] = int((~tie).sum())
    np.add.at(waits.last, last[~tie], 1)
