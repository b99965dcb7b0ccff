"""``unstall demo``: the whole loop, as it was recorded on an H200 and as it runs on this machine.

In: where to write, and which of the two. Out: the report of the recorded run, with the verdict on its remedy; then the
same loop captured here and its remedy tried here. Outputs asked for (``--json FILE``) are those of the recorded run,
with ``--live`` of the run made here. What cannot be run here is one line, and no reason to fail.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from unstall import demo
from unstall.commands import report as report_command
from unstall.commands.files import STDOUT, emitting
from unstall.commands.progress import teller
from unstall.errors import UnstallError
from unstall.lang import speaker

if TYPE_CHECKING:
    from unstall.collect import Capture, CollectOptions
    from unstall.model import Report
    from unstall.trial import Outcome

By = Literal["total", "self", "gpu"]

MINUTE = 55.0  # seconds that all of it may take: the rest of a minute is for starting up and ending
TRIAL_S = 30.0  # of them for the trial: four runs of five to seven seconds, most of it the import of PyTorch
RANGES_SHOWN = 5
SHORT_OF = 0.7  # of the predicted gain: below it a word is due on what a machine with few cores can give

INTRODUCTION = """\
A training loop in PyTorch on an NVIDIA H200 that loads each batch on the main thread, recorded with Nsight Systems.
This is what `unstall report` says of the recording; it was made elsewhere, nothing runs on a GPU now.

"""

LIVE = """\
The same kind of training loop, run on this machine now: it decodes every batch on the main thread, 20 ms of it.

"""

HERE = """

ON THIS MACHINE
The same kind of training loop runs here now: every batch is decoded on the main thread, 20 ms of it. Half a minute.

"""

TRYING = """
The remedy, tried here: the loop as it is and with its batches made by worker processes, in turns, without a profiler.

"""


def run(targets: dict[str, str], *, top: int, by: By, live: bool = True, language: str = "en") -> None:
    """Report on the recorded run, then do the same here unless ``live`` is off or standard output is an output's."""
    start = time.monotonic()
    remarks = STDOUT not in targets.values()
    if remarks:
        _say(INTRODUCTION, language)
    with demo.recorded() as path:
        report_command.run(
            [str(path)], targets, top=top, by=by, unprofiled_ms=demo.TRUTH.unprofiled_ms, cache=False, language=language
        )
    if not remarks:
        return
    _verdict(language)
    if live:
        _here(start, language)
    own = f"{_command()} run -- python train.py     (or of a profile: {_command()} report YOUR_PROFILE.sqlite)"
    _say(f"\nNext: {own}\n", language)


def run_live(targets: dict[str, str], *, top: int, by: By, language: str = "en") -> int:
    """Run the loop here, report on it, try its remedy. Returns the loop's exit code."""
    start = time.monotonic()
    quiet = STDOUT in targets.values()
    if not quiet:
        _say(LIVE, language)
    with demo.live() as (command, options):
        capture = _captured(command, options, language, aside=quiet)
        if capture.sqlite is None or capture.exit_code:
            return capture.exit_code
        seen = report_command.run([str(capture.sqlite)], targets, top=top, by=by, cache=False, language=language)
        if not quiet:
            _try(command, seen[0].report, start, language)
    return capture.exit_code


def _here(start: float, language: str) -> None:
    """The short form: what holds the step back, the ranges, the remedy tried."""
    _say(HERE, language)
    try:
        with demo.live() as (command, options):
            capture = _captured(command, options, language, aside=False)
            if capture.sqlite is None or capture.exit_code:
                ended = (
                    f"The loop did not run through here (exit code {capture.exit_code}), so there is no more to show."
                )
                _say(ended, language)
                return
            from unstall.pipeline import report_of

            report = report_of(capture.sqlite, cache=False, language=language)
            _short(report)
            _try(command, report, start, language)
    except (UnstallError, OSError) as error:
        _say(f"Not done here: {error}", language)


def _captured(command: Sequence[str], options: CollectOptions, language: str, *, aside: bool) -> Capture:
    from unstall.collect import collect
    from unstall.commands.run import _program_output

    with _program_output(aside=aside):
        return collect(command, options, say=teller(language))


def _short(report: Report) -> None:
    from unstall.report import tables, words
    from unstall.report.layout import wrap
    from unstall.report.terminal import WIDEST, make_console

    with emitting() as out:
        console = make_console(out)
        width = min(console.width, WIDEST)
        for line in [*wrap(words.verdict(report), width, "bold"), *tables.ranges(report, width, RANGES_SHOWN, "total")]:
            console.print(line, soft_wrap=True, highlight=False, markup=False, emoji=False)


def _verdict(language: str) -> None:
    """What the remedy of the recorded run gave, measured there."""
    from unstall.report import comparison

    measured = f"Without the profiler, in the process of the recording: as it was, and with {demo.TRUTH.remedy}."
    _say(f"\n\nTHE REMEDY, measured there\n{measured}\n\n", language)
    with emitting() as out:
        comparison.show(demo.recorded_verdict(language), out)


def _try(command: Sequence[str], report: Report, start: float, language: str) -> None:
    """Try the remedy in what is left of a minute, and say what came of it."""
    left = min(TRIAL_S, MINUTE - (time.monotonic() - start))
    if left < demo.SHORTEST_TRIAL_S:
        own = f"{_command()} try -- python train.py"
        _say(f"\nNo time is left of a minute to try the remedy here: {own} takes its own.", language)
        return
    _say(TRYING, language)
    from unstall.commands.try_table import render, told
    from unstall.report.terminal import make_console

    outcome = told(demo.tried(command, report, seconds=left, say=teller(language)), language)
    with emitting() as out:
        out.write(render(outcome, make_console(out).width, language))
    _say(_word(outcome), language)


def _word(outcome: Outcome) -> str:
    """The verdict in a sentence, and why it may fall short of what was predicted."""
    row = outcome.rows[0]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if row.ratio is None or outcome.plain_step_ns is None or row.step_ns is None:
        return f"\n{row.verdict.upper()}: {row.reason}"
    if row.verdict == "inconclusive":
        return f"\nINCONCLUSIVE: these runs prove nothing either way. {_command()} demo --live tries again."
    figures = f"{outcome.plain_step_ns / 1e6:.1f} ms a step as it is, {row.step_ns / 1e6:.1f} ms with the remedy"
    said = f"\n{row.verdict.upper()}: {figures}, {row.ratio:.2f}×."
    if row.predicted_ratio and row.ratio < SHORT_OF * row.predicted_ratio:
        said += f" The prediction has a core for every worker; here {cores} are shared by the workers and the training."
    return said


def _command() -> str:
    """How to call this very program: by name where the shell finds it, else by the path that it was called by."""
    called = sys.argv[0]
    return called if Path(called).name == "unstall" and not shutil.which("unstall") else "unstall"


def _say(words: str, language: str) -> None:
    from unstall.report.layout import wrap
    from unstall.report.terminal import make_console

    heard = speaker(language).heard
    with emitting() as out:
        width = make_console(out).width
        for paragraph in words.splitlines():
            out.writelines(f"{line.plain}\n" for line in wrap(heard(paragraph), width))
