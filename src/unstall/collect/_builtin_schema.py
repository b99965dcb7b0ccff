"""The file that the built-in collector writes: tables and columns of an nsys export, as far as it can fill them.

Comes in: rows. Goes out: an SQLite file, complete or absent, that loads like nsys's own. Beside nsys's tables there is
``UNSTALL_META(name, value)`` (who wrote it, what was not collected), and two columns more: ``NVTX_EVENTS.cpuNs`` (CPU
time that the thread used inside the range) and ``COMPOSITE_EVENTS.cpuNs`` (since the sample before). Nothing of the
environment is stored, nor command lines, nor the host's name.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

SCHEMA_VERSION = "3.20.3"
"""The schema of nsys 2025.3, whose column names these are."""

_DEVICE = ("start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid")

TABLES: dict[str, tuple[str, ...]] = {
    "NVTX_EVENTS": (
        "start", "end", "eventType", "rangeId", "text", "globalTid", "endGlobalTid", "textId", "domainId", "cpuNs",
    ),
    "COMPOSITE_EVENTS": ("id", "start", "cpu", "threadState", "globalTid", "cpuCycles", "cpuNs"),
    "SAMPLING_CALLCHAINS": ("id", "symbol", "module", "originalIP", "stackDepth"),  # originalIP: line of the file
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        *_DEVICE, "demangledName", "shortName", "registersPerThread", "gridX", "gridY", "gridZ", "blockX", "blockY",
        "blockZ", "staticSharedMemory", "dynamicSharedMemory", "graphNodeId",
    ),
    "CUPTI_ACTIVITY_KIND_MEMCPY": (*_DEVICE, "bytes", "copyKind", "srcKind", "dstKind", "graphNodeId"),
    "CUPTI_ACTIVITY_KIND_MEMSET": (*_DEVICE, "bytes", "memKind", "graphNodeId"),
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": (*_DEVICE, "syncType", "eventId"),
    "CUPTI_ACTIVITY_KIND_RUNTIME": (
        "start", "end", "eventClass", "globalTid", "correlationId", "nameId", "returnValue", "callchainId",
    ),
    "PROFILER_OVERHEAD": ("start", "end", "globalTid", "nameId"),
    "PROCESSES": ("globalPid", "pid", "name"),
    "ThreadNames": ("nameId", "priority", "globalTid"),
    "TARGET_INFO_GPU": (
        "id", "name", "smCount", "totalMemory", "memoryBandwidth", "clockRate", "computeMajor", "computeMinor",
    ),
    "TARGET_INFO_SESSION_START_TIME": ("utcEpochNs",),
    "ANALYSIS_DETAILS": ("globalVid", "duration", "startTime", "stopTime"),
    "DIAGNOSTIC_EVENT": ("timestamp", "timestampType", "source", "severity", "text", "globalPid"),
    "META_DATA_EXPORT": ("name", "value"),
    "META_DATA_CAPTURE": ("name", "value"),
    "UNSTALL_META": ("name", "value"),
}  # fmt: skip

_TEXT = frozenset({"text", "name", "value"})


class Writer:
    """Writes tables into a file that appears under its name only when all is in it.

    Args:
        path: the file to be; an older one is replaced.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._partial = path, path.with_name(f".{path.name}.part")
        self._partial.unlink(missing_ok=True)
        self._db = sqlite3.connect(self._partial)
        self._db.execute("PRAGMA journal_mode = OFF")  # a half-written file is thrown away, never repaired
        self._db.execute("PRAGMA synchronous = OFF")
        self._strings: dict[str, int] = {}
        self._made: set[str] = set()

    def string(self, text: str) -> int:
        """The id of a string."""
        return self._strings.setdefault(text, len(self._strings) + 1)

    def add(self, table: str, rows: Iterable[Sequence[Any]]) -> int:
        """Add rows, columns in the order of :data:`TABLES`; how many. The table is there even without rows."""
        columns = TABLES[table]
        if table not in self._made:
            typed = ", ".join(f'"{c}" {_type(table, c)}' for c in columns)
            self._db.execute(f'CREATE TABLE "{table}" ({typed})')
            self._made.add(table)
        marks = ", ".join("?" * len(columns))
        return self._db.executemany(f'INSERT INTO "{table}" VALUES ({marks})', rows).rowcount

    def commit(self) -> Path:
        """Make the file appear."""
        self._db.execute("CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)")
        self._db.executemany("INSERT INTO StringIds VALUES (?, ?)", ((i, s) for s, i in self._strings.items()))
        with closing(self._db):
            self._db.commit()
        self._partial.replace(self._path)
        return self._path

    def discard(self) -> None:
        """Leave nothing behind."""
        self._db.close()
        self._partial.unlink(missing_ok=True)


def _type(table: str, column: str) -> str:
    if column in _TEXT:
        return "TEXT"
    return "INTEGER PRIMARY KEY" if (table, column) == ("COMPOSITE_EVENTS", "id") else "INTEGER"
