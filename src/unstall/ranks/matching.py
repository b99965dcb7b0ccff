"""The same step on every rank, and the same collective: tables with a row a rank.

In: numbered summaries. Out: :class:`Steps` and :class:`Collectives`, arrays of shape (ranks, steps) and (ranks,
collectives) in ns, NaN where a rank lacks one. Ranks keep steps by the step's own number, so matching is by number;
where the numbers do not fit, captures are shifted onto each other by the clock first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unstall.ranks.collectives import COMMUNICATOR, KIND, SEQUENCE, parts_of
from unstall.ranks.numbers import Numbered
from unstall.ranks.summary import Meetings, Numbers

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
MOST_SHIFT = 64
"""Steps that captures may begin apart; further, and a clock that is off is the likelier reason."""
PER_STEP = COMMUNICATOR * KIND * SEQUENCE


@dataclass(frozen=True)
class Steps:
    """Matched steps: ``keys`` of shape (steps,), the rest (ranks, steps); ``start`` is on the common wall clock."""

    keys: Ints
    period: Floats
    start: Floats
    shift: Ints  # of each rank, in steps

    def row(self, values: Numbers, rank: Numbered, index: int) -> Floats:
        """An array over a rank's kept steps, as a row of this table."""
        own = rank.summary.keys.array() + self.shift[index]
        return _spread(own, values.array().astype(np.float64), self.keys)


@dataclass(frozen=True)
class Collectives:
    """Matched collectives: ``code`` and what is in it of shape (collectives,), the rest (ranks, collectives).

    ``end`` is ns after ``base``, in each capture's own wall clock. ``weight``: how many each stands for.
    """

    code: Ints
    step: Ints
    communicator: Ints
    kind: Ints
    duration: Floats
    exposed: Floats
    end: Floats
    weight: int
    unmatched: tuple[int, ...]  # ranks with collectives, most of which nobody shares


def base_of(ranks: Sequence[Numbered]) -> int:
    """A time to count from, so that wall-clock nanoseconds fit a float: the earliest capture's zero."""
    return min((r.file.epoch_ns for r in ranks if r.file.epoch_ns is not None), default=0)


def zero_of(rank: Numbered, base: int) -> float:
    """The capture's zero after ``base``; 0 where it stores no wall clock."""
    return 0.0 if rank.file.epoch_ns is None else float(rank.file.epoch_ns - base)


def steps_of(ranks: Sequence[Numbered]) -> Steps:
    """Match the steps: those that at least half of the ranks with steps have."""
    base = base_of(ranks)
    shift = _shifts(ranks, base)
    own = [r.summary.keys.array() + s for r, s in zip(ranks, shift, strict=True)]
    numbers, counts = np.unique(np.concatenate([*own, np.empty(0, np.int64)]), return_counts=True)
    stepping = sum(len(k) > 0 for k in own)
    keys = numbers[counts >= max(1, (stepping + 1) // 2)]
    rows = [
        (_spread(k, r.summary.periods.array(), keys), _spread(k, r.summary.starts.array() + zero_of(r, base), keys))
        for k, r in zip(own, ranks, strict=True)
    ]
    shape = (len(rows), len(keys))
    return Steps(
        keys, np.array([p for p, _ in rows]).reshape(shape), np.array([s for _, s in rows]).reshape(shape), shift
    )  # fmt: skip


def _spread(own: Ints, values: npt.NDArray[np.generic], keys: Ints) -> Floats:
    """``values`` of ``own`` keys at their places among ``keys``; NaN elsewhere."""
    out = np.full(len(keys), np.nan)
    if len(keys) and len(own):
        at = np.minimum(np.searchsorted(keys, own), len(keys) - 1)
        hit = keys[at] == own
        out[at[hit]] = values[hit]
    return out


def _shifts(ranks: Sequence[Numbered], base: int) -> Ints:
    """By how many steps each capture numbers its steps lower than the first one does.

    A capture that only counts its steps may have begun later: the clock says by how much. Steps that have numbers
    need none of this, but an instrumentation may begin to count a step late on one rank (a rank that runs other code
    before its first step): the clock is believed there only where the periods, step by step, agree better as well.
    """
    out = np.zeros(len(ranks), np.int64)
    if len(ranks) < 2 or any(r.file.epoch_ns is None or not _dense(r.summary.keys.array()) for r in ranks):
        return out
    first = ranks[0]
    for i, rank in enumerate(ranks[1:], 1):
        later = 0 if rank.file is first.file else _later(first, rank, base)
        if later and (not rank.summary.named or _agreement(first, rank, later) < _agreement(first, rank, 0)):
            out[i] = later
    return out


def _later(first: Numbered, rank: Numbered, base: int) -> int:
    """How many steps later the same number is on another rank, by the clock; 0 where they do not keep pace."""
    (keys, starts), (own, begun) = (
        (r.summary.keys.array(), r.summary.starts.array() + zero_of(r, base)) for r in (first, rank)
    )
    period, other = (float(np.median(r.summary.periods.array())) for r in (first, rank))
    if not period or abs(other - period) > 0.1 * period:
        return 0
    place = np.interp(begun, starts, keys, left=np.nan, right=np.nan) - own
    if not np.isfinite(place).any():
        place = (begun[:1] - starts[0]) / period + keys[0] - own[:1]
    later = float(np.nanmedian(place))
    return round(later) if abs(later) <= MOST_SHIFT else 0


def _agreement(first: Numbered, rank: Numbered, later: int) -> float:
    """How far apart the periods of the two are, step by step, if the second is shifted."""
    own = rank.summary.keys.array() + later
    _, one, two = np.intersect1d(first.summary.keys.array(), own, return_indices=True)
    if len(one) < 3:
        return np.inf
    return float(np.median(np.abs(first.summary.periods.array()[one] - rank.summary.periods.array()[two])))


def _dense(keys: Ints) -> bool:
    return len(keys) > 1 and bool((np.diff(keys) == 1).all())


def collectives_of(ranks: Sequence[Numbered], shift: Ints) -> Collectives | None:
    """Match the collectives; ``None`` where no two ranks share any."""
    having = [(i, r.summary.meetings) for i, r in enumerate(ranks) if r.summary.meetings is not None]
    if len(having) < 2:
        return None
    base = base_of(ranks)
    stride = max(ranks[i].summary.meeting_stride for i, _ in having)
    weight = max(m.weight for _, m in having)
    own = {i: _codes(m, int(shift[i])) for i, m in having}
    numbers, counts = np.unique(np.concatenate(list(own.values())), return_counts=True)
    shared = numbers[counts > 1]
    step, communicator, kind = parts_of(shared)
    some = (step % stride == 0) & (shared % SEQUENCE % weight == 0)
    code = shared[some]
    if not len(code):
        return None
    tables = {n: np.full((len(ranks), len(code)), np.nan) for n in ("duration", "exposed", "end")}
    for i, meeting in having:
        start, duration = meeting.start.array(), meeting.duration.array()
        end = (start + duration) + zero_of(ranks[i], base)
        for name, values in (("duration", duration), ("exposed", meeting.exposed.array()), ("end", end)):
            tables[name][i] = _spread(own[i], values, code)
    lone = [i for i, m in having if np.isin(own[i], shared).mean() < 0.5]
    return Collectives(
        code, step[some], communicator[some], kind[some], **tables, weight=weight,
        unmatched=tuple(ranks[i].rank for i in lone),
    )  # fmt: skip


def _codes(meeting: Meetings, shift: int) -> Ints:
    out: Ints = meeting.code.array() + shift * PER_STEP
    return out
