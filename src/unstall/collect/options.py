"""What the user asks of a run, and how each version of nsys wants to be asked: tables, not conditions.

Comes in: :class:`CollectOptions` and an nsys version. Goes out: arguments of ``nsys profile``. An option that this very
build refuses all the same is left out on a second try (:func:`without_refused`), which is safe because nsys refuses
before it starts the program.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from unstall.collect.notes import Note
from unstall.instrument.window import nsys_options

Version = tuple[int, ...]

TRACES = ("cuda", "nvtx", "osrt", "python-gil")
"""What is traced unless the user says otherwise, as far as a version knows it."""

TRACE_SINCE: dict[str, Version] = {"python-gil": (2023, 4), "cusolver": (2024, 2), "cusolver-verbose": (2024, 2)}
"""Values of ``--trace`` that older versions refuse, with the oldest version seen to take them."""

SPELLINGS: dict[str, tuple[tuple[Version, str], ...]] = {  # since when, newest first; none that fits: not known to it
    "trace": (((0,), "--trace={}"),),
    "sample": (((0,), "--sample={}"),),
    "switches": (((0,), "--cpuctxsw={}"),),
    "backtrace": (((0,), "--backtrace={}"),),
    "python-sampling": (((2023, 4), "--python-sampling={}"),),
    "graphs": (((2022, 4), "--cuda-graph-trace={}"),),
    "gpu-metrics": (((2024, 6), "--gpu-metrics-devices={}"), ((0,), "--gpu-metrics-device={}")),
    "delay": (((0,), "--delay={}"),),
    "duration": (((0,), "--duration={}"),),  # of a capture range it would end the collection and not the program
}

TRUSTED_SAMPLING: Version = (2023, 1)
"""CPU samples and context switches are not asked for by themselves before this: nsys 2022.4.2 on Linux 6.18 hung after
the program's end in 45 of 60 captures with either of them and in none of 12 without (2 CPUs, `sleep 0.3`, 8 or 15 s of
waiting); a hung capture is lost."""

BACKTRACE = "fp"
"""How CPU samples get their stack. Unwinding by DWARF, the fallback in virtual machines, keeps a piece of the stack
with every sample."""

LOSES_NEW_NVTX: Version = (2024, 2)
"""The newest nsys seen to lose every range of pip nvtx 0.2.12 and newer."""


@dataclass(frozen=True)
class CollectOptions:
    """How to collect.

    Attributes:
        collector: ``nsys``, ``builtin``, or ``auto``: nsys where it works, else the built-in one.
        trace: what nsys traces; empty for :data:`TRACES`.
        sample: CPU samples: ``auto`` (where this machine and this nsys allow it), ``none``, ``process-tree``,
            ``system-wide``.
        gpu_metrics: devices whose metrics are sampled, as nsys wants them (``all``, ``0,1``); empty for none.
        steps: first training step to capture and the one after the last.
        delay: seconds from the program's start to that of the capture; not with ``steps``.
        duration: seconds from the start of the capture (with ``steps``: of the first one) to the end of the program,
            by SIGTERM, whether or not those steps are over.
        graph_nodes: trace every node of a CUDA graph, not the graph as a whole; slows the program down.
        auto: instrument PyTorch without an edit.
        calibrate: seconds of an unprofiled run made first, for the step time without the profiler; 0 for none.
        nsys_args: more arguments for ``nsys profile``, as they are.
        output: folder for the capture; chosen by name and time when left out.
        force: replace an older capture there.
        keep_report: keep the ``.nsys-rep``, which cannot be redacted, beside the ``.sqlite``.
        redact: take environment variables, command lines, host names and user paths out of the ``.sqlite``.
    """

    collector: Literal["auto", "nsys", "builtin"] = "auto"
    trace: tuple[str, ...] = ()
    sample: Literal["auto", "none", "process-tree", "system-wide"] = "auto"
    gpu_metrics: str = ""
    steps: tuple[int, int] | None = None
    delay: float = 0
    duration: float = 0
    graph_nodes: bool = False
    auto: bool = False
    calibrate: float = 0
    nsys_args: tuple[str, ...] = ()
    output: Path | None = None
    force: bool = False
    keep_report: bool = True
    redact: bool = True


def profile_arguments(
    version: Version, options: CollectOptions, *, sampling: bool, window: str
) -> tuple[list[str], list[Note]]:
    """Arguments of ``nsys profile`` for these options, those of the user last, and what had to be left out.

    Args:
        version: of the nsys that gets them.
        options: what the user asks for.
        sampling: whether CPU sampling is allowed on this machine.
        window: how chosen steps are captured (``cuda``, ``nvtx``); empty without.
    """
    traces, notes = _traces(version, options)
    sample, said = _sample(version, options, sampling)
    wanted = {
        "trace": ",".join(traces),
        "sample": sample,
        "switches": "none" if sample == "none" else sample,
        "backtrace": BACKTRACE if sample != "none" else "",
        "python-sampling": "true" if sample != "none" else "",
        "graphs": "node" if options.graph_nodes else "",
        "gpu-metrics": options.gpu_metrics,
        "delay": _whole(options.delay),
        "duration": "" if window else _whole(options.duration),
    }
    arguments = [text for name, value in wanted.items() if value and (text := _spelled(name, version, value))]
    asked = {"--delay": options.delay, "--duration": 0 if window else options.duration}
    notes += said + [_rounded(name, value) for name, value in asked.items() if value % 1]
    return [*arguments, "--wait=primary", *nsys_options(window), *options.nsys_args], notes


def without_refused(arguments: Sequence[str], said: str, given: Sequence[str]) -> tuple[list[str], Note] | None:
    """The arguments without the one that nsys refuses, ``None`` when the refusal is not about one of ours.

    ``given`` are the user's own: they are never dropped.
    """
    ours = [a for a in arguments if a not in given]
    value = re.search(r"Illegal --trace argument '([^']+)'", said)
    for argument in ours:
        name, _, text = argument.partition("=")
        if value and name == "--trace" and value.group(1) in text.split(","):
            kept = ",".join(t for t in text.split(",") if t != value.group(1))
            note = Note("option-refused", f"This nsys does not trace {value.group(1)}: left out.")
            return [f"{name}={kept}" if a == argument else a for a in arguments], note
    complaint = said.partition("usage:")[0]
    named = [a for a in ours if re.search(rf"{re.escape(a.partition('=')[0])}\b", complaint)]
    if not named:
        return None
    note = Note("option-refused", f"This nsys does not know {named[0]}: left out.")
    return [a for a in arguments if a != named[0]], note


def _traces(version: Version, options: CollectOptions) -> tuple[list[str], list[Note]]:
    asked = options.trace or TRACES
    known = [t for t in asked if version >= TRACE_SINCE.get(t, (0,)) or not version]
    dropped = [t for t in options.trace if t not in known]
    text = f"nsys {'.'.join(map(str, version))} cannot trace {', '.join(dropped)}: left out."
    return known, [Note("option-refused", text)] if dropped else []


def _sample(version: Version, options: CollectOptions, allowed: bool) -> tuple[str, list[Note]]:
    if options.sample != "auto":
        return options.sample, []
    if not allowed:
        return "none", [Note("no-sampling", "CPU samples are not allowed on this machine: collected without.")]
    if version < TRUSTED_SAMPLING:
        text = "CPU samples left out: this nsys may hang with them. --sample process-tree asks for them all the same."
        return "none", [Note("no-sampling", text)]
    return "process-tree", []


def _whole(seconds: float) -> str:
    """nsys takes whole seconds: it cuts 1.9 down to 1, and refuses 0.9."""
    return f"{math.ceil(seconds)}" if seconds else ""


def _rounded(name: str, seconds: float) -> Note:
    return Note("option-rounded", f"nsys counts in whole seconds: {name} {seconds:g} became {math.ceil(seconds)}.")


def _spelled(name: str, version: Version, value: str) -> str:
    template = next((text for since, text in SPELLINGS[name] if version >= since or not version), "")
    return template.format(value)
