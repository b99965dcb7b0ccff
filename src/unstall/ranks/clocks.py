"""One clock for all ranks, as far as the captures allow, and how good it is.

In: matched collectives. Out: an offset a rank. A collective that all must join ends on all ranks at the same time, give
or take the microseconds of its last hop; so the median difference of its ends between two captures is the difference of
their clocks. Without collectives only the wall clock that each capture stores is left: good on one host, and between
hosts as good as their time service, which nobody measured. Drift within a capture of seconds is part of the residual.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from unstall.model import RankClock, RanksClock
from unstall.ranks.collectives import TOGETHER
from unstall.ranks.matching import Collectives, Floats
from unstall.ranks.numbers import Numbered

LEAST = 10
"""Fewer common collectives do not make a clock."""
GOOD_NS = 1_000_000
"""Residual above which ends say nothing about clocks: a millisecond is a thousand times a hop within a host."""
TO_DEVIATION = 1.4826  # of a median absolute deviation

By = Literal["collectives", "utc", "none"]


@dataclass(frozen=True)
class Clocks:
    """For each rank: how it was aligned, its offset against the others, the spread of its ends; ns, NaN if unknown."""

    by: tuple[By, ...]
    offset: Floats
    residual: Floats

    @property
    def comparable(self) -> bool:
        """Whether times of different ranks may be compared at all."""
        return "none" not in self.by


def align(ranks: Sequence[Numbered], found: Collectives | None) -> Clocks:
    """The common clock."""
    offset, residual = np.full(len(ranks), np.nan), np.full(len(ranks), np.nan)
    if found is not None:
        offset, residual = _best(found)
    by: list[By] = []
    for i, rank in enumerate(ranks):
        stored = rank.file.epoch_ns is not None
        by.append("collectives" if residual[i] < GOOD_NS else "utc" if stored else "none")
    if len({r.file.file for r in ranks}) == 1:
        by = ["utc" if b == "none" else b for b in by]  # one capture, one clock
    return Clocks(tuple(by), offset, residual)


def _best(found: Collectives) -> tuple[Floats, Floats]:
    """Offsets by the communicator whose ends agree best: ends of another group of the same name agree with nothing."""
    tried = []
    together = np.isin(found.kind, list(TOGETHER))
    for number in np.unique(found.communicator[together]):
        end = found.end[:, together & (found.communicator == number)]
        if np.isfinite(end).sum(axis=1).max() >= LEAST:
            tried.append(_offsets(end))
    if not tried:
        none = np.full(len(found.end), np.nan)
        return none, none
    return max(tried, key=lambda t: ((t[1] < GOOD_NS).sum(), -np.nanmedian(t[1])))


def _offsets(end: Floats) -> tuple[Floats, Floats]:
    """Median difference to the rank with the most, centred; and the spread around it."""
    first = int(np.isfinite(end).sum(axis=1).argmax())
    apart = end - end[first]
    enough = np.isfinite(apart).sum(axis=1) >= LEAST
    offset, residual = np.full(len(end), np.nan), np.full(len(end), np.nan)
    offset[enough] = np.nanmedian(apart[enough], axis=1)
    residual[enough] = TO_DEVIATION * np.nanmedian(np.abs(apart[enough] - offset[enough, None]), axis=1)
    return offset - np.nanmedian(offset), residual


def row(clocks: Clocks, index: int, rank: Numbered) -> RankClock:
    """A rank's clock as the report shows it."""
    aligned = clocks.by[index] == "collectives"
    known = aligned and rank.file.epoch_ns is not None
    return RankClock(
        by=clocks.by[index],
        offset_ns=round(float(clocks.offset[index])) if known else None,
        residual_ns=round(float(clocks.residual[index])) if aligned else None,
    )


def summary(clocks: Clocks, rows: Sequence[RankClock], ranks: Sequence[Numbered]) -> RanksClock:
    """All of them together."""
    kinds = set(clocks.by)
    offsets = [r.offset_ns for r in rows if r.offset_ns is not None]
    residuals = [r.residual_ns for r in rows if r.residual_ns is not None]
    return RanksClock(
        by=clocks.by[0] if len(kinds) == 1 else "mixed",
        hosts=hosts(ranks),
        skew_ns=max(offsets) - min(offsets) if len(offsets) > 1 else None,
        residual_ns=max(residuals) if residuals else None,
    )


def hosts(ranks: Sequence[Numbered]) -> int | None:
    """How many hosts there were; ``None`` where captures do not tell, as after redaction."""
    named = {r.file.host for r in ranks}
    return None if not named or any(not n or n.startswith("[") for n in named) else len(named)
