"""A report made small enough to be kept in a repository, and free of what should not be there.

In: a :class:`~unstall.model.Report`. Out: another one with what a comparison reads: steps, breakdown, ranges, kernels,
copies, calls, which findings there were. Host names, paths and process names are left out. It is a report like any
other: ``unstall compare`` takes it as a side.
"""

from __future__ import annotations

from pathlib import PurePath

import msgspec

from unstall.model import Finding, Report, StepsRow

SAMPLES = 1000  # a step: enough for an interval of a fraction of a percent, and a file of some ten kilobytes


def slim(report: Report) -> Report:
    """The part of a report that is worth keeping."""
    facts = msgspec.structs.replace(
        report.profile, path=PurePath(report.profile.path).name, host="", processes=[], duration_ns=None
    )
    return msgspec.structs.replace(
        report,
        profile=facts,
        api=None if report.api is None else [msgspec.structs.replace(row, callers=[]) for row in report.api],
        steps=[_steps(row) for row in report.steps],
        findings=[_finding(f) for f in report.findings],
        memsets=None,
        osrt=None,
        library=None,
        samples=None,
        comparison=None,
    )


def _steps(row: StepsRow) -> StepsRow:
    """The last samples, which are furthest from warm-up; their order is kept."""
    return msgspec.structs.replace(row, samples_ns=row.samples_ns[-SAMPLES:], warmup_steps=[])


def _finding(finding: Finding) -> Finding:
    return msgspec.structs.replace(finding, evidence=[])
