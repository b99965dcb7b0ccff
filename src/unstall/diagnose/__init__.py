"""Why the GPU waits, and what its end would gain: an :class:`~unstall.model.Analysis` becomes findings.

``registry`` finds the rules (one file each in this folder), ``case`` answers their questions about a process,
``ranking`` turns their hits into findings, predicted by the replay and in the order in which they are worth acting on;
``texts``, ``kernels`` and ``gpus`` hold what rules share. ``docs`` writes the page of each rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unstall.model import Analysis, Report

__all__ = ["diagnose", "explain"]


def diagnose(analysis: Analysis, *, language: str = "en") -> Report:
    """The analysis's report with ``findings``, what was ``not_checked``, and ``warnings`` of the rules added.

    Args:
        analysis: what ``unstall.analyze`` made of a capture.
        language: of titles, evidence and remedies; English where a rule lacks it.
    """
    from unstall.diagnose import run

    return run.diagnose(analysis, language=language)


def explain(code: str, *, language: str = "en") -> str:
    """What a finding means, why it costs time, how to fix it, when it is a false alarm: Markdown.

    Raises:
        UsageError: there is no such finding.
    """
    from unstall.diagnose import registry

    return registry.rule(code).explain(language)
