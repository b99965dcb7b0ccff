"""The ranges that ``--auto`` writes: on, or off outside the captured window.

Comes in: phases and steps. Goes out: calls of the sink in use, or of a function that does nothing. Also remembers
which ranges the script itself holds open, so that ``--auto`` does not write a second ``forward`` inside its own.
"""

from __future__ import annotations

import re
from _thread import get_ident
from collections.abc import Callable
from typing import Any

from unstall.instrument import sink

STEP_NAME = re.compile(r"(?i)(train|training)?[ _/:.-]*(step|iter|iteration|batch)[ _:#/-]*\d+")


def _nothing(*_: Any) -> None:
    return None


class Gate:
    """``push``, ``pop``, ``start``, ``end``: the sink's while open, else nothing. ``writes``: whether they do."""

    __slots__ = ("_sink", "_waiting", "end", "is_open", "pop", "push", "start", "writes")

    def __init__(self) -> None:
        self._sink: sink.Sink | None = None
        self._waiting: list[Callable[[], object]] = []
        self.is_open = False
        self.switch(False)

    def when_writing(self, function: Callable[[], object]) -> None:
        """Call it once, as soon as ranges are written."""
        self._waiting.append(function)
        self.switch(self.is_open)

    def connect(self, target: sink.Sink | None) -> None:
        """Write to ``target`` from now on."""
        self._sink = target
        self.switch(self.is_open)

    def switch(self, on: bool) -> None:
        """Open or shut."""
        self.is_open = on
        target = self._sink if on else None
        self.writes = target is not None
        self.push: Callable[[str], Any] = target.push if target else _nothing
        self.pop: Callable[[], Any] = target.pop if target else _nothing
        self.start: Callable[[str], Any] = target.start if target else _nothing
        self.end: Callable[[Any], Any] = target.end if target else _nothing
        while self.writes and self._waiting:
            self._waiting.pop()()


class Seen:
    """The script's own ranges: which are open on each thread, and whether any of them numbers steps."""

    def __init__(self) -> None:
        self.open: dict[int, list[str]] = {}
        self.steps = False

    def push(self, name: str) -> None:
        """The script opened a range on this thread."""
        self.open.setdefault(get_ident(), []).append(name)
        if name[-1:].isdigit() and not self.steps:
            self.steps = STEP_NAME.fullmatch(name) is not None

    def pop(self) -> None:
        """The script closed its innermost range on this thread."""
        names = self.open.get(get_ident())
        if names:
            names.pop()

    def start(self, name: str) -> None:
        """The script started a range that may cross threads; only its name matters."""
        if name[-1:].isdigit() and not self.steps:
            self.steps = STEP_NAME.fullmatch(name) is not None

    def holds(self, thread: int, name: str) -> bool:
        """Whether the script holds a range of this name open on this thread."""
        names = self.open.get(thread)
        return bool(names) and name in names  # type: ignore[operator]


class Observed:
    """A sink that tells :class:`Seen` what the script writes to it (``unstall.annotate``, ``unstall.step``)."""

    def __init__(self, inner: Any, seen: Seen) -> None:
        self.inner, self._seen = inner, seen
        self.end, self.mark = inner.end, inner.mark

    def push(self, name: str, *domain: str) -> Any:
        self._seen.push(name)
        return self.inner.push(name, *domain)

    def pop(self, *domain: str) -> Any:
        self._seen.pop()
        return self.inner.pop(*domain)

    def start(self, name: str, *domain: str) -> Any:
        self._seen.start(name)
        return self.inner.start(name, *domain)
