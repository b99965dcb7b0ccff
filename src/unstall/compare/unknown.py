"""Why a figure of a gate is not known, and what to do about it: words for the line that says that a gate failed.

In: the name of a figure that ``metrics`` did not find, the comparison, the side under test. Out: which side, and why.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import PurePath

from unstall.compare import metrics
from unstall.compare.sides import Side
from unstall.model import Comparison

MOST = 3
"""Rules named in the line; of a capture without CUDA nineteen cannot run."""


def why(name: str, side: Side, comparison: Comparison, known: metrics.Known) -> str:
    """One figure, the side that lacks it, and the reason."""
    head, _, rest = name.partition(".")
    if name in metrics.COMPARED:
        return f"{name} is not known: {comparison.reason}"
    if head == "findings":
        reason = _findings(side, rest, known.codes)
    elif head == "category":
        reason = _category(side, rest, known.categories)
    else:
        reason = _measured(side)
    return f"{name} is not known of {_called(side)}: {reason}"


def _called(side: Side) -> str:
    file = PurePath(side.report.profile.path).name
    return f"{side.name} ({file})" if file else side.name


def _measured(side: Side) -> str:
    if not side.samples.size:
        return "no steady steps in it"
    return _of_a_log(side) or _reason(side, "breakdown", "kernels") or "its steps have no GPU work"


def _findings(side: Side, code: str, codes: Collection[str]) -> str:
    left = metrics.unchecked(side, code, codes)
    if side.is_log or not left:
        return _of_a_log(side)
    others = [n.code for n in left[1:]]
    more = f", nor were {', '.join(others[: MOST - 1])}" if others else ""
    more += f" and {len(others) - MOST + 1} more" if len(others) >= MOST else ""
    what = "findings were" if left[0].code == "findings" else f"{left[0].code} was"
    return f"{what} not checked ({left[0].reason}){more}"


def _category(side: Side, rest: str, categories: Mapping[str, Collection[str]]) -> str:
    if not side.report.breakdown:
        return _of_a_log(side) or _reason(side, "breakdown") or "its steps were not taken apart"
    tables = tuple(categories.get(rest.rpartition("_")[0], ()))
    return _reason(side, *tables) or f"it needs {' or '.join(tables)}, which the capture lacks"


def _of_a_log(side: Side) -> str:
    return "a list of step times tells nothing else" if side.is_log else ""


def _reason(side: Side, *codes: str) -> str:
    """What the report itself says of the first of these that was not checked."""
    reasons = {n.code: n.reason for n in side.report.not_checked}
    return next((reasons[code] for code in codes if code in reasons), "")
