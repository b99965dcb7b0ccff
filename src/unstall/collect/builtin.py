"""The built-in collector: for machines without a usable nsys. No privilege, no library, no root.

Comes in: a command whose environment says ``UNSTALL_RECORD`` (see :mod:`unstall.instrument.options`). Goes out: an
SQLite file in nsys's export schema, and notes. Inside the program, :mod:`unstall.instrument.recorder` keeps ranges,
samples Python stacks and drives torch's profiler; here its parts become one file.

It sees: NVTX ranges and marks written from Python (pip ``nvtx`` of any version, ``torch.cuda.nvtx``,
``unstall.annotate``, ``--auto``), with the CPU time inside each; Python stacks; threads and their CPU time; worker
processes, forked ones too; and kernels, copies, memsets, synchronisations and CUDA calls where torch uses an NVIDIA
GPU. It does not see: OS runtime calls, the GIL, context switches, GPU metrics, ranges written by C++.
"""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from unstall.collect._builtin_merge import merge
from unstall.collect.interrupts import Interrupted
from unstall.collect.notes import Note, Say, silent, why_not
from unstall.collect.process import Ended, Limit, nothing, supervise
from unstall.errors import CollectionFailed
from unstall.instrument import AUTO, Options, spool
from unstall.instrument.options import STEP_LOG_NAME
from unstall.instrument.steplog import main_log, read

EXPORT_NAME = "profile.sqlite"


@dataclass(frozen=True)
class Made:
    """What a run left: ``sqlite`` is ``None`` where nothing was recorded, and a note says why."""

    ended: Ended
    sqlite: Path | None
    notes: tuple[Note, ...]


def record(
    command: Sequence[str], environ: Mapping[str, str], *, folder: Path, say: Say = silent, limit: Limit | None = None,
    on_start: Callable[[], None] = nothing,
) -> Made:  # fmt: skip
    """Run ``command`` to its end and make ``folder/profile.sqlite`` of what its processes recorded.

    Args:
        command, environ: as :func:`unstall.instrument.command` and ``environment`` give them.
        folder: where the file goes; ``environ["UNSTALL_RECORD"]`` is where the parts are.
        say: shows progress.
        limit: when the program is to be ended.
        on_start: called when the program runs.

    Raises:
        CollectionFailed: the program could not be started.
    """
    ended = supervise(
        command,
        environ,
        remove=[folder],
        limit=limit,
        on_event=lambda e: on_start() if e["event"] == "program" else None,
    )
    if ended.error and not ended.started:
        raise CollectionFailed(command[0], ended.error, "Check that it can be run without unstall")
    parts = Path(environ["UNSTALL_RECORD"])
    say("writing the capture")
    output = folder / EXPORT_NAME
    try:
        said = merge(parts, output)
    except (OSError, sqlite3.Error, Interrupted) as error:
        output.unlink(missing_ok=True)
        return Made(ended, None, (Note("not-kept", f"The capture could not be written: {why_not(error)}."),))
    if not output.exists() and time.perf_counter_ns() < int(environ.get("UNSTALL_BEGIN", 0)):
        text = "Nothing was recorded: the program ended before --delay was over."
        return Made(ended, None, (Note("nothing-recorded", text),))
    if not output.exists() and spool.parts(parts):
        text = "The capture could not be written: no process got its first line down; a full disk is said above."
        return Made(ended, None, (Note("not-kept", f"{text} Name a place with room with --output."),))
    if not output.exists():
        text = "Nothing was recorded: no Python process took the recorder in, or none lived long enough to be sampled."
        advice = "It records Python programs only; one that clears PYTHONPATH or is no Python program needs nsys."
        return Made(ended, None, (Note("nothing-recorded", f"{text} {advice}"),))
    return Made(ended, output, tuple(Note("builtin-incomplete", text) for text in said))


@dataclass
class Recording:
    """What a block left: ``sqlite`` is ``None`` where nothing was recorded, and a note says why. Filled at its end."""

    sqlite: Path | None = None
    notes: list[Note] = field(default_factory=list)


@contextmanager
def recording(output: Path, *, auto: bool = False, steps: tuple[int, int] | None = None) -> Iterator[Recording]:
    """Record what this process does inside the block, and write ``output`` at its end (for notebooks and tests).

    Args:
        output: the file.
        auto: ranges for PyTorch training, as ``unstall run --auto`` makes them; torch is unhooked afterwards.
        steps: only these training steps; the ones before tell the step time without the collector.
    """
    from unstall.instrument import inside, recorder
    from unstall.instrument import steps as clocks

    made = Recording()
    with tempfile.TemporaryDirectory(prefix="unstall-") as folder:
        options = Options(
            parts=AUTO if auto else (), steps=steps,
            window="record" if steps else "", step_log=str(Path(folder) / STEP_LOG_NAME), record=folder,
        )  # fmt: skip
        try:
            with recorder.here(options), clocks.clocked(options), inside.automatic(options) if auto else nullcontext():
                yield made
        finally:
            _complete(made, options, output)


def _complete(made: Recording, options: Options, output: Path) -> None:
    """One file of what was recorded, with the step time before the chosen steps."""
    from unstall.collect import meta
    from unstall.collect.diagnose_capture import window_notes
    from unstall.collect.options import CollectOptions

    made.notes += [Note("builtin-incomplete", text) for text in merge(Path(options.record), output)]
    logs = read(options.step_log)
    if options.steps:
        made.notes += window_notes(logs, CollectOptions(steps=options.steps))
    if not output.exists():
        return
    made.sqlite = output
    log = main_log(logs) if options.steps else None
    unprofiled = log.unprofiled_ns() if log else None
    if unprofiled:
        meta.write(output, {"unprofiled_ns": str(unprofiled)})
