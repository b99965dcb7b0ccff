"""Which nsys table and column becomes which of ours, for every export schema from 3.0 (2022.4) to 3.27.

Comes in: the tables and columns that an export really has. Goes out: for each of our tables, a :class:`Source` to
read and the SQL of just the columns used. Columns are found by what is there, never by a version number: each of ours
lists its candidates in order, and is null when the export has none of them.
"""

from __future__ import annotations

from dataclasses import dataclass

# ours → candidates in the export, the newest name first. A leading "@" marks an id into StringIds.
_DEVICE = {
    "start": ("start",), "end": ("end",), "process": ("globalPid",), "device": ("deviceId",),
    "context": ("contextId",), "stream": ("streamId",), "correlation": ("correlationId",),
}  # fmt: skip
_HOST = {"start": ("start",), "end": ("end",), "thread": ("globalTid",)}
_NODE = {"graph_node": ("graphNodeId",)}
_CHAIN = {"callchain": ("id",), "depth": ("stackDepth",), "symbol": ("@symbol",), "module": ("@module",)}


@dataclass(frozen=True)
class Source:
    """One table of the export and how its columns are named here.

    Attributes:
        table: our table.
        origin: the export's table.
        columns: ours → candidates in the export.
        constant: columns whose value is the same in every row of this source.
        needs: columns of the export without which the table cannot be used.
    """

    table: str
    origin: str
    columns: dict[str, tuple[str, ...]]
    constant: dict[str, str] | None = None
    needs: tuple[str, ...] = ("start", "end")


SOURCES: tuple[Source, ...] = (
    Source("kernels", "CUPTI_ACTIVITY_KIND_KERNEL", {
        **_DEVICE, **_NODE, "name": ("@demangledName", "@shortName"), "short_name": ("@shortName",),
        "grid_x": ("gridX",), "grid_y": ("gridY",), "grid_z": ("gridZ",),
        "block_x": ("blockX",), "block_y": ("blockY",), "block_z": ("blockZ",),
        "registers": ("registersPerThread",), "static_smem_bytes": ("staticSharedMemory",),
        "dynamic_smem_bytes": ("dynamicSharedMemory",),
    }),
    Source("copies", "CUPTI_ACTIVITY_KIND_MEMCPY", {
        **_DEVICE, **_NODE, "kind": ("copyKind",), "source": ("srcKind",), "destination": ("dstKind",),
        "bytes": ("bytes",),
    }),
    Source("memsets", "CUPTI_ACTIVITY_KIND_MEMSET", {
        **_DEVICE, **_NODE, "memory": ("memKind",), "bytes": ("bytes",),
    }),
    Source("graphs", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", {**_DEVICE, "graph": ("graphId", "graphExecId")}),
    Source("api", "CUPTI_ACTIVITY_KIND_RUNTIME", {
        **_HOST, "correlation": ("correlationId",), "name": ("@nameId",), "result": ("returnValue",),
        "callchain": ("callchainId",),
    }),
    Source("syncs", "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", {
        **_DEVICE, "kind": ("syncType",), "event": ("eventId",),
    }),
    Source("osrt", "OSRT_API", {
        **_HOST, "name": ("@nameId",), "callchain": ("callchainId",), "event_class": ("eventClass",),
    }),
    Source("library", "CUBLAS_EVENTS", {**_HOST, "name": ("@nameId",)}),
    Source("library", "CUDNN_EVENTS", {**_HOST, "name": ("@nameId",)}),
    Source("sched", "SCHED_EVENTS", {
        "time": ("start",), "cpu": ("cpu",), "thread": ("globalTid",), "running": ("isSchedIn",),
    }, needs=("start", "isSchedIn")),
    Source("samples", "COMPOSITE_EVENTS", {
        "time": ("start",), "thread": ("globalTid",), "callchain": ("id",),
    }, {"kind": "cpu"}, needs=("start",)),
    Source("frames", "SAMPLING_CALLCHAINS", _CHAIN, {"kind": "cpu"}, needs=("id", "symbol")),
    Source("frames", "OSRT_CALLCHAINS", _CHAIN, {"kind": "osrt"}, needs=("id", "symbol")),
    Source("frames", "CUDA_CALLCHAINS", _CHAIN, {"kind": "api"}, needs=("id", "symbol")),
    Source("overhead", "PROFILER_OVERHEAD", {**_HOST, "name": ("@nameId",)}),
    Source("overhead", "CUPTI_ACTIVITY_KIND_OVERHEAD", {**_HOST, "name": ("@nameId",)}),
    Source("diagnostics", "DIAGNOSTIC_EVENT", {
        "time": ("timestamp",), "severity": ("severity",), "source": ("source",), "text": ("text",),
        "process": ("globalPid",),
    }, needs=("text",)),
    Source("gpus", "TARGET_INFO_GPU", {
        "device": ("id", "cuDevice"), "name": ("name",), "sm_count": ("smCount",), "clock_hz": ("clockRate",),
        "memory_bytes": ("totalMemory",), "memory_bandwidth_bytes_per_s": ("memoryBandwidth",),
        "compute_major": ("computeMajor",), "compute_minor": ("computeMinor",), "async_engines": ("asyncEngines",),
    }, needs=("name",)),
    Source("processes", "PROCESSES", {"process": ("globalPid",), "pid": ("pid",), "name": ("name",)},
           needs=("globalPid",)),
    Source("threads", "ThreadNames", {"thread": ("globalTid",), "name": ("@nameId",)}, needs=("globalTid",)),
    Source("nvtx", "NVTX_EVENTS", {
        "start": ("start",), "end": ("end",), "type": ("eventType",), "text": ("text",), "text_id": ("textId",),
        "thread": ("globalTid",), "end_thread": ("endGlobalTid",), "domain_id": ("domainId",),
    }, needs=("start", "eventType")),
)  # fmt: skip

TEXT_COLUMNS = frozenset({"text", "value", "name"})
"""Columns of the export that hold text; ``symbol``, ``nameId`` and the like hold ids."""

COPY_KINDS = {
    0: "other", 1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD", 9: "HtoH",
    10: "PtoP", 11: "UVM-HtoD", 12: "UVM-DtoH", 13: "UVM-DtoD",
}  # fmt: skip
MEMORY_KINDS = {
    0: "pageable", 1: "pinned", 2: "device", 3: "array", 4: "managed", 5: "device", 6: "managed", 7: "unknown",
}  # fmt: skip
SYNC_KINDS = {1: "event", 2: "stream_wait_event", 3: "stream", 4: "context"}
DIAGNOSTIC_SOURCES = {0: "unknown", 1: "injection", 2: "daemon", 3: "analysis"}
CODES: dict[tuple[str, str], tuple[dict[int, str], str]] = {
    ("copies", "kind"): (COPY_KINDS, "other"),
    ("copies", "source"): (MEMORY_KINDS, "unknown"),
    ("copies", "destination"): (MEMORY_KINDS, "unknown"),
    ("memsets", "memory"): (MEMORY_KINDS, "unknown"),
    ("syncs", "kind"): (SYNC_KINDS, "unknown"),
    ("diagnostics", "source"): (DIAGNOSTIC_SOURCES, "unknown"),
}
"""(table, column) → the export's codes in words, and the word for a code not listed."""
