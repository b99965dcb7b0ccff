"""Do something at the end of this process and of its forked children.

Comes in: a function. Goes out: its call at exit, or before SIGTERM kills the process. A child that ``multiprocessing``
forked (a DataLoader worker, say) leaves through ``os._exit`` and never runs ``atexit`` functions, so there it becomes
one of that module's finalizers.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

from unstall.instrument.importhook import guarded, when_imported


def at_end(function: Callable[[], Any]) -> None:
    """Call ``function()`` once this process ends in any orderly way, and likewise in children forked from it."""
    atexit.register(guarded, function)

    def in_forked_child(util: ModuleType) -> None:
        util.register_after_fork(
            function,
            lambda function: util.Finalize(None, guarded, (function,), exitpriority=1),
        )

    when_imported("multiprocessing.util", in_forked_child)


_before_death: list[Callable[[], Any]] = []


def on_sigterm(function: Callable[[], Any]) -> None:
    """Call ``function()`` when SIGTERM comes, before the process dies of it as it would have: Python runs no exit
    functions then. A program that handles SIGTERM itself is left alone."""
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        _mind_forks()
        signal.signal(signal.SIGTERM, _die)
    if function not in _before_death:
        _before_death.append(function)


def not_on_sigterm(function: Callable[[], Any]) -> None:
    """``function`` has been called, or there is nothing left for it to do."""
    if function in _before_death:
        _before_death.remove(function)


def _die(number: int, frame: Any) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it may come twice, to everybody and to us
    for function in list(_before_death):
        guarded(function)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)


@cache
def _mind_forks() -> None:
    """A forked worker must die at once when its parent says so, even in the middle of being forked: Python forgets
    what a new child was sent before it has come to itself."""

    def before() -> None:
        if signal.getsignal(signal.SIGTERM) is _die:
            masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]))

    def after() -> None:
        if masks:
            signal.pthread_sigmask(signal.SIG_SETMASK, masks.pop())

    def in_child() -> None:
        if signal.getsignal(signal.SIGTERM) is _die and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        after()

    masks: list[set[signal.Signals | int]] = []
    os.register_at_fork(before=before, after_in_parent=after, after_in_child=in_child)
