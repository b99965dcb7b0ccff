"""What a remedy is predicted to gain, and from which step: one text for every output.

In: the report and one of its findings. Out: plain strings in the report's language. A prediction starts from the step
without the profiler, which is not the step shown; where that shows in the figures, the text says from which. Times are
divided as they are printed, so that who divides them again gets the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from unstall.report import text

if TYPE_CHECKING:
    from unstall.lang import Speaker
    from unstall.model import Finding, Report, StepsRow

SAME_STEP = 0.01  # steps that differ by less look the same in the figures shown


@dataclass(frozen=True)
class Start:
    """The step from which a gain is predicted.

    Attributes:
        ns: its time.
        said: the same in words, and what step it is where it is not the one shown.
        shown: whether it is the one shown.
    """

    ns: float
    said: str
    shown: bool


def gain(report: Report, finding: Finding, say: Speaker, seen: StepsRow | None = None) -> str:
    """``4.9×``, and from what, where that is not the step shown: ``4.9× from about 22.5 ms without the profiler``.

    ``seen`` is the step that the reader has before him, by default that of the finding's process.
    """
    begin = start(report, finding, say, seen)
    if begin is None:
        return ""
    return (
        times(finding, begin)
        if begin.shown
        else say("{times} from {step}", times=times(finding, begin), step=begin.said)
    )


def start(report: Report, finding: Finding, say: Speaker, seen: StepsRow | None = None) -> Start | None:
    """From which step the finding's gain is predicted; ``None`` where none is."""
    predicted, speedup = finding.predicted_step_ns, finding.predicted_speedup
    if predicted is None or speedup is None:
        return None
    own = next((row for row in report.steps if row.process == finding.where.process), None)
    seen = own if seen is None else seen
    base = predicted * speedup if finding.baseline_ns is None else finding.baseline_ns
    time = text.duration(base)
    if seen is not None and seen is own and all(_same(f, seen.step_ns) for f in (finding, *_peers(report, finding))):
        return Start(seen.step_ns, text.duration(seen.step_ns), shown=True)
    if finding.baseline_ns is None:  # what only some steps do: the prediction is a step that does not do it
        return Start(base, say("about {step}, the mean of all steps", step=time), shown=False)
    if own is not None and own.unprofiled_ns == base:
        return Start(base, say("{step} without the profiler", step=time), shown=False)
    return Start(base, say("about {step} without the profiler", step=time), shown=False)  # predicted, not measured


def times(finding: Finding, begin: Start) -> str:
    """The speedup as the two times say it that are printed beside it."""
    after = text.as_printed(finding.predicted_step_ns or 0)
    return text.speedup(max(text.as_printed(begin.ns) / after, 1.0) if after else finding.predicted_speedup)


def _peers(report: Report, finding: Finding) -> list[Finding]:
    """Findings whose gain starts from the same step: what is said of one is said of all."""
    base = finding.baseline_ns
    return [f for f in report.findings if f.main and base is not None and base == f.baseline_ns]


def _same(finding: Finding, shown_ns: int) -> bool:
    """Whether the finding's gain reads like one from the step shown."""
    predicted, speedup = finding.predicted_step_ns, finding.predicted_speedup
    if predicted is None or speedup is None:
        return True
    base = predicted * speedup if finding.baseline_ns is None else finding.baseline_ns
    read, meant = (times(finding, Start(ns, "", shown=True)) for ns in (shown_ns, base))
    return read == meant and abs(base - shown_ns) <= SAME_STEP * shown_ns


def doubt(report: Report, finding: Finding, say: Speaker) -> str:
    """Why an interval reaches beyond the step that the gain is predicted from; nothing where it does not."""
    begin, high = start(report, finding, say), finding.predicted_high_ns
    if begin is None or high is None or text.as_printed(high) <= text.as_printed(begin.ns):
        return ""
    own = next((row for row in report.steps if row.process == finding.where.process), None)
    known = own is not None and own.unprofiled_ns is not None
    return say("perhaps no gain") if known else say("as unsure as the step without the profiler")
