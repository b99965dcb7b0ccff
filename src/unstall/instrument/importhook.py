"""Do something when the user's program imports a module, without importing it ourselves.

Comes in: a module's name and a function. Goes out: a call of that function once the module's own code has run (at
once, if it has run already). The module, its loader and its spec stay what they are: only the loader's ``exec_module``
is shadowed, for the one call. An error in the function becomes one line on stderr; the program goes on.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Callback = Callable[[ModuleType], None]

_waiting: dict[str, list[Callback]] = {}
_searching = threading.local()
_told: set[str] = set()


class _Watcher(MetaPathFinder):
    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in _waiting or getattr(_searching, "name", None) == name:
            return None
        _searching.name = name
        try:
            spec = _find(name, path, target)
        finally:
            _searching.name = None
        if spec is not None and spec.loader is not None:
            _shadow(spec.loader, name)
        return spec


def _find(name: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        spec = find(name, path, target) if find and finder is not _watcher else None
        if spec is not None:
            return spec  # type: ignore[no-any-return]
    return None


def _shadow(loader: Any, name: str) -> None:
    original = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        original(module)
        loader.__dict__.pop("exec_module", None)
        for callback in _waiting.pop(name, []):
            guarded(callback, module)

    try:
        loader.exec_module = exec_module
    except AttributeError:  # a loader with slots: the module stays uninstrumented
        _waiting.pop(name, None)


_watcher = _Watcher()


def when_imported(name: str, callback: Callback) -> None:
    """Call ``callback(module)`` as soon as ``name`` is imported, or now if it is."""
    module = sys.modules.get(name)
    if module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False):
        guarded(callback, module)
        return
    if _watcher not in sys.meta_path:
        sys.meta_path.insert(0, _watcher)
    _waiting.setdefault(name, []).append(callback)


@contextmanager
def for_now() -> Iterator[None]:
    """What is asked for inside the block and has not come about by its end is forgotten."""
    before = {name: list(callbacks) for name, callbacks in _waiting.items()}
    try:
        yield
    finally:
        for name, callbacks in list(_waiting.items()):
            kept = [c for c in callbacks if c in before.get(name, [])]
            if kept:
                _waiting[name] = kept
            else:
                del _waiting[name]


def guarded(function: Callable[..., Any], *args: Any) -> None:
    """Call it; an error costs one line on stderr (one a function, however often), never the user's program."""
    try:
        function(*args)
    except Exception as error:
        told(function, error)


def told(function: Callable[..., Any], error: Exception) -> None:
    """Tell of an error in our own code, once a function."""
    where = getattr(function, "__qualname__", str(function))
    if where not in _told:
        _told.add(where)
        sys.stderr.write(f"unstall: {where}: {type(error).__name__}: {error}. The program goes on without it.\n")
