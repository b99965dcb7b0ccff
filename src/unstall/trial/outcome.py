"""What a trial is asked for, and what it says: plain records, the JSON of ``unstall try``.

Imports nothing heavy. Times in nanoseconds, ratios as plain / changed: above 1 is faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

Verdict = Literal[
    "faster", "slower", "no difference", "inconclusive", "crashed", "rejected", "not applicable", "not measured"
]
Agreement = Literal["equal", "agree", "same level", "differ", "unknown"]


@dataclass(frozen=True)
class Plan:
    """What to try and how long.

    Attributes:
        command: the program and its arguments.
        names: remedies to try, by name.
        predicted: remedy → predicted step time in ns, from the findings of a profile.
        budget: seconds that all runs together may take.
        steps: steps after which a run is ended.
        workers: worker processes of a ``DataLoader`` that the findings advise; ``None``: as many as fit this machine.
    """

    command: Sequence[str]
    names: Sequence[str]
    predicted: dict[str, int]
    budget: float = 300.0
    steps: int = 100
    workers: int | None = None


class Losses(msgspec.Struct, kw_only=True):
    """Whether two runs train alike.

    ``verdict``: ``equal`` (bit for bit), ``agree`` (inside the tolerance), ``same level`` (other random draws, same
    mean), ``differ``, ``unknown`` (none were seen).
    """

    verdict: Agreement
    text: str
    compared: int = 0
    largest: float | None = None  # largest relative difference in the first steps
    tolerance: float | None = None


class Row(msgspec.Struct, kw_only=True):
    """One candidate; ``names`` holds several for the combination."""

    name: str
    names: list[str]
    title: str
    safety: str
    write: list[str]
    verdict: Verdict = "not measured"
    reason: str = ""
    runs: int = 0
    step_ns: int | None = None
    predicted_step_ns: int | None = None
    predicted_ratio: float | None = None
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    losses: Losses | None = None


class Outcome(msgspec.Struct, kw_only=True):
    """The whole trial."""

    schema_version: int = 1
    command: list[str]
    exit_code: int  # the plain program's own
    plain_step_ns: int | None = None
    plain_runs: int = 0
    gpu: bool = False
    seconds: float = 0.0
    rows: list[Row] = []
    notes: list[str] = []
