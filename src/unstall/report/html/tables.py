"""The tables of the page: what the report lists, as columns of cells that know what they sort by.

In: a report and the words to use. Out: tables of at most as many rows as are asked for, in the report's own order. A
column whose figures are all unknown is left out; unknown stays a dash and sorts last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from unstall.lang import speaker
from unstall.report import text, words
from unstall.report.html.texts import Say

if TYPE_CHECKING:
    from unstall.model import CallRow, RangeRow, Report

LONGEST_SHOWN = 160  # letters of a name in a cell
LONGEST_FULL = 400  # of it when pointed at


@dataclass(frozen=True)
class Cell:
    """What is shown, and the number that it sorts by; ``part`` is a percentage that gets a bar."""

    shown: str
    value: float | None = None
    part: float | None = None


@dataclass(frozen=True)
class Name:
    """A row's name: what is shown, in full where that differs, and what kind of row it is."""

    shown: str
    full: str = ""
    tag: str = ""


@dataclass(frozen=True)
class Table:
    """``name`` is the first column's heading; ``rows`` are a name and one cell a column; ``texts``: is it words?"""

    key: str
    title: str
    note: str
    name: str
    columns: list[str]
    texts: list[bool]
    rows: list[tuple[Name, list[Cell]]]
    total: int

    @property
    def cut(self) -> bool:
        return len(self.rows) < self.total


Figure = Callable[[Any], Cell]
Columns = list[tuple[str, Figure]]


@dataclass(frozen=True)
class Kind:
    """What a table is made of: its key in report and texts, its first heading, its rows' names, its columns."""

    key: str
    heading: str
    label: Callable[[Any], Name]
    columns: Columns


def tables(report: Report, say: Say, most: int) -> list[Table]:
    """Every table that has rows."""
    made = [
        _ranges(report, say, most),
        *(_of_capture(report, _table(kind, getattr(report, kind.key), say, most)) for kind in _KINDS),
    ]
    return [table for table in made if table.rows]


def named(name: str, short: str | None = None, tag: str = "") -> Name:
    """A name as a cell may show it: no control character acts, no length breaks the page."""
    short = name if short is None else short
    safe, shown = (
        text.visible(text.shorten(whole, LONGEST_FULL)) for whole in (name, short)
    )  # cut first: it is quicker
    shown = text.shorten(shown, LONGEST_SHOWN)
    return Name(shown, text.shorten(safe, LONGEST_FULL) if safe != shown else "", tag)


def _table(kind: Kind, rows: Sequence[Any] | None, say: Say, most: int) -> Table:
    shown = list(rows or [])[:most]
    cells = [[figure(row) for _, figure in kind.columns] for row in shown]
    known = [i for i in range(len(kind.columns)) if any(line[i].shown not in ("", text.DASH) for line in cells)]
    return Table(
        kind.key, say(kind.key), say(f"{kind.key}_note"), say(kind.heading), [say(kind.columns[i][0]) for i in known],
        [all(line[i].value is None for line in cells) for i in known],
        [(kind.label(row), [line[i] for i in known]) for row, line in zip(shown, cells, strict=True)], len(rows or []),
    )  # fmt: skip


def _of_capture(report: Report, table: Table) -> Table:
    """The table, whose note says first that its figures are no step's."""
    on_device = table.key in ("kernels", "copies", "memsets")
    return replace(
        table, note=words.of_capture(report, speaker(report.language), *filter(None, [table.note]), device=on_device)
    )


# -- figures ----------------------------------------------------------------------------------------------------------


def _ms(field: str) -> Figure:
    return lambda row: Cell(text.ms(getattr(row, field)), getattr(row, field))


def _us(field: str) -> Figure:
    return lambda row: Cell(text.us(getattr(row, field)), getattr(row, field))


def _count(field: str) -> Figure:
    return lambda row: Cell(text.count(getattr(row, field)), getattr(row, field))


def _part(field: str) -> Figure:
    return lambda row: Cell(text.share(getattr(row, field)), getattr(row, field), getattr(row, field))


_COPIES: Columns = [
    ("c_count", _count("instances")), ("c_total", _ms("total_ns")), ("c_exposed", _ms("exposed_ns")),
    ("c_steady", _ms("steady_total_ns")),
    ("c_size", lambda row: Cell(text.size(row.bytes), row.bytes)),
    ("c_rate", lambda row: Cell(text.number(row.gb_per_s, 2), row.gb_per_s)),
]  # fmt: skip
_MEMSETS: Columns = [
    ("c_count", _count("instances")),
    ("c_total", _ms("total_ns")),
    ("c_size", lambda row: Cell(text.size(row.bytes), row.bytes)),
]
_SAMPLES: Columns = [
    ("c_count", _count("samples")),
    ("c_share", _part("percent")),
    ("c_language", lambda row: Cell(row.kind)),
]
_SPREAD_US: Columns = [
    ("c_avg_us", _us("avg_ns")), ("c_median_us", _us("median_ns")), ("c_min_us", _us("min_ns")),
    ("c_max_us", _us("max_ns")), ("c_stddev_us", _us("stddev_ns")),
]  # fmt: skip


def _copy_name(row: Any) -> Name:
    return named(f"{row.kind} {row.source} → {row.destination}")


def _kernel_name(row: Any) -> Name:
    return named(row.name, text.kernel_name(row.name))


def _call_name(row: CallRow) -> Name:
    return named(row.name)


def _callers(row: CallRow) -> Cell:
    return Cell(text.shorten(", ".join(text.visible(text.shorten(c, 40)) for c in row.callers[:3]), 90))


_KERNELS: Columns = [("c_count", _count("instances")), ("c_total", _ms("total_ns")), ("c_share", _part("percent"))]
_CALLS: Columns = [("c_count", _count("calls")), ("c_total", _ms("total_ns")), ("c_share", _part("percent"))]
_KINDS = [
    Kind("kernels", "c_name", _kernel_name, [*_KERNELS, *_SPREAD_US]),
    Kind("copies", "c_kind", _copy_name, _COPIES),
    Kind("memsets", "c_memory", lambda row: named(row.memory), _MEMSETS),
    *(
        Kind(k, "c_name", _call_name, [*_CALLS, *_SPREAD_US, ("c_callers", _callers)])
        for k in ("api", "osrt", "library")
    ),
    Kind("samples", "c_symbol", lambda row: named(row.symbol), _SAMPLES),
]


def _ranges(report: Report, say: Say, most: int) -> Table:
    rows = report.ranges or []
    own = [row for row in rows if not row.wrapper]
    nested = words.nested(own)
    kind = Kind("ranges", "c_name", lambda r: _range_name(r, say), list(_range_columns(rows, nested)))
    table = _table(kind, rows, say, most)
    known = nested or any(row.share is not None for row in rows)
    note = say("wall_note" if nested else "share_note") if known else table.note
    return replace(table, note=note)


def _range_name(row: RangeRow, say: Say) -> Name:
    tag = say("wrapper") if row.wrapper else say("library_range") if row.library else ""
    return named(f"{row.domain}:{row.name}" if row.domain else row.name, tag=tag)


def _range_columns(rows: list[RangeRow], nested: bool) -> Iterator[tuple[str, Figure]]:
    if len({row.process for row in rows}) > 1:
        yield "c_pid", lambda row: Cell(text.DASH if row.process is None else str(row.process), row.process)
    yield "c_count", _count("instances")
    yield "c_total", _ms("total_ns")
    if any(row.steady_total_ns not in (None, row.total_ns) for row in rows):
        yield "c_steady", _ms("steady_total_ns")
    yield ("c_wall", _part("percent_of_wall")) if nested else ("c_share", _part("share"))
    for key, field in (
        ("c_self", "self_ns"), ("c_gpu", "gpu_ns"), ("c_avg", "avg_ns"), ("c_median", "median_ns"), ("c_min", "min_ns"),
        ("c_max", "max_ns"), ("c_stddev", "stddev_ns"),
    ):  # fmt: skip
        yield key, _ms(field)
