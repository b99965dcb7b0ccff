"""Which remedies are worth a try: those that the findings of a report call for, or all of a kind.

In: a :class:`~unstall.model.Report` or names. Out: remedy names, and the step times that findings predict for them.
"""

from __future__ import annotations

from collections.abc import Sequence

from unstall.fix.remedy import named, remedies
from unstall.model import Finding, Report


def from_findings(report: Report) -> tuple[list[str], dict[str, int]]:
    """Remedies that serve a finding, those of the first finding first; the prediction belongs to the one it names."""
    names: list[str] = []
    predicted: dict[str, int] = {}
    for finding in sorted(report.findings, key=lambda f: not f.main):
        for remedy in _serving(finding):
            if remedy not in names:
                names.append(remedy)
        best = _named(finding.fix.trial)
        if best and finding.predicted_step_ns:
            predicted.setdefault(best, finding.predicted_step_ns)
    return names, predicted


def workers(report: Report | None) -> int | None:
    """Worker processes that the first finding about them is predicted with."""
    found = sorted(report.findings if report else [], key=lambda f: not f.main)
    return next((f.fix.workers for f in found if f.fix.workers), None)


def _serving(finding: Finding) -> list[str]:
    """The remedy that the finding names first, then the others that serve its code."""
    best = _named(finding.fix.trial)
    others = [r.name for r in remedies() if finding.code in r.codes and r.name != best]
    return [best, *others] if best else others


def _named(trial: str | None) -> str | None:
    return next((r.name for r in remedies() if trial in r.names), None) if trial else None


def safe() -> list[str]:
    """All remedies that leave the numbers as they are."""
    return [r.name for r in remedies() if r.safety == "safe"]


def everything() -> list[str]:
    return [r.name for r in remedies()]


def by_name(names: Sequence[str]) -> list[str]:
    """Remedies by name, alias or finding code. :class:`~unstall.errors.UsageError` for a name that is none."""
    return [r.name for r in named(names)]
