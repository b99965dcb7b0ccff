"""``unstall.annotate("name")``: a range around a block, a function, a coroutine or a generator.

Comes in: a name. Goes out: an NVTX range where a profiler listens (see :mod:`unstall.instrument.sink`), and otherwise
nothing: one global looked up on entry, one on exit. The object is shared by all users of one name and holds no state,
so it may be entered again while it is open, and from any thread or task.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextvars import ContextVar
from typing import Any, TypeVar, overload

from unstall.instrument import sink

F = TypeVar("F", bound=Callable[..., Any])

KEEP = 4096  # names kept ready; a loop that makes up names without end must not fill memory
_ready: dict[str, Range] = {}
_open: ContextVar[tuple[Any, ...]] = ContextVar("unstall_open_ranges", default=())


class Range:
    """A named range: ``with``, ``async with`` and ``@``.

    ``with`` is a push/pop range: what opens inside is nested in it. ``async with`` and decorated coroutines are
    start/end ranges, because other tasks run on the same thread while they wait. A decorated generator has a push/pop
    range for each of its turns, not for the time it lies still.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> Range:
        if sink.out is not None:
            sink.out.push(self.name)
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:  # named: *error would make a tuple
        if sink.out is not None:
            sink.out.pop()

    async def __aenter__(self) -> Range:
        _open.set((*_open.get(), sink.out.start(self.name) if sink.out is not None else None))
        return self

    async def __aexit__(self, *error: object) -> None:
        *rest, handle = _open.get()
        _open.set(tuple(rest))
        if sink.out is not None and handle is not None:
            sink.out.end(handle)

    def __call__(self, function: F) -> F:
        """Decorate a function, coroutine function, generator function or asynchronous generator function."""
        kind = next(make for is_kind, make in _KINDS if is_kind(function))
        return functools.wraps(function)(kind(self, function))  # type: ignore[return-value]


def _plain(range_: Range, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if sink.out is None:
            return function(*args, **kwargs)
        with range_:
            return function(*args, **kwargs)

    return call


def _coroutine(range_: Range, function: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
    async def call(*args: Any, **kwargs: Any) -> Any:
        async with range_:
            return await function(*args, **kwargs)

    return call


def _generator(range_: Range, function: Callable[..., Generator[Any, Any, Any]]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        inner = function(*args, **kwargs)
        turn: Callable[[], Any] = functools.partial(next, inner)
        try:
            while True:
                with range_:
                    try:
                        item = turn()
                    except StopIteration as stop:
                        return stop.value
                turn = _turn((yield from _pass(item)), inner)
        finally:
            inner.close()

    return call


def _pass(item: Any) -> Generator[Any, Any, tuple[str, Any]]:
    """Yield once; what came back, ``send`` or ``throw``, as a value (a closed generator just ends)."""
    try:
        return "send", (yield item)
    except GeneratorExit:
        raise
    except BaseException as error:
        return "throw", error


def _turn(answer: tuple[str, Any], inner: Any) -> Callable[[], Any]:
    verb, value = answer
    return functools.partial(getattr(inner, verb), value)


def _async_generator(range_: Range, function: Callable[..., AsyncGenerator[Any, Any]]) -> Callable[..., Any]:
    async def call(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        inner = function(*args, **kwargs)
        turn: Callable[[], Any] = functools.partial(inner.asend, None)
        try:
            while True:
                try:
                    async with range_:
                        item = await turn()
                except StopAsyncIteration:
                    return
                try:
                    turn = functools.partial(inner.asend, (yield item))
                except GeneratorExit:
                    raise
                except BaseException as error:
                    turn = functools.partial(inner.athrow, error)
        finally:
            await inner.aclose()

    return call


_KINDS: tuple[tuple[Callable[[Any], bool], Callable[[Range, Any], Callable[..., Any]]], ...] = (
    (inspect.iscoroutinefunction, _coroutine),
    (inspect.isasyncgenfunction, _async_generator),
    (inspect.isgeneratorfunction, _generator),
    (callable, _plain),
)


@overload
def annotate(name: str) -> Range: ...
@overload
def annotate(name: F) -> F: ...


def annotate(name: Any) -> Any:
    """A range called ``name``; as a bare ``@annotate`` it takes the function's own name.

    Costs under 200 ns for a whole range when no profiler listens (``benchmarks/annotate.py`` measures it).
    """
    try:
        return _ready[name]
    except KeyError:
        return _new(name)


def _new(name: Any) -> Any:
    if callable(name):
        return Range(name.__qualname__)(name)
    made = Range(str(name))
    if len(_ready) < KEEP:
        _ready[made.name] = made
    return made
