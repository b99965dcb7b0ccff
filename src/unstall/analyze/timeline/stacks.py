"""Call stacks as one tree of frames, so that what many stacks share is held once.

In: the profile's frames and the call chains that are wanted. Out: :class:`Tree`, a node a frame with its caller.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import polars as pl

from unstall.analyze.intervals import Ints
from unstall.analyze.tracks import frame_names
from unstall.model import Stacks

DEEPEST = 48
"""Innermost frames of a stack that are kept."""


class Namer(Protocol):
    """Gives texts numbers."""

    def codes(self, names: pl.Series) -> Ints: ...


@dataclass(frozen=True)
class Tree:
    """``chain`` (sorted) and the node of its innermost frame."""

    stacks: Stacks
    chain: Ints
    node: Ints

    def nodes(self, chains: pl.Series) -> Ints:
        """Node of each chain, -1 for none."""
        wanted = chains.fill_null(-1).to_numpy()
        if not len(self.chain):
            return np.full(len(wanted), -1, np.int64)
        at = np.minimum(np.searchsorted(self.chain, wanted), len(self.chain) - 1)
        return np.where(self.chain[at] == wanted, self.node[at], -1)


def tree(frames: pl.DataFrame | None, chains: pl.Series, book: Namer) -> Tree:
    """The tree of the wanted chains, a level of all stacks at a time, callers first."""
    parent: list[Ints] = []
    name: list[Ints] = []
    nothing = np.empty(0, np.int64)
    rows = None if frames is None else _rows(frames, chains)
    if rows is None or not rows.height:
        return Tree(Stacks(parent=[], name=[]), nothing, nothing)
    known, at = np.unique(rows["callchain"].to_numpy(), return_inverse=True)
    label, level = book.codes(rows["name"]), rows["level"].to_numpy()
    node, count = np.full(len(known), -1, np.int64), 0
    for here in np.split(np.argsort(level, kind="stable"), np.cumsum(np.bincount(level))[:-1]):
        key = (node[at[here]] + 1) << 32 | label[here]
        distinct, place = np.unique(key, return_inverse=True)
        parent.append((distinct >> 32) - 1)
        name.append(distinct & 0xFFFFFFFF)
        node[at[here]] = count + place
        count += len(distinct)
    stacks = Stacks(parent=np.concatenate(parent).tolist(), name=np.concatenate(name).tolist())
    return Tree(stacks, known, node)


def _rows(frames: pl.DataFrame, chains: pl.Series) -> pl.DataFrame:
    """``callchain``, ``name`` and ``level`` (0 outermost) of the wanted chains."""
    wanted = frames.filter(pl.col("callchain").is_in(chains.implode()) & (pl.col("depth") < DEEPEST))
    wanted = wanted.unique(["callchain", "depth"], maintain_order=True)
    level = pl.col("depth").rank("ordinal", descending=True).over("callchain").cast(pl.Int64) - 1
    return wanted.select("callchain", frame_names(wanted), level=level)
