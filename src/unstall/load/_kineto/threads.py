"""Who is who in a trace: processes and threads of the host, by the ids that every table uses.

Comes in: the host's events (``pid`` and ``tid`` as written) and the trace's name records. Goes out: global thread ids,
and the ``processes`` and ``threads`` tables.

CUDA calls carry the thread id that CUPTI tells. Where Kineto does not know the thread, that is a part of its
``pthread_self``; such a thread is the one whose operators made the calls (they share an ``External id``). A number
above 24 bits does not fit into a global id and gets a free one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl

from unstall.load._kineto.columns import _integer
from unstall.load._kineto.decode import Event
from unstall.load.tables import from_rows

GLOBAL = 1 << 48  # nsys's bits above the process number
FITS = 1 << 24
MOST = 1 << 62
OF_THREAD = re.compile(r"thread \d+ \((.*)\)")

Key = tuple[int, int]


class Threads:
    """Host threads by (pid, tid).

    Args:
        work: events of operators and annotations, whose thread ids are the system's own.
        calls: CUDA calls, whose thread ids may be CUPTI's.
    """

    def __init__(self, work: Sequence[Event], calls: Sequence[Event]) -> None:
        known = dict.fromkeys(key_of(e) for e in work)
        adopted = _adopted(work, calls, known)
        keys = [*known, *(k for k in dict.fromkeys(key_of(e) for e in calls) if k not in known)]
        self._keys = [k for k in keys if k not in adopted]
        free = iter(range(FITS - 1, 0, -1))
        taken = {tid for _, tid in self._keys}
        self._ids: dict[Key, int] = {}
        for pid, tid in self._keys:
            fits = 0 <= tid < FITS
            self._ids[pid, tid] = process_id(pid) | (tid if fits else next(n for n in free if n not in taken))
        self._ids |= {k: self._ids[to] for k, to in adopted.items()}
        self.pids = list(dict.fromkeys(pid for pid, _ in self._keys))

    def of(self, events: Sequence[Event]) -> pl.Series:
        """Global thread id of each event."""
        ids, found = self._ids, [key_of(e) for e in events]
        return pl.Series([ids.get(k, process_id(k[0])) for k in found], dtype=pl.Int64)

    def tables(self, records: Iterable[Event]) -> dict[str, pl.DataFrame]:
        """``processes`` and ``threads`` with the names in the trace's records (``ph`` is M)."""
        named: dict[tuple[str, int, int], str] = {}
        for e in records:
            if e.name in ("process_name", "thread_name") and e.args is not None and isinstance(e.args.name, str):
                pid, tid = key_of(e)
                named[e.name, pid, tid if e.name == "thread_name" else 0] = _plain(e.args.name)
        processes = [
            {"process": process_id(p), "pid": p, "name": named.get(("process_name", p, 0), "")} for p in self.pids
        ]
        threads = [
            {
                "thread": self._ids[p, t],
                "process": process_id(p),
                "tid": t,
                "name": named.get(("thread_name", p, t), ""),
            }
            for p, t in self._keys
        ]
        return {"processes": from_rows("processes", processes), "threads": from_rows("threads", threads)}


def process_id(pid: int) -> int:
    """The global id of a process."""
    return GLOBAL | (pid % FITS) << 24


def key_of(event: Event) -> Key:
    """(pid, tid) as whole numbers; 0 for what is none."""
    pid, tid = event.pid, event.tid
    if type(pid) is int and type(tid) is int and -MOST < pid < MOST and -MOST < tid < MOST:
        return pid, tid
    return _integer(pid) or 0, _integer(tid) or 0


def _plain(name: str) -> str:
    found = OF_THREAD.fullmatch(name)
    return found.group(1) if found else name


def _adopted(work: Sequence[Event], calls: Sequence[Event], known: dict[Key, None]) -> dict[Key, Key]:
    """Threads of calls that are a known thread under another number."""
    strange = {k for e in calls if (k := key_of(e)) not in known}
    if not strange or not known:
        return {}
    of_operator: dict[Any, Key] = {e.args.external: key_of(e) for e in work if e.args and _hashable(e.args.external)}
    votes: dict[Key, Counter[Key]] = {}
    for e in calls:
        key = key_of(e)
        owner = of_operator.get(e.args.external) if key in strange and e.args and _hashable(e.args.external) else None
        if owner is not None and owner[0] == key[0]:
            votes.setdefault(key, Counter())[owner] += 1
    return {key: counted.most_common(1)[0][0] for key, counted in votes.items()}


def _hashable(value: Any) -> bool:
    return isinstance(value, (int, str))
