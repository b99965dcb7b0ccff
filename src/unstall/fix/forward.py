"""Something done around the forward pass of the outermost module, for remedies that need the model itself.

In: torch, and what to do. Out: ``torch.nn.Module.__call__`` wrapped. Loss functions and other modules without
parameters are passed over; modules called inside another one are part of it.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from typing import Any

Around = Callable[[Any, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]


def around(torch: Any, change: Around) -> None:
    """Call ``change(module, call, args, kwargs)`` in place of every outermost module's call."""
    module, inside = torch.nn.Module, threading.local()
    original = module.__call__

    @functools.wraps(original)
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        if getattr(inside, "one", False) or next(self.parameters(), None) is None:
            return original(self, *args, **kwargs)
        inside.one = True
        try:
            return change(self, functools.partial(original, self), args, kwargs)
        finally:
            inside.one = False

    module.__call__ = __call__


def once(torch: Any, prepare: Callable[[Any], None]) -> None:
    """Call ``prepare(module)`` before the first call of every outermost module: the script's own settings are done by
    then, and what is set now stays."""
    seen: weakref.WeakSet[Any] = weakref.WeakSet()

    def change(module: Any, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if module not in seen:
            seen.add(module)
            prepare(module)
        return call(*args, **kwargs)

    around(torch, change)
