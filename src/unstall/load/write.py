"""A :class:`~unstall.model.Profile` → an SQLite file in nsys's own schema, of any version in :data:`VERSIONS`.

Comes in: a profile. Goes out: a file that :func:`unstall.load.load` reads back as the same profile, and that other
tools take for an export of nsys. Column lists are those of real exports of 2022.4, 2024.2, 2025.3 and 2026.2; 2023.4
lies between its neighbours. What has no place in that schema (the user's step time without the profiler, tables that a
collector could not fill) goes into a table of ours, ``UNSTALL_META(name, value)``.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl

from unstall.load.schema import CODES, DOMAIN, GIL_DOMAIN, MARK, PYTHON_SAMPLES, SOURCES, Source
from unstall.model import Profile

VERSIONS = {  # release → product version, schema version
    "2022.4": ("2022.4.2.1", "3.0.0"),
    "2023.4": ("2023.4.4", "3.7.2"),
    "2024.2": ("2024.2.3.38", "3.11.1"),
    "2025.3": ("2025.3.2.0", "3.20.3"),
    "2026.2": ("2026.2.1.210", "3.25.0"),
}

# Column, ":t" or ":r" for TEXT or REAL, "!" for NOT NULL, "@a-b" for releases a to b (indices into VERSIONS).
_OP = "start! end! deviceId! contextId! greenContextId@1-9 streamId! correlationId globalPid"
_CHAIN = "id! symbol! module! kernelMode thumbCode unresolved specialEntry originalIP unwindMethod stackDepth!"
_CALL = "start! end! eventClass! globalTid nameId!"
LAYOUT = {
    "StringIds": "id! value:t!",
    "CUPTI_ACTIVITY_KIND_KERNEL": _OP + " demangledName! shortName! mangledName launchType cacheConfig"
    " registersPerThread! gridX! gridY! gridZ! blockX! blockY! blockZ! staticSharedMemory! dynamicSharedMemory!"
    " localMemoryPerThread! localMemoryTotal! gridId! sharedMemoryExecuted graphNodeId sharedMemoryLimitConfig"
    " qmdBulkReleaseDone@4-9 qmdPreexitDone@4-9 qmdLastCtaDone@4-9 graphId@4-9 clusterX@4-9 clusterY@4-9 clusterZ@4-9"
    " clusterSchedulingPolicy@4-9 maxPotentialClusterSize@4-9 maxActiveClusters@4-9"
    " sharedMemoryRequestedPercentage@4-9 tensorSizeMinusOneElements:t!@4-9",
    "CUPTI_ACTIVITY_KIND_MEMCPY": _OP + " bytes! copyKind! deprecatedSrcId srcKind dstKind srcDeviceId srcContextId"
    " dstDeviceId dstContextId migrationCause graphNodeId virtualAddress copyCount@3-9",
    "CUPTI_ACTIVITY_KIND_MEMSET": _OP + " value! bytes! graphNodeId memKind",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": _OP + " graphId! graphExecId!",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": _OP + " deprecatedSyncType@3-9 syncType! eventId! eventSyncId@3-9",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start! end! eventClass! globalTid correlationId nameId! returnValue! callchainId",
    "NVTX_EVENTS": "start! end eventType! rangeId category color text:t globalTid endGlobalTid textId domainId"
    " uint64Value int64Value doubleValue:r uint32Value int32Value floatValue:r jsonTextId jsonText:t binaryData:t@3-9",
    "OSRT_API": _CALL + " returnValue! nestingLevel callchainId!",
    "CUBLAS_EVENTS": _CALL,
    "CUDNN_EVENTS": _CALL,
    "SCHED_EVENTS": "start! cpu! isSchedIn! globalTid threadState@3-9 threadBlock@3-9",
    "COMPOSITE_EVENTS": "id! start! cpu threadState globalTid cpuCycles!",
    "SAMPLING_CALLCHAINS": _CHAIN,
    "OSRT_CALLCHAINS": _CHAIN,
    "CUDA_CALLCHAINS": _CHAIN,
    "PROFILER_OVERHEAD": "start! end! globalTid nameId! returnValue!@0-3 overheadType!@4-9",
    "GPU_METRICS": "timestamp! typeId! metricId! value!",
    "TARGET_INFO_GPU_METRICS": "typeId! metricId! metricName:t!",
    "DIAGNOSTIC_EVENT": "timestamp! timestampType! source! severity! text:t! globalPid",
    "PROCESSES": "globalPid pid name:t",
    "ThreadNames": "nameId! priority globalTid",
    "TARGET_INFO_GPU": "vmId! id! name:t totalMemory memoryBandwidth clockRate smCount cuDevice asyncEngines"
    " computeMajor computeMinor",
    "TARGET_INFO_CUDA_DEVICE": "gpuId cudaId! pid!",
    "ANALYSIS_DETAILS": "globalVid! duration! startTime! stopTime!",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs utcTime:t localTime:t systemClockNs@4-9",
    "TARGET_INFO_SYSTEM_ENV": "globalVid!@0-0 globalVid@1-9 devStateName:t! name:t! nameEnum! value:t!",
    "META_DATA_CAPTURE": "name:t! value:t",
    "META_DATA_EXPORT": "name:t! value:t",
    "EXPORT_META_DATA": "name:t! value:t",
    "UNSTALL_META": "name:t value:t",
}
EVENT_CLASS = {"OSRT_API": 27, "CUDNN_EVENTS": 28, "CUBLAS_EVENTS": 29}
WRITTEN_ELSEWHERE = frozenset({"NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_OVERHEAD", "GPU_METRICS"})
TRACE_NAMES = {"cuda": "Cuda", "nvtx": "NvtxEvents", "osrt": "OSRuntime"}
_COLUMN = re.compile(r"(\w+)(?::(\w))?(!)?(?:@(\d)-(\d))?")

Row = dict[str, Any]


def write_sqlite(
    profile: Profile,
    path: Path,
    version: str = "2025.3",
    *,
    registered: Collection[str] = (),
    not_collected: Iterable[str] = (),
) -> None:
    """Write ``profile`` to a new file.

    Args:
        profile: what to write. A table that is empty is written empty, one that is absent is not written.
        path: the file; one that exists is replaced.
        version: release of nsys whose schema is written.
        registered: range names to write as registered strings (by id) rather than as text.
        not_collected: our tables that the collector could not fill, for ``UNSTALL_META``.
    """
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as db:
        _Writer(db, list(VERSIONS).index(version)).write(profile, version, registered, list(not_collected))
        db.commit()


class _Writer:
    """One file being written: its connection, its release and its strings."""

    def __init__(self, db: sqlite3.Connection, release: int) -> None:
        self.db, self.release = db, release
        self.strings: dict[str, int] = {"": 0}

    def write(self, profile: Profile, version: str, registered: Collection[str], not_collected: list[str]) -> None:
        for source in SOURCES:
            frame = profile.table(source.table) if source.origin not in WRITTEN_ELSEWHERE else None
            if frame is not None and (self.release >= 1 or source.origin != "DIAGNOSTIC_EVENT"):
                self._put(source.origin, self._rows(source, _part(source, frame)))
        if any(profile.table(t) is not None for t in ("ranges", "marks", "gil")):
            self._put("NVTX_EVENTS", self._nvtx(profile, registered))
        self._metrics(profile)
        self._facts(profile, version, not_collected)
        self._put("StringIds", ({"id": i, "value": s} for s, i in self.strings.items()))

    def _put(self, table: str, rows: Iterable[Row]) -> None:
        columns = [c for c in _COLUMN.findall(LAYOUT[table]) if not c[3] or int(c[3]) <= self.release <= int(c[4])]
        kinds = {"": "INTEGER", "t": "TEXT", "r": "REAL"}
        key = " PRIMARY KEY" if table in ("StringIds", "COMPOSITE_EVENTS") else ""
        spec = ", ".join(
            f'"{n}" {kinds[k]}{" NOT NULL" if r else ""}{key if n == "id" else ""}' for n, k, r, *_ in columns
        )
        self.db.execute(f'CREATE TABLE "{table}" ({spec})')
        blank = {n: ("" if k == "t" else 0) if required else None for n, k, required, *_ in columns}
        values = ([value if (value := row.get(n)) is not None else b for n, b in blank.items()] for row in rows)
        self.db.executemany(f'INSERT INTO "{table}" VALUES ({", ".join("?" * len(columns))})', values)

    def _string(self, text: str | None) -> int | None:
        return None if text is None else self.strings.setdefault(text, len(self.strings))

    def _rows(self, source: Source, frame: pl.DataFrame) -> Iterator[Row]:
        has = {c[0] for c in _COLUMN.findall(LAYOUT[source.origin])}
        found = source.found(has)
        for ours in frame.iter_rows(named=True):
            row: Row = {"eventClass": EVENT_CLASS.get(source.origin, int(not str(ours.get("name")).startswith("cuda")))}
            for column, name in found.items():
                value = ours[column]
                row[name.lstrip("@$")] = self._string(value) if name[0] == "@" else self._code(source, column, value)
            yield row

    def _code(self, source: Source, column: str, value: Any) -> Any:
        if (source.table, column) not in CODES:
            return 0xFFFFFFFF if (source.table, column) == ("syncs", "event") and value is None else value
        if (column, value, self.release) == ("kind", "stream", 3) and source.table == "syncs":
            return 2  # as nsys 2025.3 really does
        codes, _ = CODES[source.table, column]
        return next((code for code, word in codes.items() if word == value), 99)

    def _nvtx(self, profile: Profile, registered: Collection[str]) -> Iterator[Row]:
        domains: dict[tuple[str, int], int] = {}
        ids: dict[str, int] = {"": 0}
        for kind, row in _nvtx_rows(profile):
            domain = row["domain"] or ""
            number = ids.setdefault(domain, len(ids))
            if number and (domain, row["process"]) not in domains:
                domains[domain, row["process"]] = number
                yield {"start": 0, "eventType": DOMAIN, "text": domain, "globalTid": row["thread"], "domainId": number}
            by_id = row["name"] in registered
            yield {
                "start": row.get("start", row.get("time")),
                "end": row.get("end"),
                "eventType": kind,
                "text": None if by_id else row["name"],
                "textId": self._string(row["name"]) if by_id else None,
                "globalTid": row["thread"],
                "endGlobalTid": other if (other := row.get("end_thread")) != row["thread"] else None,
                "domainId": number,
            }

    def _metrics(self, profile: Profile) -> None:
        if profile.gpu_metrics is None:
            return
        names = {n: i for i, n in enumerate(profile.gpu_metrics["name"].unique(maintain_order=True))}
        rows = [
            {"timestamp": r["time"], "typeId": r["device"], "metricId": names[r["name"]], "value": r["value"]}
            for r in profile.gpu_metrics.iter_rows(named=True)
        ]
        self._put("GPU_METRICS", rows)
        pairs = {(r["typeId"], r["metricId"]) for r in rows}
        back = {i: n for n, i in names.items()}
        self._put("TARGET_INFO_GPU_METRICS", ({"typeId": t, "metricId": m, "metricName": back[m]} for t, m in pairs))

    def _facts(self, profile: Profile, version: str, not_collected: list[str]) -> None:
        meta = profile.meta
        product, schema = VERSIONS[version]
        export = {"EXPORT_PRODUCT_NAME": "NVIDIA Nsight Systems", "EXPORT_PRODUCT_VERSION": product,
                  "EXPORT_SCHEMA_VERSION": schema}  # fmt: skip
        self._pairs("META_DATA_EXPORT" if self.release else "EXPORT_META_DATA", export.items())
        self._put("ANALYSIS_DETAILS", [{"duration": meta.end_ns, "stopTime": meta.end_ns}])
        if meta.utc_epoch_ns is not None:
            self._put("TARGET_INFO_SESSION_START_TIME", [{"utcEpochNs": meta.utc_epoch_ns}])
        if self.release:
            asked = [
                ("CAPTURE_EVENT_TYPE", TRACE_NAMES.get(t, t)) for t in meta.options.get("trace", "").split(",") if t
            ]
            mode = meta.options.get("cuda_graph_trace")
            asked += [("PROCESS_0:CUDA_GRAPH_TRACE_OPTIONS:MODE", mode.title())] if mode else []
            self._pairs("META_DATA_CAPTURE", asked)
        system = {"Hostname": meta.host} if meta.host else {}
        system |= {"DeviceEnvironment": f"RANK={meta.rank}"} if meta.rank is not None else {}
        self._put("TARGET_INFO_SYSTEM_ENV", ({"name": n, "value": v} for n, v in system.items()))
        if profile.gpus is not None and profile.processes is not None:
            pids, devices = profile.processes["pid"], profile.gpus["device"]
            self._put("TARGET_INFO_CUDA_DEVICE", ({"gpuId": d, "cudaId": d, "pid": p} for p in pids for d in devices))
        ours = {"unprofiled_ns": str(meta.unprofiled_ns)} if meta.unprofiled_ns is not None else {}
        if meta.producer != "nsys":
            ours |= {"producer": meta.producer, "version": meta.producer_version}
        ours |= {"not_collected": json.dumps(not_collected)} if not_collected else {}
        if ours:
            self._pairs("UNSTALL_META", ours.items())

    def _pairs(self, table: str, pairs: Iterable[tuple[str, str]]) -> None:
        self._put(table, ({"name": n, "value": v} for n, v in pairs))


def _part(source: Source, frame: pl.DataFrame) -> pl.DataFrame:
    """The rows of our table that belong into this table of the export."""
    for column, value in source.constant.items():
        frame = frame.filter(pl.col(column) == value)
    if source.table == "library":
        cudnn = pl.col("name").cast(pl.String).str.contains("(?i)^cudnn")
        frame = frame.filter(cudnn if source.origin == "CUDNN_EVENTS" else ~cudnn)
    return frame


def _nvtx_rows(profile: Profile) -> Iterator[tuple[int, Row]]:
    """(event type, row) of everything that nsys keeps among its NVTX events."""
    for row in _named(profile.ranges):
        yield (59 if row["style"] == "push_pop" else 60), row
    for row in _named(profile.marks):
        yield MARK, row
    for row in _named(profile.gil):
        name = "Holding GIL" if row["state"] == "holding" else "Waiting for GIL"
        yield 59, {**row, "domain": GIL_DOMAIN, "name": name}
    for row in _named(profile.samples):
        if row["kind"] == "python":
            yield MARK, {**row, "domain": PYTHON_SAMPLES, "name": None}


def _named(frame: pl.DataFrame | None) -> Iterable[Row]:
    return frame.iter_rows(named=True) if frame is not None else ()
