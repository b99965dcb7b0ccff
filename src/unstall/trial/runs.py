"""One run of the program with some remedies switched on: started, timed through the hooks, ended after enough steps.

In: a command, names of remedies, limits. Out: :class:`Run` with step times and losses, or why there are none. The
program's own output goes into a file of ours, and its last lines into the reason when it fails.
"""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from unstall.collect.process import supervise
from unstall.fix.dataloader_workers import ADVISED, tuned
from unstall.fix.inject import END, PLUGIN, TRIAL
from unstall.fix.remedy import Remedy, named
from unstall.instrument import Options, environment
from unstall.instrument import command as instrumented
from unstall.instrument.options import STEP_LOG_NAME
from unstall.instrument.steplog import StepLog, main_log, read
from unstall.trial import patched

ENDED_BY_US = (0, 130)  # exit after SystemExit(0), or of a KeyboardInterrupt
BLOCKS = 8  # means a run, at least: enough for a median and its spread
LONGEST_BURST = 16  # steps: as many as the most workers that a trial switches on
FEWEST = 5  # steady steps without which a run says nothing


@dataclass
class Run:
    """What one run told.

    Attributes:
        code: exit code, shell style.
        samples_ns: steady step times, see :func:`_steady`.
        losses: step → value.
        seconds: wall time of the whole run.
        gpu: whether a GPU took part.
        reason: why it cannot be used; empty when it can.
        impossible: nothing was run, because the remedy cannot be tried on this command.
        interrupted: a signal came from outside.
    """

    code: int
    seconds: float
    samples_ns: list[float] = field(default_factory=list)
    losses: dict[int, float] = field(default_factory=dict)
    gpu: bool = False
    reason: str = ""
    impossible: bool = False
    interrupted: bool = False

    @property
    def good(self) -> bool:
        return not self.reason


def once(
    command: Sequence[str], names: Sequence[str], *, steps: int, seconds: float, most: float, workers: int | None = None
) -> Run:
    """Run it once.

    Args:
        command: the program.
        names: remedies to switch on; none for the plain run.
        steps: end after so many steps.
        seconds: end after so long in steps, once enough are done.
        most: the run is ended from outside after that many seconds.
        workers: worker processes where a remedy makes some; ``None`` for as many as fit this machine.
    """
    with tempfile.TemporaryDirectory(prefix="unstall-try-") as folder:
        template, log = str(Path(folder) / STEP_LOG_NAME), Path(folder) / "output.txt"
        remedies = [tuned(r, workers) for r in named(names)]
        made = patched.command(command, remedies, Path(folder), workers)
        if made.why:
            return Run(0, 0.0, reason=made.why, impossible=True)
        inside = Options(parts=("steps", "losses"), step_log=template, plugins=(PLUGIN,))
        begun = time.monotonic()
        with _Deadline(most) as deadline:
            ended = supervise(
                instrumented(made.command, inside),
                _environ(inside, remedies, steps, seconds, workers),
                out=log,
                err=log,
                remove=[Path(folder)],
                on_event=deadline.on_event,
            )
        took = time.monotonic() - begun
        run = _run(ended.code, took, main_log(read(template)), _lead(remedies), late=deadline.passed)
        if run.reason and (last := _last_lines(log)):
            run.reason += f": {last}"
        run.interrupted = bool(ended.signals)
        return run


def _environ(
    inside: Options, remedies: Sequence[Remedy], steps: int, seconds: float, workers: int | None
) -> dict[str, str]:
    env, lead = environment(inside), _lead(remedies)
    env.update(
        {
            TRIAL: ",".join(r.name for r in remedies),
            END: f"{steps + lead}:{seconds:g}:{lead}",
            "PYTHONHASHSEED": env.get("PYTHONHASHSEED", "0"),
        }
    )
    if workers is not None:
        env[ADVISED] = str(workers)
    for remedy in remedies:
        for name, value in remedy.environ.items():
            env[name] = f"{env[name]},{value}" if env.get(name) else value
    return env


def _lead(remedies: Sequence[Remedy]) -> int:
    """Steps that may live on batches made before: their times are not steady."""
    return max((remedy.lead for remedy in remedies), default=0)


def _run(code: int, seconds: float, log: StepLog | None, lead: int, *, late: bool) -> Run:
    run = Run(code, seconds)
    if late and (log is None or len(log.samples_ns) < FEWEST):
        run.reason = f"fewer than {FEWEST} steps in {seconds:.0f} s"
    elif code not in ENDED_BY_US and not late:
        run.reason = f"exit code {code}"
    elif log is None:
        run.reason = "no training step was seen"
    if log is None:
        return run
    run.gpu, run.samples_ns = log.gpu, _steady(log, lead)
    run.losses = _by_step(log.losses)
    if not run.reason and len(run.samples_ns) < FEWEST:
        run.reason = f"only {len(run.samples_ns)} steps after warm-up"
    return run


def _steady(log: StepLog, lead: int) -> list[float]:
    """Step times after warm-up, as means of neighbours.

    Workers hand out batches in bursts: with four of them three steps find one ready and the fourth waits for all, so a
    median of single steps says nothing of the pace; the mean of a burst does.
    """
    samples = log.steady()[max(lead - log.warmup, 0) :]
    size = max(1, min(len(samples) // BLOCKS, LONGEST_BURST))
    groups = [samples[i : i + size] for i in range(0, len(samples) - size + 1, size)]
    return [sum(g) / size for g in groups]


def _by_step(losses: Sequence[Sequence[float]]) -> dict[int, float]:
    """The last loss of every step: several ``backward`` calls a step are micro-batches or several losses."""
    return {int(step): value for step, value in losses}


def _last_lines(log: Path) -> str:
    """The last line that says something: the exception of a traceback."""
    try:
        lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    except OSError:
        return ""
    errors = [line for line in lines if "Error" in line.split(":")[0] or line.startswith("unstall:")]
    return (errors or lines or [""])[-1][:300]


class _Deadline:
    """Interrupts the program when its time is over, as Ctrl-C would; a second time ends it for good."""

    def __init__(self, most: float) -> None:
        self.most, self.passed = most, False
        self.timers: list[threading.Timer] = []

    def __enter__(self) -> _Deadline:
        return self

    def __exit__(self, *_: object) -> None:
        for timer in self.timers:
            timer.cancel()

    def on_event(self, event: dict[str, object]) -> None:
        if event["event"] == "program" and isinstance(event["pid"], int):
            for after, number in ((0.0, signal.SIGINT), (10.0, signal.SIGTERM), (20.0, signal.SIGKILL)):
                self.timers.append(threading.Timer(self.most + after, self._send, [event["pid"], number]))
                self.timers[-1].daemon = True
                self.timers[-1].start()

    def _send(self, pid: int, number: int) -> None:
        """A child of the supervisor that has not been waited for: the number is still its own."""
        self.passed = True
        try:
            os.kill(pid, number)
        except OSError:
            return
