"""The export's string table: ids into names.

Comes in: ``StringIds`` as a frame of ``id`` and ``value``. Goes out: for a column of ids, a ``Categorical`` column. The
strings are turned into categories once; a row costs one gather of four bytes.
"""

from __future__ import annotations

import polars as pl

from unstall.load.tables import NAME

DENSE = 4  # nsys numbers strings from 0 without holes; beyond this many ids a string, look them up instead


class Names:
    """Looks up string ids."""

    def __init__(self, ids: pl.Series, values: pl.Series) -> None:
        frame = pl.DataFrame({"id": ids, "value": values}).drop_nulls().unique("id", keep="last").sort("id")
        frame = frame.filter(pl.col("id") >= 0)
        self._ids = frame["id"]
        top = int(self._ids[-1]) if len(frame) else 0
        self._dense = top < DENSE * len(frame) + 1000
        if self._dense:
            every = pl.DataFrame({"id": pl.int_range(top + 1, eager=True)})
            frame = every.join(frame, on="id", how="left").sort("id")
        self._values = frame["value"].cast(NAME)

    def __call__(self, ids: pl.Series) -> pl.Series:
        """Names of ``ids``; null where an id is null or unknown."""
        if not len(self._values):
            return pl.Series(ids.name, [None] * len(ids), dtype=NAME)
        place = ids if self._dense else self._ids.search_sorted(ids.fill_null(-1)).cast(pl.Int64)
        inside = place.is_between(0, len(self._values) - 1)
        if not inside.all() or place.null_count():
            place = pl.select(pl.when(inside).then(place)).to_series()
        names = self._values.gather(place).alias(ids.name)
        if self._dense:
            return names
        known = self._ids.gather(place) == ids
        return pl.select(pl.when(known).then(names)).to_series().alias(ids.name)
