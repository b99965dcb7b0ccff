"""One capture with nsys: build the command, run it supervised, find what it left, turn that into SQLite.

Comes in: :class:`Job`: a command, options, an installed nsys, a folder. Goes out: :class:`Recorded`, with the export
and the report where there are any, and notes on everything that went another way than asked.

The program is started through ``shim.py``, so that it writes straight to our own standard output and error and reads
our own input, and hears the signals that are kept from nsys. The shim also tells the supervisor which process is the
program.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from unstall.collect.interrupts import Interrupted
from unstall.collect.notes import Note, Say, why_not
from unstall.collect.options import CollectOptions, profile_arguments, without_refused
from unstall.collect.process import Ended, Limit, as_it_was, nothing, run_quietly, supervise
from unstall.errors import CollectionFailed, ProfileUnreadable
from unstall.nsys.convert import export_report, import_stream, is_unfinished
from unstall.nsys.discover import Nsys
from unstall.nsys.whole import made_whole

SHIM = Path(__file__).with_name("shim.py")
HINT = "See `unstall doctor`"
HINT_ARGUMENTS = "Look at --nsys-args (`nsys profile --help`), or see `unstall doctor`"
REFUSALS = 6  # options that may be left out one by one before we give up
ELSEWHERE = re.compile(r"^\s*(/\S.*\.(?:nsys-rep|qdstrm|qdrep))\s*$", re.MULTILINE)
CRASHES = 3  # 3 of 50 starts of nsys 2022.4 on two busy CPUs died of a race of its own (sem_open), before any program
CRASHED = re.compile(r"Throw in function|Dynamic exception type")
NAME = "capture"
ROOM = 200e6  # bytes in the temporary folder; nsys, its importer's libraries and the smallest report take 60
SAMPLING_REFUSED = re.compile(
    r"(CPU (?:IP/backtrace )?sampling|context switch)[^.\n]*(not supported|not available|disabled|disabling)", re.I
)


@dataclass
class Recorded:
    """What a run under nsys left.

    Attributes:
        ended: how it ended.
        sqlite: the export; ``None`` when there is none.
        report: the ``.nsys-rep``, or the ``.qdstrm`` where no importer could make one.
        said: everything that nsys itself printed.
        arguments: the options it was given in the end.
        notes: what the user must know.
        program: pid of the program.
    """

    ended: Ended
    sqlite: Path | None = None
    report: Path | None = None
    said: str = ""
    arguments: list[str] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    program: int = 0


@dataclass(frozen=True)
class Job:
    """One run that is to be recorded.

    Attributes:
        command, environ: the program.
        options: what the user asks for.
        nsys: records it.
        tools: all installed ones, for what ``nsys`` cannot do itself.
        window: how chosen steps are captured (``cuda``, ``nvtx``); empty without.
        sampling: whether CPU sampling is allowed on this machine.
        folder: where the files shall be; it is deleted when we are killed.
        say: shows progress.
        limit: when the program is to be ended, where nsys does not do that itself.
        on_start: called when the program runs.
    """

    command: Sequence[str]
    environ: Mapping[str, str]
    options: CollectOptions
    nsys: Nsys
    tools: Sequence[Nsys]
    window: str
    sampling: bool
    folder: Path
    say: Say
    limit: Limit | None = None
    on_start: Callable[[], None] = nothing

    def record(self) -> Recorded:
        """Run the program under nsys.

        Raises:
            CollectionFailed: nsys did not get as far as starting the program.
            Interrupted: neither did we, since a signal came.
        """
        with _scratch() as scratch:
            whole = replace(self, nsys=made_whole(self.nsys, scratch / "nsys"))
            done = whole._attempts(scratch)
            if not done.ended.started and done.ended.signals:
                raise Interrupted(signal.Signals[done.ended.signals[0]])
            if not done.ended.started:
                hint = HINT_ARGUMENTS if self.options.nsys_args else HINT
                raise CollectionFailed(f"nsys {self.nsys.text} ({self.nsys.path})", _complaint(done), hint)
            if SAMPLING_REFUSED.search(done.said):
                text = "nsys could not take CPU samples on this machine: collected without."
                done.notes.append(Note("no-sampling", text))
            whole._gather(done, scratch)
            return done

    def _attempts(self, scratch: Path) -> Recorded:
        """Run it; while nsys refuses an option of ours or crashes before it starts anything, run it once more."""
        arguments, notes = profile_arguments(
            self.nsys.version, self.options, sampling=self.sampling, window=self.window
        )
        for number in range(REFUSALS):
            done = self._attempt(arguments, scratch)
            if done.ended.started or done.ended.signals:
                break
            if CRASHED.search(done.said) and number < CRASHES:
                continue
            better = without_refused(arguments, done.said, self.options.nsys_args)
            if better is None:
                break
            arguments, note = better
            notes.append(note)
        done.notes += notes
        return done

    def _attempt(self, arguments: Sequence[str], scratch: Path) -> Recorded:
        out, err, shim = scratch / "nsys.out", scratch / "nsys.err", scratch / "program"
        line = [
            str(self.nsys.path), "profile", *arguments, "--force-overwrite=true",
            f"--output={_literal(self.folder / NAME)}",
            *through_shim(self.command, self.environ, shim),
        ]  # fmt: skip
        binaries = [p for t in (self.nsys, *self.tools) for p in (t.path, t.importer) if p is not None]
        with _Echo(out, err, self.on_start) as echo:
            ended = supervise(
                line,
                {**self.environ, "TMPDIR": str(scratch)},
                out=out,
                err=err,
                folders=sorted({Path(os.path.realpath(p)).parent for p in binaries}),
                shim=shim,
                remove=[scratch, self.folder],
                on_event=echo.on_event,
                limit=self.limit,
                lasting=not self.options.duration or any(a.startswith("--kill") for a in self.options.nsys_args),
            )
        said = "\n".join(p.read_text(errors="replace") for p in (out, err) if p.is_file()).replace("\r", "\n")
        return Recorded(ended, said=said, arguments=list(arguments), program=echo.program)

    def _gather(self, done: Recorded, scratch: Path) -> None:
        """Find the report wherever it landed, and export it; what cannot be done becomes a note."""
        found = _reports(done.said, self.folder, scratch)
        if not found:
            return
        if len(found) > 1:
            text = f"nsys wrote {len(found)} reports: the first is used, and the others are kept beside it."
            done.notes.append(Note("several-reports", text))
        if found[0].parent != self.folder:
            text = f"nsys wrote its report to {found[0].parent}: moved to where it belongs."
            done.notes.append(Note("landed-elsewhere", text))
        try:
            done.report = _moved(found[0], self.folder / f"profile{found[0].suffix}")
        except OSError as error:
            done.notes.append(Note("not-kept", f"The report could not be written: {why_not(error)}."))
            return
        self._others(done, found[1:])
        code, why, later = "not-exported", "", f"`unstall report` on {done.report.name} does that later."
        try:
            self._convert(done, scratch)
        except ProfileUnreadable as error:
            code = "stream-only" if done.report.suffix == ".qdstrm" else code
            why, later = error.why, f"{error.hint}."
        except OSError as error:
            why = why_not(error)
        except Interrupted:
            why = "given up"
        if why:
            done.notes.append(Note(code, f"{done.report.name} was not exported: {why}. {later}"))

    def _others(self, done: Recorded, more: Sequence[Path]) -> None:
        """Reports after the first, and what nsys exported by itself, which nobody has redacted."""
        for number, path in enumerate(more, 2):
            _moved(path, self.folder / f"profile-{number}{path.suffix}").chmod(0o600)
        exports = list(self.folder.glob(f"{NAME}*"))
        if exports and self.options.redact:
            names = ", ".join(path.suffix for path in exports)
            text = f"What nsys exported by itself ({names}) is not redacted and was removed; --no-redact keeps it."
            done.notes.append(Note("export-removed", text))
            for path in exports:
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def _convert(self, done: Recorded, scratch: Path) -> None:
        """In the temporary folder: SQLite needs file locks, and a network folder may have none."""
        assert done.report is not None
        tools = [self.nsys, *(t for t in self.tools if t is not self.nsys)]

        def run(command: Sequence[str], environ: Mapping[str, str]) -> tuple[int, str]:
            return run_quietly(command, {**environ, "TMPDIR": str(scratch)}, scratch)

        if done.report.suffix == ".qdstrm":
            imported = scratch / "profile.nsys-rep"
            import_stream(done.report, imported, tools, run, self.say)
            stream, done.report = done.report, _moved(imported, self.folder / imported.name)
            stream.unlink()
        made = scratch / "profile.sqlite"
        export_report(done.report, made, tools, run, self.say)
        done.sqlite = _moved(made, self.folder / made.name)


def _moved(source: Path, target: Path) -> Path:
    """``target``, complete or absent: another file system may be full."""
    try:
        return Path(shutil.move(source, target))
    except OSError:
        target.unlink(missing_ok=True)
        raise


def through_shim(command: Sequence[str], environ: Mapping[str, str], file: Path) -> list[str]:
    """The command line that becomes ``command`` in ``environ`` and writes its process's number to ``file``."""
    order = {"file": str(file), "environ": as_it_was(environ, "TMPDIR", "LC_CTYPE")}
    return [sys.executable, "-I", "-S", str(SHIM), json.dumps(order), *command]


def _reports(said: str, folder: Path, scratch: Path) -> list[Path]:
    """Reports by what nsys says it generated, else by looking for them; imported ones before raw streams."""
    _, _, after = said.partition("Generated:")
    named = [Path(text) for text in ELSEWHERE.findall(after)]
    lying = [*folder.glob(f"{NAME}*"), *scratch.glob("nsys-report-*"), *scratch.glob("*/nsys-report-*")]
    found = [p for p in [*named, *lying] if p.suffix in (".nsys-rep", ".qdrep", ".qdstrm") and p.is_file()]
    found = [p for p in found if not is_unfinished(p)]  # nothing reads those
    unique = list(dict.fromkeys(found))
    imported = [p for p in unique if p.suffix != ".qdstrm"]
    return sorted(imported or unique, key=lambda p: (p not in named, p.name))


def _complaint(done: Recorded) -> str:
    """Why the program was not started, in nsys's own words."""
    if done.ended.error:
        return done.ended.error
    if done.ended.stuck:
        return "did nothing for a long time instead of starting the program"
    lines = [line.strip() for line in done.said.splitlines() if line.strip() and not line.startswith("usage:")]
    free = shutil.disk_usage(tempfile.gettempdir()).free
    narrow = f" ({free / 1e6:.0f} MB free in {tempfile.gettempdir()})" if free < ROOM else ""
    return (lines[0] if lines else f"ended with code {done.ended.code} before it started the program") + narrow


def _literal(path: Path) -> str:
    """A path in which nsys replaces nothing."""
    return str(path.absolute()).replace("%", "%%")


@contextmanager
def _scratch() -> Iterator[Path]:
    """A temporary folder with a short name (sockets in it are limited to 107 characters) for all that nsys makes."""
    with tempfile.TemporaryDirectory(prefix="unstall-", ignore_cleanup_errors=True) as name:
        yield Path(name)


class _Echo:
    """Passes on what the program prints where it goes through nsys all the same: only when the shim could not help."""

    def __init__(self, out: Path, err: Path, on_start: Callable[[], None]) -> None:
        self.files = ((out, 1), (err, 2))
        self.on_start = on_start
        self.over = threading.Event()
        self.threads: list[threading.Thread] = []
        self.program = 0

    def on_event(self, event: dict[str, Any]) -> None:
        if event["event"] != "program":
            return
        self.on_start()
        self.program = event["pid"]
        if event["how"] == "piped":
            self.threads = [threading.Thread(target=self._follow, args=f, daemon=True) for f in self.files]
            for thread in self.threads:
                thread.start()

    def __enter__(self) -> _Echo:
        return self

    def __exit__(self, *error: object) -> None:
        self.over.set()
        for thread in self.threads:
            thread.join()

    def _follow(self, path: Path, target: int) -> None:
        with path.open("rb") as file:
            last = False
            while not last:
                last = self.over.wait(0.05)
                while piece := file.read(1 << 16):
                    os.write(target, piece)
