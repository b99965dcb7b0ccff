"""Before and after: is the second side faster, how sure is that, what moved, and may the two be compared at all?

In: two reports, or two lists of step times. Out: a :class:`~unstall.model.Comparison`. Files are read by others.

``sides`` picks the steps to compare, ``settled`` leaves out what comes before steady state, ``unstall.stats`` says how
sure the ratio is, ``comparability`` doubts it, ``verdict`` decides, ``moved`` lists what changed. ``steplog`` reads
plain step times, ``gate`` holds figures (``metrics``) against limits (``expression``), ``baseline`` makes a report
small enough to be kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from unstall.model import Comparison, Report

__all__ = ["compare"]


def compare(
    before: Report | Iterable[float],
    after: Report | Iterable[float],
    *,
    margin: float | None = None,
    across_gpus: bool = False,
    language: str = "en",
) -> Comparison:
    """Compare two sides, step by step.

    Args:
        before, after: a report, or step times in milliseconds in the order in which they happened.
        margin: "no difference" rules out a change as large as this; 0.05 (5 %) where it is not given.
        across_gpus: give a verdict on two different GPUs as well; it is then on the GPUs as much as on the program.
        language: of its texts, and of what its outputs show; ``en`` or ``ko``.

    Raises:
        UsageError: a step time is not a number above zero, or ``margin`` is not between 0 and 1.
    """
    from unstall.compare import steplog, verdict
    from unstall.model import Report

    reports = [s if isinstance(s, Report) else steplog.report(list(s)) for s in (before, after)]
    limit = verdict.MARGIN if margin is None else margin
    return verdict.told(verdict.compare(*reports, margin=limit, across_gpus=across_gpus), language)
