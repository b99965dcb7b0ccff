"""What people and machines get to see: every output renders a :class:`~unstall.model.Report`, and none computes.

``terminal`` is what a command prints. Every module here that defines ``OUTPUT`` is a file format of its own: adding one
adds its ``--NAME FILE`` to ``unstall report``, and nothing else needs to be told. Comes in: a report, and for an output
that shows events their timeline, which is all that an output may take. Goes out: text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, BinaryIO

__all__ = ["Output", "outputs"]


@dataclass(frozen=True)
class Output:
    """One file format.

    The module that defines it is imported to build the command line, so what is heavy is imported inside ``render``.

    Attributes:
        name: of the option, without dashes.
        help: one line for ``--help``.
        render: reports → the file's content; called with one report unless ``joins``. With ``events`` it gets a second
            list as long as the first: the timeline of each, ``None`` where the input holds sums only.
        joins: several reports can stand in one file.
        events: it shows a timeline, which is made for such outputs alone.
        stream: instead of ``render``: all tracks of one capture, as they come → a file, as it grows.
    """

    name: str
    help: str
    render: Callable[..., str | bytes] | None = None
    joins: bool = False
    events: bool = False
    stream: Callable[[Iterable[Any], BinaryIO], None] | None = None


@cache
def outputs() -> tuple[Output, ...]:
    """Every output of this package, by name."""
    modules = (import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__))
    return tuple(sorted((m.OUTPUT for m in modules if hasattr(m, "OUTPUT")), key=lambda output: output.name))
