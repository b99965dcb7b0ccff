"""A Kineto trace (torch.profiler) → rows of nsys's CUPTI tables, on the recorder's clock.

Comes in: the trace file that ``unstall.instrument.gpu`` left, and its document: clock readings around a device
synchronisation at either end. Goes out: rows for :mod:`unstall.collect._builtin_schema`.

**Clocks.** Kineto tells wall-clock nanoseconds, the recorder monotonic ones. A first conversion takes the difference
read at each end; then the trace is shifted so that the midpoint of each marking ``cudaDeviceSynchronize`` lies at the
midpoint of the readings around it, linearly between the two ends. What is left is at most half of what the readings
are apart beyond the call itself, a few microseconds; it is stored as ``gpu_clock_error_ns``.

**Threads.** Where Kineto does not know a thread it gives the lower 32 bits of its ``pthread_self``; the recorder's
document says which of those is which thread.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from unstall.calls import plain

Clock = Callable[[int], int]
Event = Mapping[str, Any]

COPY_KINDS = {
    "HtoD": 1, "DtoH": 2, "HtoA": 3, "AtoH": 4, "AtoA": 5, "AtoD": 6, "DtoA": 7, "DtoD": 8, "HtoH": 9, "PtoP": 10,
}  # fmt: skip
MEMORY_KINDS = {
    "pageable": 0, "pinned": 1, "device": 2, "array": 3, "managed": 4, "device static": 5, "managed static": 6,
}  # fmt: skip
UNKNOWN_MEMORY = 7
SYNC_KINDS = (("wait", 2), ("event", 1), ("stream", 3), ("context", 4), ("device", 4))  # the first that fits
DEVICE_SYNC = re.compile(r"cuda(Device|Thread)Synchronize")
COPY_NAME = re.compile(r"Memcpy (\w+) \((.+?) -> (.+?)\)")
NOT_SHORT = re.compile(r"\(anonymous namespace\)::|<unnamed>::")


@dataclass
class GpuRows:
    """Rows by table, names still text (the writer interns them), times on the recorder's clock."""

    kernels: list[tuple[Any, ...]]
    copies: list[tuple[Any, ...]]
    memsets: list[tuple[Any, ...]]
    syncs: list[tuple[Any, ...]]
    calls: list[tuple[Any, ...]]
    overhead: list[tuple[Any, ...]]
    clock_error_ns: int | None


def read(path: Path, document: Mapping[str, Any], utc_minus_clock: int) -> GpuRows:
    """Read one trace. ``utc_minus_clock`` is the recorder's own difference, for a trace without markers."""
    trace = json.loads(path.read_bytes(), parse_float=Decimal)
    base = int(trace.get("baseTimeNanoseconds") or 0)
    events = [e for e in trace["traceEvents"] if e.get("ph") == "X" and "ts" in e]
    clock, error = _clock(events, base, document.get("markers", []), utc_minus_clock)
    rows = GpuRows([], [], [], [], [], [], error)
    threads = {int(k): int(v) for k, v in document.get("threads", {}).items()}
    for event in events:
        handler = _HANDLERS.get(event.get("cat", ""))
        if handler is not None:
            start, end = _times(event, base)
            handler(rows, event, clock(start), clock(end), threads)
    return rows


def _times(event: Event, base: int) -> tuple[int, int]:
    """Start and end in wall-clock ns; the trace holds microseconds with three decimals."""
    start = base + int(event["ts"] * 1000)
    return start, start + int(event.get("dur", 0) * 1000)


def _clock(events: Iterable[Event], base: int, markers: list[list[int]], offset: int) -> tuple[Clock, int | None]:
    syncs = [_times(e, base) for e in events if DEVICE_SYNC.fullmatch(plain(e.get("name", "")))]
    fixed = [found for marker in markers if (found := _fix(marker, syncs)) is not None]
    if not fixed:
        shift = markers[0][2] - markers[0][1] if markers else offset
        return (lambda t: t - shift), None
    (t0, d0, e0), (t1, d1, e1) = fixed[0], fixed[-1]
    slope = (d1 - d0) / (t1 - t0) if t1 != t0 else 0.0
    return (lambda t: t - d0 - round(slope * (t - t0))), max(e0, e1)


def _fix(marker: list[int], syncs: list[tuple[int, int]]) -> tuple[int, int, int] | None:
    """One end: wall-clock time there, its difference to the recorder's clock, and how far that may be off."""
    before, after, utc = marker
    expected = utc - after + (before + after) // 2  # wall-clock time of the readings' midpoint
    near = min(syncs, key=lambda s: abs((s[0] + s[1]) // 2 - expected), default=None)
    if near is None or abs((near[0] + near[1]) // 2 - expected) > (after - before) + 1_000_000:
        return None  # more than 1 ms off: some other synchronisation
    middle = (near[0] + near[1]) // 2
    return middle, middle - (before + after) // 2, max(0, (after - before) - (near[1] - near[0])) // 2


def _device(event: Event) -> tuple[Any, ...]:
    args = event["args"]
    device, context = args.get("device", args.get("inDevice")), args.get("context", args.get("inContext"))
    return device, context, args.get("stream"), args.get("correlation")


def _kernel(rows: GpuRows, event: Event, start: int, end: int, threads: Mapping[int, int]) -> None:
    args, name = event["args"], event["name"]
    grid, block = args.get("grid", [None] * 3), args.get("block", [None] * 3)
    # static and dynamic shared memory come as one sum, so neither is known alone
    rows.kernels.append((
        start, end, *_device(event), name, short_name(name), args.get("registers per thread"), *grid, *block,
        None, None, args.get("graph node id"),
    ))  # fmt: skip


def _copy(rows: GpuRows, event: Event, start: int, end: int, threads: Mapping[int, int]) -> None:
    found = COPY_NAME.match(event["name"])
    kind, source, target = found.groups() if found else ("", "", "")
    rows.copies.append((
        start, end, *_device(event), event["args"].get("bytes"), COPY_KINDS.get(kind, 0), _memory(source),
        _memory(target), event["args"].get("graph node id"),
    ))  # fmt: skip


def _memset(rows: GpuRows, event: Event, start: int, end: int, threads: Mapping[int, int]) -> None:
    memory = _memory(event["name"].partition("(")[2].rstrip(")"))
    args = event["args"]
    rows.memsets.append((start, end, *_device(event), args.get("bytes"), memory, args.get("graph node id")))


def _sync(rows: GpuRows, event: Event, start: int, end: int, threads: Mapping[int, int]) -> None:
    said = str(event["args"].get("cuda_sync_kind", event["name"])).lower()
    kind = next((k for word, k in SYNC_KINDS if word in said), 0)
    rows.syncs.append((start, end, *_device(event), kind, event["args"].get("wait_on_cuda_event_id")))


def _call(rows: GpuRows, event: Event, start: int, end: int, threads: Mapping[int, int]) -> None:
    driver = event["cat"] == "cuda_driver"
    tid = thread_of(event.get("tid", 0), threads)
    rows.calls.append((start, end, int(driver), tid, event["args"].get("correlation"), event["name"]))


def _overhead(rows: GpuRows, event: Event, start: int, end: int, threads: Mapping[int, int]) -> None:
    rows.overhead.append((start, end, thread_of(event.get("tid", 0), threads), event["name"]))


_HANDLERS: dict[str, Callable[[GpuRows, Event, int, int, Mapping[int, int]], None]] = {
    "kernel": _kernel,
    "gpu_memcpy": _copy,
    "gpu_memset": _memset,
    "cuda_sync": _sync,
    "cuda_runtime": _call,
    "cuda_driver": _call,
    "overhead": _overhead,
}


def thread_of(number: Any, threads: Mapping[int, int]) -> int:
    """The OS thread: as given where it is one, else looked up by the lower 32 bits of ``pthread_self``."""
    try:
        value = int(number)
    except (TypeError, ValueError):
        return 0
    return threads.get(value & 0xFFFFFFFF, value & 0xFFFFFF)


def short_name(name: str) -> str:
    """A kernel's own name: without return type, namespaces, template arguments and parameters."""
    head = NOT_SHORT.sub("", name)
    head = re.split(r"[<(]", head, maxsplit=1)[0].strip()
    return re.split(r"[ :]", head)[-1] or name


def _memory(word: str) -> int:
    return MEMORY_KINDS.get(word.strip().lower(), UNKNOWN_MEMORY)
