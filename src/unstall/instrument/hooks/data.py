"""Draws from a ``DataLoader``: the phase ``data_load``, and what the step finder learns from it.

Comes in: ``torch.utils.data``. Goes out: a draw is seen in the iterator's ``__next__``, whatever stands between it and
the loop (``enumerate``, ``tqdm``, a framework's own loop), and the making of the iterator in ``DataLoader.__iter__``.
"""

from __future__ import annotations

import functools
import weakref
from _thread import get_ident
from contextlib import suppress
from typing import Any

from unstall.instrument.hooks.saving import phase
from unstall.instrument.importhook import guarded, told
from unstall.instrument.phases import Phases, put_aside

UNKNOWN = 1 << 62  # draws: data without a length


def hook(torch: Any, phases: Phases, name: str) -> None:
    """Hook draws and the making of iterators."""
    dataloader = torch.utils.data.dataloader
    _hook_next(dataloader._BaseDataLoaderIter, phases, name)
    make = phase(name, dataloader.DataLoader.__iter__, phases)
    sources: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    @functools.wraps(make)
    def __iter__(self: Any) -> Any:  # noqa: N807
        iterator = make(self)
        if phases.finder is not None:
            guarded(_label, iterator, sources.setdefault(self, len(sources)), phases.finder.released)
        return iterator

    dataloader.DataLoader.__iter__ = __iter__


def _label(iterator: Any, source: int, released: Any) -> None:
    """Which loader it draws from, and how often it can, so that the draw which finds nothing is known before."""
    iterator._unstall_source = source
    with suppress(TypeError, NotImplementedError):  # data without a length
        iterator._unstall_length = len(iterator)
    weakref.finalize(iterator, guarded, released, source).atexit = False


def _hook_next(cls: Any, phases: Phases, name: str) -> None:
    original, inside, gate, finder = cls.__next__, phases.inside, phases.gate, phases.finder

    @functools.wraps(original)
    def __next__(self: Any) -> Any:  # noqa: N807
        me = get_ident()
        if me in inside and not phases.end_stepping(me):
            return original(self)
        source = -1
        if finder is not None:
            try:
                known = self.__dict__
                source = known.get("_unstall_source", -1)
                if self._num_yielded >= known.get("_unstall_length", UNKNOWN):
                    finder.at_end()
                else:
                    finder.drawing(source)
            except Exception as error:
                told(finder.drawing, error)
        inside.add(me)
        close = phases.open(me, name) if gate.writes else None
        try:
            return original(self)
        except StopIteration:
            if finder is not None:
                guarded(finder.exhausted, source)
            raise
        finally:
            if close is not None:
                close()
            inside.discard(me)

    cls.__next__ = __next__
    phases.watches.append(put_aside(cls, "__next__", original))
