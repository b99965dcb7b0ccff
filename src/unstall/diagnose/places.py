"""Where in the program: the ranges, OS calls and functions in which some time was spent.

In: unions and operations of a process. Out: names with their shares, most first. :class:`Places` is the middle of
:class:`~unstall.diagnose.case.Case`.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from unstall.analyze import intervals, ranges
from unstall.analyze.intervals import Union
from unstall.diagnose.events import contains, symbols, under
from unstall.diagnose.times import Times


class Places(Times):
    """Names for unions and operations."""

    @cached_property
    def _innermost(self) -> Any:
        own = self.host.ranges
        if own is None:
            return None
        own = own.filter((pl.col("thread") == self.host.thread) & pl.col("trusted"))
        cuts = np.unique(np.concatenate((own["start"].to_numpy(), own["end"].to_numpy())))
        return own, cuts, ranges.innermost(own)

    def where(self, when: Union) -> list[tuple[str, float]]:
        """Innermost ranges of the step's thread during ``when``, as (family, share of ``when``), most first."""
        if self._innermost is None or not len(when[0]):
            return []
        own, cuts, index = self._innermost
        far = np.iinfo(np.int64).max // 4
        cells = (np.concatenate(([-far], cuts)), np.append(cuts, far))
        pieces = intervals.intersect(when, cells)
        ids = index.at(np.full(len(pieces[0]), self.host.thread), pieces[0])
        spent = pl.DataFrame({"id": ids, "ns": pieces[1] - pieces[0]})
        by = spent.join(own.select("id", "family"), on="id", how="inner").group_by("family").agg(pl.col("ns").sum())
        whole = intervals.total(when) or 1
        return [(str(f), ns / whole) for f, ns in by.sort("ns", "family", descending=[True, False]).iter_rows()]

    def range_of(self, when: Union) -> str | None:
        """The innermost range in which most of ``when`` lies; ``None`` without ranges."""
        found = self.where(when)
        return found[0][0] if found else None

    def range_of_ops(self, rows: pl.DataFrame) -> str | None:
        """The range in which most of these operations' device time was launched."""
        if self.analysis.ranges is None or "range" not in rows.columns or not rows.height:
            return None
        names = self.analysis.ranges.select(pl.col("id").alias("range"), pl.col("family").cast(pl.String).alias("at"))
        by = rows.join(names, on="range", how="inner").group_by("at").agg(pl.col("dur").sum())
        return str(by.sort("dur", "at", descending=[True, False])["at"][0]) if by.height else None

    def ops_in(self, rows: pl.DataFrame, pattern: str) -> pl.DataFrame:
        """Those operations whose innermost range of the user has a family that matches."""
        if self.analysis.ranges is None or "range" not in rows.columns:
            return rows.head(0)
        named = self.analysis.ranges.filter(pl.col("family").cast(pl.String).str.contains(pattern))
        return rows.filter(pl.col("range").is_in(named["id"].implode()))

    def waits_in(self, when: Union) -> tuple[float, str]:
        """Share of ``when`` that the step's thread spends in OS runtime calls, and the call that takes most of it."""
        if self.host.osrt is None or not len(when[0]):
            return 0.0, ""
        rows = self.host.osrt.filter(pl.col("thread") == self.host.thread)
        spent = pl.Series("ns", intervals.covered(when, rows["start"], rows["end"]))
        by = rows.select(pl.col("name").cast(pl.String)).with_columns(spent).group_by("name").agg(pl.col("ns").sum())
        by = by.filter(pl.col("ns") > 0).sort("ns", "name", descending=[True, False])
        if not by.height:
            return 0.0, ""
        inside = intervals.intersect(when, intervals.union(rows["start"], rows["end"]))
        return intervals.total(inside) / intervals.total(when), str(by["name"][0])

    def hot(self, when: Union, threads: list[int] | None = None, top: int = 3) -> list[tuple[str, float]]:
        """Functions that samples of some threads (default: the step's) show during ``when``: (symbol, share).

        The innermost Python frame where the capture has Python frames, else the innermost symbol that has a name.
        """
        rows = self._sampled(when, threads or [self.host.thread])
        return [] if rows is None or self.profile.frames is None else symbols(rows, self.profile.frames, top)

    def sampled_under(self, when: Union, pattern: str) -> tuple[float, str]:
        """Share of the step's thread's samples during ``when`` that are in or under a Python function whose symbol
        matches, and the commonest of these functions; ``(0.0, "")`` without Python stacks."""
        rows = self._sampled(when, [self.host.thread])
        return (0.0, "") if rows is None or self.profile.frames is None else under(rows, self.profile.frames, pattern)

    def _sampled(self, when: Union, threads: list[int]) -> pl.DataFrame | None:
        """Samples with a stack; ``None`` where the capture has none to look at."""
        samples = self.profile.samples
        if samples is None or not samples.height or not len(when[0]):
            return None
        rows = samples.filter(pl.col("thread").is_in(threads) & pl.col("callchain").is_not_null())
        return rows.filter(pl.Series(contains(when, rows["time"].to_numpy()), dtype=pl.Boolean))
