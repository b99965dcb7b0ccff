"""The outline of a timeline: which track stands under which heading, and in which order.

In: tracks. Out: headings (``TimelineGroup``) and the tracks in order, each with the number of its heading. What feeds
the GPU comes first, the GPU right under it, everything else folded away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from unstall.analyze.device import known
from unstall.model import TimelineGroup, Track, pid_of, tid_of

KINDS = (
    "steps",
    "nvtx",
    "nvtx_async",
    "api",
    "library",
    "gil",
    "osrt",
    "samples",
    "cpu",
    "overhead",
    "stream",
    "counter",
)
TELLING = {"steps", "nvtx", "nvtx_async", "api", "library"}
"""A thread that has one of these is shown; one that only waits in system calls is folded away."""
MOST = 240
"""Tracks at most: six screens of rows."""


def chosen(tracks: Sequence[Track]) -> list[Track]:
    """The tracks worth a row: not the profiler's own start-up notes of idle threads, and not more than :data:`MOST`."""
    busy = {t.thread for t in tracks if t.kind != "overhead"}
    kept = [t for t in tracks if t.kind != "overhead" or t.thread in busy]
    telling = {t.thread for t in kept if t.kind in TELLING}
    kept.sort(key=lambda t: (t.kind not in ("steps", "stream"), t.thread not in telling, KINDS.index(t.kind)))
    return kept[:MOST]


def outline(tracks: Sequence[Track]) -> tuple[list[TimelineGroup], list[tuple[Track, int]]]:
    """Headings, and the tracks in the order of rows with the number of their heading."""
    groups: list[TimelineGroup] = []
    rows: list[tuple[Track, int]] = []
    own = [t for t in tracks if t.process >= 0]
    for process, part in _by(own, lambda t: t.process, _busiest_first(own)):
        name = next((t.process_name for t in part if t.process_name), "")
        groups.append(TimelineGroup(kind="process", name=name, id=pid_of(process)))
        _process(part, groups, rows, len(groups) - 1)
    for device, part in _by([t for t in tracks if t.process < 0], lambda t: t.device, lambda _: 0):
        groups.append(TimelineGroup(kind="metrics", name=part[0].device_name, id=known(device)))
        rows += [(t, len(groups) - 1) for t in part]
    return groups, rows


def _busiest_first(tracks: Sequence[Track]) -> Callable[[list[Track]], Any]:
    """Processes with steps in the order in which they come, then by rows."""
    stepping = list(dict.fromkeys(t.process for t in tracks if t.kind == "steps"))

    def key(part: list[Track]) -> tuple[int, int]:
        place = stepping.index(part[0].process) if part[0].process in stepping else len(stepping)
        return place, -sum(t.frame.height for t in part if t.kind in TELLING or t.kind == "stream")

    return key


def _process(part: list[Track], groups: list[TimelineGroup], rows: list[tuple[Track, int]], top: int) -> None:
    """One process: its steps, the threads that tell something, its GPUs, its other threads."""
    rows += [(t, top) for t in part if t.kind == "steps"]
    main = {t.thread for t in part if t.kind == "steps"}
    own = [t for t in part if t.kind not in ("steps", "stream")]
    telling = {t.thread for t in own if t.kind in TELLING}
    open_ = [t.thread in telling and t.kind != "overhead" for t in own]
    shown, rest = (
        _by([t for t, o in zip(own, open_, strict=True) if o is wanted], lambda t: t.thread, _telling_first(main))
        for wanted in (True, False)
    )
    _threads(shown, groups, rows, top)
    for device, streams in _by([t for t in part if t.kind == "stream"], lambda t: t.device, lambda p: -_spent(p)):
        groups.append(TimelineGroup(kind="gpu", name=streams[0].device_name, id=known(device), parent=top))
        rows += [(t, len(groups) - 1) for t in sorted(streams, key=lambda t: -_spent([t]))]
    if rest:
        groups.append(TimelineGroup(kind="others", id=sum(len(p) for _, p in rest), parent=top, open=False))
        _threads(rest, groups, rows, len(groups) - 1)


def _threads(
    threads: list[tuple[Any, list[Track]]], groups: list[TimelineGroup], rows: list[tuple[Track, int]], top: int
) -> None:
    for thread, part in threads:
        groups.append(TimelineGroup(kind="thread", name=part[0].thread_name, id=tid_of(thread), parent=top))
        rows += [(t, len(groups) - 1) for t in sorted(part, key=lambda t: KINDS.index(t.kind))]


def _telling_first(main: set[int | None]) -> Callable[[list[Track]], Any]:
    def key(part: list[Track]) -> tuple[bool, int, int]:
        told = sum(t.frame.height for t in part if t.kind in TELLING)
        return part[0].thread not in main, -told, -sum(t.frame.height for t in part)

    return key


def _spent(streams: list[Track]) -> int:
    return sum(int((t.frame["end"] - t.frame["start"]).sum()) for t in streams)


def _by(
    tracks: Sequence[Track], of: Callable[[Track], Any], order: Callable[[list[Track]], Any]
) -> list[tuple[Any, Any]]:
    """Tracks in groups, the groups in order."""
    found: dict[Any, list[Track]] = {}
    for track in tracks:
        found.setdefault(of(track), []).append(track)
    return sorted(found.items(), key=lambda item: order(item[1]))
