"""From a program that has ended to a folder that appears whole: looked at, redacted, described.

Comes in: :class:`~unstall.collect.capture.Run` and what the collector left in its hidden folder. Goes out:
:class:`~unstall.collect.capture.Capture`. What cannot be written costs what it is and nothing else, and a note says so;
an export that could not be redacted for want of room does not stay.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from unstall._version import VERSION
from unstall.collect import meta, redact
from unstall.collect.capture import Capture, Run
from unstall.collect.interrupts import Interrupted
from unstall.collect.notes import Note, why_not
from unstall.collect.options import TRACES
from unstall.collect.output import RECORD, size_of
from unstall.collect.ranks import named
from unstall.errors import ProfileUnreadable
from unstall.instrument.steplog import StepLog, main_log


def finish(
    run: Run, found: Capture, logs: Sequence[StepLog], arguments: Sequence[str], look: Callable[[Path], object] = bool
) -> Capture:
    """Have a look at the export, redact it, write what we know beside it, and let the folder appear."""
    shutil.rmtree(run.folder / "steps", ignore_errors=True)
    shutil.rmtree(run.folder / "parts", ignore_errors=True)
    unprofiled, source = _unprofiled(run, logs)
    try:
        found = _keep_report(run, _completed(run, found, unprofiled, look))
        if found.sqlite is None and found.report is None:
            return _nothing(run, found)
        found = replace(
            found, notes=tuple(run.notes), unprofiled_ns=unprofiled, unprofiled_source=source,
            rank=run.rank.number if run.rank else None, ranks=tuple(sorted({rank for _, rank in run.ranks.values()})),
        )  # fmt: skip
        (run.folder / RECORD).write_text(json.dumps(_record(run, found, logs, arguments), indent=1) + "\n")
        final = run.place.commit()
        if final != run.place.final:
            run.tell(Note("moved-aside", f"{run.place.final.name} has come to be meanwhile, and is kept."))
    except OSError as error:
        run.tell(Note("not-kept", f"The capture could not be written: {why_not(error)}."))
        return _nothing(run, found)
    return replace(
        found,
        directory=final,
        sqlite=found.sqlite and final / found.sqlite.name,
        report=found.report and final / found.report.name,
        size_bytes=size_of(final),
    )


def _nothing(run: Run, found: Capture) -> Capture:
    """The program has run, and nothing of the capture is left."""
    run.place.discard()
    return replace(found, sqlite=None, report=None, notes=tuple(run.notes))


def _completed(run: Run, found: Capture, unprofiled: int | None, look: Callable[[Path], object]) -> Capture:
    """With an export that is whole and redacted, or without."""
    if found.sqlite is None:
        return found
    try:
        look(found.sqlite)
        if found.collector == "nsys":  # releases before 2023 do not write it down
            meta.write(found.sqlite, {"trace": ",".join(run.options.trace or TRACES)})
        _complete(run, found.sqlite, unprofiled)
    except (OSError, sqlite3.Error, Interrupted) as error:
        found.sqlite.unlink()
        left = "; the report is kept, and `unstall report` on it exports it" if found.report else ""
        run.tell(Note("not-kept", f"{found.sqlite.name} could not be written to its end: {why_not(error)}{left}."))
        return replace(found, sqlite=None)
    return found


def _complete(run: Run, sqlite: Path, unprofiled: int | None) -> None:
    facts = {"unprofiled_ns": str(unprofiled)} if unprofiled else {}
    if run.rank is not None and not run.ranks:
        facts["rank"] = str(run.rank.number)
    if run.options.auto:
        facts["auto"] = "true"
    meta.write(sqlite, facts)
    meta.name_processes(sqlite, named(run.ranks), run.program)
    if not run.options.redact:
        return
    try:
        redact.clean_up(sqlite)
    except ProfileUnreadable as error:
        if isinstance(error.__cause__, sqlite3.OperationalError):  # no room for the clean copy
            raise error.__cause__ from None
        text = f"{sqlite.name} {error.why.removeprefix('the copy ')}. {error.hint}: `unstall redact` refuses it too."
        run.tell(Note("not-redacted", text))


def _keep_report(run: Run, found: Capture) -> Capture:
    """The report cannot be redacted: keep it for its owner's eyes, and say what is in it."""
    if found.report is None:
        return found
    if found.sqlite is not None and not run.options.keep_report:
        for each in run.folder.glob(f"{found.report.stem}*{found.report.suffix}"):
            each.unlink()
        return replace(found, report=None)
    found.report.chmod(0o600)
    names = redact.secret_names(run.environ)
    secrets = f", {len(names)} of them secrets by their names ({', '.join(names[:3])} …)" if names else ""
    text = f"{found.report.name} cannot be redacted: it holds all environment variables of the program{secrets}"
    run.tell(Note("report-holds-environment", f"{text}, its command line and the host's name. Share the .sqlite."))
    return found


def _unprofiled(run: Run, logs: Sequence[StepLog]) -> tuple[int | None, str]:
    """The step time without the profiler, from this very run where it has one (hosts vary from run to run)."""
    before = logs if run.options.steps else []  # a run that is captured as a whole holds no unprofiled step
    for source, some in (("before the captured steps", before), ("calibration", run.calibrated)):
        log = main_log(some)
        value = log.unprofiled_ns() if log else None
        if value:
            return value, source
    return None, ""


def _record(run: Run, found: Capture, logs: Sequence[StepLog], arguments: Sequence[str]) -> dict[str, object]:
    options = {k: str(v) if isinstance(v, Path) else v for k, v in asdict(run.options).items()}
    return {
        "schema_version": 1,
        "unstall_version": VERSION,
        "created_utc": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": redact.redact_command(run.command, run.environ),
        "collector": found.collector,
        "collector_version": found.version,
        "arguments": list(arguments),
        "options": {**options, "output": None, "nsys_args": redact.redact_command(run.options.nsys_args, run.environ)},
        "exit_code": found.exit_code,
        "signals": list(found.signals),
        "seconds": round(found.seconds, 3),
        "rank": found.rank,
        "unprofiled_ns": found.unprofiled_ns,
        "unprofiled_source": found.unprofiled_source,
        "step_logs": [asdict(log) for log in logs],
        "calibration": [asdict(log) for log in run.calibrated],
        "notes": [asdict(note) for note in found.notes],
    }
