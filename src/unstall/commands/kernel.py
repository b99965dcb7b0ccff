"""``unstall kernel``: choose a kernel, measure a few launches with Nsight Compute, say why it is slow.

In: the program's command, perhaps a kernel's name and a profile to choose from. Out: text on standard output, or JSON
where asked for; progress on standard error, whose last line says whose exit code this is. The program's own output is
its own, as under ``unstall run``.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from unstall.commands.files import STDOUT, check, emit, emit_text, say, write
from unstall.errors import CollectionFailed, UnstallError, UsageError

if TYPE_CHECKING:
    from unstall.kernel.ncu import Run
    from unstall.kernel.records import KernelReport
    from unstall.kernel.target import Target
    from unstall.model import Report

QUICK = (8, 24)  # steps of the capture that finds the kernel where no profile is given


def run(
    command: Sequence[str],
    *,
    name: str | None,
    profile: str | None,
    skip: int | None,
    count: int | None,
    inside: str | None,
    keep_running: bool,
    read: str | None,
    csv: str | None,
    json: str | None,
    language: str = "en",
) -> int:
    """Measure, show, and return the program's own exit code."""
    from unstall import kernel

    for file in (json, csv):
        if file and file != STDOUT:
            check(file, [read, profile, *command])
    if read is not None:
        _show(kernel.read(_text(read), language=language), json)
        return 0
    if not command:
        raise UsageError("no program", "nothing to measure", "Put -- before it: unstall kernel -- python train.py")
    if shutil.which(command[0]) is None:
        why = "not executable" if Path(command[0]).is_file() else "no such program"
        raise UsageError(command[0], why, "Check the name; for a script: unstall kernel -- python train.py")
    from unstall.commands.run import _program_output
    from unstall.kernel import ncu

    ncu.find()  # before minutes are spent on a capture
    with _program_output(aside=json == STDOUT):
        target = _target(command, name, profile)
        target = replace(target, skip=target.skip if skip is None else skip, count=count or target.count)
        _say(f"measuring {target.count} launches of {target.pattern or 'any kernel'!r} after the first {target.skip}")
        measured = _measured(command, target, keep_running=keep_running, inside=inside or "")
    if csv:
        write(csv, measured.text)
    report = kernel.judged(measured, target, language)
    _show(report, json)
    return _end(report, command)


def _measured(command: Sequence[str], target: Target, *, keep_running: bool, inside: str) -> Run:
    """With what was asked for; a program that ends too soon is run once more from its first launch."""
    from unstall.kernel import ncu

    try:
        return ncu.measure(command, target, keep_running=keep_running, inside=inside)
    except CollectionFailed as error:
        if "before launch" not in error.why or not target.skip:
            raise
        _say(f"{error.why}: once more, without skipping any")
        return ncu.measure(command, replace(target, skip=0), keep_running=keep_running, inside=inside)


def _target(command: Sequence[str], name: str | None, profile: str | None) -> Target:
    """The kernel that was named, else the one that the profile says matters, else the one with the most time."""
    from unstall.kernel import target

    report = _report(profile) if profile else None
    if name:
        return target.named(name, report)
    report = report or _capture(command)
    found = target.from_report(report) if report else None
    if found is None and profile:
        raise UsageError(profile, "holds no kernels to choose from", "Name one: unstall kernel NAME -- python train.py")
    return found or target.anything()


def _report(profile: str) -> Report:
    from unstall.pipeline import report_of

    return report_of(profile)


def _capture(command: Sequence[str]) -> Report | None:
    """A quick profile, kept nowhere; without one the measurement goes on."""
    from unstall.collect import CollectOptions, collect

    _say(f"no profile given: steps {QUICK[0]} to {QUICK[1] - 1} are captured to find the kernel that matters")
    with tempfile.TemporaryDirectory(prefix="unstall-kernel-") as folder:
        try:
            options = CollectOptions(auto=True, steps=QUICK, output=Path(folder) / "capture")
            captured = collect(command, options, say=_say)
            return _report(str(captured.sqlite)) if captured.sqlite else None
        except UnstallError as error:
            _say(str(error))
            return None


def _text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(file, (error.strerror or str(error)).lower(), "Name the CSV that ncu printed") from error


def _show(report: KernelReport, json: str | None) -> None:
    import msgspec

    from unstall.commands.kernel_table import render

    if json:
        encoded = msgspec.json.format(msgspec.json.encode(report)) + b"\n"
        emit(encoded) if json == STDOUT else write(json, encoded)
    if json != STDOUT:
        emit_text(render(report, shutil.get_terminal_size((100, 24)).columns))


def _end(report: KernelReport, command: Sequence[str]) -> int:
    if report.exit_code is None:
        program = Path(command[0]).name
        _say(f"exit code 0: {program} was ended after the measurement; --keep-running lets it go on")
        return 0
    _say(f"exit code {report.exit_code} is the program's own ({Path(command[0]).name})")
    return report.exit_code


def _say(line: str) -> None:
    say(f"unstall: {line}")
