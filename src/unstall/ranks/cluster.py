"""Workers of an existing Dask cluster.

In: names of files that the cluster's workers can open (a shared file system, or addresses), and the scheduler's
address. Out: summaries as they come. A worker that is lost costs nothing but time: the scheduler gives its files to
others, three times at most; then the file comes back with an error. ``unstall`` must be installed where they run.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

from unstall.errors import UsageError
from unstall.ranks.places import INSTALL
from unstall.ranks.summary import FileSummary, decode

CONNECT_SECONDS = 15
AHEAD = 4  # files a thread of the cluster given out at once: more would only fill the scheduler's books


def read(files: Sequence[str], scheduler: str, *, patience: float, **asked: Any) -> Iterator[FileSummary]:
    """Summaries of all files.

    Raises:
        UsageError: distributed is not installed, or nothing answers at that address.
    """
    distributed = _distributed()
    try:
        asyncio.run(_probe(distributed, scheduler))
        client = distributed.Client(scheduler, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        why = f"no Dask scheduler answers there ({' '.join(str(error).split())[:120]})"
        raise UsageError(
            f"--scheduler {scheduler}", why, "Start one with dask scheduler, and workers for it"
        ) from error
    with contextlib.closing(client):
        yield from _Job(distributed, client, patience, asked).read(files)


async def _probe(distributed: Any, scheduler: str) -> None:
    """Connect and go: a client that never came to be would stay around and complain at the end of the program."""
    comm = await distributed.comm.connect(scheduler, timeout=CONNECT_SECONDS)
    await comm.close()


class _Job:
    """Files given out, a bounded number at a time; each has ``patience`` from the moment when it may begin."""

    def __init__(self, distributed: Any, client: Any, patience: float, asked: dict[str, Any]) -> None:
        self._distributed, self._client = distributed, client
        self._patience, self._asked = patience, asked
        self._open: dict[Any, str] = {}
        self._progress = time.monotonic()

    def read(self, files: Sequence[str]) -> Iterator[FileSummary]:
        left = list(reversed(files))
        completed = self._distributed.as_completed(loop=self._client.loop)
        while left or self._open:
            for name in [left.pop() for _ in range(min(len(left), self._room()))]:
                future = self._submit(name)
                self._open[future] = name
                completed.add(future)
            yield from self._finished(completed)
            if time.monotonic() - self._progress > self._patience:
                yield from self._given_up()
                completed = self._distributed.as_completed(loop=self._client.loop)

    def _room(self) -> int:
        threads = sum(self._client.nthreads().values())
        return max(1, AHEAD * int(threads)) - len(self._open)

    def _submit(self, name: str) -> Any:
        from unstall.ranks.worker import answer

        return self._client.submit(answer, {"file": name, **self._asked}, pure=False, key=f"unstall-{time.time_ns()}")

    def _finished(self, completed: Any) -> Iterator[FileSummary]:
        """What is done by now, after a moment's wait at most."""
        with contextlib.suppress(TimeoutError):
            deadline = time.monotonic() + 0.2
            while not completed.has_ready() and time.monotonic() < deadline:
                time.sleep(0.01)
            for future in completed.next_batch(block=False):
                self._progress = time.monotonic()
                yield self._result(future, self._open.pop(future))
                future.release()

    def _result(self, future: Any, name: str) -> FileSummary:
        if future.status == "finished":
            return decode(future.result())
        error = future.exception()
        why = f"{type(error).__name__}: {' '.join(str(error).split())}"[:200]
        return FileSummary(file=name, error=f"{name}: the cluster could not read it ({why})")

    def _given_up(self) -> Iterator[FileSummary]:
        """The whole cluster has been silent too long: what it holds is lost, what is left gets its chance."""
        for future, name in self._open.items():
            future.cancel(force=True)
            why = f"nothing came from the cluster for {self._patience:g} s: given up; --patience S waits longer"
            yield FileSummary(file=name, error=f"{name}: {why}")
        self._open.clear()
        self._progress = time.monotonic()


def _distributed() -> Any:
    try:
        import distributed
        import distributed.comm
    except ImportError as error:
        raise UsageError("--scheduler", "dask.distributed is not installed", INSTALL) from error
    return distributed
