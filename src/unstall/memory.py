"""What keeps a large capture small in memory.

In: frames; the moment before Polars is first imported. Out: the same frames with constant columns stored once, and an
allocator that gives back what it no longer needs. Imports nothing of ours.
"""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

SMALL = 10_000  # rows below which saving memory saves nothing
ALLOCATOR = "_RJEM_MALLOC_CONF"
FRUGAL = "narenas:2,dirty_decay_ms:200,muzzy_decay_ms:0"
"""Polars' allocator (jemalloc) keeps four arenas a core, and freed pages for seconds: of a report on 10 million rows 80
to 100 MB of the peak, without being any faster (``benchmarks/README.md``)."""


LARGE = 4 << 20
M_MMAP_THRESHOLD = -3
"""glibc keeps freed arrays of up to 32 MB once it has seen some; above this limit it gives them back (NumPy's columns
of a large capture: 170 MB of the same peak)."""


def frugal() -> None:
    """Let this process keep little of the memory that it frees, and import Polars.

    Nothing where Polars is imported already, or where the user chose how its allocator works. What is set for it is in
    the environment for that moment only: no program started later inherits it.
    """
    if "polars" in sys.modules or ALLOCATOR in os.environ:
        return
    with suppress(OSError, AttributeError):  # another C library than glibc
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE)
    os.environ[ALLOCATOR] = FRUGAL
    try:
        import polars  # noqa: F401
    finally:
        del os.environ[ALLOCATOR]


def squeeze(frame: pl.DataFrame) -> pl.DataFrame:
    """Replace columns that hold one value throughout by that value, which Polars stores once.

    In a long capture of one process that is half the columns (process, device, context, graph node, result …): at ten
    million rows a few hundred megabytes. A column that is used takes its full form again.
    """
    import polars as pl

    same = constants(frame)
    return frame.with_columns(pl.lit(v, dtype=pl.Int64).alias(c) for c, v in same.items()) if same else frame


def constants(frame: pl.DataFrame) -> dict[str, int | None]:
    """Columns of numbers that hold one value throughout (or nothing), in a frame large enough to care."""
    import polars as pl

    if len(frame) < SMALL:
        return {}
    numbers = [c for c, d in frame.schema.items() if d == pl.Int64 and frame[c].null_count() in (0, len(frame))]
    low, high = (frame.select(f(c) for c in numbers).row(0) for f in (pl.min, pl.max))
    return {c: v for c, v, w in zip(numbers, low, high, strict=True) if v == w}
