"""An nsys SQLite export → :class:`~unstall.model.Profile`.

Comes in: a path. Goes out: a profile. Opened read-only; each table is read by a thread of its own through Arrow.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import adbc_driver_sqlite
import adbc_driver_manager
import polars as pl

from unstall.load.schema import CODES, SOURCES, TEXT_COLUMNS, Source
from unstall.model import DEVICE_TABLES, TABLES, Meta, Profile

PROCESS_MASK = ~0xFFFFFF


def _query(path: Path, sql: str) -> pl.DataFrame:
    uri = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
    with (
        adbc_driver_sqlite.connect(uri) as database,
        adbc_driver_manager.AdbcConnection(database) as connection,
        adbc_driver_manager.AdbcStatement(connection) as statement,
    ):
        statement.set_options(**{"adbc.sqlite.query.batch_rows": "65536"})
        statement.set_sql_query(sql)
        stream, _ = statement.execute_query()
        return pl.DataFrame(stream)


def _catalog(path: Path) -> dict[str, set[str]]:
    rows = _query(
        path, "SELECT m.name AS t, p.name AS c FROM sqlite_master m, pragma_table_info(m.name) p WHERE m.type='table'"
    )
    out: dict[str, set[str]] = {}
    for table, column in rows.iter_rows():
        out.setdefault(table, set()).add(column)
    return out


def _select(source: Source, have: set[str]) -> tuple[str, list[str]]:
    typed, picked, ids = [], [], []
    for ours, candidates in source.columns.items():
        found = next((c for c in candidates if c.lstrip("@") in have), None)
        if found is None:
            continue
        if found.startswith("@"):
            ids.append(ours)
        text = found in TEXT_COLUMNS
        typed.append(f"{repr('x') if text else 0} AS {ours}")
        picked.append(f'"{found.lstrip("@")}"')
    return f'SELECT {", ".join(typed)} UNION ALL SELECT {", ".join(picked)} FROM "{source.origin}"', ids


class _Names:
    def __init__(self, frame: pl.DataFrame) -> None:
        size = int(frame["id"].max() or 0) + 1 if len(frame) else 1
        index = pl.DataFrame({"id": pl.int_range(size, eager=True)})
        self.values = index.join(frame, on="id", how="left", maintain_order="left")["value"].cast(pl.Categorical)

    def __call__(self, ids: pl.Series) -> pl.Series:
        valid = ids.is_between(0, len(self.values) - 1)
        return self.values.gather(pl.select(pl.when(valid).then(ids)).to_series()).alias(ids.name)


def _read(path: Path, source: Source, have: set[str], names: _Names) -> pl.DataFrame:
    sql, ids = _select(source, have)
    frame = _query(path, sql).slice(1)
    frame = frame.with_columns(*(names(frame[c]) for c in ids))
    for name, value in (source.constant or {}).items():
        frame = frame.with_columns(pl.lit(value).cast(pl.Categorical).alias(name))
    return frame


def _finish(table: str, frame: pl.DataFrame) -> pl.DataFrame:
    want = TABLES[table]
    for (t, column), (codes, default) in CODES.items():
        if t == table and column in frame.columns:
            frame = frame.with_columns(
                pl.col(column).replace_strict(codes, default=default, return_dtype=pl.String).cast(pl.Categorical)
            )
    if "process" in want and "process" not in frame.columns and "thread" in frame.columns:
        frame = frame.with_columns(process=pl.col("thread") & PROCESS_MASK)
    if table == "threads":
        frame = frame.with_columns(tid=pl.col("thread") & 0xFFFFFF).unique("thread", keep="last", maintain_order=True)
    columns = []
    for column, dtype in want.items():
        dtype = pl.Categorical if dtype == pl.String else dtype
        have = pl.col(column) if column in frame.columns else pl.lit(None)
        columns.append(have.cast(dtype).alias(column))
    frame = frame.select(columns)
    order = "start" if "start" in want else "time" if "time" in want else None
    return frame.sort(order, maintain_order=True) if order else frame


def _nvtx(frame: pl.DataFrame, names: _Names) -> dict[str, pl.DataFrame]:
    text = pl.coalesce(pl.col("text").cast(pl.Categorical), names(frame["text_id"].alias("named")))
    frame = frame.with_columns(name=text, process=pl.col("thread") & PROCESS_MASK)
    domains = frame.filter(pl.col("type") == 75).select("domain_id", "process", domain="name")
    domains = domains.unique(["domain_id", "process"], keep="last")
    frame = frame.join(domains, on=["domain_id", "process"], how="left", maintain_order="left")
    frame = frame.with_columns(pl.col("domain").fill_null(""), pl.col("end_thread").fill_null(pl.col("thread")))
    ranges = frame.filter(pl.col("type").is_in([59, 60, 70, 71])).with_columns(
        style=pl.when(pl.col("type").is_in([59, 70])).then(pl.lit("push_pop")).otherwise(pl.lit("start_end"))
    )
    marks = frame.filter(pl.col("type") == 34).rename({"start": "time"})
    is_gil = pl.col("domain") == "GIL Trace"
    python = pl.col("domain") == "Python Periodic Sampling"
    gil = ranges.filter(is_gil).with_columns(
        state=pl.when(pl.col("name").cast(pl.String).str.to_lowercase().str.contains("hold"))
        .then(pl.lit("holding"))
        .otherwise(pl.lit("waiting"))
    )
    return {
        "ranges": ranges.filter(~is_gil),
        "marks": marks.filter(~python),
        "gil": gil,
        "samples": marks.filter(python).with_columns(kind=pl.lit("python")),
    }


def load_sqlite(path: Path) -> Profile:
    catalog = _catalog(path)
    sources = [s for s in SOURCES if s.origin in catalog and set(s.needs) <= catalog[s.origin]]
    names = _Names(_query(path, "SELECT id, value FROM StringIds"))
    with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        frames = list(pool.map(lambda s: _read(path, s, catalog[s.origin], names), sources))
    parts: dict[str, list[pl.DataFrame]] = {}
    for source, frame in zip(sources, frames, strict=True):
        if source.table == "nvtx":
            for table, part in _nvtx(frame, names).items():
                if len(part) or table in ("ranges", "marks"):
                    parts.setdefault(table, []).append(_finish(table, part))
            continue
        if source.table == "osrt":
            frame = frame.filter(pl.col("event_class") == 27)
        parts.setdefault(source.table, []).append(_finish(source.table, frame))
    tables = {t: pl.concat(p).sort(by) if len(p) > 1 and (by := _order(t)) else pl.concat(p) for t, p in parts.items()}
    if any(t in tables for t in DEVICE_TABLES):  # CUDA was traced: a device table that is missing is empty
        tables = {**{t: _finish(t, pl.DataFrame(schema=TABLES[t])) for t in DEVICE_TABLES}, **tables}
    span = [t for t in tables.values() if {"start", "end"} <= set(t.columns)]
    meta = Meta(
        path=str(path),
        start_ns=0,
        end_ns=max((t["end"].max() or 0 for t in span), default=0),
    )
    return Profile(meta=meta, **tables)


def _order(table: str) -> str | None:
    return next((c for c in ("start", "time") if c in TABLES[table]), None)
