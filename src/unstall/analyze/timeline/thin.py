"""Fewer rows for the same picture: neighbouring short events of a lane become one row that says how many it stands for.

In: a track's rows (by lane and start) and how long a *pixel* is. Out: rows of the same columns plus ``count`` (events),
``busy`` (ns they take) and ``top`` (ns of the longest, whose name the row bears). Events as long as a pixel stay as
they are. Thinning what was thinned is as good as thinning more at once, so a pixel can be widened until rows fit.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from unstall.analyze.intervals import Ints

FINEST = 1 << 18
"""Pixels over the whole span at first, a hundred screens wide: what is shorter shows only when zoomed in that far."""


def counted(frame: pl.DataFrame) -> pl.DataFrame:
    """The rows as they are, each standing for itself."""
    long = pl.col("end") - pl.col("start")
    return frame.with_columns(count=pl.lit(1, pl.Int64), busy=long, top=long)


def thin(frame: pl.DataFrame, pixel: int, apart: Ints) -> pl.DataFrame:
    """Rows shorter than ``pixel`` ns merged with those beginning in the same pixel of their lane.

    Args:
        frame: rows as :func:`counted` gives them.
        pixel: ns; below 2 nothing is merged.
        apart: instants across which nothing is merged, sorted (the starts of what is shown in full).
    """
    if pixel < 2 or not frame.height:
        return frame
    short = pl.col("end") - pl.col("start") < pixel
    piece = pl.Series("piece", np.searchsorted(apart, frame["start"].to_numpy()))
    rows = frame.with_columns(piece, bin=pl.col("start") // pixel)
    merged = rows.filter(short).group_by("lane", "bin", "piece").agg(_merged(frame.columns))
    return pl.concat([rows.filter(~short).select(frame.columns), merged.select(frame.columns)])


def _merged(columns: list[str]) -> list[pl.Expr]:
    """How each column of merged rows comes about: a row that stays alone keeps what it says."""
    ways = {
        "start": pl.col("start").min(),
        "end": pl.col("end").max(),
        "count": pl.col("count").sum(),
        "busy": pl.col("busy").sum(),
        "top": pl.col("top").max(),
        "inside": pl.col("inside").first(),
        "name": pl.col("name").get(pl.col("top").arg_max()),
    }
    alone = pl.len() == 1
    return [
        ways.get(c, pl.when(alone).then(pl.col(c).first()).alias(c))
        for c in columns
        if c not in ("lane", "bin", "piece")
    ]


def fitted(frames: list[pl.DataFrame], most: int, span: int, apart: Ints) -> list[pl.DataFrame]:
    """All frames thinned by one pixel: the narrowest of ``span / FINEST`` and its doubles that leaves ``most`` rows."""
    pixel = max(span // FINEST, 1)
    while sum(f.height for f in frames) > most and pixel <= 2 * span:
        frames = [thin(f, pixel, apart) for f in frames]
        pixel *= 2
    return frames
