"""From a command to a capture: choose the collector, run it, check what came of it, put it where it belongs.

Comes in: a command and :class:`~unstall.collect.options.CollectOptions`. Goes out: :class:`Capture`, and a folder that
holds ``profile.sqlite``, perhaps ``profile.nsys-rep``, and ``run.json``. The folder appears at the very end, whole.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from unstall._version import VERSION
from unstall.collect import diagnose_capture
from unstall.collect.calibrate import calibrate
from unstall.collect.capture import Capture, Run
from unstall.collect.finish import finish
from unstall.collect.interrupts import Interrupts
from unstall.collect.machine import sampling_allowed
from unstall.collect.notes import Note, Say, silent
from unstall.collect.nsys import Job, Recorded
from unstall.collect.options import CollectOptions
from unstall.collect.output import reserve
from unstall.collect.process import Ended, Limit
from unstall.collect.ranks import rank_of, several
from unstall.errors import CollectionFailed, UsageError
from unstall.instrument import AUTO, Options, environment
from unstall.instrument import command as instrumented
from unstall.instrument.options import OPENED_NAME
from unstall.instrument.sink import pip_nvtx_version, pip_records
from unstall.instrument.steplog import read
from unstall.nsys.discover import Nsys, find_nsys

MARGIN = 0.3  # seconds between what we see and when nsys begins to count
DOCTOR = "`unstall doctor` says what is missing and what brings it"


def collect(
    command: Sequence[str],
    options: CollectOptions | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    say: Say = silent,
) -> Capture:
    """Run ``command`` and capture a profile of it.

    The program's output and input are untouched. Ctrl-C and SIGTERM end the program; what was captured until then is
    kept. Nothing of the profiler outlives the call.

    Args:
        command: the program and its arguments.
        options: how to collect.
        environ: the program's environment; this process's own when left out.
        say: shows progress and notes, one line at a time.

    Raises:
        UsageError: no such program, or the output folder cannot be used. Nothing was started.
        CollectionFailed: no collector could start the program.
        Interrupted: a signal came before the program ran, or again while its capture was being finished.
    """
    env = dict(os.environ if environ is None else environ)
    asked = options or CollectOptions()
    line = _checked(command, env, asked)
    rank = rank_of(env)
    interrupts = Interrupts(say)
    with interrupts.handled():
        place = reserve(line, asked.output, force=asked.force, rank=rank)
        try:
            run = Run(line, env, asked, place, rank, say, interrupts)
            run.tell(*_elsewhere(line))
            return _collect(run)
        except BaseException:
            interrupts.over()
            place.discard()
            raise


def _elsewhere(command: Sequence[str]) -> list[Note]:
    """A launcher whose tasks are nobody's children here, and are not recorded with it."""
    if Path(command[0]).name != "srun":
        return []
    text = "srun has its tasks started by SLURM, where this capture cannot see them: srun … unstall run -- PROGRAM …"
    return [Note("launcher-elsewhere", f"{text} captures each rank.")]


def _collect(run: Run) -> Capture:
    nsys, tools = _choose(run)
    if run.options.calibrate:
        run.calibrated = calibrate(run.command, run.environ, run.folder, run.options, run.say)
    if nsys is not None:
        try:
            return _with_nsys(run, nsys, tools)
        except CollectionFailed as error:
            if run.options.collector != "auto" or run.options.nsys_args:
                raise
            run.tell(Note("nsys-failed", f"{error.what}: {error.why}. The built-in collector records instead."))
    return _with_builtin(run)


def _choose(run: Run) -> tuple[Nsys | None, list[Nsys]]:
    """The nsys to use, ``None`` for the built-in collector; and all nsys there are."""
    if run.options.collector == "builtin":
        return None, []
    tools = find_nsys()
    best = tools[0] if tools else None
    why = _unfit(best) or _deaf(best, run)
    if best is not None and (not why or run.options.collector == "nsys"):
        if why:
            run.tell(Note("nsys-incomplete", why))
        elif lost := _unheard(best):
            ways = "pip install 'nvtx<0.2.12', or --collector builtin, where the program writes some"
            run.tell(Note("nvtx-unheard", f"{lost}: {ways}."))
        return best, tools
    if run.options.collector == "nsys":
        raise CollectionFailed("nsys", "none was found on this machine", f"{DOCTOR}, or use --collector builtin")
    run.tell(Note("builtin-collector", f"{why} The built-in collector records instead; {DOCTOR}."))
    return None, tools


def _for_nsys_only(options: CollectOptions) -> list[Note]:
    """What was asked of nsys and the built-in collector does not do."""
    asked = {
        "--trace": options.trace, "--sample": options.sample not in ("auto", "none"),
        "--gpu-metrics": options.gpu_metrics, "--graph-nodes": options.graph_nodes, "--nsys-args": options.nsys_args,
    }  # fmt: skip
    names = [name for name, value in asked.items() if value]
    return [Note("option-ignored", f"For nsys only, and of no effect here: {', '.join(names)}.")] if names else []


def _unfit(nsys: Nsys | None) -> str:
    """Why this nsys would not give a readable capture; empty when it does."""
    if nsys is None:
        return "No nsys was found on this machine."
    named = f"nsys {nsys.text} ({nsys.path})"
    if nsys.error:
        return f"{named} does not run: {nsys.error}."
    if nsys.missing:
        return f"{named} records, but its importer lacks {', '.join(nsys.missing)}."
    return ""


def _deaf(nsys: Nsys | None, run: Run) -> str:
    """Why this nsys would not hear the ranges that are asked for, and has no GPU to watch instead."""
    asked = run.options.auto or run.options.steps
    if nsys is None or not asked or run.machine.driver or run.machine.gpus:
        return ""
    lost = _unheard(nsys)
    return f"{lost}, and no GPU is visible (pip install 'nvtx<0.2.12')." if lost else ""


def _unheard(nsys: Nsys) -> str:
    """What this nsys loses without a word; empty where it hears all."""
    version = pip_nvtx_version()
    if not version or pip_records(version, nsys.version):
        return ""
    return f"nsys {nsys.text} records no range of pip nvtx {version}"


def _with_nsys(run: Run, nsys: Nsys, tools: Sequence[Nsys]) -> Capture:
    gpu = bool(run.machine.driver or run.machine.gpus)
    window = ("cuda" if gpu else "nvtx") if run.options.steps else ""
    inside = _inside(run, window)
    sampling = run.options.sample != "none" and sampling_allowed(nsys, run.machine)
    job = Job(
        command=instrumented(run.command, inside),
        environ=environment(inside, run.environ),
        options=run.options,
        nsys=nsys,
        tools=tools,
        window=window,
        sampling=sampling,
        folder=run.folder,
        say=run.say,
        limit=_limit(run) if window else None,
        on_start=run.interrupts.program_started,
    )
    start = time.monotonic()
    done = job.record()
    logs = read(run.steps)
    run.tell(*done.notes, *_ending(run, done.ended), *diagnose_capture.without_export(done, nsys, logs, run.options))

    def look(sqlite: Path) -> None:
        run.tell(*diagnose_capture.window_notes(logs, run.options))
        run.tell(*diagnose_capture.examine(sqlite, done, nsys, run.options, gpu=gpu))

    run.ranks, run.program = several(done.ended.ranks), {done.program: run.command[0]}
    return finish(run, _capture(done, nsys, time.monotonic() - start), logs, done.arguments, look)


def _with_builtin(run: Run) -> Capture:
    from unstall.collect import builtin

    start = time.monotonic()
    begin = start + run.options.delay
    inside = replace(
        _inside(run, "record" if run.options.steps else ""), record=str(run.folder / "parts"),
        begin=round(begin * 1e9) if run.options.delay else 0,
    )  # fmt: skip
    made = builtin.record(
        instrumented(run.command, inside), environment(inside, run.environ), folder=run.folder, say=run.say,
        limit=_limit(run, begin), on_start=run.interrupts.program_started,
    )  # fmt: skip
    logs = read(run.steps)
    run.tell(*_for_nsys_only(run.options), *_ending(run, made.ended))
    window = diagnose_capture.window_notes(logs, run.options)
    never = any(note.code == "range-never-hit" for note in window)  # says why nothing was recorded
    run.tell(*(note for note in made.notes if not (never and note.code == "nothing-recorded")), *window)
    run.ranks = several(made.ended.ranks)
    code = made.ended.code
    found = Capture(code, sqlite=made.sqlite, collector="builtin", version=VERSION, signals=made.ended.signals)
    return finish(run, replace(found, seconds=time.monotonic() - start), logs, [])


def _inside(run: Run, window: str) -> Options:
    """What the program itself is told."""
    return Options(parts=AUTO if run.options.auto else (), steps=run.options.steps, window=window, step_log=run.steps)


def _capture(done: Recorded, nsys: Nsys, seconds: float) -> Capture:
    ended = done.ended
    lost = ended.stuck and ended.started and ended.program_code is None
    code = CollectionFailed.exit_code if lost else ended.code if ended.program_code is None else ended.program_code
    return Capture(
        code, sqlite=done.sqlite, report=done.report, version=nsys.text, seconds=seconds, signals=ended.signals,
        exit_code_lost=lost,
    )  # fmt: skip


def _limit(run: Run, begin: float = 0.0) -> Limit | None:
    """When the program is to be ended: so many seconds after the capture began."""
    if not run.options.duration:
        return None
    if run.options.steps:
        return Limit(run.options.duration, mark=str(Path(run.steps).with_name(OPENED_NAME)))
    return Limit(run.options.duration, begin)


def _ending(run: Run, ended: Ended) -> list[Note]:
    """Why the program ended, where that was not its own doing, and what became of processes that it left behind."""
    if ended.error:
        return [Note("supervisor-killed", f"{ended.error.capitalize()}: program and profiler were killed too.")]
    notes = []
    asked = run.options.delay + run.options.duration
    if ended.signals:
        notes.append(Note("stopped", f"{ended.signals[0]}: the program was told to end; what was captured is kept."))
    elif ended.limited or (run.options.duration and not run.options.steps and ended.seconds >= asked - MARGIN):
        text = f"--duration {run.options.duration:g}: the time of capturing was over, and the program was told to end."
        notes.append(Note("duration-over", text))
    if ended.left:
        text = f"The program left processes running ({', '.join(ended.left)}); they were ended with the capture."
        notes.append(Note("left-behind", text))
    return notes


def _checked(command: Sequence[str], environ: Mapping[str, str], options: CollectOptions) -> list[str]:
    """The command, its program found: what nsys would say of a missing one is no help."""
    if not command:
        raise UsageError("no command", "nothing to run", "unstall run -- python train.py")
    if options.steps and options.delay:
        raise UsageError("--delay", "not with --steps, which says when to begin as well", "Give one of the two")
    if shutil.which(command[0], path=environ.get("PATH", os.defpath)) is None:
        why = "not executable" if Path(command[0]).is_file() else "no such program"
        raise UsageError(command[0], why, "Check the name; for a script: unstall run -- python train.py")
    return list(command)
