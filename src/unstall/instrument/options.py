"""What ``unstall run`` tells the program it starts, and in which environment variables: the one place.

Comes in: :class:`Options` on the side of the parent. Goes out: environment variables, and :class:`Options` again in the
program and in every Python process that it starts.

==================== ========================================================================================
variable             value
==================== ========================================================================================
``UNSTALL_AUTO``     parts of ``--auto``, comma separated (:data:`PARTS`); empty or unset: none
``UNSTALL_STEPS``    ``A:B``: capture the steps A, A+1 … B−1 (the first is 0); unset: the whole run
``UNSTALL_WINDOW``   how those steps are captured: ``cuda`` (cudaProfilerStart and Stop), ``nvtx`` (a range called
                     ``unstall_window``, for a capture range where there is no CUDA) or ``record`` (built-in collector)
``UNSTALL_STEP_LOG`` where step times and losses go: a path in which ``{rank}`` and ``{pid}`` are replaced
``UNSTALL_BEGIN``    the built-in collector records from this moment on (monotonic clock, ns); unset: from the start
``UNSTALL_NVTX``     ``pip`` or ``torch``: write ranges with this library; unset: find out; ``off``: write none
``UNSTALL_RECORD``   folder for the parts that the built-in collector leaves behind; unset: it does not run
``UNSTALL_PLUGINS``  ``module:function`` names, comma separated, called with these options when the program starts
==================== ========================================================================================

Standard library only, like all of ``unstall.instrument``: it runs inside other people's programs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PARTS = ("data_load", "h2d_transfer", "forward", "backward", "optimizer", "checkpoint", "steps", "losses")
"""What ``--auto`` can do. The first six become ranges of that name; ``steps`` finds the training steps (``step_N``
ranges, step times and the capture window); ``losses`` keeps the value that each ``backward()`` starts from."""

AUTO = tuple(part for part in PARTS if part != "losses")
"""What ``unstall run --auto`` does: losses are for ``unstall try``."""

WINDOW_RANGE = "unstall_window"
"""Name of the range that opens and closes an ``nvtx`` capture window."""

VARIABLES = ("AUTO", "STEPS", "WINDOW", "STEP_LOG", "BEGIN", "NVTX", "RECORD", "PLUGINS")
"""The variables of the table, without ``UNSTALL_``."""

STEP_LOG_NAME = "steps-{rank}-{pid}.json"
"""Usual name of a step log; the folder is the caller's."""

OPENED_NAME = "window-opened-"
"""How the name of an empty file begins that appears beside the step log when the window opens; a pid follows."""


@dataclass(frozen=True)
class Options:
    """How a program is to be instrumented.

    Attributes:
        parts: what ``--auto`` does; ``()`` leaves the program as it is.
        steps: first step to capture and the one after the last; ``None`` captures everything.
        window: ``cuda``, ``nvtx`` or ``record``; empty without ``steps``.
        step_log: path of the step log, ``{rank}`` and ``{pid}`` are replaced; empty for none.
        begin: when the built-in collector begins, ``perf_counter_ns``; 0 for at once.
        nvtx: ``pip``, ``torch``, ``off``, or empty to find out.
        record: folder of the built-in collector; empty when it does not run.
        plugins: ``module:function`` names to call at the program's start.
    """

    parts: tuple[str, ...] = ()
    steps: tuple[int, int] | None = None
    window: str = ""
    step_log: str = ""
    begin: int = 0
    nvtx: str = ""
    record: str = ""
    plugins: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        unknown = [p for p in self.parts if p not in PARTS]
        if unknown:
            raise ValueError(f"unknown part {unknown[0]!r}; known: {', '.join(PARTS)}")
        if self.steps is not None and not 0 <= self.steps[0] < self.steps[1]:
            raise ValueError(f"steps {self.steps[0]}:{self.steps[1]} hold no step")

    def variables(self) -> dict[str, str]:
        """The environment variables that say this; unset ones are left out."""
        steps = f"{self.steps[0]}:{self.steps[1]}" if self.steps else ""
        said = {
            "UNSTALL_AUTO": ",".join(self.parts),
            "UNSTALL_STEPS": steps,
            "UNSTALL_WINDOW": self.window,
            "UNSTALL_STEP_LOG": self.step_log and str(Path(self.step_log).absolute()),
            "UNSTALL_BEGIN": str(self.begin or ""),
            "UNSTALL_NVTX": self.nvtx,
            "UNSTALL_RECORD": self.record and str(Path(self.record).absolute()),
            "UNSTALL_PLUGINS": ",".join(self.plugins),
        }
        return {name: value for name, value in said.items() if value}

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Options:
        """The options that the environment holds; :class:`ValueError` where it holds nonsense."""
        env = os.environ if environ is None else environ
        return cls(
            parts=_words(env.get("UNSTALL_AUTO", "")),
            steps=parse_steps(env["UNSTALL_STEPS"]) if env.get("UNSTALL_STEPS") else None,
            window=env.get("UNSTALL_WINDOW", ""),
            step_log=env.get("UNSTALL_STEP_LOG", ""),
            begin=int(env.get("UNSTALL_BEGIN") or 0),
            nvtx=env.get("UNSTALL_NVTX", ""),
            record=env.get("UNSTALL_RECORD", ""),
            plugins=_words(env.get("UNSTALL_PLUGINS", "")),
        )


def parse_steps(text: str) -> tuple[int, int]:
    """``"10:30"`` → ``(10, 30)``; :class:`ValueError` with one clear line for anything else."""
    first, colon, end = text.partition(":")
    if not (colon and first.strip().isdigit() and end.strip().isdigit()) or int(first) >= int(end):
        raise ValueError(f"steps {text!r} are not of the form A:B with A < B (for instance 10:30)")
    return int(first), int(end)


def rank(environ: Mapping[str, str] | None = None) -> int | None:
    """This process's rank as torchrun, MPI or SLURM tell it, or ``None``."""
    env = os.environ if environ is None else environ
    for name in ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"):
        if env.get(name, "").isdigit():
            return int(env[name])
    return None


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())
