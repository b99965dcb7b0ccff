"""The collectives of one process: which is which across ranks, how long each took, how much of it nothing hid.

In: device operations with their steps. Out: :class:`~unstall.ranks.summary.Meetings`.

A collective is known on all ranks by the same number: the step's own number, the communicator (a process group has a
stream of its own on each rank: streams in order of first use), the kind of operation, and which of that kind in that
step and communicator it is. That is how NCCL itself pairs calls: every rank makes the same ones in the same order.
Kernel names tell the kind; a payload with the communicator's id is in few exports, and none of the columns read here.
"""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from unstall.analyze import intervals
from unstall.analyze.device import busy, launched_at
from unstall.analyze.intervals import Ints
from unstall.model import Analysis, Profile
from unstall.ranks.summary import Meetings, packed

KINDS = (
    "other", "AllReduce", "AllGather", "ReduceScatter", "AllToAll", "Broadcast", "Reduce", "SendRecv", "Gather",
    "Scatter",
)  # fmt: skip
TOGETHER = frozenset({1, 2, 3, 4})
"""Kinds that end for nobody before all have come: their ends align clocks."""
PAIRED = frozenset({KINDS.index("SendRecv")})
"""Kinds between two ranks, as pipelines use them: waiting there is the schedule's, and charged to nobody."""
MOST = 2048
"""Collectives kept of a rank: 48 kB."""
SEQUENCE, COMMUNICATOR, KIND = 1 << 14, 1 << 6, 1 << 4
COMPUTE = ("kernel", "memset", "graph")
_PATTERNS = (
    (3, r"reduce_?scatter"), (2, r"all_?gather"), (1, r"all_?reduce"), (4, r"all_?to_?all"), (7, r"send_?recv"),
    (5, r"broadcast"), (6, r"reduce(?!_?scatter)"), (7, r"send|recv"), (8, r"gather"), (9, r"scatter"),
)  # fmt: skip


def kind_of(name: str) -> int:
    """Index into :data:`KINDS` of a kernel's name (``ncclDevKernel_AllReduce_Sum_bf16_RING_LL(…)`` → 1)."""
    head = re.split(r"[<(]", name, maxsplit=1)[0].lower()
    return next((kind for kind, pattern in _PATTERNS if re.search(pattern, head)), 0)


def code_of(step: Ints, communicator: Ints, kind: Ints, sequence: Ints) -> Ints:
    """One number for a collective; see the module's text."""
    out: Ints = ((step * COMMUNICATOR + communicator) * KIND + kind) * SEQUENCE + sequence
    return out


def parts_of(code: Ints) -> tuple[Ints, Ints, Ints]:
    """Step, communicator and kind of such numbers."""
    rest = code // SEQUENCE
    return rest // (KIND * COMMUNICATOR), rest // KIND % COMMUNICATOR, rest % KIND


def meetings(
    analysis: Analysis, process: int, begins: Ints, keys: Ints, kept: Ints
) -> tuple[Meetings, int] | tuple[None, int]:
    """The collectives that a process launched in its kept steps, and the stride of steps in which they are kept.

    Args:
        analysis: of the capture.
        process: whose.
        begins: when each step begins on the host; keys: their numbers; kept: the numbers of those kept.
    """
    ops = analysis.ops.filter((pl.col("process") == process) & (pl.col("kind") == "communication"))
    if not ops.height:
        return None, 1
    step = np.searchsorted(begins, launched_at(ops), side="right") - 1
    known = step >= 0
    key = np.where(known, keys[np.maximum(step, 0)], -1)
    stream = _communicators(ops)
    stride = _stride(key, kept)
    wanted = known & np.isin(key, kept) & (key % stride == 0)
    if not wanted.any():
        return None, stride
    rows = ops.with_columns(key=pl.Series(key), communicator=pl.Series(stream)).filter(pl.Series(wanted))
    rows = rows.with_columns(what=pl.Series(_kinds(rows, analysis.profile), dtype=pl.Int64))
    return _packed(_numbered(rows), analysis.ops.filter(pl.col("process") == process)), stride


def _stride(key: Ints, kept: Ints) -> int:
    """The least power of two for which the collectives of steps that it divides are few enough."""
    stride = 1
    usable = np.isin(key, kept)
    while stride < 1 << 40 and (usable & (key % stride == 0)).sum() > MOST:
        if len(np.unique(key[usable & (key % stride == 0)])) == 1:
            break
        stride *= 2
    return stride if (usable & (key % stride == 0)).any() else max(stride // 2, 1)


def _communicators(ops: pl.DataFrame) -> Ints:
    """For each operation the place of its stream in order of first use."""
    of = pl.struct("device", "context", "stream")
    first = ops.select(of.alias("s"), "start").group_by("s").agg(pl.col("start").min()).sort("start")
    place = first.with_row_index("place").select("s", "place")
    found = ops.select(of.alias("s")).join(place, on="s", how="left", maintain_order="left")["place"]
    out: Ints = np.minimum(found.to_numpy().astype(np.int64), COMMUNICATOR - 1)
    return out


def _kinds(rows: pl.DataFrame, profile: Profile) -> Ints:
    """The kind of each, decided once a distinct name."""
    assert profile.kernels is not None
    names = profile.kernels["name"].gather(rows["row"]).cast(pl.String).fill_null("")
    distinct = names.unique().to_list()
    return names.replace_strict(distinct, [kind_of(n) for n in distinct], return_dtype=pl.Int64).to_numpy()


def _numbered(rows: pl.DataFrame) -> pl.DataFrame:
    """With ``sequence``: which of its kind in its step and communicator."""
    order = pl.int_range(pl.len()).over("key", "communicator", "what")
    return rows.sort("start").with_columns(sequence=order)


def _packed(rows: pl.DataFrame, ops: pl.DataFrame) -> Meetings:
    weight = max(1, -(-rows.height // MOST))
    start, end = rows["start"].to_numpy(), rows["end"].to_numpy()
    exposed = _exposed(start, end, busy(ops, *COMPUTE))
    code = code_of(*(rows[c].cast(pl.Int64).to_numpy() for c in ("key", "communicator", "what", "sequence")))
    some = (rows["sequence"].to_numpy() % weight == 0) & (rows["sequence"].to_numpy() < SEQUENCE)
    duration = np.minimum(end - start, 2**32 - 1)  # 4.3 s: a collective that takes longer is hung
    return Meetings(
        packed(code[some]), packed(start[some]), packed(duration[some], "u4"),
        packed(np.minimum(exposed[some], 2**32 - 1), "u4"), weight,
    )  # fmt: skip


def _exposed(start: Ints, end: Ints, compute: intervals.Union) -> Ints:
    """What of each collective no compute hides; where two run at once, it counts for the one that began first."""
    before = np.concatenate(([start[0]], np.maximum.accumulate(end)[:-1]))
    begin = np.minimum(np.maximum(start, before), end)
    out: Ints = (end - begin) - intervals.covered(compute, begin, end)
    return out
