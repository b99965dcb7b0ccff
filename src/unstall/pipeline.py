"""The stages in order: a file → profile → analysis → findings → report. The one place that chains them.

In: a path and what the user knows better than the capture. Out: a finished :class:`~unstall.model.Report`.
The commands, the demo and the notebook call this; each stage alone is public as well.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from unstall.errors import ProfileUnreadable, UsageError

if TYPE_CHECKING:
    from unstall.model import Profile, Report

LONGEST_STEP_NS = 10**15  # 11.6 days: a longer "step" is a slip of units


def report_of(
    path: str | os.PathLike[str], *, step: str | None = None, unprofiled_ns: int | None = None, cache: bool = True
) -> Report:
    """Everything that can be said of one profile.

    Args:
        path: a profile of any kind that ``unstall.load`` reads, or the text of ``nsys stats``.
        step: regular expression that names the step ranges; found automatically without it.
        unprofiled_ns: the step time without the profiler, ns, where known.
        cache: keep and use what was read of this very file before, in the user's cache folder.

    Raises:
        ProfileUnreadable: the file cannot be read as a profile.
        UsageError: ``step`` is no regular expression, matches nothing, or is asked of a table of sums;
            ``unprofiled_ns`` can be no step time.
    """
    from unstall.load import open_any
    from unstall.model import Report

    if unprofiled_ns is not None and not 0 < unprofiled_ns <= LONGEST_STEP_NS:
        raise UsageError("the step time without the profiler", "must be above 0 and below 12 days", "Give it in ms")
    try:
        opened = open_any(path, cache=cache)
    except OSError as error:  # a name too long for the file system, a disk that fails
        raise ProfileUnreadable(os.fsdecode(path), error.strerror or str(error)) from error
    if isinstance(opened, Report):
        report = _tabled(opened, step, unprofiled_ns)
    else:
        report = _examine(opened, step, unprofiled_ns)
    report.profile.path = os.fsencode(report.profile.path).decode("utf-8", "backslashreplace")  # JSON holds text only
    return report


def _tabled(report: Report, step: str | None, unprofiled_ns: int | None) -> Report:
    """The report of a table of sums, with what the user knows better; a table has no ranges to choose steps from."""
    if step is not None:
        hint = "Give the profile itself: its .nsys-rep or .sqlite"
        raise UsageError(f"--step {step}", f"{report.profile.path} holds sums, no ranges to choose from", hint)
    for steps in report.steps[:1]:
        steps.unprofiled_ns = unprofiled_ns
    return report


def _examine(profile: Profile, step: str | None, unprofiled_ns: int | None) -> Report:
    from unstall.analyze import analyze
    from unstall.diagnose import diagnose

    return diagnose(analyze(profile, step=step, unprofiled_ns=unprofiled_ns))
