"""``unstall.prefetch``: the lab's one-line fix as a library.

    for x, y in unstall.prefetch(loader, device="cuda"):
        ...

In: any iterable of batches (nested structures of tensors). Out: the same batches in the same order, ready on the
device.
A background thread draws the next batches while the GPU works, pins them, and copies them on a side stream; the
consumer's stream waits for exactly that copy. A map-style data set (``__getitem__`` and ``__len__``) may be drawn
from by
several threads or processes at once; order is kept. Back-pressure is a bounded queue; an exception of the producer is
raised where its batch would have come; leaving the loop early stops the producer and leaves nothing running.

Without CUDA the copies fall away and drawing ahead remains. When decoding images on the CPU is what takes the time,
NVIDIA DALI moves that to the GPU and is the right next step.

Stream safety follows the CUDA semantics notes of PyTorch: a tensor made on a side stream is recorded on the consumer's
stream (``record_stream``), so its memory is not reused while that stream still reads it.
"""

from __future__ import annotations

import atexit
import itertools
import multiprocessing
import queue
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

from unstall.errors import UsageError
from unstall.fix import moving

__all__ = ["prefetch"]

_DONE = object()
ENDING_SECONDS = 10.0
"""How long the end of the script waits for a producer that is in the middle of a batch."""


def prefetch(
    iterable: Iterable[Any], *, device: Any = "cuda", depth: int = 2, workers: int = 0, processes: bool = False
) -> Iterator[Any]:
    """Draws from ``iterable`` ahead of time and hands out batches that are ready on ``device``.

    Args:
        iterable: batches of any nesting; a ``DataLoader`` too (its own workers keep working).
        device: where the batches go; without CUDA they stay where they are.
        depth: how many batches may wait, 1 or more. Each costs its size in device memory.
        workers: with a map-style data set, how many items are made at once; 0 iterates.
        processes: make them in processes rather than threads (for Python work that holds the GIL).

    Yields:
        Batches in the order of ``iterable``.

    Raises:
        UsageError: ``depth`` or ``workers`` make no sense, or ``workers`` needs a map-style data set.
        Whatever ``iterable`` raises, at the position where its batch would have come.
    """
    if depth < 1:
        raise UsageError(f"depth={depth}", "at least one batch must be able to wait", "Leave depth out for 2")
    if workers and not (hasattr(iterable, "__getitem__") and hasattr(iterable, "__len__")):
        raise UsageError(
            f"workers={workers}",
            "only a data set with __getitem__ and __len__ can be drawn from in parallel",
            "Leave workers out, or pass the data set instead of an iterator.",
        )
    return _consume(iterable, _Mover.best(device), depth, workers, processes)


def _consume(iterable: Iterable[Any], mover: _Mover, depth: int, workers: int, processes: bool) -> Iterator[Any]:
    ready: queue.Queue[Any] = queue.Queue(depth)
    stop = threading.Event()
    source = _parallel(iterable, workers, depth, processes) if workers else None
    args = (iterable if source is None else source, mover, ready, stop)
    thread = threading.Thread(target=_produce, args=args, name="unstall-prefetch", daemon=True)
    thread.start()
    _running[thread] = stop
    try:
        while (item := ready.get()) is not _DONE:
            if isinstance(item, _Failure):
                raise item.error
            yield mover.hand_over(item)
    finally:
        stop.set()
        while thread.is_alive():
            _drain(ready)
            thread.join(0.01)
        _running.pop(thread, None)


_running: dict[threading.Thread, threading.Event] = {}
"""Producers at work: a thread that is still inside torch when Python ends would abort the process."""


@atexit.register
def _end_all() -> None:
    """Stops producers whose iterator is still alive when the script ends."""
    for thread, stop in list(_running.items()):
        stop.set()
        thread.join(ENDING_SECONDS)


class _Failure:
    """An exception on its way to the consumer."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def _produce(iterable: Iterable[Any], mover: _Mover, ready: queue.Queue[Any], stop: threading.Event) -> None:
    """Draws until the end, an error, or a stop; always says that it has ended."""
    source, last = None, _DONE
    try:
        source = iter(iterable)
        for item in source:
            if stop.is_set() or not _offer(ready, mover.send(item), stop):
                break
    except BaseException as error:
        last = _Failure(error)
    finally:
        close = getattr(source, "close", None)
        if close is not None:
            close()
    if _offer(ready, last, stop) and last is not _DONE:
        _offer(ready, _DONE, stop)


def _offer(ready: queue.Queue[Any], item: Any, stop: threading.Event) -> bool:
    """Puts one item, waiting for room; gives up when the consumer has left."""
    while not stop.is_set():
        try:
            ready.put(item, timeout=0.05)
        except queue.Full:
            continue
        return True
    return False


def _drain(ready: queue.Queue[Any]) -> None:
    try:
        while True:
            ready.get_nowait()
    except queue.Empty:
        pass


def _parallel(dataset: Any, workers: int, depth: int, processes: bool) -> Iterator[Any]:
    """Items made by a pool, in order, never more than ``workers + depth`` ahead."""
    pool = _pool(workers, processes)
    pending: list[Future[Any]] = []
    try:
        indices = iter(range(len(dataset)))
        for index in itertools.islice(indices, workers + depth):
            pending.append(pool.submit(_item, dataset, index))
        while pending:
            yield pending.pop(0).result()
            for index in itertools.islice(indices, 1):
                pending.append(pool.submit(_item, dataset, index))
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _pool(workers: int, processes: bool) -> Executor:
    """Processes are spawned: a fork of a process that uses CUDA or threads is not safe."""
    if processes:
        return ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"))
    return ThreadPoolExecutor(workers, "unstall-load")


def _item(dataset: Any, index: int) -> Any:
    return dataset[index]


class _Mover:
    """Moves nothing: the batches stay where they are (no CUDA)."""

    @staticmethod
    def best(device: Any) -> _Mover:
        """A mover to ``device``; one that leaves batches alone where torch or CUDA is missing."""
        try:
            import torch
        except ImportError:
            return _Mover()
        wanted = torch.device(device)
        if wanted.type == "cuda":
            return _CudaMover(torch, wanted) if torch.cuda.is_available() else _Mover()
        return _PlainMover(wanted)

    def send(self, batch: Any) -> Any:
        """In the producer's thread."""
        return batch

    def hand_over(self, sent: Any) -> Any:
        """In the consumer's thread."""
        return sent


class _PlainMover(_Mover):
    """``.to(device)`` for devices without streams."""

    def __init__(self, device: Any) -> None:
        self.device = device

    def send(self, batch: Any) -> Any:
        return moving.apply(batch, lambda t: t.to(self.device))


class _CudaMover(_Mover):
    """Pin, copy on a side stream, and let the consumer's stream wait for that copy alone."""

    def __init__(self, torch: Any, device: Any) -> None:
        self.torch, self.device = torch, device
        self.stream = torch.cuda.Stream(device)

    def send(self, batch: Any) -> Any:
        pinned = moving.apply(batch, self._pin)
        with self.torch.cuda.stream(self.stream):
            moved = moving.apply(pinned, lambda t: t.to(self.device, non_blocking=True))
            copied = self.torch.cuda.Event()
            copied.record(self.stream)
        return moved, copied, pinned  # the pinned source lives until its copy has been handed over

    def _pin(self, leaf: Any) -> Any:
        if moving.is_tensor(leaf) and leaf.device.type == "cpu" and not leaf.is_pinned():
            return leaf.pin_memory(self.device) if leaf.numel() else leaf
        return leaf

    def hand_over(self, sent: Any) -> Any:
        moved, copied, _ = sent
        current = self.torch.cuda.current_stream(self.device)
        current.wait_event(copied)
        for tensor in moving.tensors(moved):
            if tensor.device.type == "cuda":
                tensor.record_stream(current)
        return moved
