"""Hand-made traces for tests: :class:`TraceBuilder` makes a :class:`~unstall.model.Profile` in three lines.

    t = TraceBuilder()
    t.range("step_0", 0, ms(25))
    t.launch("gemm", at=ms(20), kernel_start=ms(21), kernel_dur=ms(3))
    profile = t.profile()      # in memory, fast
    t.write("x.sqlite")        # the same, in the real nsys schema of a chosen version

Comes in: method calls with times in nanoseconds (``ms``, ``us`` help). Goes out: a profile, or an nsys SQLite export
that :func:`unstall.load.load` reads back as the same profile.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from unstall.load.tables import from_rows
from unstall.load.write import VERSIONS, write_sqlite
from unstall.model import DEVICE_TABLES, Meta, Profile

GLOBAL = 1 << 48  # nsys's hardware and VM bits; any constant would do, zero would hide mistakes
IMPLIED = {"cuda": (*DEVICE_TABLES, "api", "syncs"), "nvtx": ("ranges", "marks")}
COPY_ENDS = {"HtoD": ("pageable", "device"), "DtoH": ("device", "pageable"), "DtoD": ("device", "device"),
             "PtoP": ("device", "device"), "HtoH": ("pageable", "pageable")}  # fmt: skip
SYNC_CALLS = {"stream": "cudaStreamSynchronize_v3020", "context": "cudaDeviceSynchronize_v3020",
              "event": "cudaEventSynchronize_v3020", "stream_wait_event": "cudaStreamWaitEvent_v3020"}  # fmt: skip


def ms(value: float) -> int:
    """Milliseconds in nanoseconds."""
    return round(value * 1_000_000)


def us(value: float) -> int:
    """Microseconds in nanoseconds."""
    return round(value * 1_000)


class TraceBuilder:
    """Collects events; every method that takes ``tid`` uses the process's main thread when it is left out.

    Args:
        pid: the first process. More come with :meth:`process`.
        trace: what the capture is said to have traced; a traced table without events is empty, any other is absent.
        gpu: name of device 0; empty for none.
        version: release of nsys whose schema :meth:`write` writes (see :data:`unstall.load.write.VERSIONS`).
    """

    def __init__(
        self,
        pid: int = 100,
        *,
        trace: Sequence[str] = ("cuda", "nvtx"),
        gpu: str = "NVIDIA H200",
        version: str = "2025.3",
    ) -> None:
        self._rows: dict[str, list[dict[str, Any]]] = {}
        self._chains = 0
        self._correlation: dict[int, int] = {}
        self._trace = tuple(trace)
        self.registered: set[str] = set()
        self.version = version
        product, schema = VERSIONS[version]
        self._meta = Meta(producer_version=product, schema_version=schema)
        self._end: int | None = None
        self.process(pid)
        if gpu:
            self.gpu(0, gpu)

    # ---- who ----------------------------------------------------------------------------------------------------

    def process(self, pid: int, name: str = "python3") -> int:
        """Start (or go back to) a process: what follows belongs to it. Returns its global id."""
        self.pid = pid
        self.global_process = GLOBAL | pid << 24
        known = self._rows.setdefault("processes", [])
        if all(r["pid"] != pid for r in known):
            known.append({"process": self.global_process, "pid": pid, "name": name})
        return self.global_process

    def thread(self, tid: int | None = None, name: str | None = None) -> int:
        """Global id of a thread of the current process; ``name`` puts it into the ``threads`` table."""
        tid = self.pid if tid is None else tid
        if name is not None:
            self._add("threads", thread=self.global_process | tid, process=self.global_process, tid=tid, name=name)
        return self.global_process | tid

    def gpu(self, device: int, name: str = "NVIDIA H200", **facts: int) -> None:
        """A GPU; an H200's figures unless said otherwise."""
        h200 = {
            "sm_count": 132, "clock_hz": 1_980_000_000, "memory_bytes": 150_109_880_320, "async_engines": 3,
            "memory_bandwidth_bytes_per_s": 4_814_304_000_000, "compute_major": 9, "compute_minor": 0,
        }  # fmt: skip
        self._add("gpus", device=device, name=name, **{**h200, **facts})

    def meta(self, *, end: int | None = None, **values: Any) -> TraceBuilder:
        """Set fields of :class:`~unstall.model.Meta`; ``end`` is the capture's end in ns."""
        self._meta = replace(self._meta, **values)
        self._end = end if end is not None else self._end
        return self

    # ---- host ---------------------------------------------------------------------------------------------------

    def range(
        self, name: str, start: int, end: int | None, *, tid: int | None = None, domain: str = "",
        style: str = "push_pop", end_tid: int | None = None, registered: bool = False, cpu_ns: int | None = None,
    ) -> None:  # fmt: skip
        """An NVTX range; ``end=None`` was never closed; ``registered`` writes the name as a registered string.

        ``cpu_ns`` is what only our own collector knows; :meth:`write` leaves it out.
        """
        if registered:
            self.registered.add(name)
        thread = self.thread(tid)
        other = thread if end_tid is None else self.thread(end_tid)
        self._host("ranges", start, end, tid, name=name, domain=domain, style=style, end_thread=other, cpu_ns=cpu_ns)

    def mark(self, name: str, at: int, *, tid: int | None = None, domain: str = "") -> None:
        """An NVTX mark."""
        self._add("marks", time=at, name=name, domain=domain, process=self.global_process, thread=self.thread(tid))

    def api(self, name: str, start: int, end: int, *, tid: int | None = None, result: int = 0) -> int:
        """A CUDA API call. Returns its correlation id, which counts up within each process (so they collide)."""
        number = self._correlation[self.pid] = self._correlation.get(self.pid, 0) + 1
        self._host("api", start, end, tid, name=name, correlation=number, result=result)
        return number

    def osrt(
        self, name: str, start: int, end: int, *, tid: int | None = None, frames: Sequence[str | tuple[str, str]] = ()
    ) -> None:
        """An OS runtime call, with its backtrace (innermost first)."""
        self._host("osrt", start, end, tid, name=name, callchain=self._stack(frames, "osrt") if frames else None)

    def library(self, name: str, start: int, end: int, *, tid: int | None = None) -> None:
        """A cuBLAS or cuDNN call (by its name)."""
        self._host("library", start, end, tid, name=name)

    def gil(self, state: str, start: int, end: int, *, tid: int | None = None) -> None:
        """``holding`` or ``waiting`` for the interpreter lock."""
        self._host("gil", start, end, tid, state=state)

    def sched(self, at: int, running: bool, *, cpu: int = 0, tid: int | None = None) -> None:
        """A thread put on a CPU core, or taken off it."""
        self._add("sched", time=at, cpu=cpu, process=self.global_process, thread=self.thread(tid), running=running)

    def sample(
        self, at: int, frames: Sequence[str | tuple[str, str]] = (), *, kind: str = "cpu", tid: int | None = None
    ) -> None:
        """A ``cpu`` sample with its stack (innermost first: ``symbol`` or ``(symbol, module)``), or ``python``."""
        chain = self._stack(frames, kind) if frames or kind == "cpu" else None
        self._add("samples", time=at, process=self.global_process, thread=self.thread(tid), callchain=chain, kind=kind)

    def overhead(self, name: str, start: int, end: int, *, tid: int | None = None) -> None:
        """Time that the profiler took for itself."""
        self._host("overhead", start, end, tid, name=name)

    # ---- device -------------------------------------------------------------------------------------------------

    def launch(
        self, kernel: str, at: int, dur: int = us(5), *, kernel_start: int | None = None, kernel_dur: int = us(10),
        stream: int = 7, device: int = 0, context: int = 1, tid: int | None = None,
        api: str = "cudaLaunchKernel_v7000", **facts: Any,
    ) -> int:  # fmt: skip
        """A launch call and its kernel (starting when the call ends, unless said). Returns the correlation id."""
        number = self.api(api, at, at + dur, tid=tid)
        start = at + dur if kernel_start is None else kernel_start
        self.kernel(kernel, start, start + kernel_dur, number, stream=stream, device=device, context=context, **facts)
        return number

    def kernel(
        self, name: str, start: int, end: int, correlation: int, *, stream: int = 7, device: int = 0,
        context: int = 1, grid: tuple[int, int, int] = (132, 1, 1), block: tuple[int, int, int] = (128, 1, 1),
        **facts: Any,
    ) -> None:  # fmt: skip
        """A kernel alone: for graphs (many kernels of one call) and for launches outside the capture."""
        shape = {f"{k}_{a}": v for k, s in (("grid", grid), ("block", block)) for a, v in zip("xyz", s, strict=True)}
        defaults = {"short_name": name, "registers": 32, "static_smem_bytes": 0, "dynamic_smem_bytes": 0}
        where = {"device": device, "context": context, "stream": stream, "correlation": correlation}
        self._device("kernels", start, end, name=name, **where, **shape, **{**defaults, **facts})

    def copy(
        self, kind: str = "HtoD", at: int = 0, dur: int = us(5), *, copy_start: int | None = None,
        copy_dur: int = us(10), bytes: int = 1 << 20, source: str | None = None, destination: str | None = None,
        stream: int = 7, device: int = 0, context: int = 1, tid: int | None = None,
        api: str = "cudaMemcpyAsync_v3020", graph_node: int | None = None,
    ) -> int:  # fmt: skip
        """A copy call and the copy; host memory is pageable unless said. Returns the correlation id."""
        number = self.api(api, at, at + dur, tid=tid)
        start = at + dur if copy_start is None else copy_start
        ends = COPY_ENDS.get(kind, ("unknown", "unknown"))
        self._device(
            "copies", start, start + copy_dur, device=device, context=context, stream=stream, correlation=number,
            kind=kind, source=source or ends[0], destination=destination or ends[1], bytes=bytes,
            graph_node=graph_node,
        )  # fmt: skip
        return number

    def memset(
        self, at: int, dur: int = us(3), *, start: int | None = None, memset_dur: int = us(2), bytes: int = 1024,
        memory: str = "device", stream: int = 7, device: int = 0, context: int = 1, tid: int | None = None,
    ) -> int:  # fmt: skip
        """A memset call and the memset. Returns the correlation id."""
        number = self.api("cudaMemsetAsync_v3020", at, at + dur, tid=tid)
        begin = at + dur if start is None else start
        self._device(
            "memsets", begin, begin + memset_dur, device=device, context=context, stream=stream, correlation=number,
            memory=memory, bytes=bytes,
        )  # fmt: skip
        return number

    def graph_launch(
        self, at: int, dur: int = us(10), *, kernels: Sequence[tuple[str, int, int]] = (),
        whole: tuple[int, int] | None = None, graph: int = 1, stream: int = 7, device: int = 0, context: int = 1,
        tid: int | None = None,
    ) -> int:  # fmt: skip
        """One ``cudaGraphLaunch``: traced per node (``kernels``: name, start, end) or as a ``whole`` (start, end)."""
        number = self.api("cudaGraphLaunch_v10000", at, at + dur, tid=tid)
        where: dict[str, Any] = {"stream": stream, "device": device, "context": context}
        for node, (name, start, end) in enumerate(kernels, 1):
            self.kernel(name, start, end, number, graph_node=node, **where)
        if whole:
            self._device("graphs", *whole, correlation=number, graph=graph, **where)
        return number

    def sync(
        self, kind: str = "stream", start: int = 0, end: int = 0, *, stream: int = 7, device: int = 0,
        context: int = 1, tid: int | None = None, api: str | None = None, event: int | None = None,
    ) -> int:  # fmt: skip
        """A synchronisation: the call and its row (``stream``, ``context``, ``event`` or ``stream_wait_event``)."""
        number = self.api(api or SYNC_CALLS[kind], start, end, tid=tid)
        self._device(
            "syncs", start, end, device=device, context=context, stream=stream, correlation=number, kind=kind,
            event=event,
        )  # fmt: skip
        return number

    # ---- facts --------------------------------------------------------------------------------------------------

    def diagnostic(self, text: str, *, severity: int = 1, source: str = "injection", at: int = 0) -> None:
        """A line that the profiler wrote about the capture."""
        self._add("diagnostics", time=at, severity=severity, source=source, text=text, process=self.global_process)

    def metric(self, name: str, at: int, value: float, *, device: int = 0) -> None:
        """A sampled hardware counter."""
        self._add("gpu_metrics", time=at, device=device, name=name, value=float(value))

    def steps(self, count: int, period: int, body: Callable[[TraceBuilder, int, int], None], *, start: int = 0) -> None:
        """Call ``body(self, index, start of the step)`` ``count`` times, ``period`` ns apart."""
        for index in range(count):
            body(self, index, start + index * period)

    # ---- out ----------------------------------------------------------------------------------------------------

    def profile(self) -> Profile:
        """The trace as a profile, without going through a file."""
        present = set(self._rows) | {t for name in self._trace for t in IMPLIED.get(name, (name,))}
        if any(t in present for t in IMPLIED["nvtx"]):
            present |= set(IMPLIED["nvtx"])
        tables: dict[str, Any] = {t: from_rows(t, self._rows.get(t, [])) for t in present}
        return Profile(meta=replace(self._meta, end_ns=self._last()), **tables)

    def write(self, path: str | os.PathLike[str], *, not_collected: Sequence[str] = ()) -> Path:
        """The trace as an export of nsys; :func:`unstall.load.load` gives :meth:`profile` again. Returns the path."""
        target = Path(path)
        write_sqlite(self.profile(), target, self.version, registered=self.registered, not_collected=not_collected)
        return target

    def _last(self) -> int:
        ends = (r.get("end", r.get("time")) for t, rows in self._rows.items() if t != "diagnostics" for r in rows)
        return self._end if self._end is not None else max((e for e in ends if e is not None), default=0)

    def _add(self, table: str, **row: Any) -> None:
        self._rows.setdefault(table, []).append(row)

    def _host(self, table: str, start: int, end: int | None, tid: int | None, **row: Any) -> None:
        self._add(table, start=start, end=end, process=self.global_process, thread=self.thread(tid), **row)

    def _device(self, table: str, start: int, end: int, **row: Any) -> None:
        self._add(table, start=start, end=end, process=self.global_process, **row)

    def _stack(self, frames: Sequence[str | tuple[str, str]], kind: str) -> int:
        self._chains += 1
        for depth, frame in enumerate(frames):
            symbol, module = frame if isinstance(frame, tuple) else (frame, "")
            self._add("frames", callchain=self._chains, depth=depth, symbol=symbol, module=module, kind=kind)
        return self._chains
