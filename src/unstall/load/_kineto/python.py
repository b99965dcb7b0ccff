"""Python functions of ``with_stack=True`` → samples and frames.

Comes in: one event a Python call, nested on its thread. Goes out: the stack at regular instants, as a sampling profiler
would have recorded it, innermost first. Calls come in the hundred thousands, and every later stage asks "what did this
thread do meanwhile?", which samples answer at a bounded cost.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import polars as pl

from unstall.analyze import nesting
from unstall.load._kineto.columns import names, times
from unstall.load._kineto.decode import Event
from unstall.load._kineto.threads import Threads
from unstall.load.tables import NAME

MOST = 20_000
"""Samples of all threads together; each has some twenty frames."""
CLOSEST_NS = 20_000
"""No closer than this: a shorter call is seen by its share of the samples."""
DEEPEST = 64
OF_FILE = re.compile(r"(?P<file>.*?)\((?P<line>\d+)\): (?P<function>.*)")


def sampled(events: Sequence[Event], unit: int, threads: Threads) -> dict[str, pl.DataFrame]:
    """``samples`` and ``frames``, columns not yet in order."""
    start, end = times(events, unit)
    calls = pl.DataFrame(
        {"start": start, "end": end, "thread": threads.of(events), "name": names([e.name for e in events])}
    )
    calls = calls.filter(pl.col("start").is_not_null() & (pl.col("end") > pl.col("start"))).with_columns(
        domain=pl.lit(""), style=pl.lit("push_pop"), end_thread="thread", process="thread"
    )
    nested = nesting.nest(calls)
    at = _instants(calls)
    ids = nesting.innermost_at(nested, at["thread"].to_numpy(), at["time"].to_numpy())
    samples = at.with_columns(callchain=pl.Series(ids, dtype=pl.Int64)).filter(pl.col("callchain") >= 0)
    return {
        "samples": samples.with_columns(kind=pl.lit("python", NAME)),
        "frames": _frames(nested, samples["callchain"].unique().to_numpy()),
    }


def _instants(calls: pl.DataFrame) -> pl.DataFrame:
    """Evenly spaced instants of each thread between its first call and its last."""
    spans = calls.group_by("thread").agg(pl.col("start").min(), pl.col("end").max()).sort("thread")
    whole = int((spans["end"] - spans["start"]).sum())
    every = max(CLOSEST_NS, whole // MOST + 1)
    parts = [
        pl.DataFrame({"time": np.arange(start + every // 2, end, every)}).with_columns(thread=pl.lit(thread, pl.Int64))
        for thread, start, end in spans.iter_rows()
    ]
    return pl.concat(parts) if parts else pl.DataFrame(schema={"time": pl.Int64, "thread": pl.Int64})


def _frames(nested: pl.DataFrame, chains: np.ndarray) -> pl.DataFrame:
    """One row a stack and frame: a stack goes by the id of its innermost call."""
    parent, at, rows = nesting.parents_of(nested), chains, []
    for depth in range(DEEPEST):
        rows.append(pl.DataFrame({"callchain": chains, "depth": np.full(len(chains), depth), "id": at}))
        up = parent[at]
        chains, at = chains[up >= 0], up[up >= 0]
        if not len(at):
            break
    told = {n: _symbol(str(n)) for n in nested["name"].unique().drop_nulls()}
    texts = pl.DataFrame({
        "name": names(list(told)), "symbol": names([s for s, _ in told.values()]),
        "module": names([m for _, m in told.values()]),
    })  # fmt: skip
    called = nested.select("id", "name")
    frame = pl.concat(rows).join(called, on="id", how="left").join(texts, on="name", how="left")
    return frame.with_columns(kind=pl.lit("python", NAME)).sort("callchain", "depth")


def _symbol(name: str) -> tuple[str, str]:
    """``torch/nn/module.py(12): forward`` → ``forward (module.py)`` and the path, as the built-in collector has it."""
    found = OF_FILE.fullmatch(name)
    if found is None:
        return name, ""
    path = found["file"]
    return f"{found['function']} ({path.rsplit('/', 1)[-1]})", path
