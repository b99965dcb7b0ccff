"""What is kept of one rank: small, and of the same size however many rows its capture has.

In: a capture's path. Out: :class:`FileSummary`, a few tens of kilobytes as MessagePack: the steps, the breakdown and
findings of its report, and for a bounded choice of steps their periods, where each went, and the collectives in them.
The choice depends on the step's number alone, so that ranks that never saw each other choose the same steps.
Made in a worker, which forgets everything else; merged by :mod:`unstall.ranks.merge`.
"""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING

import msgspec

from unstall.errors import UnstallError
from unstall.model import BreakdownRow, RankFinding, Warning_
from unstall.ranks.places import plain

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from unstall.model import Analysis, Finding, Report

MOST_RANKS = 64
"""Processes with steps in one file that are taken for ranks; no node has more GPUs."""
MOST_FINDINGS = 8
MOST_WARNINGS = 16
LONGEST_TEXT = 300  # letters of a name or title kept: names of thousands of letters are no identification

RANK_NAMED = re.compile(
    r"(?i)(?<![a-z])(?P<other>(?:local|node|group|lora|low)[ ._-]*)?rank[ ._:=#-]*(?P<rank>\d{1,7})(?!\d)"
)
"""A rank in a process's name; the numbers of other things that are called ranks are not one."""


class Numbers(msgspec.Struct, frozen=True, array_like=True):
    """An array on its way between processes."""

    dtype: str
    data: bytes

    def array(self) -> npt.NDArray[np.int64]:
        """As int64."""
        import numpy as np

        return np.frombuffer(self.data, self.dtype).astype(np.int64)


def packed(values: npt.ArrayLike, dtype: str = "i8") -> Numbers:
    """``values`` as bytes."""
    import numpy as np

    return Numbers(dtype, np.ascontiguousarray(values, dtype).tobytes())


class Phase(msgspec.Struct):
    """A range family of the step's thread: where in each kept step it was, −1 where it was not; ns."""

    name: str
    start: Numbers
    end: Numbers
    total: Numbers


class Meetings(msgspec.Struct):
    """Collectives in kept steps, in order: what each is called across ranks, when it began, how long it took.

    Attributes:
        code: the same number on every rank that takes part (see :mod:`unstall.ranks.collectives`).
        start: ns in the capture's clock.
        duration, exposed: ns; exposed is the part that no compute on the same GPU hides.
        weight: how many collectives each stands for, where a step holds more than are kept.
    """

    code: Numbers
    start: Numbers
    duration: Numbers
    exposed: Numbers
    weight: int = 1


class RankSummary(msgspec.Struct, kw_only=True):
    """One process of one capture."""

    rank: int | None = None  # as the capture says
    called: int | None = None  # rank in the process's name
    program: str = ""  # that name without it
    process: int | None = None
    device: int | None = None
    gpu: str = ""
    source: str = ""
    steps: int = 0
    warmup: int = 0
    median_ns: int | None = None
    operations: float | None = None  # device operations a step
    named: bool = False  # steps have numbers of their own; else they are counted
    breakdown: BreakdownRow | None = None
    findings: list[RankFinding] = []
    keys: Numbers = Numbers("i8", b"")
    starts: Numbers = Numbers("i8", b"")
    periods: Numbers = Numbers("i8", b"")
    categories: dict[str, Numbers] = {}
    phases: list[Phase] = []
    meetings: Meetings | None = None
    meeting_stride: int = 1  # collectives are kept of steps whose number it divides


class FileSummary(msgspec.Struct, kw_only=True):
    """What one file told."""

    file: str
    ranks: list[RankSummary] = []
    error: str = ""
    host: str = ""
    epoch_ns: int | None = None
    producer: str = ""
    version: str = ""
    duration_ns: int | None = None
    warnings: list[Warning_] = []
    seconds: float = 0.0
    peak_bytes: int = 0  # of the process that read it, until then

    def __post_init__(self) -> None:
        """A file's name may be no text, which neither MessagePack nor JSON can hold."""
        self.file, self.error = plain(self.file), plain(self.error)


def encode(summary: FileSummary) -> bytes:
    """As MessagePack."""
    return msgspec.msgpack.encode(summary)


def decode(data: bytes) -> FileSummary:
    """Back again."""
    return msgspec.msgpack.decode(data, type=FileSummary)


def summarise(path: str, name: str, *, step: str | None = None, cache: bool = True) -> FileSummary:
    """The summary of one capture; what is wrong with it is part of the answer, never an exception.

    Args:
        path: the file.
        name: what it is called in the answer (a remote file is read from a copy).
        step: regular expression that names the step ranges.
        cache: use what was read of this file before.
    """
    begun = time.monotonic()
    try:
        found = _summary(path, name, step, cache)
    except UnstallError as error:
        found = FileSummary(file=name, error=str(error).replace(path, name))
    except MemoryError:
        found = FileSummary(file=name, error=f"{name}: too large for the memory of this worker")
    except Exception as error:  # ours to mend, and no reason to lose the other ranks
        found = FileSummary(file=name, error=f"{name}: internal error: {type(error).__name__}: {error}"[:LONGEST_TEXT])
    found.seconds, found.peak_bytes = time.monotonic() - begun, _peak()
    return found


def _summary(path: str, name: str, step: str | None, cache: bool) -> FileSummary:
    from unstall.pipeline import examine

    report, analysis = examine(path, step=step, cache=cache)
    facts = report.profile
    found = FileSummary(
        file=name,
        host=facts.host[:LONGEST_TEXT],
        epoch_ns=analysis.profile.meta.utc_epoch_ns if analysis else None,
        producer=facts.producer,
        version=facts.producer_version,
        duration_ns=facts.duration_ns,
        warnings=[Warning_(code=w.code, text=w.text[:LONGEST_TEXT]) for w in report.warnings[:MOST_WARNINGS]],
    )
    found.ranks = list(_ranks(report, analysis))
    if not found.ranks:
        found.error = f"{name}: {_nothing(report)}"
    return found


def _ranks(report: Report, analysis: Analysis | None) -> list[RankSummary]:
    if analysis is None:
        return [_told(report, i) for i in range(len(report.steps))]
    from unstall.ranks import anatomy

    if not analysis.steps:
        return anatomy.without_steps(analysis, report)
    made = []
    for i, steps in enumerate(analysis.steps[:MOST_RANKS]):
        row = _told(report, i)
        anatomy.fill(row, analysis, steps)
        made.append(row)
    return made


def _told(report: Report, index: int) -> RankSummary:
    """What the report says of one process."""
    steps = report.steps[index]
    shown = next((b for b in report.breakdown if b.process == steps.process), None)
    mine = [f for f in report.findings if f.main and (index == 0 or _has(f, steps.process))]
    program, called = named(report, steps.process)
    return RankSummary(
        rank=report.profile.rank,
        called=called,
        program=program,
        process=steps.process,
        source=steps.source[:LONGEST_TEXT],
        steps=steps.count,
        warmup=steps.warmup,
        median_ns=steps.step_ns,
        operations=steps.kernels_per_step,
        breakdown=shown,
        findings=[
            RankFinding(
                code=f.code, title=f.title[:LONGEST_TEXT], where=f.where, cost_ns_per_step=f.cost_ns_per_step,
                predicted_step_ns=f.predicted_step_ns, confidence=f.confidence,
            )
            for f in mine[:MOST_FINDINGS]
        ],
    )  # fmt: skip


def _has(finding: Finding, process: int | None) -> bool:
    return finding.where.process in (None, process) or process in finding.where.others


def named(report: Report, process: int | None) -> tuple[str, int | None]:
    """What a process is called, and the rank that this says: ``train.py rank 3`` → ``train.py``, 3."""
    name = next((p.name for p in report.profile.processes if p.process == process), "")
    told = [m for m in RANK_NAMED.finditer(name) if not m["other"]]
    if not told:
        return name[:LONGEST_TEXT], None
    return f"{name[: told[-1].start()]}{name[told[-1].end() :]}".strip()[:LONGEST_TEXT], int(told[-1]["rank"])


def _nothing(report: Report) -> str:
    """Why a file that can be read tells nothing of a rank."""
    if not any(report.profile.tables.get(t) for t in ("ranges", "kernels", "api", "osrt")):
        return "the capture holds no events"
    return "neither steps nor collectives in it: name the steps with --step REGEX"


def _peak() -> int:
    """Most memory that this process ever held, bytes."""
    try:
        import resource
    except ImportError:
        return 0
    unit = 1 if os.uname().sysname == "Darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
