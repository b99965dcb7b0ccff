"""Parts of many processes → one file.

Comes in: the folder in which recording processes left their parts (:mod:`unstall.instrument.spool`). Goes out: one
export. Time zero is the earliest moment that any process tells of; a process that was killed is there with all that it
had written, and a diagnostic line says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unstall._version import VERSION
from unstall.collect import _builtin_kineto as kineto
from unstall.collect._builtin_schema import SCHEMA_VERSION, Writer
from unstall.instrument.spool import documents, parts

GLOBAL = 1 << 48  # nsys's bits above the process number
DOMAIN = 75  # event type of a domain's name
WARNING = 2  # a severity of nsys
NEVER = {
    "osrt": "calls of the OS runtime library are recorded by nsys only",
    "gil": "GIL states are recorded by nsys only",
    "sched": "context switches are recorded by nsys only; ranges and samples tell CPU time instead",
    "gpu_metrics": "GPU metrics are recorded by nsys only",
    "library": "calls of cuBLAS and cuDNN are recorded by nsys only",
    "graphs": "CUDA graphs are recorded kernel by kernel",
}
CUDA = ("kernels", "copies", "memsets", "api", "syncs")


@dataclass
class Part:
    """What one process left."""

    pid: int
    name: str
    clock: int  # its first moment
    utc_minus_clock: int
    rank: int | None
    strings: list[str] = field(default_factory=list)
    stacks: list[list[list[int]]] = field(default_factory=list)
    ranges: list[list[Any]] = field(default_factory=list)
    samples: list[list[int]] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)  # as Python called its threads; outlives them
    threads: dict[int, tuple[str, int]] = field(default_factory=dict)
    gpu: list[dict[str, Any]] = field(default_factory=list)
    usage: dict[str, Any] = field(default_factory=dict)
    last: int = 0

    @property
    def process(self) -> int:
        return GLOBAL | self.pid << 24

    def thread(self, tid: int) -> int:
        return self.process | (tid & 0xFFFFFF)

    def all_names(self) -> dict[int, str]:
        """Thread → name, Python's before the operating system's."""
        return {**{tid: name for tid, (name, _) in self.threads.items()}, **self.names}

    @property
    def complete(self) -> bool:
        """Whether the process told its end."""
        return bool(self.usage)


def read_part(path: Path) -> Part | None:
    """One process's part; ``None`` when not even its introduction was written."""
    part: Part | None = None
    for document in documents(path):
        kind = document["kind"]
        if kind == "process":
            utc = document["utc"] - document["time"]
            part = Part(document["pid"], document["name"], document["time"], utc, document["rank"])
        elif part is not None:
            _take(part, kind, document)
    return part


def _take(part: Part, kind: str, document: dict[str, Any]) -> None:
    if kind == "events":
        part.strings += document["strings"]
        part.stacks += document.get("stacks", [])
        part.ranges += document["ranges"]
        part.samples += document.get("samples", [])
        part.names.update({tid: name for tid, name in document.get("names", [])})
    elif kind == "threads":
        part.threads.update({tid: (name, cpu) for tid, name, cpu in document["threads"]})
    elif kind == "gpu":
        part.gpu.append(document)
    elif kind == "end":
        part.usage = {k: v for k, v in document.items() if k not in ("kind", "time", "utc")}
        part.last = document["time"]


def merge(folder: Path, output: Path) -> list[str]:
    """Write ``output`` from the parts in ``folder``; what could not be used, in words. Without a part, no file."""
    found = [p for path in parts(folder) if (p := read_part(path)) is not None]
    if not found:
        return ["no process of the program recorded anything"]
    writer = Writer(output)
    try:
        said = _Merge(writer, folder, found).write()
        writer.commit()
    except BaseException:
        writer.discard()
        raise
    return said


class _Merge:
    def __init__(self, writer: Writer, folder: Path, found: list[Part]) -> None:
        self._writer, self._folder, self._parts = writer, folder, found
        self._zero = min(t for p in found for t in (p.clock, *(r[0] for r in p.ranges), *(s[0] for s in p.samples)))
        self._last = self._zero
        self._said: list[tuple[int, str, int | None]] = []
        self._errors: list[int] = []
        self._next_sample = 0
        self._gpus: list[tuple[Any, ...]] = []
        self._has_gpu = False

    def write(self) -> list[str]:
        for part in self._parts:
            self._ranges(part)
            self._samples(part)
            self._threads(part)
            self._gpu(part)
            if not part.complete:
                text = f"Process {part.pid} ({part.name}) was ended before it could write its last half second."
                self._said.append((WARNING, text, part.process))
            self._seen(part.last)
        self._facts()
        return [text for severity, text, _ in self._said if severity == WARNING]

    def _seen(self, time: int) -> None:
        self._last = max(self._last, time)

    def _ranges(self, part: Part) -> None:
        domains: dict[str, int] = {"": 0}
        names = [self._writer.string(s) for s in part.strings]

        def rows() -> Iterator[tuple[Any, ...]]:
            for start, end, name, domain, kind, tid, end_tid, cpu in part.ranges:
                number = domains.setdefault(part.strings[domain], len(domains))
                crossing = part.thread(end_tid) if end_tid != tid else None
                stop = None if end is None else end - self._zero
                self._seen(end or start)
                yield (
                    start - self._zero, stop, kind, None, None, part.thread(tid), crossing, names[name], number, cpu
                )  # fmt: skip

        self._writer.add("NVTX_EVENTS", sorted(rows(), key=lambda row: row[0]))
        thread = part.thread(part.pid)
        named = [(0, None, DOMAIN, None, text, thread, None, None, i, None) for text, i in domains.items() if i]
        self._writer.add("NVTX_EVENTS", named)

    def _samples(self, part: Part) -> None:
        chains = [[self._frame(part, frame) for frame in stack] for stack in part.stacks]
        first = self._next_sample + 1
        self._next_sample += len(part.samples)
        self._writer.add(
            "COMPOSITE_EVENTS",
            (
                (first + i, time - self._zero, None, state, part.thread(tid), max(1, cpu), cpu)
                for i, (time, tid, _, cpu, state) in enumerate(part.samples)
            ),
        )
        self._writer.add(
            "SAMPLING_CALLCHAINS",
            (
                (first + i, *frame, depth)
                for i, (_, _, stack, _, _) in enumerate(part.samples)
                for depth, frame in enumerate(chains[stack])
            ),
        )

    def _frame(self, part: Part, frame: list[int]) -> tuple[int, int, int]:
        name, file, line = frame
        path = part.strings[file]
        symbol = f"{part.strings[name]} ({Path(path).name})"
        return self._writer.string(symbol), self._writer.string(path), line

    def _threads(self, part: Part) -> None:
        self._writer.add("PROCESSES", [(part.process, part.pid, part.name)])
        self._writer.add(
            "ThreadNames",
            [(self._writer.string(name), None, part.thread(tid)) for tid, name in part.all_names().items()],
        )

    def _gpu(self, part: Part) -> None:
        for document in part.gpu:
            for text in (document.get("missing"), document.get("cut")):
                if text:
                    self._said.append((WARNING, f"{text[0].upper()}{text[1:]}.", part.process))
            if "file" in document:
                self._gpu_rows(part, kineto.read(self._folder / document["file"], document, part.utc_minus_clock))
                known = {gpu[0] for gpu in self._gpus}
                self._gpus += [_gpu_facts(d) for d in document.get("devices", []) if d["id"] not in known]

    def _gpu_rows(self, part: Part, rows: kineto.GpuRows) -> None:
        self._has_gpu = True
        if rows.clock_error_ns is not None:
            self._errors.append(rows.clock_error_ns)
        add, string, zero = self._writer.add, self._writer.string, self._zero
        process = part.process

        def device(row: tuple[Any, ...]) -> tuple[Any, ...]:
            self._seen(row[1])
            return (row[0] - zero, row[1] - zero, *row[2:6], process, *row[6:])

        kernels = (device(r) for r in sorted(rows.kernels, key=_start))
        add("CUPTI_ACTIVITY_KIND_KERNEL", ((*r[:7], string(r[7]), string(r[8]), *r[9:]) for r in kernels))
        add("CUPTI_ACTIVITY_KIND_MEMCPY", (device(r) for r in sorted(rows.copies, key=_start)))
        add("CUPTI_ACTIVITY_KIND_MEMSET", (device(r) for r in sorted(rows.memsets, key=_start)))
        add("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", (device(r) for r in sorted(rows.syncs, key=_start)))
        calls = sorted(rows.calls, key=_start)
        add(
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            ((s - zero, e - zero, c, part.thread(t), k, string(n), None, None) for s, e, c, t, k, n in calls),
        )
        add("PROFILER_OVERHEAD", ((s - zero, e - zero, part.thread(t), string(n)) for s, e, t, n in rows.overhead))

    def _facts(self) -> None:
        first = self._parts[0]
        duration = self._last - self._zero
        add = self._writer.add
        add("TARGET_INFO_SESSION_START_TIME", [(self._zero + first.utc_minus_clock,)])
        add("ANALYSIS_DETAILS", [(GLOBAL, duration, 0, duration)])
        if self._gpus:
            add("TARGET_INFO_GPU", self._gpus)
        add("DIAGNOSTIC_EVENT", [(0, 1, 3, severity, text, process) for severity, text, process in self._said])
        add("META_DATA_EXPORT", [
            ("EXPORT_PRODUCT_NAME", "unstall"), ("EXPORT_PRODUCT_VERSION", VERSION),
            ("EXPORT_SCHEMA_VERSION", SCHEMA_VERSION), ("EXPORT_PARAM_LAZY", "true"),
        ])  # fmt: skip
        add("META_DATA_CAPTURE", [("CAPTURE_EVENT_TYPE", "NvtxEvents")])
        add("UNSTALL_META", list(self._meta().items()))

    def _meta(self) -> dict[str, str]:
        missing = dict(NEVER) if self._has_gpu else {**NEVER, **dict.fromkeys(CUDA, self._why_no_gpu())}
        usage = {str(p.pid): {**p.usage, "cpu_ns_by_thread": _cpu(p)} for p in self._parts}
        meta = {
            "producer": "unstall",
            "version": VERSION,
            "not_collected": json.dumps(sorted(missing)),
            "not_collected_reasons": json.dumps(missing),
            "processes": json.dumps(usage),
        }
        ranks = {p.rank for p in self._parts if p.rank is not None}
        if len(ranks) == 1:
            meta["rank"] = str(ranks.pop())
        if self._errors:
            meta["gpu_clock_error_ns"] = str(max(self._errors))
        return meta

    def _why_no_gpu(self) -> str:
        told = [d["missing"] for p in self._parts for d in p.gpu if d.get("missing")]
        return told[0] if told else "no process set up CUDA through torch, whose profiler records the GPU"


def _start(row: tuple[Any, ...]) -> int:
    return int(row[0])


def _cpu(part: Part) -> dict[str, int]:
    return {f"{tid} {part.all_names()[tid]}": cpu for tid, (_, cpu) in part.threads.items()}


def _gpu_facts(device: dict[str, Any]) -> tuple[Any, ...]:
    keys = ("id", "name", "smCount", "totalMemory", "memoryBandwidth", "clockRate", "computeMajor", "computeMinor")
    return tuple(device.get(key) for key in keys)
