"""What a run left, and what is known of it while it goes on.

Comes in: nothing. Goes out: :class:`Capture`, which everybody outside sees, and :class:`Run`, which the steps of a run
hand on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from unstall.collect.interrupts import Interrupts
from unstall.collect.machine import Machine
from unstall.collect.notes import Note, Say
from unstall.collect.options import CollectOptions
from unstall.collect.output import Place
from unstall.collect.ranks import Rank
from unstall.instrument.options import STEP_LOG_NAME
from unstall.instrument.steplog import StepLog


@dataclass(frozen=True)
class Capture:
    """What a run left.

    Attributes:
        exit_code: the program's own, shell style (128 + signal); that of :class:`CollectionFailed` where it is lost.
        exit_code_lost: nsys had been told it, and hung before it told anybody.
        directory: the folder of the capture; ``None`` when nothing could be captured.
        sqlite: the export in it; ``None`` when there is only a report that could not be exported.
        report: the ``.nsys-rep`` in it, where it was kept.
        collector: ``nsys`` or ``builtin``; ``version`` of it.
        notes: everything the user must know.
        unprofiled_ns: step time without the profiler; ``unprofiled_source`` says where from.
        seconds: wall time of the program and the profiler.
        size_bytes: of all files in the folder.
        signals: that reached us meanwhile, by name.
        rank: number of this process in a job of many.
        ranks: numbers of the processes in it, where a launcher ran inside and started several.
    """

    exit_code: int
    directory: Path | None = None
    sqlite: Path | None = None
    report: Path | None = None
    collector: str = "nsys"
    version: str = ""
    notes: tuple[Note, ...] = ()
    unprofiled_ns: int | None = None
    unprofiled_source: str = ""
    seconds: float = 0.0
    size_bytes: int = 0
    signals: tuple[str, ...] = ()
    rank: int | None = None
    ranks: tuple[int, ...] = ()
    exit_code_lost: bool = False


@dataclass
class Run:
    """One run under way."""

    command: list[str]
    environ: Mapping[str, str]
    options: CollectOptions
    place: Place
    rank: Rank | None
    say: Say
    interrupts: Interrupts
    machine: Machine = field(default_factory=Machine)
    notes: list[Note] = field(default_factory=list)
    calibrated: list[StepLog] = field(default_factory=list)
    ranks: dict[int, tuple[str, int]] = field(default_factory=dict)  # names, ranks where the program is several ranks
    program: dict[int, str] = field(default_factory=dict)  # its process

    @property
    def folder(self) -> Path:
        return self.place.partial

    @property
    def steps(self) -> str:
        """Where the program leaves its step log."""
        return str(self.folder / "steps" / STEP_LOG_NAME)

    def tell(self, *notes: Note) -> None:
        """Keep notes and show them."""
        for note in notes:
            self.notes.append(note)
            self.say(note.text)
