"""Rows whose process, thread or GPU an export does not tell, given a place of their own before anything is joined.

In: a loaded profile, in which such rows hold null. Out: the same with number 0 there and a warning that says how many;
nothing is dropped, and nothing is put under a process that may not have made it. An empty table of CUDA calls beside
device work is *absent*, not empty: calls were made, and the capture does not hold them.
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
    changes: dict[str, pl.DataFrame | None] = {t: _filled(profile, t, gaps) for t, gaps in missing.items()}
    if profile.api is not None and not profile.api.height and _has_device_work(profile):
        changes["api"] = None
    notes = [_note(column, missing) for column in COLUMNS if any(column in gaps for gaps in missing.values())]
    return replace(profile, notes=(*profile.notes, *notes), **changes) if changes else profile  # type: ignore[arg-type]


def _gaps(frame: pl.DataFrame | None) -> dict[str, int]:
    """Column → rows without a value."""
    if frame is None:
        return {}
    return {c: n for c in COLUMNS if c in frame.columns and (n := frame[c].null_count())}


def _filled(profile: Profile, table: str, gaps: dict[str, int]) -> pl.DataFrame:
    frame = profile.table(table)
    assert frame is not None  # only tables with rows have gaps
    return frame.with_columns(pl.col(c).fill_null(NOWHERE) for c in gaps)


def _has_device_work(profile: Profile) -> bool:
    return any(frame is not None and frame.height for frame in map(profile.table, DEVICE_TABLES))


def _note(column: str, missing: dict[str, dict[str, int]]) -> Warning_:
    what = {"device": "GPU"}.get(column, column)
    rows = [f"{gaps[column]:,} in {table}" for table, gaps in missing.items() if column in gaps]
    text = f"The export does not say the {what} of some rows, which are kept as {what} {NOWHERE}: {', '.join(rows)}."
    return Warning_(code=f"unknown-{what.lower()}", text=text)
