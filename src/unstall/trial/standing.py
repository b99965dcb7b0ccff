"""Where a candidate stands after some runs, and whether more of them would tell more.

In: the gain measured so far, how many runs a side it comes from. Out: :class:`Standing`. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from unstall.trial.gain import TIGHT, Gain
from unstall.trial.outcome import Verdict

ENOUGH = 2  # runs a side: runs differ by more than their steps do, and one says nothing of that
HOPELESS = 1 / 1.2
"""Nothing above this after one run a side, and no more time is spent on it; the row says that it was one run."""
SURE = 2.0
"""An interval wholly above this needs no second run to be believed: the plain runs of one program differed by 37 % at
most among themselves (two busy cores; 22 % on a GPU machine)."""
AT_BEST = 1 + TIGHT
"""Not faster in the middle and no better than this at best after two runs a side: no gain to find."""


@dataclass(frozen=True)
class Standing:
    """The verdict so far, why where that needs a word, and whether it is ``done``: no further run is worth its time."""

    verdict: Verdict
    reason: str
    done: bool


def standing(found: Gain, runs: int, plain: int) -> Standing:
    """After ``runs`` runs of the candidate and ``plain`` of the program as it is."""
    enough = min(runs, plain) >= ENOUGH
    settled = enough and found.tight
    if not settled and _hopeless(found, enough):
        return Standing(found.verdict, _given_up(found, runs), done=True)
    if not enough and found.low <= SURE and found.verdict != "inconclusive":
        return Standing("inconclusive", "one run a side: runs differ by more than steps do", done=False)
    return Standing(found.verdict, "", done=settled)


def _hopeless(found: Gain, enough: bool) -> bool:
    return found.high < HOPELESS or (enough and found.ratio <= 1 and found.high < AT_BEST)


def _given_up(found: Gain, runs: int) -> str:
    told = "one run" if runs == 1 else f"{runs} runs"
    if found.high < 1:
        return f"given up after {told}: at least {1 / found.high - 1:.0%} slower"
    return f"given up after {told}: at best {found.high - 1:.0%} faster"
