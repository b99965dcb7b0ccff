"""Tracks' rows in columns of small integers: times as differences, texts and facts as numbers into common lists.

In: thinned tracks. Out: ``TimelineTrack`` and what their numbers refer to (:class:`Book`). The encoding is described in
the package.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from unstall.analyze.intervals import Ints
from unstall.analyze.timeline.stacks import Tree
from unstall.model import Merged, Profile, TimelineTrack, Track

KERNEL = (
    "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers", "static_smem_bytes",
    "dynamic_smem_bytes",
)  # fmt: skip
COPY, MEMSET = ("bytes", "kind", "source", "destination"), ("bytes", "memory")


@dataclass
class Book:
    """Texts, facts and stacks, each held once."""

    profile: Profile
    longest: int
    shortened: set[str] = field(default_factory=set)
    facts: list[list[int | str | None]] = field(default_factory=list)
    _names: dict[str, int] = field(default_factory=dict)
    _facts: dict[tuple[Any, ...], int] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        return list(self._names)

    def text(self, value: str) -> int:
        """The number of a text, shortened if need be."""
        if len(value) > self.longest:
            self.shortened.add(value)
            value = value[: self.longest - 1] + "…"
        return self._names.setdefault(value, len(self._names))

    def codes(self, names: pl.Series) -> Ints:
        """The number of each row's text; each distinct text is looked up once."""
        column = names.cast(pl.Categorical)
        distinct = column.unique().drop_nulls()
        size = int(distinct.to_physical().max() or 0) + 2  # type: ignore[arg-type]
        place = np.full(size, self.text(""), np.int64)
        place[distinct.to_physical().to_numpy()] = [self.text(n) for n in distinct.cast(pl.String)]
        numbers: Ints = place[column.to_physical().fill_null(size - 1).to_numpy()]
        return numbers

    def noted(self, kind: str, rows: pl.DataFrame) -> Ints:
        """The number of each row's facts; each distinct row is noted once."""
        distinct = rows.unique(maintain_order=True)
        numbers = []
        for values in distinct.iter_rows():
            fact = (kind, *values)
            if fact not in self._facts:
                self._facts[fact] = len(self.facts)
                self.facts.append(list(fact))
            numbers.append(self._facts[fact])
        known = distinct.with_columns(fact=pl.Series(numbers, dtype=pl.Int64))
        joined = rows.join(known, on=rows.columns, how="left", nulls_equal=True, maintain_order="left")
        return joined["fact"].to_numpy()


@dataclass(frozen=True)
class Writer:
    """Turns tracks into columns.

    Attributes:
        zero: ns of the capture's clock from which times count.
        processes: process → its number.
        book: holds the texts and facts.
        tree: holds the stacks.
    """

    zero: int
    processes: dict[int, int]
    book: Book
    tree: Tree

    def encoded(self, track: Track, group: int) -> TimelineTrack:
        """One track, its rows as ``thin`` left them, under a heading."""
        if track.kind == "counter":
            return self._counter(track, group)
        rows = track.frame.sort("lane", "start", "end")
        made = TimelineTrack(
            kind=track.kind,
            group=group,
            process=self.processes[track.process],
            id=track.stream,
            lanes=np.bincount(rows["lane"].to_numpy(), minlength=1).tolist(),
            start=_steps(rows["start"].to_numpy() - self.zero),
            dur=(rows["end"] - rows["start"]).to_list(),
            label=self.book.codes(rows["name"]).tolist(),
            fact=_or_none(_facts(track, rows, self.book)),
            stack=_or_none(self.tree.nodes(rows["chain"])),
            merged=_merged(rows),
        )
        if track.kind in ("api", "stream") and rows["link"].null_count() < rows.height:
            made.link = _steps(rows["link"].fill_null(-1).to_numpy())
        return made

    def _counter(self, track: Track, group: int) -> TimelineTrack:
        return TimelineTrack(
            kind="counter",
            group=group,
            process=self.processes[track.process],
            name=track.label,
            lanes=[track.frame.height],
            start=_steps(track.frame["time"].to_numpy() - self.zero),
            dur=[],
            label=[],
            values=track.frame["value"].round_sig_figs(4).to_list(),
        )


def _merged(rows: pl.DataFrame) -> Merged | None:
    many = rows.with_row_index("at").filter(pl.col("count") > 1)
    if not many.height:
        return None
    return Merged(
        at=_steps(many["at"].cast(pl.Int64).to_numpy()), count=many["count"].to_list(), busy=many["busy"].to_list()
    )


def _steps(values: Ints) -> list[int]:
    """Differences to the value before, the first to 0."""
    differences: list[int] = np.diff(values, prepend=0).tolist()
    return differences


def _or_none(values: Ints) -> list[int] | None:
    return values.tolist() if len(values) and values.max() >= 0 else None


def _facts(track: Track, rows: pl.DataFrame, book: Book) -> Ints:
    """What the events' own tables say of them; -1 for none, and where a row stands for several events."""
    out = np.full(rows.height, -1, np.int64)
    if track.kind not in ("stream", "nvtx", "nvtx_async"):
        return out
    alone = rows.with_row_index("at").filter((pl.col("count") == 1) & pl.col("row").is_not_null())
    for (table,), part in alone.group_by("table", maintain_order=True):
        source = book.profile.table(str(table))
        kind, columns = {
            "kernels": ("kernel", KERNEL), "copies": ("copy", COPY), "memsets": ("memset", MEMSET),
            "ranges": ("domain", ("domain",)),
        }.get(str(table), ("", ()))  # fmt: skip
        if source is None or not kind:
            continue
        picked = source.select(columns)[part["row"]]
        text = [pl.col(c).cast(pl.String) for c, t in picked.schema.items() if t != pl.Int64]
        numbers = book.noted(kind, picked.with_columns(text))
        at = part["at"].to_numpy()
        out[at] = numbers
        if kind == "domain":
            out[at[picked["domain"].cast(pl.String).fill_null("").to_numpy() == ""]] = -1
    return out
