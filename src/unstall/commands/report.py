"""``unstall report``: each profile through the pipeline, then to the terminal and to the files that were asked for.

In: paths and options as parsed. Out: text on standard output, files where the user named them. Everything that can be
wrong with a request is found before the first profile is read.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from unstall.commands.files import STDOUT, check, emit, emitting, place, write
from unstall.errors import UsageError

if TYPE_CHECKING:
    from unstall.model import Report
    from unstall.report import Output

TOO_LONG_NS = 10**18  # stands for every time, infinity too, that ``report_of`` refuses as too long for a step


def run(
    profiles: Sequence[str],
    targets: dict[str, str],
    *,
    top: int = 10,
    by: Literal["total", "self", "gpu"] = "total",
    step: str | None = None,
    unprofiled_ms: float | None = None,
    cache: bool = True,
) -> None:
    """Report on every profile; ``targets`` maps an output's name to its file, ``-`` for standard output."""
    from unstall.pipeline import report_of
    from unstall.report import outputs

    wanted = {output: targets[output.name] for output in outputs() if targets.get(output.name)}
    _check(profiles, wanted)
    unprofiled_ns = None if unprofiled_ms is None else round(min(unprofiled_ms * 1e6, TOO_LONG_NS))
    quiet = STDOUT in wanted.values()
    reports = []
    for i, profile in enumerate(profiles):
        reports.append(report_of(profile, step=step, unprofiled_ns=unprofiled_ns, cache=cache))
        if not quiet:
            _show(reports[-1], i > 0, top, by)
    for output, target in wanted.items():
        _write(output, target, profiles, reports)


def _show(report: Report, again: bool, top: int, by: Literal["total", "self", "gpu"]) -> None:
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
        check(file)
        if os.path.realpath(file) in inputs:
            raise UsageError(file, "is a profile to be read", "Name another file to write")


def _others(wanted: dict[Output, str], output: Output) -> list[str]:
    return [target for other, target in wanted.items() if other is not output]


def _write(output: Output, target: str, profiles: Sequence[str], reports: list[Report]) -> None:
    by_file: dict[str, list[Report]] = {}
    for profile, report in zip(profiles, reports, strict=True):
        by_file.setdefault(place(target, profile), []).append(report)
    for file, group in by_file.items():
        content = output.render(group)
        emit(content) if file == STDOUT else write(file, content)
