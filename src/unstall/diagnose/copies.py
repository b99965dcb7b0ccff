"""What the rules about copies share: how fast a pinned copy would be, and what a step looks like with copies pinned.

In: a case and some of its copy operations. Out: rates in bytes/s, and the parts of a
:class:`~unstall.analyze.replay.Change`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from unstall.analyze import intervals
from unstall.analyze.intervals import Union
from unstall.diagnose.case import Case
from unstall.diagnose.events import some_of, spans
from unstall.diagnose.texts import Line, line

OWN_BYTES = 4 << 20
"""Copies of at least this size run at the link's rate: 4 MB take 75 µs at 55 GB/s, set-up about 2 µs."""
SETUP_NS = 2_000
SMALL_BYTES = 64_000
"""Up to 64 kB the driver takes along what is to be copied and the call returns at once, pinned or not ("API
synchronization behavior", CUDA runtime reference): there the calls cost, not the memory they copy from."""


@dataclass(frozen=True)
class Rate:
    """Bytes/s of a pinned copy, and whether the capture itself shows it (else it is the link's usual rate)."""

    usual: float
    low: float
    high: float
    seen: bool


def pinned_rate(case: Case, kind: str = "HtoD") -> Rate:
    """From the capture's own large pinned copies in this direction, else from the GPU's name."""
    copies = case.profile.copies
    end = "source" if kind == "HtoD" else "destination"
    if copies is not None:
        rows = copies.filter(
            (pl.col("kind").cast(pl.String) == kind)
            & (pl.col(end).cast(pl.String) == "pinned")
            & (pl.col("bytes") >= OWN_BYTES)
            & (pl.col("end") > pl.col("start"))
        )
        if rows.height >= 3:
            rate = rows.select(pl.col("bytes") * 1e9 / (pl.col("end") - pl.col("start"))).to_series()
            low, usual, high = (float(rate.quantile(q) or 0.0) for q in (0.1, 0.5, 0.9))
            return Rate(usual, low, high, seen=True)
    link = case.peaks.link * 1e9
    return Rate(link, link / 1.6, link * 1.05, seen=False)


def ahead(case: Case, rows: pl.DataFrame, rate: Rate) -> dict[str, Any]:
    """The change that makes these copies pinned and runs them a step ahead on a stream of their own."""
    mine = some_of("op", rows["op"])

    def at(speed: float) -> pl.Expr:
        faster = (pl.col("bytes") * (1e9 / speed) + SETUP_NS).cast(pl.Int64)
        return pl.when(mine).then(pl.min_horizontal(faster, pl.col("end") - pl.col("start")))

    return {"side": mine, "op_ns": at(rate.usual), "op_ns_low": at(rate.high), "op_ns_high": at(rate.low)}


def exposed(case: Case, rows: pl.DataFrame) -> Union:
    """What these copies keep the device from: their own time that no compute hides, and the idle time inside their
    calls and the waits directly behind them."""
    calls = case.calls_of(rows)
    open_ = intervals.merge(spans(calls), spans(case.syncs_after(calls)))
    moving = intervals.intersect(case.part("exposed_copy"), intervals.union(rows["start"], rows["end"]))
    return intervals.merge(moving, case.idle(open_))


def by_size(rows: pl.DataFrame, case: Case) -> tuple[float, float | None]:
    """Copies and bytes a step; no bytes where the size of any is not known: a part would pass for the whole."""
    known = not rows["bytes"].null_count()
    return rows.height / case.count, float(rows["bytes"].sum()) / case.count if known else None


def moved(rows: pl.DataFrame, case: Case, **facts: Any) -> Line:
    """The evidence ``moved``: copies and bytes a step, and their rate; ``unsized`` where that is not known."""
    count, size = by_size(rows, case)
    if size is None:
        return line("unsized", count, "copies", "copies")
    took = float(rows["dur"].sum()) / case.count
    return line("moved", size, "bytes", "copies", count=count, rate=size / max(took, 1) * 1e9, **facts)
