"""An nsys SQLite export → :class:`~unstall.model.Profile`.

Comes in: a path. Goes out: a profile with every table that the export holds (and :mod:`unstall.load.facts` tells empty
from absent). Large tables are read in slices of rows by a few threads, only the columns used; each slice is brought
into shape by the thread that read it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl

from unstall.errors import ProfileUnreadable
from unstall.load import nvtx
from unstall.load.database import MAGIC, Database, text_of
from unstall.load.facts import lost_nvtx, meta_of, nothing_in, read_facts, watched, without_lost
from unstall.load.names import Names
from unstall.load.schema import CODES, SOURCES, SYNC_CALLS, Source
from unstall.load.tables import NAME, empty, merge, share_categories, tidy, time_column
from unstall.load.trust import Doubts, as_integers, named, trusted, warnings_of
from unstall.memory import squeeze
from unstall.model import DEVICE_TABLES, Profile, Warning_

SLICE_ROWS = 262_144  # of the widest table 40 MB, twice while it is brought into shape
MAX_SLICES = 64  # against row ids far apart
MAX_THREADS = 8
LONGEST_NAME = 16_384
"""Bytes; what is beyond is cut off. The longest in the real exports at hand has 3,151; one of a million, on every
kernel, took 5.9 GB."""
NO_CHAIN, NO_EVENT = 0, 0xFFFFFFFF  # the export's words for "none"

Part = tuple[Source, pl.DataFrame, Doubts]


def sniff(head: bytes) -> bool:
    """Whether a file that begins with ``head`` is SQLite."""
    return head.startswith(MAGIC)


def read(path: Path) -> Profile:
    """Read an export.

    Raises:
        NotAProfile: an SQLite file of something else.
        ProfileUnreadable: cut off, damaged, or being written.
    """
    share_categories()
    db = Database(path)
    facts = read_facts(db)
    doubts = Doubts()
    tables, said = _tables(_read_all(db), doubts)
    if facts.eager:
        tables = {t: frame for t, frame in tables.items() if len(frame)}
    tables |= {t: empty(t) for t in watched(facts, set(tables)) - set(tables)}
    for table in facts.not_collected & set(tables):
        del tables[table]
    _finish(db, tables)
    db.check_unchanged()
    counts = [len(tables[t]) if t in tables else None for t in ("ranges", "marks")]
    notes = (*said, *warnings_of(doubts), *lost_nvtx(facts, *counts), *nothing_in(facts, tables))
    frames: dict[str, Any] = without_lost(tables, notes)
    return Profile(meta=meta_of(path, db, facts, *_extent(tables)), notes=notes, **frames)


def _read_all(db: Database) -> list[Part]:
    names = _names(db)
    jobs = [(s, part) for s in SOURCES if s.usable(db.columns(s.origin)) for part in _slices(db, s)]
    with ThreadPoolExecutor(min(MAX_THREADS, _cores())) as pool:
        return list(pool.map(lambda job: _read_part(db, names, *job), jobs))


def _names(db: Database) -> Names:
    if not db.columns("StringIds"):
        return Names(pl.Series(dtype=pl.Int64), pl.Series(dtype=pl.String))
    blob = "CAST(value AS BLOB)"
    value = f"coalesce(substr({blob}, 1, {LONGEST_NAME}), {blob})"  # SQLite: no bytes of an empty blob are NULL
    rows = db.read("StringIds", f"SELECT 0 AS id, x'' AS value UNION ALL SELECT id, {value} FROM StringIds").slice(1)
    rows = as_integers("", rows, ("value",), Doubts())  # an id that is none names nothing
    return Names(rows["id"], text_of(rows["value"]))


def _slices(db: Database, source: Source) -> Iterator[tuple[int, int] | None]:
    """Ranges of row ids, or one ``None`` for a table that is small or has no row ids, as a view."""
    if source.origin in db.views:
        yield None
        return
    try:
        low, high = db.query(
            f'SELECT (SELECT min(rowid) FROM "{source.origin}") AS low, '
            f'(SELECT max(rowid) FROM "{source.origin}") AS high'
        ).row(0)
    except ProfileUnreadable:
        low = high = 0
    if not isinstance(low, int) or not isinstance(high, int) or high - low < 2 * SLICE_ROWS:
        yield None
        return
    step = max(SLICE_ROWS, -(-(high - low + 1) // MAX_SLICES))
    yield from ((start, min(start + step - 1, high)) for start in range(low, high + 1, step))


def _read_part(db: Database, names: Names, source: Source, rowids: tuple[int, int] | None) -> Part:
    doubts = Doubts()
    found = source.found(db.tables[source.origin])
    text = {ours for ours, name in found.items() if name.startswith("$")}
    # Columns of one Arrow batch are freed together: the copy lets those not kept go.
    frame = db.read(source.origin, source.select(db.tables[source.origin], rowids)).slice(1).rechunk()
    frame = as_integers(source.table, frame, text, doubts)
    frame = frame.with_columns(
        *(text_of(frame[c]) for c in text),
        *(names(frame[c]) for c, name in found.items() if name.startswith("@")),
        *(pl.lit(v).cast(NAME).alias(c) for c, v in source.constant.items()),
    )
    if source.table == "nvtx":
        return source, nvtx.named_rows(frame), doubts
    return source, squeeze(_shape(db, source.table, frame, doubts)), doubts


def _shape(db: Database, table: str, frame: pl.DataFrame, doubts: Doubts) -> pl.DataFrame:
    """One part of one table, as read → in its final form."""
    for column in frame.columns:
        if (table, column) in CODES:
            words, other = CODES[table, column]
            coded = pl.col(column).replace_strict(words, default=other, return_dtype=pl.String)
            frame = frame.with_columns(coded.cast(NAME))
        elif (column, table) in (("callchain", "api"), ("callchain", "osrt"), ("event", "syncs")):
            none = NO_EVENT if column == "event" else NO_CHAIN
            frame = frame.with_columns(pl.when(pl.col(column) != none).then(pl.col(column)))
    if table == "gpu_metrics":
        frame = _metric_names(db, frame)
    if table in DEVICE_TABLES or table == "syncs":
        frame = _physical_devices(db, frame)
    if "name" in frame.columns and time_column(table):
        frame = named(table, frame, doubts)
    return trusted(table, tidy(table, frame), doubts)


def _tables(parts: list[Part], doubts: Doubts) -> tuple[dict[str, pl.DataFrame], list[Warning_]]:
    grouped: dict[str, list[pl.DataFrame]] = {}
    while parts:  # let go of each part as it is taken: two copies of ten million rows would not fit the budget
        source, frame, doubted = parts.pop(0)
        doubts.update(doubted)
        grouped.setdefault(source.table, []).append(frame)
    said: list[Warning_] = []
    if rows := grouped.pop("nvtx", None):
        every = pl.concat(rows)
        found = {t: trusted(t, tidy(t, f), doubts) for t, f in nvtx.split(every, doubts).items()}
        said = nvtx.notes(every, found)
        for table, part in found.items():
            grouped.setdefault(table, []).append(part)
    return {t: merge(t, grouped.pop(t)) for t in list(grouped)}, said


def _finish(db: Database, tables: dict[str, pl.DataFrame]) -> None:
    """What needs two tables at once, or all of them."""
    if "syncs" in tables and "api" in tables:
        tables["syncs"] = _sync_kinds(tables["syncs"], tables["api"])
    if "threads" in tables:
        last = tables["threads"].unique("thread", keep="last", maintain_order=True)
        tables["threads"] = last.with_columns(tid=pl.col("thread") & 0xFFFFFF)
    processes = tables["processes"] if "processes" in tables else _processes(tables)
    pid = pl.coalesce("pid", (pl.col("process") // 2**24) & 0xFFFFFF)
    tables["processes"] = processes.with_columns(pid.alias("pid"))


def _processes(tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Those that left events, where the export does not list them."""
    seen = [f.select("process").unique() for t, f in tables.items() if t != "diagnostics" and "process" in f.columns]
    found = pl.concat([empty("processes").select("process"), *seen]).unique().drop_nulls().sort("process")
    return tidy("processes", found)


def _sync_kinds(syncs: pl.DataFrame, api: pl.DataFrame) -> pl.DataFrame:
    """The call's own name says what was waited for, where the call is in the capture."""
    kinds = {n: word for n in api["name"].unique() for part, word in SYNC_CALLS.items() if n and part in n}
    if not kinds or not len(syncs):
        return syncs
    calls = api.filter(pl.col("name").is_in(list(kinds))).select("process", "correlation", "name")
    said = pl.col("name").cast(pl.String).replace_strict(kinds, return_dtype=pl.String).cast(NAME)
    calls = calls.select("process", "correlation", said=said).unique(["process", "correlation"], keep="last")
    joined = syncs.join(calls, on=["process", "correlation"], how="left", maintain_order="left")
    return joined.with_columns(kind=pl.coalesce("said", "kind")).drop("said")


def _metric_names(db: Database, frame: pl.DataFrame) -> pl.DataFrame:
    """``typeId`` holds the GPU in its lowest byte; names are per (type, metric), or per metric alone."""
    rows = db.rows("TARGET_INFO_GPU_METRICS", "typeId", "metricId", "metricName")
    names = pl.DataFrame(rows, schema=dict.fromkeys(("type", "metric", "name"), pl.String), orient="row")
    names = names.with_columns(pl.col("type", "metric").cast(pl.Int64, strict=False), pl.col("name").cast(NAME))
    by = ["type", "metric"] if "type" in frame.columns and names["type"].null_count() == 0 else ["metric"]
    names = names.unique(by).select(*by, "name")
    frame = frame.join(names, on=by, how="left", maintain_order="left")
    return frame.with_columns(device=pl.col("type") & 0xFF) if "type" in frame.columns else frame


def _physical_devices(db: Database, frame: pl.DataFrame) -> pl.DataFrame:
    """Devices are numbered within a process (``CUDA_VISIBLE_DEVICES``); ours are the machine's, as in ``gpus``."""
    rows = db.rows("TARGET_INFO_CUDA_DEVICE", "pid", "cudaId", "gpuId")
    pairs = [(int(p), int(c), int(g)) for p, c, g in rows if c != g and all(x and x.isdecimal() for x in (p, c, g))]
    device = pl.col("device")
    for pid, cuda, gpu in pairs:
        here = (pl.col("process") // 2**24 & 0xFFFFFF == pid) & (pl.col("device") == cuda)
        device = pl.when(here).then(pl.lit(gpu, dtype=pl.Int64)).otherwise(device)
    return frame.with_columns(device.alias("device")) if pairs and "device" in frame.columns else frame


def _extent(tables: dict[str, pl.DataFrame]) -> tuple[int, int]:
    """Earliest and latest time of any event."""
    times = [t[c] for n, t in tables.items() if n != "diagnostics" for c in ("start", "end", "time") if c in t.columns]
    found = [int(v) for s in times for v in (s.min(), s.max()) if isinstance(v, int)]
    return (min(found), max(found)) if found else (0, 0)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
