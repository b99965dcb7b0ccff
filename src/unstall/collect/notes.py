"""What the user must know of a capture: one record, one list of texts.

Comes in: whatever a part of the collection noticed. Goes out: :class:`Note`, shown as it happens, kept in ``run.json``.
Every text says what happened, what of the capture it costs, and what mends it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Note:
    """``code`` is stable, ``text`` is for people."""

    code: str
    text: str


def why_not(error: BaseException) -> str:
    """Why a file could not be written, without its name."""
    if isinstance(error, KeyboardInterrupt):
        return "given up"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


Say = Callable[[str], None]
"""Shows one line to the user while a run is going on."""


def silent(_: str) -> None:
    """Shows nothing."""
