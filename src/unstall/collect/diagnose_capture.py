"""What is wrong with a capture, recognised from its files and from what nsys said; each with what mends it.

Comes in: how the run ended, nsys's words, the export. Goes out: notes. Nothing here guesses in silence: a capture
without CUDA rows says so, and so does one whose ranges were lost, whose window never opened, whose forked workers
left no trace, whose report is not there.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from signal import Signals

from unstall.collect.notes import Note
from unstall.collect.nsys import Recorded
from unstall.collect.options import LOSES_NEW_NVTX, CollectOptions
from unstall.instrument.steplog import StepLog
from unstall.nsys.discover import Nsys

PAYLOAD_CLASH = re.compile(r"NVTX (binary )?payload extension is incompatible")
CUPTI_TROUBLE = re.compile(r"CUPTI[^.\n]*(fail|error|not (be )?(load|initial|found)|multiple|another)", re.IGNORECASE)
CUDA_TABLES = ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE")
EVENT_TABLES = ("NVTX_EVENTS", "OSRT_API", "CUPTI_ACTIVITY_KIND_RUNTIME")
RANGES, DOMAIN = (59, 60), 75  # NVTX event types
NO_WINDOW = re.compile(r"No reports were generated|^Generated:\s*$", re.MULTILINE)
WORKERS = frozenset({"python", "python3", "pt_data_worker"})


def without_export(done: Recorded, nsys: Nsys, logs: Sequence[StepLog], options: CollectOptions) -> list[Note]:
    """Why there is no report, when there is none."""
    if done.ended.stuck:
        text = f"nsys {nsys.text} hung after the program had ended and was ended; its capture is lost."
        advice = "CPU samples are what it hangs over: run again with --sample none." if _sampled(done) else ""
        return [Note("nsys-hung", f"{text} {advice or 'Run again, or use --collector builtin.'}")]
    if done.report is not None or any(note.code == "not-kept" for note in done.notes):
        return []
    if done.ended.profiler_code is not None and not options.duration:
        return [Note("nsys-died", f"{_died(done, nsys)} It had captured nothing that can be read.")]
    if options.steps:
        return window_notes(logs, options) or [Note("range-never-hit", _never_heard(nsys, logs))]
    if options.delay or NO_WINDOW.search(done.said):
        text = "nsys made no report: the capture never began."
        return [
            Note("no-report", f"{text} The program ended before --delay was over, or a capture range was never hit.")
        ]
    return [Note("no-report", f"nsys {nsys.text} made no report. {_last_words(done)}")]


def _died(done: Recorded, nsys: Nsys) -> str:
    """A profiler that did not live to see the program's end."""
    code = done.ended.profiler_code or 0
    how = f"was killed by {Signals(code - 128).name}" if code - 128 in set(Signals) else f"ended with code {code}"
    text = f"nsys {nsys.text} {how} while the program ran, and the program went on without it."
    return text if code > 128 else f"{text} {_last_words(done)}"


def _last_words(done: Recorded) -> str:
    last = [line.strip() for line in done.said.splitlines() if line.strip()][-1:]
    return f"Its last words: {last[0]}" if last else "It said nothing."


def _never_heard(nsys: Nsys, logs: Sequence[StepLog]) -> str:
    """The window of chosen steps, as nsys saw it: not at all. The program's step log tells whether it was opened."""
    if not any(log.opened for log in logs):
        return f"The window of --steps never opened. {_HINT}"
    text = f"The program took the steps of --steps, and nsys {nsys.text} did not hear where they begin"
    return f"{text}: pip nvtx 0.2.12 or newer under an old nsys does that. {_HEARD}"


_HEARD = "Install 'nvtx<0.2.12', use a newer nsys, or give --collector builtin."
_HINT = "It took fewer steps, or none was recognised: give --auto, or write `with unstall.step(i):` in the loop."


def window_notes(logs: Sequence[StepLog], options: CollectOptions) -> list[Note]:
    """Whether the chosen steps were all captured, by the program's own step log."""
    if not options.steps:
        return []
    first, end = options.steps
    if not any(log.opened for log in logs):
        taken = max((log.taken for log in logs), default=0)
        seen = (
            f"the program took {taken} steps"
            if taken
            else "no step was recognised: give --auto, or write `with unstall.step(i):`"
        )
        return [Note("range-never-hit", f"Steps {first}:{end} were never captured: {seen}.")]
    if not any(log.closed for log in logs):
        return [
            Note("window-cut", f"The program ended before step {end}: the capture holds fewer steps than asked for.")
        ]
    return []


def examine(path: Path, done: Recorded, nsys: Nsys, options: CollectOptions, *, gpu: bool) -> list[Note]:
    """What an export lacks, and why."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        db.text_factory = lambda raw: raw.decode("utf-8", "replace")
        tables = {n for (n,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        said = _diagnostics(db, tables)
        notes = _cuda(tables, said, done, gpu=gpu) if _traced(done, "cuda") else []
        notes += _nvtx(db, tables, said, nsys) if _traced(done, "nvtx") else []
        return notes + _workers(db, tables, done)


def _diagnostics(db: sqlite3.Connection, tables: set[str]) -> list[str]:
    """What the profiler said of itself. Exports before 2024 keep it among the strings, and no table points there."""
    if "DIAGNOSTIC_EVENT" in tables:
        return [text or "" for (text,) in db.execute("SELECT text FROM DIAGNOSTIC_EVENT")]
    if "StringIds" in tables:
        return [
            t for (t,) in db.execute("SELECT value FROM StringIds WHERE value LIKE '%NVTX%' OR value LIKE '%CUPTI%'")
        ]
    return []


def _cuda(tables: set[str], said: Sequence[str], done: Recorded, *, gpu: bool) -> list[Note]:
    if tables & set(CUDA_TABLES):
        return []
    trouble = next((t for t in said if CUPTI_TROUBLE.search(t)), "")
    if trouble:
        advice = "Another CUPTI user in the program (torch.profiler, DCGM) is the usual cause: switch it off."
        return [Note("no-cuda-rows", f"No GPU work was recorded, nsys reports: {trouble.strip()} {advice}")]
    if not gpu:
        return [Note("no-cuda-rows", "No GPU work was recorded: no NVIDIA GPU is visible on this machine.")]
    if (signal := (done.ended.program_code or 0) - 128) in set(Signals):
        name = Signals(signal).name
        text = f"No GPU work was recorded: {name} ended the program before nsys had written its buffers."
        return [Note("no-cuda-rows", f"{text} End it with SIGINT, or capture some steps with --steps or --duration.")]
    text = "No GPU work was recorded: no CUDA kernel ran while the capture was on, or only in forked processes."
    return [Note("no-cuda-rows", f"{text} `unstall doctor` says what this machine can record.")]


def _nvtx(db: sqlite3.Connection, tables: set[str], said: Sequence[str], nsys: Nsys) -> list[Note]:
    kinds: dict[int, int] = {}
    if "NVTX_EVENTS" in tables:
        kinds = dict(db.execute("SELECT eventType, count(*) FROM NVTX_EVENTS GROUP BY eventType"))
    if any(kinds.get(kind) for kind in RANGES):
        return []
    clash = any(PAYLOAD_CLASH.search(t) for t in said)
    if clash or (kinds.get(DOMAIN) and nsys.version[:2] <= LOSES_NEW_NVTX):
        why = (
            f"NVTX ranges were written and nsys {nsys.text} recorded none: pip nvtx 0.2.12 or newer under an old nsys."
        )
        return [Note("nvtx-lost", f"{why} {_HEARD}")]
    text = "No NVTX range was recorded: the program writes none. --auto adds them to PyTorch training without an edit"
    return [Note("no-nvtx-rows", f"{text}; unstall.annotate writes them by hand.")]


def _workers(db: sqlite3.Connection, tables: set[str], done: Recorded) -> list[Note]:
    """Processes of the program that lived for a while and left no row: forked ones are not recorded."""
    heard: set[int] = set()
    for table in tables & set(EVENT_TABLES):
        query = f'SELECT DISTINCT (globalTid >> 24) & 0xFFFFFF FROM "{table}" WHERE globalTid IS NOT NULL'
        heard |= {pid for (pid,) in db.execute(query)}
    unheard = [n for p, n in done.ended.seen.items() if p not in heard and p != done.program and _is_worker(n)]
    if not heard or not unheard:
        return []
    many = "es were" if len(unheard) > 1 else " was"
    text = f"{len(unheard)} worker process{many} forked, and nsys records nothing of those."
    return [Note("forked-workers", f"{text} The main process is recorded; start method spawn makes workers visible.")]


def _is_worker(name: str) -> bool:
    return name.startswith("python") or name in WORKERS


def _traced(done: Recorded, what: str) -> bool:
    trace = next((a.partition("=")[2] for a in done.arguments if a.startswith("--trace=")), what)
    return what in trace.split(",")


def _sampled(done: Recorded) -> bool:
    return any(a.startswith("--sample=") and not a.endswith("=none") for a in done.arguments)
