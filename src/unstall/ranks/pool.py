"""Several workers on this machine.

In: names of files. Out: their summaries as they come, in any order; a file whose reader crashed, was killed or took too
long comes back as one with an error, and the worker is replaced. Memory is a worker's own for one capture, whatever the
number of ranks: after :data:`RENEW` files a worker makes room for a fresh one.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

from unstall.ranks.summary import FileSummary, decode
from unstall.ranks.worker import ROOM

RENEW = 32
"""Files after which a worker is replaced, so that nothing that a library keeps can add up. A start costs 0.3 s."""
MEMORY, MEMORY_A_BYTE = 400 << 20, 4
"""What a worker needs: 325 MB for a file of 11 MB, 1.39 to 1.44 GB for one of 523 MB (``benchmarks/ranks.md``), rounded
up."""


def default_workers(files: Sequence[str]) -> int:
    """As many as there are cores, or as fit into half of the free memory, or files."""
    sizes = [Path(f).stat().st_size for f in files if Path(f).is_file()]
    need = MEMORY + MEMORY_A_BYTE * max(sizes, default=0)
    return max(1, min(_cores(), _free_memory() // 2 // need, len(files)))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _free_memory() -> int:
    import psutil

    return int(psutil.virtual_memory().available)  # type: ignore[no-untyped-call]


@dataclass
class _Worker:
    """One process and what it is doing."""

    process: subprocess.Popen[bytes]
    file: str = ""
    deadline: float = 0.0
    done: int = 0
    buffer: bytearray = field(default_factory=bytearray)

    @property
    def out(self) -> BinaryIO:
        return cast("BinaryIO", self.process.stdout)


class Pool:
    """Workers for as long as the ``with`` block lasts; none outlives it."""

    def __init__(self, workers: int, *, patience: float, **asked: Any) -> None:
        self._count, self._patience, self._asked = workers, patience, asked
        self._workers: list[_Worker] = []
        self._selector = selectors.DefaultSelector()
        self._room = tempfile.mkdtemp(prefix="unstall-ranks-")  # what workers fetch and convert

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in list(self._workers):
            self._stop(worker)
        self._selector.close()
        shutil.rmtree(self._room, ignore_errors=True)

    def read(self, files: Sequence[str]) -> Iterator[FileSummary]:
        """Summaries of all files, as they come."""
        left = deque(files)
        while left or any(w.file for w in self._workers):
            self._feed(left)
            for worker in self._ready():
                found = self._take(worker)
                if found is not None:
                    yield found
            yield from self._overdue()

    def _feed(self, left: deque[str]) -> None:
        for worker in [w for w in self._workers if not w.file and (w.done >= RENEW or not left)]:
            self._stop(worker)
        while left:
            free = next((w for w in self._workers if not w.file), None)
            if free is None and len(self._workers) >= self._count:
                return
            self._ask(free or self._start(), left.popleft())

    def _start(self) -> _Worker:
        threads = str(max(1, _cores() // self._count))
        env = {**os.environ, "POLARS_MAX_THREADS": threads, "TMPDIR": self._room, ROOM: self._room}
        process = subprocess.Popen(
            [sys.executable, "-m", "unstall.ranks.worker"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, start_new_session=True, bufsize=0,
        )  # fmt: skip
        worker = _Worker(process)
        os.set_blocking(worker.out.fileno(), False)
        self._selector.register(worker.out, selectors.EVENT_READ, worker)
        self._workers.append(worker)
        return worker

    def _ask(self, worker: _Worker, file: str) -> None:
        worker.file, worker.deadline = file, time.monotonic() + self._patience
        line = json.dumps({"file": file, **self._asked}) + "\n"
        with contextlib.suppress(BrokenPipeError):  # its end is noticed where its answer is awaited
            cast("BinaryIO", worker.process.stdin).write(line.encode("utf-8", "surrogatepass"))

    def _ready(self) -> list[_Worker]:
        busy = [w.deadline for w in self._workers if w.file]
        wait = max(0.0, min(busy) - time.monotonic()) if busy else 0.0
        return [key.data for key, _ in self._selector.select(wait)]

    def _take(self, worker: _Worker) -> FileSummary | None:
        """The answer, once all of it is there; or what became of the worker."""
        data = worker.out.read(1 << 20)
        if data is None:
            return None
        if not data:
            return self._lost(worker)
        worker.buffer += data
        size = int.from_bytes(worker.buffer[:8], "little")
        if len(worker.buffer) < 8 or len(worker.buffer) < 8 + size:
            return None
        found = decode(bytes(worker.buffer[8 : 8 + size]))
        worker.file, worker.done = "", worker.done + 1
        worker.buffer.clear()
        return found

    def _lost(self, worker: _Worker) -> FileSummary | None:
        file, code = worker.file, worker.process.wait()
        self._stop(worker)
        why = f"was killed ({signal.Signals(-code).name})" if code < 0 else f"ended with code {code}"
        hint = "; out of memory? Try fewer --workers" if code == -signal.SIGKILL else ""
        return FileSummary(file=file, error=f"{file}: the process that read it {why}{hint}") if file else None

    def _overdue(self) -> Iterator[FileSummary]:
        for worker in [w for w in self._workers if w.file and time.monotonic() > w.deadline]:
            file = worker.file
            self._stop(worker)
            why = f"not read within {self._patience:g} s, and given up; --patience S waits longer"
            yield FileSummary(file=file, error=f"{file}: {why}")

    def _stop(self, worker: _Worker) -> None:
        """End it with all that it started."""
        self._workers.remove(worker)
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(worker.out)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(worker.process.pid, signal.SIGKILL)
        worker.process.wait()
        for pipe in (worker.process.stdin, worker.process.stdout):
            with contextlib.suppress(OSError):
                cast("BinaryIO", pipe).close()
