"""Do something at the end of this process and of its forked children.

Comes in: a function. Goes out: its call at exit. A child that ``multiprocessing`` forked (a DataLoader worker, say)
leaves through ``os._exit`` and never runs ``atexit`` functions, so there it becomes one of that module's finalizers.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable
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
