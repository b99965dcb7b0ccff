"""``--perfetto FILE``: the whole capture as a trace that Perfetto's page (ui.perfetto.dev) opens.

In: the tracks of a capture, one at a time. Out: Perfetto's own format, written as it comes; no two tracks are held.
Processes and threads with their NVTX ranges, CUDA calls and the rest under them; streams and steps under their process;
counters; an arrow from each call to the first device operation of each stream that it launched.

Protobuf and not Chrome's JSON: a fraction of the size, and times in nanoseconds, which JSON has in microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, BinaryIO

from unstall.report import Output

if TYPE_CHECKING:
    from unstall.model import Track

KINDS = {
    "steps": "Steps", "nvtx": "NVTX", "nvtx_async": "NVTX start/end", "api": "CUDA API", "osrt": "OS runtime",
    "library": "Libraries", "gil": "GIL", "cpu": "On CPU", "samples": "CPU samples", "overhead": "Profiler overhead",
}  # fmt: skip
RANKS = ("steps", "nvtx", "nvtx_async", "api", "library", "gil", "osrt", "samples", "cpu", "overhead")
EXPLICIT = 3
"""``child_ordering``: by ``sibling_order_rank``."""


def write(tracks: Iterable[Track], file: BinaryIO) -> None:
    """Write every track of a capture.

    Args:
        tracks: of the whole capture, as ``analyze.tracks.tracks`` gives them.
        file: to write to; grows as tracks come.
    """
    from unstall import packets

    writer = _Writer()
    file.write(packets.packet(b"", packets.CLEARED))
    for track in tracks:
        for piece in writer.track(track):
            file.write(piece)


class _Writer:
    """Knows which processes and threads have been told, and the number of each track."""

    def __init__(self) -> None:
        from unstall import packets

        self._p, self._names = packets, packets.Names()
        self._told: dict[tuple[str, int], int] = {}
        self._flows: dict[int, int] = {}
        self._last = 0

    def track(self, track: Track) -> Iterator[bytes]:
        """The packets of one track: what it is, the names in it, its events."""
        if track.kind == "counter":
            yield from self._counter(track)
            return
        frame = track.frame.filter(track.frame["lane"] >= 0)
        parent = 0
        for number, told in self._parents(track):
            parent = number
            yield told
        for rows in self._p.nested(frame):
            label, told = self._names.of(rows["name"])
            yield told
            number = self._number()
            yield self._described(number, parent, _title(track), rank=_rank(track))
            yield from self._p.slices(rows, label, number, flow=self._flow(track))

    def _number(self) -> int:
        self._last += 1
        return self._last

    def _flow(self, track: Track) -> int | None:
        """Where the arrows of a process begin to count: correlation ids of two processes collide."""
        if track.kind not in ("api", "stream"):
            return None
        return self._flows.setdefault(track.process, len(self._flows) + 1) << 40

    def _counter(self, track: Track) -> Iterator[bytes]:
        number, title = self._number(), f"{_gpu(track)}: {track.label}"
        yield self._described(number, 0, title, self._p.message(8, b""))
        time, value = track.frame["time"].to_numpy(), track.frame["value"].cast(float).to_numpy()
        yield from self._p.counter(time, value, number)

    def _parents(self, track: Track) -> Iterator[tuple[int, bytes]]:
        """The process, and the thread of what belongs to one, each told when first met."""
        pid = track.process >> 24 & 0xFFFFFF
        process = self._p.number(1, pid) + self._p.message(6, track.process_name or "process")
        yield self._once("process", track.process, 0, self._p.message(3, process))
        if track.thread is not None and track.kind != "steps":
            above, tid = self._told["process", track.process], track.thread & 0xFFFFFF
            thread = self._p.number(1, pid) + self._p.number(2, tid) + self._p.message(5, track.thread_name)
            yield self._once("thread", track.thread, above, self._p.message(4, thread))

    def _once(self, kind: str, which: int, parent: int, content: bytes) -> tuple[int, bytes]:
        known = self._told.get((kind, which))
        if known is not None:
            return known, b""
        number = self._told[kind, which] = self._number()
        return number, self._described(number, parent, "", content)

    def _described(self, number: int, parent: int, title: str, content: bytes = b"", rank: int | None = None) -> bytes:
        """A packet that describes a track."""
        p = self._p
        body = p.number(1, number) + (p.number(5, parent) if parent else b"") + (p.message(2, title) if title else b"")
        body += content + p.number(11, EXPLICIT) + (b"" if rank is None else p.number(12, rank))
        packet: bytes = p.packet(p.message(60, body))
        return packet


def _gpu(track: Track) -> str:
    return "unknown GPU" if track.device is None or track.device < 0 else f"GPU {track.device}"


def _title(track: Track) -> str:
    if track.kind != "stream":
        return KINDS.get(track.kind, track.kind)
    device = _gpu(track) + (f" {track.device_name}" if track.device_name else "")
    return f"{device} stream {track.stream}" + (f" context {track.context}" if (track.context or 1) != 1 else "")


def _rank(track: Track) -> int:
    return RANKS.index(track.kind) if track.kind in RANKS else len(RANKS)


OUTPUT = Output(name="perfetto", help="a trace of every event, for ui.perfetto.dev", stream=write)
