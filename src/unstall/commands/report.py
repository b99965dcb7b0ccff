"""``unstall report``: each profile through the pipeline, then to the terminal and to the files that were asked for.

In: paths and options as parsed. Out: text on standard output, files where the user named them. Everything that can be
wrong with a request is found before the first profile is read. Of a capture's events no more is kept than a timeline
shows, and that only where an output wants it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from unstall.commands.files import STDOUT, check, emit, emitting, place, streaming, write
from unstall.errors import UsageError
from unstall.memory import frugal

if TYPE_CHECKING:
    from unstall.model import Analysis, Report, Timeline
    from unstall.report import Output

By = Literal["total", "self", "gpu"]
TOO_LONG_NS = 10**18  # stands for every time, infinity too, that ``report_of`` refuses as too long for a step


@dataclass(frozen=True)
class Seen:
    """What outputs may show of one profile: its report, and its timeline where one was wanted and can be had."""

    report: Report
    timeline: Any = None


def run(
    profiles: Sequence[str],
    targets: dict[str, str],
    *,
    top: int = 10,
    by: By = "total",
    step: str | None = None,
    unprofiled_ms: float | None = None,
    cache: bool = True,
    events: bool = False,
    language: str = "en",
) -> list[Seen]:
    """Report on every profile; ``targets`` maps an output's name to its file, ``-`` for standard output.

    ``events`` keeps timelines even if none of these outputs wants them, for a caller who writes one more.
    """
    frugal()
    from unstall.report import outputs

    wanted = {output: targets[output.name] for output in outputs() if targets.get(output.name)}
    _check(profiles, wanted)
    unprofiled_ns = None if unprofiled_ms is None else round(min(unprofiled_ms * 1e6, TOO_LONG_NS))
    how = {"step": step, "unprofiled_ns": unprofiled_ns, "cache": cache, "language": language}
    quiet = STDOUT in wanted.values()
    events = events or any(output.events for output in wanted)
    seen: list[Seen] = []
    for profile in profiles:
        report, analysis = _examined(profile, events or any(output.stream for output in wanted), how)
        if not quiet:
            _show(report, bool(seen), top, by)
        _stream(profile, wanted, analysis)
        seen.append(Seen(report, _timeline(report, analysis) if events else None))
        del analysis  # every row of the capture: the next one needs the room
    for output, target in wanted.items():
        _write(output, target, profiles, seen)
    return seen


def _examined(profile: str, events: bool, how: dict[str, Any]) -> tuple[Report, Analysis | None]:
    """One profile through the pipeline, with its events where they are wanted."""
    from unstall import pipeline

    return pipeline.examine(profile, **how) if events else (pipeline.report_of(profile, **how), None)


def _timeline(report: Report, analysis: Analysis | None) -> Timeline | None:
    """As much of a capture's events as a page shows."""
    from unstall.model import Warning_

    if analysis is None:
        return None
    try:
        from unstall.analyze.timeline import timeline

        return timeline(analysis, report)
    except Exception as error:  # the figures are there: a page without events is better than no report
        text = f"The timeline could not be made: {type(error).__name__}: {error}."
        report.warnings.append(Warning_(code="timeline-crashed", text=text))
        return None


def _stream(profile: str, wanted: dict[Output, str], analysis: Analysis | None) -> None:
    """Write what holds every event of a capture, while they are here."""
    for output, target in wanted.items():
        if output.stream is None:
            continue
        if analysis is None:
            hint = "Give the profile itself: its .nsys-rep or .sqlite"
            raise UsageError(f"--{output.name} {target}", f"{profile} holds sums, no events to show", hint)
        from unstall.analyze.tracks import tracks

        with streaming(place(target, profile)) as file:
            output.stream(tracks(analysis), file)


def rendered(output: Output, seen: Sequence[Seen]) -> str | bytes:
    """What an output makes of these profiles."""
    assert output.render is not None, f"{output.name} streams"
    reports = [one.report for one in seen]
    return output.render(reports, [one.timeline for one in seen]) if output.events else output.render(reports)


def _show(report: Report, again: bool, top: int, by: By) -> None:
    from unstall.report import terminal

    with emitting() as out:
        if again:
            out.write("\n")
        terminal.show(report, out, top=top, by=by)


def _check(profiles: Sequence[str], wanted: dict[Output, str]) -> None:
    """Refuse what would mix two outputs, lose a report or overwrite an input."""
    files = [place(target, profile) for target in wanted.values() for profile in profiles]
    if list(wanted.values()).count(STDOUT) > 1:
        raise UsageError("two outputs on standard output", "they would mix", "Give one of them a file")
    for output, target in wanted.items():
        named = {place(target, profile) for profile in profiles}
        if len(named) < len(profiles) and ("{name}" in target or not output.joins):
            hint = "Put {name} into it: it becomes the profile's own name, and those must differ"
            raise UsageError(f"--{output.name} {target}", "one file for several profiles", hint)
        if len(wanted) > 1 and any(named & {place(other, p) for p in profiles} for other in _others(wanted, output)):
            raise UsageError(target, "two outputs in one file", "Give each a file of its own")
    inputs = {os.path.realpath(profile) for profile in profiles}
    for file in {*files} - {STDOUT}:
        if os.path.realpath(file) in inputs:
            raise UsageError(file, "is a profile to be read", "Name another file to write")
        check(file, profiles)


def _others(wanted: dict[Output, str], output: Output) -> list[str]:
    return [target for other, target in wanted.items() if other is not output]


def _write(output: Output, target: str, profiles: Sequence[str], seen: Sequence[Seen]) -> None:
    if output.stream is not None:
        return
    by_file: dict[str, list[Seen]] = {}
    for profile, one in zip(profiles, seen, strict=True):
        by_file.setdefault(place(target, profile), []).append(one)
    for file, group in by_file.items():
        content = rendered(output, group)
        emit(content) if file == STDOUT else write(file, content)
