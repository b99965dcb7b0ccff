"""Which nsys table and column becomes which of ours, for every export schema from 3.0 (2022.4) to 3.27.

Comes in: the tables and columns that an export really has. Goes out: for each of our tables its :class:`Source`, and
the SQL of just the columns used. Columns are found by what is there, never by a version number: each of ours lists its
candidates in order, and is null when the export has none of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

Columns = Mapping[str, tuple[str, ...]]
"""Ours → candidates in the export. A leading ``@`` marks an id into StringIds, a leading ``$`` text."""

_DEVICE: Columns = {
    "start": ("start",), "end": ("end",), "process": ("globalPid",), "device": ("deviceId",),
    "context": ("contextId",), "stream": ("streamId",), "correlation": ("correlationId",),
}  # fmt: skip
_NODE: Columns = {"graph_node": ("graphNodeId",)}
_HOST: Columns = {"start": ("start",), "end": ("end",), "thread": ("globalTid",)}
_CALL: Columns = {**_HOST, "name": ("@nameId",)}
_CHAIN: Columns = {"callchain": ("id",), "depth": ("stackDepth",), "symbol": ("@symbol",), "module": ("@module",)}


@dataclass(frozen=True)
class Source:
    """One table of the export and what its columns are called here.

    Attributes:
        table: our table.
        origin: the export's table.
        columns: see :data:`Columns`.
        constant: columns that have one value in every row of this source.
        needs: columns of the export without which its rows mean nothing.
        where: rows taken, as SQL, where ``where_column`` exists.
    """

    table: str
    origin: str
    columns: Columns
    constant: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ("start", "end")
    where: str = ""
    where_column: str = ""

    def usable(self, have: Set[str]) -> bool:
        """Whether these are columns enough of its table to mean something."""
        return set(self.needs) <= have

    def found(self, have: Set[str]) -> dict[str, str]:
        """Ours → the candidate that the export has, its mark kept."""
        picked = {
            ours: next((c for c in names if c.lstrip("@$") in have), None) for ours, names in self.columns.items()
        }
        return {ours: name for ours, name in picked.items() if name is not None}

    def select(self, have: Set[str], rowids: tuple[int, int] | None = None) -> str:
        """SQL of the columns found, below one row of the right types.

        The driver takes a column's type from its first values and would call a column that starts with NULLs an
        integer one, so a first row states the types; the reader drops it. Text travels as bytes, because the driver
        does not check its encoding.
        """
        found = self.found(have)
        types = ", ".join(f"{'x' + chr(39) * 2 if n[0] == '$' else 0} AS {ours}" for ours, n in found.items())
        picked = ", ".join(f'CAST("{n[1:]}" AS BLOB)' if n[0] == "$" else f'"{n.lstrip("@")}"' for n in found.values())
        terms = [self.where] if self.where_column in have else []
        terms += [f"rowid BETWEEN {rowids[0]} AND {rowids[1]}"] if rowids else []
        where = f" WHERE {' AND '.join(terms)}" if terms else ""
        return f'SELECT {types} UNION ALL SELECT {picked} FROM "{self.origin}"{where}'


NVTX = Source("nvtx", "NVTX_EVENTS", {
    "start": ("start",), "end": ("end",), "type": ("eventType",), "text": ("$text",), "named": ("@textId",),
    "thread": ("globalTid",), "end_thread": ("endGlobalTid",), "domain_id": ("domainId",), "cpu_ns": ("cpuNs",),
}, needs=("start", "eventType"))  # fmt: skip

SOURCES: tuple[Source, ...] = (  # the largest first: they are read in this order by a few threads
    Source("kernels", "CUPTI_ACTIVITY_KIND_KERNEL", {
        **_DEVICE, **_NODE, "name": ("@demangledName", "@shortName"), "short_name": ("@shortName",),
        "grid_x": ("gridX",), "grid_y": ("gridY",), "grid_z": ("gridZ",),
        "block_x": ("blockX",), "block_y": ("blockY",), "block_z": ("blockZ",),
        "registers": ("registersPerThread",), "static_smem_bytes": ("staticSharedMemory",),
        "dynamic_smem_bytes": ("dynamicSharedMemory",),
    }),
    Source("api", "CUPTI_ACTIVITY_KIND_RUNTIME", {
        **_CALL, "correlation": ("correlationId",), "result": ("returnValue",), "callchain": ("callchainId",),
    }),
    NVTX,
    # Event class 27 is a call; 31 and 32 mark where tracing of a process began and ended.
    Source("osrt", "OSRT_API", {**_CALL, "callchain": ("callchainId",)},
           where="eventClass NOT IN (31, 32)", where_column="eventClass"),
    Source("sched", "SCHED_EVENTS", {
        "time": ("start",), "cpu": ("cpu",), "thread": ("globalTid",), "running": ("isSchedIn",),
    }, needs=("start", "isSchedIn")),
    Source("copies", "CUPTI_ACTIVITY_KIND_MEMCPY", {
        **_DEVICE, **_NODE, "kind": ("copyKind",), "source": ("srcKind",), "destination": ("dstKind",),
        "bytes": ("bytes",),
    }),
    Source("memsets", "CUPTI_ACTIVITY_KIND_MEMSET", {**_DEVICE, **_NODE, "memory": ("memKind",), "bytes": ("bytes",)}),
    Source("syncs", "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", {**_DEVICE, "kind": ("syncType",), "event": ("eventId",)}),
    Source("graphs", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", {**_DEVICE, "graph": ("graphId", "graphExecId")}),
    Source("library", "CUBLAS_EVENTS", _CALL, where="eventClass NOT IN (35, 36)", where_column="eventClass"),
    Source("library", "CUDNN_EVENTS", _CALL, where="eventClass NOT IN (33, 34)", where_column="eventClass"),
    Source("samples", "COMPOSITE_EVENTS", {"time": ("start",), "thread": ("globalTid",), "callchain": ("id",)},
           {"kind": "cpu"}, needs=("start",)),
    Source("frames", "SAMPLING_CALLCHAINS", _CHAIN, {"kind": "cpu"}, needs=("id", "symbol")),
    Source("frames", "OSRT_CALLCHAINS", _CHAIN, {"kind": "osrt"}, needs=("id", "symbol")),
    Source("frames", "CUDA_CALLCHAINS", _CHAIN, {"kind": "api"}, needs=("id", "symbol")),
    Source("gpu_metrics", "GPU_METRICS", {
        "time": ("timestamp",), "type": ("typeId",), "metric": ("metricId",), "value": ("value",),
    }, needs=("timestamp", "metricId", "value")),
    Source("overhead", "PROFILER_OVERHEAD", _CALL),
    Source("overhead", "CUPTI_ACTIVITY_KIND_OVERHEAD", _CALL),
    Source("diagnostics", "DIAGNOSTIC_EVENT", {
        "time": ("timestamp",), "severity": ("severity",), "source": ("source",), "text": ("$text",),
        "process": ("globalPid",),
    }, needs=("text",)),
    Source("gpus", "TARGET_INFO_GPU", {
        "device": ("id",), "name": ("$name",), "sm_count": ("smCount",), "clock_hz": ("clockRate",),
        "memory_bytes": ("totalMemory",), "memory_bandwidth_bytes_per_s": ("memoryBandwidth",),
        "compute_major": ("computeMajor",), "compute_minor": ("computeMinor",), "async_engines": ("asyncEngines",),
    }, needs=("id", "name")),
    Source("processes", "PROCESSES", {"process": ("globalPid",), "pid": ("pid",), "name": ("$name",)},
           needs=("globalPid",)),
    Source("threads", "ThreadNames", {"thread": ("globalTid",), "name": ("@nameId",)}, needs=("globalTid",)),
)  # fmt: skip

# eventType of NVTX_EVENTS
PUSH_POP, START_END, MARK, DOMAIN = (59, 70), (60, 71), 34, 75
OTHER_NVTX = {33: "category name", 34: "mark", 39: "thread name", 75: "domain name", 76: "domain end"}
GIL_DOMAIN, PYTHON_SAMPLES = "GIL Trace", "Python Periodic Sampling"

_COPY = {
    1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD", 9: "HtoH", 10: "PtoP",
    11: "UVM-HtoD", 12: "UVM-DtoH", 13: "UVM-DtoD",
}  # fmt: skip
_MEMORY = {0: "pageable", 1: "pinned", 2: "device", 3: "array", 4: "managed", 5: "device", 6: "managed"}

CODES: Mapping[tuple[str, str], tuple[Mapping[int, str], str]] = {
    ("copies", "kind"): (_COPY, "other"),
    ("copies", "source"): (_MEMORY, "unknown"),
    ("copies", "destination"): (_MEMORY, "unknown"),
    ("memsets", "memory"): (_MEMORY, "unknown"),
    ("syncs", "kind"): ({1: "event", 2: "stream_wait_event", 3: "stream", 4: "context"}, "unknown"),
    ("diagnostics", "source"): ({1: "injection", 2: "daemon", 3: "analysis"}, "unknown"),
}
"""(table, column) → the export's codes in words, and the word for any other code."""

SYNC_CALLS: Mapping[str, str] = {
    "StreamSynchronize": "stream", "StreamWaitEvent": "stream_wait_event", "EventSynchronize": "event",
    "DeviceSynchronize": "context", "CtxSynchronize": "context", "ThreadSynchronize": "context",
}  # fmt: skip
"""Part of a call's name → what it waits for. It outranks ``syncType``: nsys 2025.3 writes 2 (the code of
``cudaStreamWaitEvent``) for ``cudaStreamSynchronize`` as well, where 2024.2 and 2026.2 write 3."""
