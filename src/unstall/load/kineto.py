"""A trace of PyTorch's profiler (Kineto), ``prof.export_chrome_trace(FILE)``, plain or ``.gz`` → a profile.

Comes in: a path. Goes out: the same tables as from nsys, as far as Kineto tells:

- ``user_annotation`` (``record_function``, ``ProfilerStep#N``, optimizers, data loaders) are the user's ranges;
- ``cpu_op`` are ranges of the domain ``torch.ops``, a library's: attributed and totalled, never steps or phases;
- ``python_function`` (``with_stack=True``) become samples;
- kernels, copies, memsets, synchronisations, runtime and driver calls, GPUs, rank and host as they are;
- copies of an annotation on the GPU's side, flows, memory events and the profiler's own spans are left out: the calls'
  correlation ids tell the same.

What Kineto never records (OS calls, GIL, context switches) is absent.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from unstall.load._kineto import device, python
from unstall.load._kineto.columns import _integer, names, times, unit_of
from unstall.load._kineto.decode import Event, Trace, begins, check
from unstall.load._kineto.decode import read as decoded
from unstall.load._kineto.threads import Threads
from unstall.load.tables import NAME, from_rows, merge, share_categories, tidy, time_column
from unstall.load.trust import Doubts, named, trusted, warnings_of
from unstall.model import TABLES, Meta, Profile, Warning_

OPERATORS = "torch.ops"
"""Domain of PyTorch's operators."""
OLD = {"memcpy": "gpu_memcpy", "memset": "gpu_memset", "runtime": "cuda_runtime", "operator": "cpu_op"}
CUDA = ("kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cuda_driver")
STEP = "ProfilerStep#"
OBJECT = re.compile(rb'\{\s*("|\})')
EPOCH_NS = 10**18  # 2001: a time stamp beyond it counts from 1970


def sniff(head: bytes) -> bool:
    """Whether a file begins like a JSON object, packed or not."""
    return OBJECT.match(begins(head)) is not None


def read(path: Path) -> Profile:
    """Read a trace.

    Raises:
        ProfileUnreadable: cut off, damaged, empty, or too large.
        NotAProfile: JSON of something else, or a Chrome trace of another tool.
    """
    share_categories()
    trace, malformed = decoded(path)
    check(path, trace)
    doubts = Doubts({("bad-values", "traceEvents"): malformed} if malformed else {})
    groups = _grouped(trace.traceEvents)
    unit, zero = unit_of(trace.traceEvents), 0
    tables = {t: trusted(t, tidy(t, _named(t, f, doubts)), doubts) for t, f in _tables(trace, groups, unit).items()}
    zero = min((int(v) for t, f in tables.items() if (v := _first(t, f)) is not None), default=0)
    tables = {t: merge(t, [_since(t, f, zero)]) for t, f in tables.items()}
    frames: dict[str, Any] = tables
    notes = (*warnings_of(doubts), *_notes(trace, groups))
    return Profile(meta=_meta(path, trace, tables, zero), notes=notes, **frames)


def _grouped(events: Sequence[Event]) -> dict[str, list[Event]]:
    """Complete events by category, names of today; name records under ``M``."""
    groups: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        if event.ph == "X":
            groups[event.cat].append(event)
        elif event.ph == "M":
            groups["M"].append(event)
    found: dict[str, list[Event]] = defaultdict(list)
    for category, rows in groups.items():
        lower = category.lower()
        found["M" if category == "M" else OLD.get(lower, lower)] += rows
    return found


def _tables(trace: Trace, groups: dict[str, list[Event]], unit: int) -> dict[str, pl.DataFrame]:
    calls = [*groups["cuda_runtime"], *groups["cuda_driver"]]
    work = [*groups["user_annotation"], *groups["cpu_op"], *groups["python_function"]]
    threads = Threads(work, calls)
    tables = threads.tables(groups["M"])
    if properties := device.gpus(trace.deviceProperties):
        tables["gpus"] = from_rows("gpus", properties)
    if groups["user_annotation"] or groups["cpu_op"]:
        tables["ranges"] = _ranges(groups, unit, threads)
    if any(groups[c] for c in CUDA):
        owner = device.owner_of(threads, calls)
        tables |= {
            "kernels": device.kernels(groups["kernel"], unit, owner),
            "copies": device.copies(groups["gpu_memcpy"], unit, owner),
            "memsets": device.memsets(groups["gpu_memset"], unit, owner),
            "api": device.api(calls, unit, threads),
        }
        if groups["cuda_sync"]:
            tables["syncs"] = device.syncs(groups["cuda_sync"], unit, owner)
    if groups["overhead"]:
        tables["overhead"] = _spans(groups["overhead"], unit, threads)
    if groups["python_function"]:
        tables |= python.sampled(groups["python_function"], unit, threads)
    return tables


def _ranges(groups: dict[str, list[Event]], unit: int, threads: Threads) -> pl.DataFrame:
    """Annotations in the default domain, operators in their own. Old versions call a step an operator."""
    rows = [*groups["user_annotation"], *groups["cpu_op"]]
    theirs = len(groups["user_annotation"])
    domains = [OPERATORS if i >= theirs and not e.name.startswith(STEP) else "" for i, e in enumerate(rows)]
    frame = _spans(rows, unit, threads)
    return frame.with_columns(domain=names(domains), style=pl.lit("push_pop", NAME), end_thread="thread")


def _spans(events: Sequence[Event], unit: int, threads: Threads) -> pl.DataFrame:
    start, end = times(events, unit)
    called = names([e.name for e in events])
    return pl.DataFrame({"start": start, "end": end, "thread": threads.of(events), "name": called})


def _named(table: str, frame: pl.DataFrame, doubts: Doubts) -> pl.DataFrame:
    return named(table, frame, doubts) if "name" in frame.columns and time_column(table) else frame


def _first(table: str, frame: pl.DataFrame) -> int | None:
    order = time_column(table)
    low = frame[order].min() if order is not None else None
    return low if isinstance(low, int) else None


def _since(table: str, frame: pl.DataFrame, zero: int) -> pl.DataFrame:
    """Times since the capture's own zero."""
    columns = [c for c in ("start", "end", "time") if c in TABLES[table]]
    return frame.with_columns(pl.col(c) - zero for c in columns)


def _meta(path: Path, trace: Trace, tables: dict[str, pl.DataFrame], zero: int) -> Meta:
    ends = [f[c].max() for f in tables.values() for c in ("end", "time") if c in f.columns]
    base = _integer(trace.baseTimeNanoseconds) or 0
    told = trace.distributedInfo if isinstance(trace.distributedInfo, dict) else {}
    rank = _integer(told.get("rank"))
    return Meta(
        path=str(path), producer="kineto",
        schema_version="" if trace.schemaVersion is None else str(trace.schemaVersion),
        end_ns=max((e for e in ends if isinstance(e, int)), default=0),
        utc_epoch_ns=base + zero if base + zero > EPOCH_NS else None,
        rank=rank if rank is not None and rank >= 0 else None,
        host=trace.host_name if isinstance(trace.host_name, str) else "",
    )  # fmt: skip


def _notes(trace: Trace, groups: dict[str, list[Event]]) -> list[Warning_]:
    said = []
    if trace.deviceProperties and not any(groups[c] for c in CUDA):
        text = (
            "The machine has a GPU and the trace holds nothing of it: the program did no GPU work while it was "
            "recorded, or the profiler ran without torch.profiler.ProfilerActivity.CUDA."
        )
        said.append(Warning_(code="cuda-not-recorded", text=text))
    if not groups["user_annotation"] and not any(e.name.startswith(STEP) for e in groups["cpu_op"]):
        text = (
            "The trace has no annotations: call prof.step() once a step, and name phases with "
            "torch.profiler.record_function, to see steps and what the host does in them."
        )
        said.append(Warning_(code="no-annotations", text=text))
    if groups["python_function"]:
        text = (
            "Every Python call was recorded (with_stack=True), which makes the host much slower than it is: host times "
            "are too long. Its calls are shown as samples."
        )
        said.append(Warning_(code="python-stacks", text=text))
    return said
