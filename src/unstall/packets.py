"""Perfetto's trace packets, thousands at a time: arrays in, bytes out; pure.

A trace file is a run of ``TracePacket`` messages (protobuf). The packets of one track differ in a few numbers only, so
they are laid out as the rows of a byte matrix: every number as wide as the widest of its column, padded as protobuf
allows (a varint may carry zero groups; Perfetto's own tracing library pads its lengths in this way).

Field numbers: ``protos/perfetto/trace`` of Perfetto, whose published definitions the tests parse the result with.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import polars as pl

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

ROWS = 1 << 17
"""Packets laid out at once: a few megabytes."""
SEQUENCE = 1
"""All packets come from one writer, which knows the interned names."""
CLEARED, NEEDED = 1, 2
"""``sequence_flags``: interned state begins here; this packet refers to it."""
BEGIN, END, COUNTER = 1, 2, 4
"""``TrackEvent.type``."""


def varint(value: int) -> bytes:
    """One number, 0 or above."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def number(field: int, value: int) -> bytes:
    """A field that holds a number, 0 or above."""
    return varint(field << 3) + varint(value)


def message(field: int, content: bytes | str) -> bytes:
    """A field that holds a text or a message."""
    raw = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(raw)) + raw


def packet(content: bytes, flags: int = 0) -> bytes:
    """A packet of our sequence."""
    return message(1, number(10, SEQUENCE) + (number(13, flags) if flags else b"") + content)


def names(texts: list[str], first: int) -> bytes:
    """A packet that gives event names the numbers from ``first`` on."""
    entries = b"".join(message(2, number(1, first + i) + message(2, text)) for i, text in enumerate(texts))
    return packet(message(12, entries), NEEDED)


def slices(frame: pl.DataFrame, label: Ints, track: int, *, flow: int | None = None) -> Iterator[bytes]:
    """Begin and end packets of events that nest, in order of time.

    Args:
        frame: ``start``, ``end`` (ns), ``lane`` and ``link``.
        label: number of each event's name.
        track: number of the track.
        flow: what to add to ``link`` to have the number of the arrow that starts or ends here; ``None`` for no arrows.
    """
    start, end, lane = (frame[c].to_numpy() for c in ("start", "end", "lane"))
    start, end = np.maximum(start, 0), np.maximum(end, 0)
    order = np.lexsort((lane, -end, start))
    start, end, label = start[order], end[order], label[order]
    arrow = _arrows(frame["link"].fill_null(-1).to_numpy()[order], flow)
    for rows, is_end in _in_time(start, end):
        yield _events(np.where(is_end, end[rows], start[rows]), label[rows], arrow[rows], is_end, track)


def _arrows(link: Ints, flow: int | None) -> Ints:
    """Number of each event's arrow, -1 for none; the first event of a link has it, a graph's others would be a knot."""
    first = np.zeros(len(link), np.bool_)
    first[np.unique(link, return_index=True)[1]] = flow is not None
    arrow: Ints = np.where(first & (link >= 0), link + (flow or 0), -1)
    return arrow


def _in_time(start: Ints, end: Ints) -> Iterator[tuple[Ints, npt.NDArray[np.bool_]]]:
    """Rows and whether they end, in pieces and in order of time.

    At one instant, what ends goes before what begins, inner before outer; an event without length ends where it begins.
    """
    row = np.arange(len(start))
    empty = start == end
    when = np.concatenate((start, end))
    turn = np.concatenate((np.ones(len(row), np.int64), empty.astype(np.int64)))
    rank = np.concatenate((2 * row, np.where(empty, 2 * row + 1, -row)))
    order = np.lexsort((rank, turn, when))
    for piece in np.split(order, range(ROWS, len(order), ROWS)):
        yield piece % max(len(row), 1), piece >= len(row)


def _events(time: Ints, label: Ints, arrow: Ints, is_end: npt.NDArray[np.bool_], track: int) -> bytes:
    """The packets of one piece; three shapes, brought into their order by where each has to begin."""
    begins = [(~is_end & (arrow < 0), False), (~is_end & (arrow >= 0), True)]
    parts = [(rows, _begin(time[rows], label[rows], arrow[rows] if flows else None, track)) for rows, flows in begins]
    parts.append((is_end, _packets(time[is_end], [_constant(_event(END, track), int(is_end.sum()))])))
    size = np.zeros(len(time), np.int64)
    for rows, matrix in parts:
        size[rows] = matrix.shape[1]
    at = np.cumsum(size) - size
    out = np.empty(int(size.sum()), np.uint8)
    for rows, matrix in parts:
        out[(at[rows][:, None] + np.arange(matrix.shape[1])).ravel()] = matrix.ravel()
    return out.tobytes()


def _begin(time: Ints, label: Ints, arrow: Ints | None, track: int) -> Bytes:
    columns = [_constant(_event(BEGIN, track) + varint(10 << 3), len(time)), _varints(label)]
    if arrow is not None:
        columns += [_constant(varint(47 << 3 | 1), len(time)), arrow.astype("<u8").view(np.uint8).reshape(-1, 8)]
    return _packets(time, columns, NEEDED)


def counter(time: Ints, value: npt.NDArray[np.float64], track: int) -> Iterator[bytes]:
    """The packets of a counter."""
    for rows in np.split(np.arange(len(time)), range(ROWS, len(time), ROWS)):
        head = _constant(_event(COUNTER, track) + varint(44 << 3 | 1), len(rows))
        yield _packets(time[rows], [head, value[rows].astype("<f8").view(np.uint8).reshape(-1, 8)]).tobytes()


def _event(kind: int, track: int) -> bytes:
    return number(9, kind) + number(11, track)


def _packets(time: Ints, event: list[Bytes], flags: int = 0) -> Bytes:
    """Packets of one shape: time and sequence around an event's columns."""
    count, size = len(time), sum(column.shape[1] for column in event)
    head = number(10, SEQUENCE) + (number(13, flags) if flags else b"")
    when = _varints(time)
    before = _constant(head + varint(8 << 3), count)
    inner = _constant(varint(11 << 3 | 2) + varint(size), count)
    body = np.hstack([before, when, inner, *event])
    return np.hstack([_constant(varint(1 << 3 | 2) + varint(body.shape[1]), count), body])


def _constant(raw: bytes, count: int) -> Bytes:
    column: Bytes = np.broadcast_to(np.frombuffer(raw, np.uint8), (count, len(raw)))
    return column


def _varints(values: Ints) -> Bytes:
    """A column of numbers, 0 or above, each as wide as the widest."""
    width = max(-(-int(values.max(initial=0)).bit_length() // 7), 1)
    groups = values[:, None] >> (7 * np.arange(width)) & 0x7F
    groups[:, :-1] |= 0x80
    column: Bytes = groups.astype(np.uint8)
    return column


class Names:
    """Gives names their numbers, from 1 on, each told once."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def of(self, column: pl.Series) -> tuple[Ints, bytes]:
        """The number of each row's name, and the packet that tells the new ones."""
        codes = column.cast(pl.Categorical)
        distinct = codes.unique().drop_nulls()
        texts = [*distinct.cast(pl.String), "?"]
        new = [t for t in dict.fromkeys(texts) if t not in self._known]
        first = len(self._known) + 1
        self._known.update((text, first + i) for i, text in enumerate(new))
        place = np.full(int(distinct.to_physical().max() or 0) + 2, self._known["?"], np.int64)  # type: ignore[arg-type]
        place[distinct.to_physical().to_numpy()] = [self._known[t] for t in texts[:-1]]
        told = names(new, first) if new else b""
        numbers: Ints = place[codes.to_physical().fill_null(len(place) - 1).to_numpy()]
        return numbers, told


def nested(frame: pl.DataFrame) -> list[pl.DataFrame]:
    """The rows in as few parts as nest: all in one where each lies inside one of the lane above, else a part a lane."""
    lanes = frame.partition_by("lane", maintain_order=True)
    for upper, lower in pairwise(lanes):
        at = np.searchsorted(upper["start"].to_numpy(), lower["start"].to_numpy(), side="right") - 1
        if (at < 0).any() or (upper["end"].to_numpy()[at] < lower["end"].to_numpy()).any():
            return lanes
    return [frame]
