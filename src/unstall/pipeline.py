"""The stages in order: a file → profile → analysis → findings → report. The one place that chains them.

In: a path and what the user knows better than the capture. Out: a finished :class:`~unstall.model.Report`, and for
those who show events the :class:`~unstall.model.Analysis` behind it.
The commands, the demo and the notebook call this; each stage alone is public as well.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from unstall.errors import ProfileUnreadable, UsageError

if TYPE_CHECKING:
    from unstall.model import Analysis, Profile, Report


def report_of(
    path: str | os.PathLike[str],
    *,
    step: str | None = None,
    unprofiled_ns: int | None = None,
    cache: bool = True,
    language: str = "en",
) -> Report:
    """Everything that can be said of one profile.

    Args:
        path: a profile of any kind that ``unstall.load`` reads, or the text of ``nsys stats``.
        step: regular expression that names the step ranges; found automatically without it.
        unprofiled_ns: the step time without the profiler, ns, where known.
        cache: keep and use what was read of this very file before, in the user's cache folder.
        language: of every text in the report, and of what its outputs show; ``en`` or ``ko``.

    Raises:
        ProfileUnreadable: the file cannot be read as a profile.
        UsageError: ``step`` is no regular expression, matches nothing, or is asked of a table of sums;
            ``unprofiled_ns`` can be no step time.
    """
    return examine(path, step=step, unprofiled_ns=unprofiled_ns, cache=cache, language=language)[0]


def examine(
    path: str | os.PathLike[str],
    *,
    step: str | None = None,
    unprofiled_ns: int | None = None,
    cache: bool = True,
    language: str = "en",
) -> tuple[Report, Analysis | None]:
    """The same as :func:`report_of`, with the events that the report was made of; a table of sums has none.

    The analysis holds every row of the capture: keep what is needed of it, not itself.
    """
    from unstall.lang import told
    from unstall.load import open_any
    from unstall.model import LONGEST_STEP_NS, Report

    if unprofiled_ns is not None and not 0 < unprofiled_ns <= LONGEST_STEP_NS:
        raise UsageError("the step time without the profiler", "must be above 0 and below 12 days", "Give it in ms")
    try:
        opened = open_any(path, cache=cache)
    except OSError as error:  # a name too long for the file system, a disk that fails
        raise ProfileUnreadable(
            os.fsdecode(path), error.strerror or str(error), "Check the path and its disk"
        ) from error
    if isinstance(opened, Report):
        report, analysis = told(_tabled(opened, step, unprofiled_ns), language), None
    else:
        report, analysis = _diagnosed(opened, step, unprofiled_ns, language)
    report.profile.path = os.fsencode(report.profile.path).decode("utf-8", "backslashreplace")  # JSON holds text only
    return report, analysis


def _tabled(report: Report, step: str | None, unprofiled_ns: int | None) -> Report:
    """The report of a table of sums, with what the user knows better; a table has no ranges to choose steps from."""
    if step is not None:
        hint = "Give the profile itself: its .nsys-rep or .sqlite"
        raise UsageError(f"--step {step}", f"{report.profile.path} holds sums, no ranges to choose from", hint)
    for steps in report.steps[:1]:
        steps.unprofiled_ns = unprofiled_ns
    return report


def _diagnosed(profile: Profile, step: str | None, unprofiled_ns: int | None, language: str) -> tuple[Report, Analysis]:
    from unstall.analyze import analyze
    from unstall.diagnose import diagnose

    analysis = analyze(profile, step=step, unprofiled_ns=unprofiled_ns)
    return diagnose(analysis, language=language), analysis
