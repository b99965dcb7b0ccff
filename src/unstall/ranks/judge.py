"""Why a rank is late, and what that costs everyone.

In: matched steps, waits, and where each rank's steps went. Out: :class:`~unstall.model.Straggler` s, most lost first,
and :class:`~unstall.model.Imbalance`.

A rank is late *always* when it is the one most waited for in most steps; *now and then* when that happens in single
steps and costs much there. Its reason is what it spends more on than the median of the others does in the same steps.
The network is the reason where even the shortest kernel of a collective takes far longer than it usually does, or than
in another group that does the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from typing import Literal

import numpy as np

from unstall.analyze.host import LOADING, NOT_LOADING, SAVING
from unstall.model import Imbalance, Straggler
from unstall.ranks.clocks import Clocks
from unstall.ranks.matching import Floats, Ints, Steps
from unstall.ranks.numbers import Numbered
from unstall.ranks.waits import Waits

SHARE = 0.02
"""Of the step: what all others must wait on average before it is worth a line (as the rule ``straggler-rank``)."""
MOSTLY = 0.6
"""Of the steps in which a rank must be the one most waited for to be late always: two ranks would each be it in half
of them by chance."""
SPIKE = 0.25
"""Of the step: what a single step must cost to be told by itself. On two busy cores single steps of a run without a
straggler cost up to 0.2 of a step."""
LONGER = 1.5
"""Transfers this many times as long as usual are the network's doing; a shared link varies by tens of percent."""
MORE_WORK = 1.02
"""Device operations a step, over the others', from which more compute means more work and not a slower GPU."""
LEAST = 10
"""Collectives (or steps) without which a habit cannot be told from an accident."""
PLENTY = 100
CHANCE = 0.01
"""Probability that a rank as good as the others would be the one most waited for so often; below, it is a habit."""
EXPLAINS, EXPLAINS_ALWAYS = 0.5, 0.25
"""Part of the wait that an excess must account for to be called its reason: in single steps, and in a habit, which may
have several reasons."""
MOST_SPIKES = 20
WORTH_A_LINE = 1.0
"""Percent of the time of all ranks that single steps must cost together, unless each costs a whole step."""

CAUSES = {
    "gpu_compute": "compute", "data_loading": "data-loading", "checkpoint": "saving", "file_io": "file-io",
    "exposed_copy": "copies", "copy_call": "copies", "other_process": "other-process", "alloc": "allocation",
    "python_cpu": "host", "gil_wait": "host", "launch": "host", "sync": "host", "device_latency": "host",
    "lock_wait": "host",
}  # fmt: skip
GARBAGE = re.compile(r"(?i)(?:^|[^a-z])gc(?:$|[^a-z])|garbage")

Confidence = Literal["high", "medium", "low"]


@dataclass(frozen=True)
class Reason:
    """What a late rank spends its time on."""

    cause: str
    excess_ns: int | None = None
    range: str | None = None


def _by_chance(times: int, steps: int, ranks: int) -> float:
    """Probability of being first among ``ranks`` equals in at least ``times`` of ``steps``."""
    ways = sum(comb(steps, k) * (ranks - 1) ** (steps - k) for k in range(times, steps + 1))
    return float(ways / ranks**steps)


class Judge:
    """Everything that is known of the ranks, and the verdicts drawn from it."""

    def __init__(self, ranks: Sequence[Numbered], steps: Steps, waits: Waits, clocks: Clocks) -> None:
        self.ranks, self.steps, self.waits, self.clocks = ranks, steps, waits, clocks
        self.period = steps.period[:, waits.covered]
        self.step_ns = float(np.nanmedian(steps.period)) if np.isfinite(steps.period).any() else 0.0
        self._tables: dict[str, Floats] = {}

    def stragglers(self) -> list[Straggler]:
        """Late ranks and slow networks, most lost first."""
        if self.waits.kind == "none" or not len(self.waits.covered) or self.step_ns <= 0:
            return []
        always = self._always()
        found = [*always, *self._now_and_then({(s.rank, s.cause) for s in always}), *self._network()]
        return sorted(found, key=lambda s: -s.lost_percent)

    def imbalance(self) -> Imbalance | None:
        """How unequal the ranks' own times are."""
        if self.waits.kind == "none" or not len(self.waits.covered):
            return None
        wait = self.waits.wait[:, self.waits.covered]
        own = np.nanmean(self.period - wait, axis=1)
        own = own[np.isfinite(own)]
        if len(own) < 2:
            return None
        return Imbalance(
            min_ns=round(float(own.min())),
            median_ns=round(float(np.median(own))),
            max_ns=round(float(own.max())),
            percent=100 * (float(own.max() / own.mean()) - 1),
            wait_ns=round(float(np.nanmean(wait))),
            lost_percent=self._lost(np.nan_to_num(wait)),
        )

    # -- ranks ----------------------------------------------------------------------------------------------------

    def _costs(self) -> Floats:
        """What each rank makes the others wait, mean of the others, in each covered step."""
        costs: Floats = np.nan_to_num(self.waits.cost[:, self.waits.covered])
        return costs

    def _always(self) -> list[Straggler]:
        costs = self._costs()
        out = []
        for row in np.flatnonzero(costs.mean(axis=1) >= SHARE * self.step_ns):
            alike = costs[self.waits.home == self.waits.home[row]]
            top = (costs[row] == alike.max(axis=0)) & (costs[row] > 0)
            habit = _by_chance(int(top.sum()), len(top), max(len(alike), 2)) < CHANCE
            if top.mean() >= MOSTLY and habit and self._seen(int(row)) >= LEAST:
                out.append(self._late(int(row), np.arange(costs.shape[1]), costs, always=True))
        return out

    def _seen(self, row: int) -> int:
        """How many times it could have been seen to be late."""
        return int(self.waits.joined[row])

    def _now_and_then(self, known: set[tuple[int | None, str]]) -> list[Straggler]:
        """Single steps in which a rank that is in time otherwise costs much; those of one rank and reason together."""
        costs = self._costs()
        usual = np.median(costs, axis=1)
        by: dict[tuple[int, str], list[int]] = {}
        for column in np.argsort(-costs.max(axis=0), kind="stable")[: 8 * MOST_SPIKES]:
            row = int(costs[:, column].argmax())
            if costs[row, column] - usual[row] >= SPIKE * self.step_ns:
                cause = self._cause_once(row, int(column), float(costs[row, column]))
                if (self.ranks[row].rank, cause) not in known:
                    by.setdefault((row, cause), []).append(int(column))
        if self.waits.kind == "host":  # a core that was taken away explains a late step as well, and nothing shows it
            by = {key: columns for key, columns in by.items() if key[1] != "unknown"}
        found = [
            self._late(row, np.array(sorted(columns)), costs, always=False, unknown=cause == "unknown")
            for (row, cause), columns in by.items()
        ]
        dear = [s for s in found if s.lost_percent >= WORTH_A_LINE or s.cost_ns_per_step >= self.step_ns]
        return sorted(dear, key=lambda s: -s.lost_percent)[:MOST_SPIKES]

    def _cause_once(self, row: int, column: int, cost: float) -> str:
        """The reason for one late step, if it is large enough to be it."""
        reason = self._reason(row, np.array([column]))
        return reason.cause if (reason.excess_ns or 0) >= EXPLAINS * cost else "unknown"

    def _late(self, row: int, columns: Ints, costs: Floats, *, always: bool, unknown: bool = False) -> Straggler:
        cost = float(costs[row, columns].mean())
        reason = Reason("unknown") if unknown else self._reason(row, columns)
        if (reason.excess_ns or 0) < EXPLAINS_ALWAYS * cost:
            reason = Reason("unknown")
        charged = np.nan_to_num(self.waits.charged[row, self.waits.covered[columns]])
        return Straggler(
            rank=self.ranks[row].rank,
            steps=self.labels(columns),
            always=always,
            cause=reason.cause,
            cost_ns_per_step=round(cost),
            lost_percent=self._lost(charged),
            late_share=float(self.waits.last[row] / self.waits.joined[row]) if self.waits.joined[row] else None,
            excess_ns=reason.excess_ns,
            range=reason.range,
            confidence=self._confidence(row, always),
        )

    def labels(self, columns: Ints) -> list[str]:
        """Numbers of covered steps."""
        return [str(k) for k in self.steps.keys[self.waits.covered[columns]]]

    def _lost(self, charged: Floats) -> float:
        whole = float(np.nansum(self.period))
        return 100 * float(charged.sum()) / whole if whole else 0.0

    def _confidence(self, row: int, always: bool) -> Confidence:
        if not self.waits.certain:
            return "low"
        plenty = self.waits.kind == "collectives" and self._seen(row) >= PLENTY
        return "high" if plenty and always else "medium"

    # -- reasons --------------------------------------------------------------------------------------------------

    def _reason(self, row: int, columns: Ints) -> Reason:
        """What the rank spends more on than the others in these steps."""
        at = self.waits.covered[columns]
        if self.waits.kind == "host":
            return self._phase_reason(row, at)
        excess = {name: self._excess(self._table(name), row, at) for name in self._category_names()}
        name = max(excess, key=lambda n: excess[n], default="")
        if not name or excess[name] <= 0:
            return Reason("unknown")
        where = self._where(row, name)
        cause = CAUSES[name]
        if cause == "compute" and self._more_work(row):
            cause = "more-work"
        if where and GARBAGE.search(where):
            cause = "garbage-collection"
        return Reason(cause, round(excess[name]), where)

    def _excess(self, table: Floats, row: int, at: Ints) -> float:
        """Mean over steps of what the rank has more than the median of the others."""
        own, others = table[row, at], np.delete(table[:, at], row, axis=0)
        known = np.isfinite(own) & np.isfinite(others).any(axis=0)
        return float(np.mean(own[known] - np.nanmedian(others[:, known], axis=0))) if known.any() else 0.0

    def _category_names(self) -> list[str]:
        return sorted({n for r in self.ranks for n in r.summary.categories} & CAUSES.keys())

    def _table(self, name: str) -> Floats:
        """A category of all ranks' steps; a rank whose other categories are known spent none."""
        if name not in self._tables:
            rows = np.full(self.steps.period.shape, np.nan)
            for i, rank in enumerate(self.ranks):
                values = rank.summary.categories.get(name)
                if values is not None:
                    rows[i] = self.steps.row(values, rank, i)
                elif rank.summary.categories:
                    rows[i] = np.where(np.isfinite(self.steps.period[i]), 0.0, np.nan)
            self._tables[name] = rows
        return self._tables[name]

    def _where(self, row: int, category: str) -> str | None:
        """The range in which the late rank spends most of a category."""
        shown = self.ranks[row].summary.breakdown
        found = next((c for c in shown.categories if c.name == category), None) if shown else None
        named = [r.name for r in found.ranges] if found and category != "gpu_compute" else []
        return named[0] if named else None

    def _more_work(self, row: int) -> bool:
        own = self.ranks[row].summary.operations
        others = [r.summary.operations for i, r in enumerate(self.ranks) if i != row]
        known = [o for o in others if o is not None]
        return own is not None and bool(known) and own > MORE_WORK * float(np.median(known))

    def _phase_reason(self, row: int, at: Ints) -> Reason:
        excess = {}
        for name in {p.name for p in self.ranks[row].summary.phases} - {self.waits.phase}:
            excess[name] = self._excess(self._phase_table(name), row, at)
        name = max(excess, key=lambda n: excess[n], default="")
        if not name or excess[name] <= 0:
            return Reason("unknown")
        loading = LOADING.search(name) and not NOT_LOADING.search(name)
        saving, garbage = SAVING.search(name), GARBAGE.search(name)
        cause = "garbage-collection" if garbage else "data-loading" if loading else "saving" if saving else "compute"
        return Reason(cause, round(excess[name]), name)

    def _phase_table(self, name: str) -> Floats:
        rows = np.full(self.steps.period.shape, np.nan)
        for i, rank in enumerate(self.ranks):
            phase = next((p for p in rank.summary.phases if p.name == name), None)
            captured = np.isfinite(self.steps.period[i])
            if phase is not None:
                found = self.steps.row(phase.total, rank, i)
                rows[i] = np.where(captured, np.maximum(np.nan_to_num(found), 0.0), np.nan)
            elif rank.summary.phases:  # layers that one rank has more than the others are a phase of its own
                rows[i] = np.where(captured, 0.0, np.nan)
        return rows

    # -- the network ----------------------------------------------------------------------------------------------

    def _network(self) -> list[Straggler]:
        if self.waits.kind != "collectives":
            return []
        return [*self._slow_steps(), *self._slow_groups()]

    def _slow_steps(self) -> list[Straggler]:
        """Steps in which moving the data took far longer than usual, on all ranks alike."""
        moved = np.nanmedian(self.waits.transfer[:, self.waits.covered], axis=0)
        usual = float(np.median(moved))
        over = moved - usual
        slow = np.flatnonzero((over > SPIKE * self.step_ns) & (moved > LONGER * usual))
        if not len(slow) or len(slow) > len(moved) / 2:
            return []
        extra = np.clip(self.waits.transfer[:, self.waits.covered[slow]] - usual, 0, None)
        return [self._network_line(slow, float(over[slow].mean()), self._lost(np.nan_to_num(extra)), [])]

    def _slow_groups(self) -> list[Straggler]:
        """Groups of one communicator that do the same, one of which takes far longer for it."""
        out = []
        for number, kind in sorted({(g.communicator, g.kind) for g in self.waits.groups}):
            alike = [g for g in self.waits.groups if (g.communicator, g.kind) == (number, kind)]
            usual = float(np.median([np.median(g.fastest) for g in alike]))
            for group in alike if len(alike) > 2 else ():
                extra = float(np.median(group.fastest)) - usual
                cost = extra * group.duration.shape[1] / max(len(self.waits.covered), 1)
                if np.median(group.fastest) > LONGER * usual and cost >= SHARE * self.step_ns:
                    members = [self.ranks[i].rank for i in group.members]
                    lost = self._lost(np.array([cost * len(members) * len(self.waits.covered)]))
                    out.append(self._network_line(np.arange(len(self.waits.covered)), cost, lost, members))
        return out

    def _network_line(self, columns: Ints, cost: float, lost: float, members: list[int]) -> Straggler:
        return Straggler(
            rank=None, steps=self.labels(columns), always=len(columns) == len(self.waits.covered), cause="network",
            cost_ns_per_step=round(cost), lost_percent=lost, late_share=None, excess_ns=round(cost), ranks=members,
            confidence="medium",
        )  # fmt: skip
