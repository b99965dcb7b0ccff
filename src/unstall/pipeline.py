"""The stages in order: a file → profile → analysis → findings → report. The one place that chains them.

In: a path and what the user knows better than the capture. Out: a finished :class:`~unstall.model.Report`.
The commands, the demo and the notebook call this; each stage alone is public as well.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unstall.model import Profile, Report


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
        UsageError: ``step`` is no regular expression or matches nothing.
    """
    from unstall.load import open_any
    from unstall.model import Report

    opened = open_any(path, cache=cache)
    report = opened if isinstance(opened, Report) else _examine(opened, step, unprofiled_ns)
    report.profile.path = os.fsencode(report.profile.path).decode("utf-8", "backslashreplace")  # JSON holds text only
    return report


def _examine(profile: Profile, step: str | None, unprofiled_ns: int | None) -> Report:
    from unstall.analyze import analyze
    from unstall.diagnose import diagnose

    return diagnose(analyze(profile, step=step, unprofiled_ns=unprofiled_ns))
