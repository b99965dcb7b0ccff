"""The step time without any profiler, from a short run made first (``--calibrate SECONDS``).

Comes in: the program's command. Goes out: its step logs. The program runs as it is, with nothing but the step clock in
it; when the time is over it gets what Ctrl-C would send, so that it ends in its own way and its log is written.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from unstall.collect.interrupts import Interrupted
from unstall.collect.notes import Say
from unstall.collect.options import CollectOptions
from unstall.collect.process import supervise
from unstall.instrument import Options, environment
from unstall.instrument import command as instrumented
from unstall.instrument.options import STEP_LOG_NAME
from unstall.instrument.steplog import StepLog, read

MORE = "give it more seconds (imports count), or write `with unstall.step(i):` in the loop"


def calibrate(
    command: Sequence[str], environ: Mapping[str, str], folder: Path, options: CollectOptions, say: Say
) -> list[StepLog]:
    """Run the program for ``options.calibrate`` seconds at most. :class:`Interrupted` when a signal came."""
    template = str(folder / "calibration" / STEP_LOG_NAME)
    inside = Options(parts=("steps",) if options.auto else (), step_log=template)
    say(f"calibrating: {options.calibrate:g} s of the program without a profiler, then Ctrl-C for it")
    timer: list[threading.Timer] = []

    def on_event(event: dict[str, object]) -> None:
        if event["event"] == "program":
            timer.append(threading.Timer(options.calibrate, _interrupt, [event["pid"]]))
            timer[0].daemon = True
            timer[0].start()

    ended = supervise(instrumented(command, inside), environment(inside, environ), remove=[folder], on_event=on_event)
    for each in timer:
        each.cancel()
    if ended.signals:
        raise Interrupted(signal.Signals[ended.signals[0]])
    logs = read(template)
    if not any(log.step_ns() for log in logs):
        why = MORE if options.auto else "give --auto, or write `with unstall.step(i):` in the loop"
        say(f"calibration saw no training step: {why}")
    return logs


def _interrupt(pid: int) -> None:
    """It is a child of the supervisor that has not been waited for, so the number is still its own."""
    try:
        os.kill(pid, signal.SIGINT)
    except OSError:
        return
