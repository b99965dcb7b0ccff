"""NVTX for a training script: by hand with :func:`annotate` and :func:`step`, or without an edit by ``--auto``.

Comes in: a script and :class:`Options`. Goes out: ranges for whoever listens (nsys, the built-in collector), step
times and losses in a step log, and a capture window around chosen steps.

    =============== ===========================================================================
    annotate, step  what a script may call
    options         the environment variables between ``unstall run`` and the program
    launch          how a program gets them: ``environment``, ``command``
    bootstrap       what happens in the program before its first line (from ``inject/sitecustomize``)
    importhook      to be told when the program imports torch
    sink            where ranges go: NVTX, the collector, nowhere
    phases, hooks   ``--auto``: which torch calls become which ranges
    steps, window   where steps begin, their times and losses, and the capture of some of them
    recorder        the built-in collector's half inside the program
    =============== ===========================================================================

Standard library only, and never a torch import of its own: all of it runs inside other people's programs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unstall.instrument.annotate import annotate
from unstall.instrument.options import AUTO, PARTS, WINDOW_RANGE, Options, parse_steps
from unstall.instrument.step import step

if TYPE_CHECKING:
    from unstall.instrument.launch import command as command
    from unstall.instrument.launch import environment as environment

__all__ = ["AUTO", "PARTS", "WINDOW_RANGE", "Options", "annotate", "command", "environment", "parse_steps", "step"]


def __getattr__(name: str) -> Any:
    if name in ("command", "environment"):  # of the parent only; and ``python -m …launch`` wants to be the first
        from unstall.instrument import launch

        return getattr(launch, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
