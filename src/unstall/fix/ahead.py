"""A ``DataLoader`` whose batches are drawn ahead in a thread: the machinery of the trials ``prefetch`` and
``pin-memory``.

In: torch, and what makes a :class:`Mover`. Out: ``DataLoader`` iterators that draw through
it. Only where a batch comes from is changed (``_next_data``): the loop still draws from torch's own iterator, so what
counts its draws goes on counting.
"""

from __future__ import annotations

import atexit
import functools
import queue
import threading
import weakref
from collections.abc import Callable
from typing import Any, Protocol

DEPTH = 2
ITERATORS = ("_SingleProcessDataLoaderIter", "_MultiProcessingDataLoaderIter")

_drawing: weakref.WeakSet[Drawer] = weakref.WeakSet()


@atexit.register
def _end_all() -> None:
    """A thread that is still inside torch when Python ends takes the process down (std::terminate)."""
    for drawer in list(_drawing):
        drawer.close()


class Drawer:
    """Draws from one iterator in a thread, at most :data:`DEPTH` batches ahead, and stops when that is dropped."""

    def __init__(self, iterator: Any, draw: Callable[[Any], Any], send: Callable[[Any], Any]) -> None:
        self.ready: queue.Queue[Any] = queue.Queue(DEPTH)
        self.stop = threading.Event()
        self.ended: BaseException | None = None
        weakref.finalize(iterator, self.stop.set)
        args = (weakref.ref(iterator), draw, send)
        self.thread = threading.Thread(target=self._run, args=args, name="unstall-ahead", daemon=True)
        _drawing.add(self)
        self.thread.start()

    def _run(self, iterator: Any, draw: Callable[[Any], Any], send: Callable[[Any], Any]) -> None:
        while not self.stop.is_set():
            this = iterator()
            if this is None:
                return
            try:
                item, error = send(draw(this)), None
            except BaseException as raised:
                item, error = None, raised
            del this  # the loop may have dropped it: it must not live on here
            if not self._offer((item, error)) or error is not None:
                return

    def _offer(self, item: Any) -> bool:
        while not self.stop.is_set():
            try:
                self.ready.put(item, timeout=0.05)
            except queue.Full:
                continue
            return True
        return False

    def take(self) -> Any:
        """The next batch as sent; raises what drawing raised, again and again."""
        if self.ended is not None:
            raise self.ended
        item, error = self.ready.get()
        if error is not None:
            self.ended = error
            raise error
        return item

    def close(self) -> None:
        """Stop the thread and wait for it."""
        self.stop.set()
        self.thread.join()


class Mover(Protocol):
    """What happens to a batch: ``send`` in the thread, ``hand_over`` in the loop."""

    def send(self, batch: Any) -> Any: ...
    def hand_over(self, sent: Any) -> Any: ...


def install(torch: Any, make: Callable[[], Mover]) -> None:
    """Let every ``DataLoader`` draw ahead. ``make`` is called in the loop's thread: which GPU is the current one is a
    matter of the thread that asks."""
    module = torch.utils.data.dataloader
    for name in ITERATORS:
        _hook(getattr(module, name), make)


def _hook(cls: Any, make: Callable[[], Mover]) -> None:
    draw, reset = cls._next_data, cls._reset

    @functools.wraps(draw)
    def _next_data(self: Any) -> Any:
        drawer = self.__dict__.get("_unstall_drawer")
        if drawer is None:
            self._unstall_mover = make()
            drawer = self._unstall_drawer = Drawer(self, draw, self._unstall_mover.send)
        return self._unstall_mover.hand_over(drawer.take())

    @functools.wraps(reset)
    def _reset(self: Any, *args: Any, **kwargs: Any) -> Any:
        drawer = self.__dict__.pop("_unstall_drawer", None)
        if drawer is not None:
            drawer.close()
        return reset(self, *args, **kwargs)

    cls._next_data, cls._reset = _next_data, _reset
