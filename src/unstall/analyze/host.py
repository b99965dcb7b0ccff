"""What the host was doing at any instant, in one word: the single place where precedence is defined.

In: the profile's host tables of one process. Out: for each *activity* a union of intervals, mutually exclusive.

The *driver* at an instant is the thread that makes (or is inside) the next CUDA call to end: the one the GPU is waiting
for. Autograd launches backward from its own thread while the main thread only waits, so no fixed thread would do.

Precedence, first match wins:

1. ``sync``        the driver is inside a call that waits for the device (``cudaStreamSynchronize`` …)
2. ``alloc``       inside ``cudaMalloc``, ``cudaFree``, ``cudaHostAlloc`` …
3. ``copy_call``   inside a copy call (staging of pageable memory happens there)
4. ``launch``      inside any other CUDA call
5. ``gil_wait``    the driver or the step's thread waits for the GIL
6. ``data_loading`` inside a range that is named after loading; without such names, unnamed host time before the step's
                   first host-to-device copy
7. ``checkpoint``  inside a range named after saving or logging
8. ``file_io``     the driver is inside a file, pipe or socket call of the OS runtime
9. ``lock_wait``   inside a mutex, condition, semaphore or sleep call
10. ``python_cpu`` anything else while a host table covers the process
11. ``unknown``    no host table tells
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl

from unstall.analyze import intervals
from unstall.analyze.intervals import NOTHING, Union
from unstall.model import Profile, StepTable

SYNC = r"(?i)synchroni[sz]e|^cu(da)?EventQuery|^cu(da)?Memcpy(?!.*Async)"
ALLOC = r"(?i)^cu(da)?(Malloc|Free|HostAlloc|Mem(Alloc|Free|Map|Create|Release)|Host(Register|Unregister))"
COPY = r"(?i)^cu(da)?(Memcpy|Memset)"
KINDS = (("sync", SYNC), ("alloc", ALLOC), ("graph", "GraphLaunch"), ("copy", COPY), ("launch", "Launch"))
"""Kinds of CUDA calls, the first that fits; any other call is ``other``."""
FILE_IO = (
    r"(?i)^(p?read|p?write|open|close|f(open|close|read|write|sync|datasync|gets|puts|flush)|l?stat|fstat|p?poll|select"
    r"|epoll|recv|send|connect|accept|ioctl|mmap|munmap|rename|unlink)"
)
LOCK = r"(?i)^(pthread_(mutex|cond|rwlock|join|barrier)|sem_|futex|clock_nanosleep|nanosleep|usleep|sleep|wait|flock)"
LOADING = re.compile(
    r"(?i)data[ _./:-]?load|load[ _./:-]?(data|batch|sample|input)|(get|next)[ _]?(next[ _]?)?(batch|data|item)"
    r"|wait[ _./:-]?(batch|data|input)|(batch|data|input|sample)[ _./:-]?(wait|fetch|read|prep|queue|gen)"
    r"|fetch(?!.*grad)|data[ _]?(time|iter|pipe|queue)|_next_data|DataLoaderIter"
    r"|(^|[^a-z])(data|loading|loader|dataloader|dataset|augment\w*|preprocess\w*|decode|collate|tokeni[sz]e\w*)($|[^a-z])"
    r"|(^|[/:|>\s])load(ing)?[ _#]?[\d*]*$|load[ _]?(next|item|example|image|record|shard)"  # load, train/load, load_3
    r"|데이터|로딩|读取|加载|データ"
)
"""Range names that mean: the step waits for its input. A copy to the device is not loading (``h2d``, ``to_device``)."""
NOT_LOADING = re.compile(
    r"(?i)h2d|to[ _]?(device|gpu|cuda)|copy|transfer|download|data[ _]?parallel|metadata"
    r"|(checkpoint|ckpt|model|weights?|state|params?)[ _./:-]+load"
)
SAVING = re.compile(
    r"(?i)checkpoint(?!ing)|ckpt|save|저장|로그|(^|[^a-z])(log|logging|logger|write|dump|tensorboard|wandb)($|[^a-z])"
)

ACTIVITIES = (
    "sync",
    "alloc",
    "copy_call",
    "launch",
    "gil_wait",
    "data_loading",
    "checkpoint",
    "file_io",
    "lock_wait",
    "python_cpu",
    "unknown",
)


@dataclass(frozen=True)
class HostView:
    """The host side of one process: calls in order, drivers, ranges of the step's thread."""

    process: int
    thread: int
    api: pl.DataFrame | None
    osrt: pl.DataFrame | None
    gil: pl.DataFrame | None
    ranges: pl.DataFrame | None


def call_kinds(names: pl.Series) -> pl.Series:
    """The kind of each CUDA call, decided once a distinct name."""
    distinct = [n for n in names.unique().cast(pl.String) if n]
    found = [next((k for k, p in KINDS if re.search(p, n)), "other") for n in distinct]
    return names.cast(pl.String).replace_strict(distinct, found, default="other", return_dtype=pl.String)


def view(profile: Profile, ranges: pl.DataFrame | None, steps: StepTable) -> HostView:
    """The rows of one process that can explain an idle GPU."""

    def own(frame: pl.DataFrame | None) -> pl.DataFrame | None:
        return None if frame is None else frame.filter(pl.col("process") == steps.process)

    mine = own(ranges)
    if mine is not None:
        mine = mine.filter(pl.col("closed") & ~pl.col("library"))
    return HostView(steps.process, steps.thread, own(profile.api), own(profile.osrt), own(profile.gil), mine)


def activities(host: HostView, where: Union, first_copies: Union = NOTHING) -> dict[str, Union]:
    """Splits the instants of ``where`` by what the host was doing; parts are exclusive and add up to ``where``.

    Args:
        host: the host side of a process.
        where: instants to explain (usually when the GPU idles), a union.
        first_copies: instants directly before a step's first host-to-device copy: loading when nothing else names them.
    """
    left, out = where, {}
    for name in ACTIVITIES[:-1]:
        out[name] = intervals.intersect(left, _when(host, name, first_copies))
        left = intervals.subtract(left, out[name])
    out["unknown"] = left
    return out


def _when(host: HostView, name: str, first_copies: Union) -> Union:
    """When one activity holds, precedence not yet applied."""
    tests: dict[str, Callable[[], Union]] = {
        "sync": lambda: _calls(host, SYNC),
        "alloc": lambda: _calls(host, ALLOC),
        "copy_call": lambda: _calls(host, COPY),
        "launch": lambda: _calls(host, ""),
        "gil_wait": lambda: _gil(host),
        "data_loading": lambda: intervals.merge(loading(host), _unnamed(host, first_copies)),
        "checkpoint": lambda: _named(host, SAVING, None),
        "file_io": lambda: _waits(host, FILE_IO),
        "lock_wait": lambda: _waits(host, LOCK),
        "python_cpu": lambda: _known(host),
    }
    return tests[name]()


def drivers(host: HostView) -> list[tuple[int, Union]]:
    """For each thread that makes CUDA calls, when it is the driver: until the end of its call, from the end before."""
    if host.api is None or not host.api.height:
        return []
    calls = host.api.sort("end")
    end, thread = calls["end"].to_numpy(), calls["thread"].to_numpy()
    start = np.concatenate(([np.iinfo(np.int64).min // 2], end[:-1]))
    return [(int(t), intervals.union(start[thread == t], end[thread == t])) for t in np.unique(thread)]


def _calls(host: HostView, pattern: str) -> Union:
    """When the driver is inside a CUDA call whose name matches. Any thread's wait for the device counts for the
    driver.
    """
    if host.api is None:
        return NOTHING
    rows = matching(host.api, pattern)
    parts = []
    for thread, when in drivers(host):
        own = rows.filter(pl.col("thread") == thread)
        parts.append(intervals.intersect(when, intervals.union(own["start"], own["end"])))
    return intervals.merge(*parts)


def matching(frame: pl.DataFrame, pattern: str) -> pl.DataFrame:
    """Rows whose name matches; the pattern runs once a distinct name, not once a row."""
    if not pattern:
        return frame
    distinct = frame["name"].unique()
    wanted = [n for n in distinct.cast(pl.String) if n is not None and re.search(pattern, n)]
    return frame.filter(pl.col("name").cast(pl.String).is_in(wanted))


def _waits(host: HostView, pattern: str) -> Union:
    """When the step's thread is inside an OS runtime call that matches, while it is the driver.

    A thread that only launches (autograd's) waits for work between launches, and the step's thread waits for that
    thread meanwhile: neither wait says anything, so only waits of the step's thread while it drives are counted.
    """
    if host.osrt is None:
        return NOTHING
    rows = matching(host.osrt, pattern).filter(pl.col("thread") == host.thread)
    when = dict(drivers(host)).get(host.thread) if host.api is not None else _always()
    return intervals.intersect(when or NOTHING, intervals.union(rows["start"], rows["end"]))


def _always() -> Union:
    big = np.iinfo(np.int64).max // 4
    return np.array([-big]), np.array([big])


def _gil(host: HostView) -> Union:
    if host.gil is None:
        return NOTHING
    feeders = [t for t, _ in drivers(host)] + [host.thread]
    rows = host.gil.filter((pl.col("state").cast(pl.String) == "waiting") & pl.col("thread").is_in(feeders))
    return intervals.union(rows["start"], rows["end"])


def _named(host: HostView, wanted: re.Pattern[str], unwanted: re.Pattern[str] | None) -> Union:
    """When the step's thread is inside a range whose family is named so."""
    if host.ranges is None:
        return NOTHING
    distinct = host.ranges["family"].unique().cast(pl.String).to_list()
    names = [n for n in distinct if n and wanted.search(n) and not (unwanted and unwanted.search(n))]
    rows = host.ranges.filter(pl.col("family").is_in(names) & (pl.col("thread") == host.thread))
    return intervals.union(rows["start"], rows["end"])


def loading(host: HostView) -> Union:
    """When the step's thread is inside a range named after loading."""
    return _named(host, LOADING, NOT_LOADING)


def has_loading_names(host: HostView) -> bool:
    """Whether the script itself says when it loads."""
    return bool(len(loading(host)[0]))


def _unnamed(host: HostView, first_copies: Union) -> Union:
    """Host time before a step's first copy that no range of a phase covers: loading, when nothing says otherwise."""
    if not len(first_copies[0]) or has_loading_names(host):
        return NOTHING
    if host.ranges is None:
        return first_copies
    leaves = host.ranges.filter(~pl.col("id").is_in(host.ranges["parent"].drop_nulls().unique().implode()))
    leaves = leaves.filter(pl.col("thread") == host.thread)
    return intervals.subtract(first_copies, intervals.union(leaves["start"], leaves["end"]))


def _known(host: HostView) -> Union:
    """Where a host table covers the process at all."""
    if host.api is None and host.ranges is None and host.osrt is None:
        return NOTHING
    return _always()
