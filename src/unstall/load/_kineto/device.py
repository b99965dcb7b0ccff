"""Device work and CUDA calls of a trace → ``kernels``, ``copies``, ``memsets``, ``syncs``, ``api``.

Comes in: events by category. Goes out: frames in the shape of the model's tables, names as categories. Kineto tells one
sum of static and dynamic shared memory: where it is not zero, neither is known alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from unstall.load._kineto.columns import args, integers, names, times, triple
from unstall.load._kineto.decode import Event
from unstall.load._kineto.threads import Threads, key_of, process_id

COPY = re.compile(r"Memcpy (\w+) \((.+?) -> (.+?)\)")
COPY_KINDS = frozenset({"HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"})
MEMORY = {
    "pageable": "pageable", "pinned": "pinned", "device": "device", "array": "array", "managed": "managed",
    "device static": "device", "managed static": "managed",
}  # fmt: skip
SYNCS = (("wait", "stream_wait_event"), ("event", "event"), ("stream", "stream"), ("context", "context"),
         ("device", "context"))  # fmt: skip
NOT_SHORT = re.compile(r"\(anonymous namespace\)::|<unnamed>::")

Owner = Callable[[Sequence[Event]], pl.Series]


def owner_of(threads: Threads, calls: Sequence[Event]) -> Owner:
    """Which process an operation on the device belongs to: the one whose call has its correlation id.

    A trace is of one process; only merged ones hold several, and there the numbers collide: the last call before wins.
    """
    if len(threads.pids) <= 1:
        pid = threads.pids[0] if threads.pids else 0
        return lambda events: pl.repeat(process_id(pid), len(events), dtype=pl.Int64, eager=True)
    by: dict[int, list[Event]] = {}
    for e in calls:
        if e.ts is not None and e.args is not None and isinstance(e.args.correlation, int):
            by.setdefault(e.args.correlation, []).append(e)

    def owner(event: Event) -> int | None:
        number = event.args.correlation if event.args is not None else None
        made = by.get(number, []) if isinstance(number, int) and event.ts is not None else []
        before = [e for e in made if e.ts <= event.ts]  # type: ignore[operator]
        call = max(before or made, key=lambda e: e.ts, default=None)  # type: ignore[arg-type,return-value]
        return None if call is None else process_id(key_of(call)[0])

    return lambda events: pl.Series([owner(e) for e in events], dtype=pl.Int64)


def kernels(events: Sequence[Event], unit: int, owner: Owner) -> pl.DataFrame:
    """One row a kernel; the nodes of a graph share their launch's correlation id."""
    frame, rows = _common(events, unit, owner), args(events)
    grid, block = triple([a.grid for a in rows]), triple([a.block for a in rows])
    shape = {
        f"{k}_{axis}": integers(v)
        for k, s in (("grid", grid), ("block", block))
        for axis, v in zip("xyz", s, strict=True)
    }
    nothing = pl.when(pl.Series(integers([a.shared for a in rows])) == 0).then(pl.lit(0, pl.Int64))
    called = [e.name for e in events]
    short = {n: short_name(n) for n in set(called)}
    return frame.with_columns(
        name=names(called), short_name=names([short[n] for n in called]),
        registers=integers([a.registers for a in rows]), static_smem_bytes=nothing, dynamic_smem_bytes=nothing,
        graph_node=integers([a.node for a in rows]), **shape,
    )  # fmt: skip


def copies(events: Sequence[Event], unit: int, owner: Owner) -> pl.DataFrame:
    """One row a copy; kind and memory are in its name: ``Memcpy HtoD (Pageable -> Device)``."""
    told = {n: _copy(n) for n in {e.name for e in events}}
    kind, source, target = zip(*(told[e.name] for e in events), strict=True) if events else ((), (), ())
    return _common(events, unit, owner).with_columns(
        kind=names(list(kind)), source=names(list(source)), destination=names(list(target)),
        bytes=_bytes(events), graph_node=integers([a.node for a in args(events)]),
    )  # fmt: skip


def memsets(events: Sequence[Event], unit: int, owner: Owner) -> pl.DataFrame:
    """One row a memset: ``Memset (Device)``."""
    memory = [_memory(e.name.partition("(")[2].rstrip(")")) for e in events]
    return _common(events, unit, owner).with_columns(
        memory=names(memory), bytes=_bytes(events), graph_node=integers([a.node for a in args(events)])
    )


def syncs(events: Sequence[Event], unit: int, owner: Owner) -> pl.DataFrame:
    """One row a synchronisation; recorded only with ``enable_cuda_sync_events``."""
    said = [str(a.sync_kind or e.name).lower() for e, a in zip(events, args(events), strict=True)]
    kinds = {s: next((k for word, k in SYNCS if word in s), "unknown") for s in set(said)}
    return _common(events, unit, owner).with_columns(
        kind=names([kinds[s] for s in said]), event=integers([a.event for a in args(events)])
    )


def api(events: Sequence[Event], unit: int, threads: Threads) -> pl.DataFrame:
    """One row a CUDA runtime or driver call."""
    start, end = times(events, unit)
    return pl.DataFrame({
        "start": start, "end": end, "thread": threads.of(events), "name": names([e.name for e in events]),
        "correlation": integers([a.correlation for a in args(events)]),
    })  # fmt: skip


def gpus(properties: Any) -> list[dict[str, Any]]:
    """The GPUs of ``deviceProperties``; clock and bandwidth are not told."""
    listed = properties if isinstance(properties, list) else []
    fields = {"device": "id", "sm_count": "numSms", "memory_bytes": "totalGlobalMem", "compute_major": "computeMajor",
              "compute_minor": "computeMinor"}  # fmt: skip
    rows = []
    for told in listed:
        if isinstance(told, dict) and isinstance(told.get("id"), int):
            numbers = {ours: integers([told.get(theirs)])[0] for ours, theirs in fields.items()}
            rows.append({**numbers, "name": str(told.get("name", ""))})
    return rows


def short_name(name: str) -> str:
    """A kernel's own name: without return type, namespaces, template arguments and parameters."""
    head = re.split(r"[<(]", NOT_SHORT.sub("", name), maxsplit=1)[0].strip()
    return re.split(r"[ :]", head)[-1] or name


def _common(events: Sequence[Event], unit: int, owner: Owner) -> pl.DataFrame:
    start, end = times(events, unit)
    rows = args(events)
    stream = integers([a.stream for a in rows])
    return pl.DataFrame({
        "start": start, "end": end, "process": owner(events),
        "device": integers([a.in_device if a.device is None else a.device for a in rows]),
        "context": integers([a.in_context if a.context is None else a.context for a in rows]),
        "stream": stream.set(stream.is_in([2**32 - 1, -1]).fill_null(False), None),  # CUPTI's word for "none"
        "correlation": integers([a.correlation for a in rows]),
    })  # fmt: skip


def _bytes(events: Sequence[Event]) -> pl.Series:
    return integers([a.bytes_old if a.bytes is None else a.bytes for a in args(events)])


def _copy(name: str) -> tuple[str, str, str]:
    found = COPY.match(name)
    if found is None:
        kind = next((k for k in COPY_KINDS if k in name), "other")
        return kind, "unknown", "unknown"
    kind, source, target = found.groups()
    return (kind if kind in COPY_KINDS else "other"), _memory(source), _memory(target)


def _memory(word: str) -> str:
    return MEMORY.get(word.strip().lower(), "unknown")
