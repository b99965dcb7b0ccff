"""Why one kernel is slow, from Nsight Compute: choose it, measure a few launches, say what limits it and what helps.

``target`` chooses the kernel and how many launches to skip, ``ncu`` runs the profiler, ``counters`` reads its CSV,
``measured`` gives the figures names, ``rules`` judges them in the words of ``texts``, ``records`` is what comes out.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unstall.kernel.ncu import Run
    from unstall.kernel.records import KernelReport
    from unstall.kernel.target import Target

__all__ = ["examine", "judged", "read"]


def examine(
    command: Sequence[str], target: Target, *, keep_running: bool = False, inside: str = "", language: str = "en"
) -> KernelReport:
    """Run ``command`` under ncu, measure the launches that ``target`` names, judge them.

    Args:
        command: the program and its arguments.
        target: which kernel, how many of its launches to skip and to measure.
        keep_running: let the program run to its end; otherwise it is ended after the last launch that is measured.
        inside: only launches inside this NVTX range (push/pop) are counted.
        language: of what the report says.

    Raises:
        CollectionFailed: no ncu, no permission, or nothing was measured.
    """
    from unstall.kernel import ncu

    return judged(ncu.measure(command, target, keep_running=keep_running, inside=inside), target, language)


def judged(run: Run, target: Target, language: str = "en") -> KernelReport:
    """The report of a measurement."""
    report = read(run.text, target=target, language=language)
    report.ncu, report.ncu_version, report.exit_code = str(run.tool), run.version, run.code
    return report


def read(source: str | Path, *, target: Target | None = None, language: str = "en") -> KernelReport:
    """Judge what ``ncu --csv --page raw`` or ``--page details`` printed: its text, or a file that holds it.

    Raises:
        NotAProfile: there are no launches in it.
    """
    from unstall.kernel import counters, judge

    text = source.read_text(encoding="utf-8", errors="replace") if isinstance(source, Path) else source
    return judge.judged(counters.parse(text), target, language)
