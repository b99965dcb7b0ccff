"""NVTX rows → ranges, marks, GIL states and Python samples.

Comes in: the rows of ``NVTX_EVENTS`` with their names looked up. Goes out: four tables of ours and what must be said:

- types 59, 60 (and 70, 71 of NVTXT) are ranges; one that was never closed keeps ``end`` null;
- 34 is a mark; 75 names a domain, per (domain id, process); anything else is counted;
- nsys's own domains are no user ranges: ``GIL Trace`` becomes the ``gil`` table, ``Python Periodic Sampling`` becomes
  samples of kind ``python`` (their frames are only in the report's binary payload, which exports leave out).
"""

from __future__ import annotations

import polars as pl

from unstall.load.schema import DOMAIN, GIL_DOMAIN, MARK, NVTX, OTHER_NVTX, PUSH_POP, PYTHON_SAMPLES, START_END
from unstall.load.tables import NAME, PROCESS_MASK
from unstall.load.trust import Doubts
from unstall.model import Warning_

RANGES = (*PUSH_POP, *START_END)


def named_rows(frame: pl.DataFrame) -> pl.DataFrame:
    """A slice as read → rows with ``name``, ``process``, ``end_thread``; ``text`` outranks a registered string."""
    missing = [c for c in NVTX.columns if c not in frame.columns]
    blank = (pl.lit(None, dtype=NAME if c in ("text", "named") else pl.Int64).alias(c) for c in missing)
    return frame.with_columns(blank).select(
        "start",
        "end",
        "type",
        "thread",
        "domain_id",
        "cpu_ns",
        name=pl.coalesce(pl.col("text").cast(NAME), "named"),
        process=pl.col("thread") & PROCESS_MASK,
        end_thread=pl.coalesce("end_thread", "thread"),
    )


def split(rows: pl.DataFrame, doubts: Doubts) -> dict[str, pl.DataFrame]:
    """Rows of all kinds → our tables, columns not yet in order. ``gil`` and ``samples`` only where there are any."""
    _count_unknown(rows, doubts)
    domains = rows.filter(pl.col("type") == DOMAIN)
    names = set(domains["name"].cast(pl.String))
    rows = _with_domain(rows, domains)
    style = pl.when(pl.col("type").is_in(PUSH_POP)).then(pl.lit("push_pop")).otherwise(pl.lit("start_end")).cast(NAME)
    tables = {
        "ranges": _take(rows, pl.col("type").is_in(RANGES)).with_columns(style.alias("style")),
        "marks": _take(rows, pl.col("type") == MARK).rename({"start": "time"}),
    }
    if GIL_DOMAIN in names:
        holding = pl.col("name").cast(pl.String).str.contains("(?i)hold")
        state = pl.when(holding).then(pl.lit("holding")).otherwise(pl.lit("waiting"))
        tables["gil"] = tables["ranges"].filter(pl.col("domain") == GIL_DOMAIN).with_columns(state.alias("state"))
        tables["ranges"] = tables["ranges"].filter(pl.col("domain") != GIL_DOMAIN)
    if PYTHON_SAMPLES in names:
        python = pl.lit("python").alias("kind")
        tables["samples"] = tables["marks"].filter(pl.col("domain") == PYTHON_SAMPLES).with_columns(python)
        tables["marks"] = tables["marks"].filter(pl.col("domain") != PYTHON_SAMPLES)
    return tables


def notes(rows: pl.DataFrame, tables: dict[str, pl.DataFrame]) -> list[Warning_]:
    """What a reader of the ranges must know: rows that are none, and ranges that cannot be trusted as they stand."""
    ranges, marks = tables["ranges"], tables["marks"]
    unclosed = ranges.filter(pl.col("end").is_null())
    crossing = ranges.filter(pl.col("end_thread") != pl.col("thread"))
    said = [
        (len(marks), "nvtx-not-ranges", f"NVTX rows that are not ranges, kept apart: {_others(rows)}."),
        (
            len(unclosed),
            "unclosed-ranges",
            f"NVTX ranges never closed: {len(unclosed):,} ({_some(unclosed)}). Their time is unknown.",
        ),
        (
            len(crossing),
            "cross-thread-ranges",
            f"NVTX ranges that end on another thread: {len(crossing):,} ({_some(crossing)}). They nest in no thread.",
        ),
    ]
    return [Warning_(code=code, text=text) for count, code, text in said if count]


def _others(rows: pl.DataFrame) -> str:
    kinds = rows.filter(pl.col("type").is_in(list(OTHER_NVTX))).group_by("type").len().sort("type")
    return ", ".join(f"{n:,} {OTHER_NVTX[k]}{'s' * (n != 1)}" for k, n in kinds.iter_rows())


def _some(ranges: pl.DataFrame) -> str:
    names = ranges["name"].cast(pl.String).fill_null("").unique(maintain_order=True)
    shown = ", ".join(repr(n[:60]) for n in names.head(3))
    return shown + (" …" if len(names) > 3 else "")


def _take(rows: pl.DataFrame, which: pl.Expr) -> pl.DataFrame:
    """``filter`` that copies nothing when every row is taken, as in most NVTX-heavy captures."""
    return rows if rows.select(which.fill_null(False).all()).item() else rows.filter(which)


def _count_unknown(rows: pl.DataFrame, doubts: Doubts) -> None:
    known = [*RANGES, *OTHER_NVTX]
    if unknown := rows.select((~pl.col("type").is_in(known)).fill_null(True).sum()).item():
        doubts.update({("nvtx-unknown-events", "NVTX_EVENTS"): unknown})


def _with_domain(rows: pl.DataFrame, domains: pl.DataFrame) -> pl.DataFrame:
    """Add ``domain``: the name given in the row's own process; the default domain (0) is empty."""
    named = domains.select("domain_id", "process", domain="name").unique(["domain_id", "process"], keep="last")
    if not len(named):
        return rows.with_columns(pl.lit("").cast(NAME).alias("domain"))
    rows = rows.join(named, on=["domain_id", "process"], how="left", maintain_order="left")
    return rows.with_columns(pl.col("domain").fill_null(pl.lit("")))
