"""``unstall demo``: the report of the recorded run, and what the remedy gave when it was measured there.

In: where to write. Out: the same as ``unstall report`` of the recording, framed by two remarks on a terminal. With
``--live`` the same loop runs here first, and the report is of that.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Literal

from unstall import demo
from unstall.commands import report as report_command
from unstall.commands.files import STDOUT, emitting

INTRODUCTION = """\
A training loop in PyTorch on an NVIDIA H200 that loads each batch on the main thread, recorded with Nsight Systems.
This is what `unstall report` says of the recording; it was made elsewhere, nothing runs on a GPU now.

"""

LIVE = """\
The same kind of training loop, run on this machine now: it decodes every batch on the main thread, 20 ms of it.

"""


def run(targets: dict[str, str], *, top: int, by: Literal["total", "self", "gpu"], language: str = "en") -> None:
    """Report on the recorded run."""
    remarks = STDOUT not in targets.values()
    if remarks:
        _say(INTRODUCTION)
    with demo.recorded() as path:
        unprofiled_ms = demo.TRUTH.unprofiled_ms
        report_command.run(
            [str(path)], targets, top=top, by=by, unprofiled_ms=unprofiled_ms, cache=False, language=language
        )
    if remarks:
        _say(_ending())


def run_live(targets: dict[str, str], *, top: int, by: Literal["total", "self", "gpu"], language: str = "en") -> int:
    """Run the loop here, report on it. Returns the loop's exit code."""
    from unstall.commands import run as run_command

    if STDOUT not in targets.values():
        _say(LIVE)
    with demo.live() as (command, options):
        return run_command.run(command, targets, options=options, top=top, by=by, page=False, language=language)


def _ending() -> str:
    before, after = demo.TRUTH.unprofiled_ms, demo.TRUTH.fixed_ms
    return (
        f"\nMeasured there without the profiler: {before} ms a step as it was, {after} ms with {demo.TRUTH.remedy}: "
        f"{before / after:.1f}×.\nNext: {_command()} report YOUR_PROFILE.sqlite\n"
    )


def _command() -> str:
    """How to call this very program: by name where the shell finds it, else by the path that it was called by."""
    called = sys.argv[0]
    return called if Path(called).name == "unstall" and not shutil.which("unstall") else "unstall"


def _say(words: str) -> None:
    from unstall.report.layout import wrap
    from unstall.report.terminal import make_console

    with emitting() as out:
        width = make_console(out).width
        for paragraph in words.splitlines():
            out.writelines(f"{line.plain}\n" for line in wrap(paragraph, width))
