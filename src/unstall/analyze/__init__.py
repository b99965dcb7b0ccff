"""Tables in, figures out: a :class:`~unstall.model.Profile` becomes an :class:`~unstall.model.Analysis`.

``intervals`` resolves overlaps, ``ranges`` nests, ``device`` joins device work with its launches, ``project``
attributes
it to ranges, ``periodic`` and ``steps`` find the training steps, ``host`` says what the host was doing, ``breakdown``
accounts for a steady step, ``summary`` totals every table, ``assemble`` runs them in that order. No I/O, no file
format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unstall.model import Analysis, Profile

__all__ = ["analyze"]


def analyze(profile: Profile, *, step: str | None = None, unprofiled_ns: int | None = None) -> Analysis:
    """Everything that can be said of a capture before asking why; see :func:`unstall.analyze.assemble.analyze`.

    Args:
        profile: a loaded capture.
        step: regular expression that names the step ranges; found automatically without it.
        unprofiled_ns: the step time without the profiler, ns, where known.

    Raises:
        UsageError: ``step`` is no regular expression or matches nothing.
    """
    from unstall.analyze import assemble

    return assemble.analyze(profile, step=step, unprofiled_ns=unprofiled_ns)
