"""What a rule hands back: a :class:`Hit`, or a :class:`Skip` where it could not decide.

In: nothing. Out: two records, language and prediction still left out: ``ranking`` makes findings of hits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from unstall.analyze.intervals import NOTHING, Ints, Union
from unstall.analyze.replay import Change, Prediction
from unstall.diagnose.texts import Line


@dataclass(frozen=True)
class Hit:
    """What a rule found.

    Attributes:
        cost_ns: what it costs a step, ns, in the capture.
        lines: the evidence.
        range, kernel, call: where.
        change: what the remedy does to the step; the replay turns it into a prediction.
        predicted: the rule's own prediction, where the remedy has a bound that the replay cannot know.
        workers: worker processes that it is for.
        gain_ns: gain a step where no replay can tell (a whole-capture case, or what happens in few steps only).
        seldom: it happens in a few steps only: the typical step is the step without it.
        when: idle instants that it explains, to tell overlaps.
        ops: ids of the device operations that it is about, to tell overlaps.
        title, fix: key of another title or remedy in the rule's texts.
        facts: values for the title's and the remedy's templates.
        confidence: the most that may be claimed.
        doubtful: share of the predicted gain that may not come (the pessimistic bound leaves it out).
        more: share of the predicted gain that may come on top, from what the replay cannot see (the optimistic bound).
        needs: codes of findings whose remedy has to come before this one: while they stand, this one cannot be made.
        side_note: no gain worth acting on, whatever is predicted.
    """

    cost_ns: float
    lines: tuple[Line, ...]
    range: str | None = None
    kernel: str | None = None
    call: str | None = None
    change: Change | None = None
    predicted: Prediction | None = None
    workers: int | None = None
    gain_ns: float | None = None
    seldom: bool = False
    when: Union = NOTHING
    ops: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    title: str = ""
    fix: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    confidence: str = "high"
    doubtful: float = 0.0
    side_note: bool = False
    more: float = 0.0
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Skip:
    """The rule could not decide: why, and how to collect what it needs; ``applies``: what it looks for is there."""

    reason: str
    applies: bool = False
