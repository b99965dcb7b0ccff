"""Step times and losses as a file: written by the program, read by ``run`` and ``try``.

Comes in: the samples of a :class:`~unstall.instrument.steps.StepClock`. Goes out: one JSON file a process that took
steps, complete or absent, and :class:`StepLog` when read back.

``samples_ns`` are host times from the start of a step to the start of the next, before the captured window (of the
whole run where there is none). The host may run ahead of the GPU, so the device was waited for at two borders or more:
``synced_count`` steps took ``synced_total_ns`` in all. :meth:`StepLog.step_ns` puts the two together.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from unstall.pace import pace

VERSION = 1


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
        synced_total_ns, synced_count: wall time and number of the steps between borders where the GPU was waited for.
        synced_host_ns: host time of the same steps: less than the total where the host ran ahead.
        running: whether a step had begun at the end that no sample is of.
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
    synced_total_ns: int = 0
    synced_count: int = 0
    synced_host_ns: int = 0
    running: bool = False
    window: list[int] | None = None
    opened: bool = False
    closed: bool = False
    losses: list[list[float]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def step_ns(self) -> int | None:
        """What a step takes: the level of host times after warm-up, plus what the GPU lagged behind; ``None`` when
        unknown."""
        steady = self.samples_ns[self.warmup :]
        if not steady:
            return None
        lag = (self.synced_total_ns - self.synced_host_ns) / self.synced_count if self.synced_count else 0.0
        return round(pace(steady) + max(0.0, lag))

    def unprofiled_ns(self) -> int | None:
        """:meth:`step_ns` where no profiler was recording, else ``None``."""
        return None if self.profiled else self.step_ns()


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
