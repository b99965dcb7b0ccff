"""The script's own NVTX calls, seen: pip ``nvtx`` of any version, and ``torch.cuda.nvtx``.

Comes in: those modules, once the script imports them. Goes out: every range and mark to a listener. With ``record``
(built-in collector) the listener is all they reach, so they work without any NVTX library, on a CPU build of torch
too; without it the original call is made as well.

Out of sight: ranges written by C and C++ (``emit_nvtx``, NCCL, cuDNN), and pip ``Domain`` objects made by hand.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any, Protocol

from unstall.instrument import sink
from unstall.instrument.gate import Seen
from unstall.instrument.importhook import when_imported


class Listener(Protocol):
    """Hears of ranges by name and domain (empty: the default domain)."""

    def push(self, name: str, domain: str) -> Any: ...
    def pop(self, domain: str) -> Any: ...
    def start(self, name: str, domain: str) -> Any: ...
    def end(self, handle: Any) -> Any: ...
    def mark(self, name: str, domain: str) -> Any: ...


class ToSink:
    """Sends ranges to the sink in use, the built-in collector."""

    def push(self, name: str, domain: str) -> Any:
        return sink.out and sink.out.push(name, domain)  # type: ignore[call-arg]

    def pop(self, domain: str) -> Any:
        return sink.out and sink.out.pop(domain)  # type: ignore[call-arg]

    def start(self, name: str, domain: str) -> Any:
        return sink.out and sink.out.start(name, domain)  # type: ignore[call-arg]

    def end(self, handle: Any) -> Any:
        return sink.out and sink.out.end(handle)

    def mark(self, name: str, domain: str) -> Any:
        return sink.out and sink.out.mark(name, domain)  # type: ignore[call-arg]


class Watch:
    """Only remembers what is open; the profiler hears it from NVTX itself."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen

    def push(self, name: str, domain: str) -> None:
        self._seen.push(name)

    def pop(self, domain: str) -> None:
        self._seen.pop()

    def start(self, name: str, domain: str) -> None:
        self._seen.start(name)

    def end(self, handle: Any) -> None:
        return None

    def mark(self, name: str, domain: str) -> None:
        return None


def install(listener: Listener, *, record: bool) -> None:
    """Send the script's ranges to ``listener``; with ``record`` nowhere else."""
    when_imported("nvtx", functools.partial(_hook_pip, listener, record))
    when_imported("torch.cuda.nvtx", functools.partial(_hook_torch, listener, record))


def _swap(owner: Any, name: str, record: bool, tell: Callable[..., Any]) -> None:
    """Replace ``owner.name``: tell, and unless recording call the original, whose answer then counts."""
    original = getattr(owner, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        answer = tell(*args, **kwargs)
        return answer if record else original(*args, **kwargs)

    setattr(owner, name, call)


def _hook_torch(listener: Listener, record: bool, module: ModuleType) -> None:
    def depth(value: Any) -> int:
        return value if isinstance(value, int) else 0

    _swap(module, "range_push", record, lambda msg: depth(listener.push(str(msg), "")))
    _swap(module, "range_pop", record, lambda: depth(listener.pop("")))
    _swap(module, "range_start", record, lambda msg: depth(listener.start(str(msg), "")))
    _swap(module, "range_end", record, listener.end)
    _swap(module, "mark", record, lambda msg: listener.mark(str(msg), ""))


def _hook_pip(listener: Listener, record: bool, module: ModuleType) -> None:
    def text(message: Any = None, color: Any = None, domain: Any = None, *_: Any, **__: Any) -> tuple[str, str]:
        return _text(message), _text(domain)

    def domain_of(domain: Any = None) -> str:
        return _text(domain)

    owners = [module, getattr(module, "nvtx", None)]
    for owner in (o for o in owners if o is not None):
        _swap(owner, "push_range", record, lambda *a, **k: listener.push(*text(*a, **k)))
        _swap(owner, "pop_range", record, lambda *a, **k: listener.pop(domain_of(*a, **k)))
        _swap(owner, "start_range", record, lambda *a, **k: listener.start(*text(*a, **k)))
        _swap(owner, "end_range", record, lambda range_id, *a, **k: listener.end(range_id))
        _swap(owner, "mark", record, lambda *a, **k: listener.mark(*text(*a, **k)))
    _hook_annotate(listener, record, module.annotate)
    if record:
        module.get_domain = _domains(listener, module.get_domain)  # type: ignore[attr-defined]


def _hook_annotate(listener: Listener, record: bool, cls: Any) -> None:
    """The class stays the same object: scripts hold it as ``from nvtx import annotate``."""
    init, enter, leave, decorate = cls.__init__, cls.__enter__, cls.__exit__, cls.__call__

    def __init__(self: Any, message: Any = None, color: Any = None, domain: Any = None, *a: Any, **k: Any) -> None:  # noqa: N807
        init(self, message, color, domain, *a, **k)
        self._unstall = (_text(message), _text(domain))

    def __enter__(self: Any) -> Any:  # noqa: N807
        listener.push(*self._unstall)
        return self if record else enter(self)

    def __exit__(self: Any, *error: Any) -> Any:  # noqa: N807
        listener.pop(self._unstall[1])
        return False if record else leave(self, *error)

    def __call__(self: Any, function: Any) -> Any:  # noqa: N807
        name, domain = self._unstall[0] or function.__name__, self._unstall[1]
        inner = function if record else decorate(self, function)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            listener.push(name, domain)
            try:
                return inner(*args, **kwargs)
            finally:
                listener.pop(domain)

        return call

    cls.__init__, cls.__enter__, cls.__exit__, cls.__call__ = __init__, __enter__, __exit__, __call__


class _Attributes:
    """What ``Domain.get_event_attributes`` returns, as far as a range needs it."""

    def __init__(self, message: Any = None, color: Any = None, category: Any = None, payload: Any = None) -> None:
        self.message, self.color, self.category, self.payload = message, color, category, payload


class _Domain:
    """A pip nvtx domain whose ranges reach the listener; anything else it is asked for is the real one's."""

    def __init__(self, listener: Listener, name: str, real: Any) -> None:
        self._listener, self._name, self._real = listener, name, real
        self.get_event_attributes = _Attributes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def get_registered_string(self, text: str) -> str:
        return text

    def push_range(self, attributes: Any = None) -> Any:
        return self._listener.push(_text(getattr(attributes, "message", "")), self._name)

    def pop_range(self) -> Any:
        return self._listener.pop(self._name)

    def start_range(self, attributes: Any = None) -> Any:
        return self._listener.start(_text(getattr(attributes, "message", "")), self._name)

    def end_range(self, range_id: Any) -> Any:
        return self._listener.end(range_id)

    def mark(self, attributes: Any = None) -> Any:
        return self._listener.mark(_text(getattr(attributes, "message", "")), self._name)


def _domains(listener: Listener, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.cache
    def get_domain(name: Any = None) -> _Domain:
        return _Domain(listener, _text(name), original(name))

    return get_domain


def _text(value: Any) -> str:
    return "" if value is None else str(getattr(value, "string", value))
