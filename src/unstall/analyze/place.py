"""Rows whose process, thread or GPU an export does not tell, given a place of their own before anything is joined.

In: a loaded profile, in which such rows hold null. Out: the same with a place in each, and a warning that says how
many; nothing is dropped, and nothing is put under a process or on a GPU that may not have had it. A process or thread
that is not told is number 0. A GPU is that of the row's context, where other rows tell it; else each process has an
unknown GPU of its own, a number below 0 (``device.known``), because whether two of them share one is not known either.
An empty table of CUDA calls beside device work is *absent*, not empty: calls were made, and the capture does not hold
them.
"""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from unstall.model import DEVICE_TABLES, TABLES, Profile, Warning_

COLUMNS = ("process", "thread", "device")
FACTS = ("processes", "threads", "gpus", "diagnostics", "gpu_metrics")
NOWHERE = 0


def placed(profile: Profile) -> Profile:
    """The profile with every event in some process, thread and device."""
    missing = {t: gaps for t in TABLES if t not in FACTS and (gaps := _gaps(profile.table(t)))}
    homes = _homes(profile) if any("device" in gaps for gaps in missing.values()) else None
    changes: dict[str, pl.DataFrame | None] = {t: _filled(profile, t, gaps, homes) for t, gaps in missing.items()}
    notes = [_note(column, missing, changes) for column in COLUMNS if any(column in g for g in missing.values())]
    if profile.api is not None and not profile.api.height and _has_device_work(profile):
        changes["api"] = None
    return replace(profile, notes=(*profile.notes, *notes), **changes) if changes else profile  # type: ignore[arg-type]


def _gaps(frame: pl.DataFrame | None) -> dict[str, int]:
    """Column → rows without a value."""
    if frame is None:
        return {}
    return {c: n for c in COLUMNS if c in frame.columns and (n := frame[c].null_count())}


def _filled(profile: Profile, table: str, gaps: dict[str, int], homes: pl.DataFrame | None) -> pl.DataFrame:
    frame = profile.table(table)
    assert frame is not None  # only tables with rows have gaps
    frame = frame.with_columns(pl.col(c).fill_null(NOWHERE) for c in gaps if c != "device")
    if "device" not in gaps or homes is None:
        return frame
    frame = frame.join(homes, on=["process", "context"], how="left", maintain_order="left")
    return frame.with_columns(pl.coalesce("device", "home", -1 - pl.col("process"))).drop("home")


def _homes(profile: Profile) -> pl.DataFrame:
    """The GPU (``home``) of every ``process`` and ``context`` whose other rows agree on one."""
    frames = [f for t in (*DEVICE_TABLES, "syncs") if (f := profile.table(t)) is not None]
    rows = pl.concat(f.select(pl.col("process").fill_null(NOWHERE), "context", home="device").unique() for f in frames)
    of = rows.drop_nulls().group_by("process", "context")
    return of.agg(pl.col("home").first(), n=pl.col("home").n_unique()).filter(pl.col("n") == 1).drop("n")


def _has_device_work(profile: Profile) -> bool:
    return any(frame is not None and frame.height for frame in map(profile.table, DEVICE_TABLES))


def _note(column: str, missing: dict[str, dict[str, int]], filled: dict[str, pl.DataFrame | None]) -> Warning_:
    counts = {table: gaps[column] for table, gaps in missing.items() if column in gaps}
    rows = ", ".join(f"{n:,} in {table}" for table, n in counts.items())
    if column == "device":
        lost = sum(int((f["device"] < 0).sum()) for t in counts if (f := filled[t]) is not None)
        found = sum(counts.values()) - lost
        text = (
            f"The export does not say the GPU of some rows: {rows}. {found:,} are put on the GPU of their context, "
            f"{lost:,} on an unknown one."
        )
        return Warning_(code="unknown-gpu", text=text)
    text = f"The export does not say the {column} of some rows, which are kept as {column} {NOWHERE}: {rows}."
    return Warning_(code=f"unknown-{column}", text=text)
