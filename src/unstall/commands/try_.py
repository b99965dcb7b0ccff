"""``unstall try``: choose candidates, run the trial, show the table.

In: the program's command and options as parsed. Out: the table on standard output, or JSON where asked for; progress on
standard error, whose last line says whose exit code this is. The program's own output is not shown: it runs many times.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from unstall.commands.files import STDOUT, check, emit, emit_text, write
from unstall.commands.progress import Tell, teller
from unstall.errors import UnstallError, UsageError

if TYPE_CHECKING:
    from unstall.model import Report
    from unstall.trial import Outcome

QUICK = (8, 24)  # steps of the capture that finds candidates where no profile is given


def run(
    command: Sequence[str],
    *,
    profile: str | None,
    only: Sequence[str],
    everything: bool,
    budget: float,
    steps: int,
    json: str | None,
    language: str = "en",
) -> int:
    """Try, show, and return the program's own exit code."""
    from unstall.trial import Plan, attempt

    if json and json != STDOUT:
        check(json, [profile, *command])
    if shutil.which(command[0]) is None:
        why = "not executable" if Path(command[0]).is_file() else "no such program"
        raise UsageError(command[0], why, "Check the name; for a script: unstall try -- python train.py")
    tell = teller(language)
    names, predicted, workers = _candidates(command, profile, only, everything, tell)
    tell(f"{len(names)} candidates: {', '.join(names)}")
    tell(f"the program runs as it is and with each of them, in turns, a line a run; {budget:g} s in all")
    plan = Plan(list(command), names, predicted, budget=budget, steps=steps, workers=workers)
    outcome = attempt(plan, say=tell)
    _show(outcome, json, language)
    tell(f"exit code {outcome.exit_code} is the program's own ({Path(command[0]).name}, run as it is)")
    return outcome.exit_code


def _candidates(
    command: Sequence[str], profile: str | None, only: Sequence[str], everything: bool, tell: Tell
) -> tuple[list[str], dict[str, int], int | None]:
    """Names to try, what the findings predict for them, and how many loader workers they advise."""
    from unstall.trial import choose

    asked = choose.everything() if everything else choose.by_name(only)
    report = _report(profile) if profile else None if asked else _capture(command, tell)
    found, predicted = choose.from_findings(report) if report else ([], {})
    if not asked and not found:
        tell("no finding has a remedy that can be switched on: all safe ones are tried")
    return asked or found or choose.safe(), predicted, choose.workers(report)


def _report(profile: str) -> Report:
    from unstall.pipeline import report_of

    return report_of(profile)


def _capture(command: Sequence[str], tell: Tell) -> Report | None:
    """A quick profile, kept nowhere; without one the trial goes on."""
    from unstall.collect import CollectOptions, collect
    from unstall.commands.run import _program_output

    tell(f"no profile given: steps {QUICK[0]} to {QUICK[1] - 1} are captured to find candidates")
    with tempfile.TemporaryDirectory(prefix="unstall-try-") as folder, _program_output(aside=True):
        try:
            options = CollectOptions(auto=True, steps=QUICK, output=Path(folder) / "capture")
            captured = collect(command, options, say=tell)
            return _report(str(captured.sqlite)) if captured.sqlite else None
        except UnstallError as error:
            tell(str(error))
            return None


def _show(outcome: Outcome, json: str | None, language: str) -> None:
    import msgspec

    from unstall.commands.try_table import render, told

    outcome = told(outcome, language)
    if json:
        encoded = msgspec.json.format(msgspec.json.encode(outcome)) + b"\n"
        emit(encoded) if json == STDOUT else write(json, encoded)
    if json != STDOUT:
        emit_text(render(outcome, shutil.get_terminal_size((100, 24)).columns, language))
