"""Step times and losses as a file: written by the program, read by ``run`` and ``try``.

Comes in: the samples of a :class:`~unstall.instrument.steps.StepClock`. Goes out: one JSON file a process that took
steps, complete or absent, and :class:`StepLog` when read back.

``samples_ns`` are host times from the start of a step to the start of the next, before the captured window (of the
whole run where there is none). The host may run ahead of the GPU, so the device is waited for at borders: a block is
the steps between two of them, and took longer than its samples by what the GPU was behind at its end.
:meth:`StepLog.steady` puts the two together.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import accumulate
from pathlib import Path

from unstall.pace import pace

VERSION = 3


@dataclass
class StepLog:
    """What one process tells of its steps.

    Attributes:
        rank, pid: who. ``rank`` is ``None`` where no launcher said one.
        source: ``auto`` or ``step`` (the script calls ``unstall.step``).
        profiled: whether a profiler was recording while the samples were taken; then they are not unprofiled times.
        first: number of the step that the first sample is of.
        samples_ns: host times, step start to step start.
        warmup: samples taken before the first border; they hold imports, compilation and library loading.
        blocks: ``[first sample, number of samples, wall time in ns]`` of the steps between two waits for the GPU.
        taken: steps that had begun by the end.
        window: first and end step of the capture; ``opened``, ``closed`` tell whether the run got there.
        losses: ``[step, value]`` pairs.
        gpu: whether there was a GPU to wait for.
        notes: what could not be measured, and why.
    """

    rank: int | None = None
    pid: int = 0
    version: int = VERSION
    source: str = "auto"
    profiled: bool = False
    gpu: bool = False
    first: int = 0
    samples_ns: list[int] = field(default_factory=list)
    warmup: int = 0
    blocks: list[list[int]] = field(default_factory=list)
    taken: int = 0
    window: list[int] | None = None
    opened: bool = False
    closed: bool = False
    losses: list[list[float]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def steady(self) -> list[float]:
        """Step times after warm-up, ns. A step in which the host ran ahead lasts until the GPU has caught up."""
        samples: list[float] = list(self.samples_ns)
        for first, count, total in self.blocks:
            samples[first : first + count] = caught_up(samples[first : first + count], total)
        return samples[self.warmup :]

    def step_ns(self) -> int | None:
        """The level of :meth:`steady`; ``None`` when there is none."""
        steady = self.steady()
        return round(pace(steady)) if steady else None

    def unprofiled_ns(self) -> int | None:
        """:meth:`step_ns` where no profiler was recording, else ``None``."""
        return None if self.profiled else self.step_ns()


def caught_up(samples: Sequence[float], total: float) -> list[float]:
    """Samples of a block that took ``total``: what they lack is poured over the shortest, which rise to one level.

    The launch queue is empty after a wait, so the first steps of a block take the host next to nothing; once it is full
    each takes as long as the GPU. A host that is never ahead lacks nothing, and its own slow steps stay as they are.
    """
    lacks, ordered = total - sum(samples), sorted(samples)
    if lacks <= 0 or not ordered:
        return list(samples)
    sums = accumulate(ordered, initial=lacks)
    levels = (poured / n for n, poured in enumerate(sums) if n and (n == len(ordered) or poured / n <= ordered[n]))
    level = next(levels)
    return [max(sample, level) for sample in samples]


def path_for(template: str, rank: int | None, pid: int) -> Path:
    """``{rank}`` and ``{pid}`` filled in; a path without ``{pid}`` serves a single process."""
    return Path(template.replace("{rank}", "0" if rank is None else str(rank)).replace("{pid}", str(pid)))


def write(log: StepLog, template: str) -> Path:
    """Write the log where the template says, in one piece."""
    path = path_for(template, log.rank, log.pid)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    partial.write_text(json.dumps(asdict(log)))
    partial.replace(path)
    return path


def read(template: str) -> list[StepLog]:
    """All logs that a run left under this template, by rank; unreadable ones are skipped."""
    pattern = "*".join(glob.escape(p) for p in template.replace("{pid}", "\0").replace("{rank}", "\0").split("\0"))
    found = glob.glob(pattern)  # noqa: PTH207 - Path.glob cannot escape what is special in the folder's own name
    logs = [log for path in found if (log := _parse(Path(path))) is not None]
    return sorted(logs, key=lambda log: (log.rank or 0, log.pid))


def main_log(logs: Iterable[StepLog]) -> StepLog | None:
    """The log that speaks for a run: lowest rank, then most steps."""
    return min(logs, key=lambda log: (log.rank or 0, -len(log.samples_ns)), default=None)


def _parse(path: Path) -> StepLog | None:
    try:
        content = json.loads(path.read_text())
        if content.get("version") != VERSION:
            return None
        return StepLog(**{k: v for k, v in content.items() if k in StepLog.__dataclass_fields__})
    except (OSError, ValueError, AttributeError, TypeError):
        return None
