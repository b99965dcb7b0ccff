"""What moved: where a step's time went before and goes after, thing by thing.

In: two sides. Out: :class:`~unstall.model.Moved` rows, ns a step, the largest change first. Kinds are five ways to cut
the same step: they are read one by one, never added up. What a capture did not collect is left out; it did not vanish.

Ranges and categories are the compared process's steady steps, copies those of all processes. Kernels and calls are
tables of a whole capture: there it is the typical duration times the calls a step, so that start-up, which every length
of capture dilutes differently, stays out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from unstall.calls import plain
from unstall.compare.sides import Side, steady_of
from unstall.model import CallRow, KernelRow, Moved

Amounts = dict[str, float]  # name → ns a step

ONCE = 0.9
"""Calls a step from which something is part of it: less is start-up or rare. (One call may lie outside the capture.)"""

_COMPILED = re.compile(r"(?<=_)\d+$")  # triton_poi_fused_add_12: numbered anew by every compilation
_NUMBER = re.compile(r"\d+|\*")


def moved(before: Side, after: Side) -> list[Moved]:
    """Every row whose time a step changed, new (``before_ns`` null) and vanished (``after_ns`` null) ones included."""
    rows: list[Moved] = []
    for kind, amounts in KINDS.items():
        b, a = amounts(before), amounts(after)
        if b is not None and a is not None:
            b, a = _folded(b, a) if kind == "range" else (b, a)
            rows += [_row(kind, name, b.get(name), a.get(name)) for name in dict.fromkeys([*b, *a])]
    return sorted((row for row in rows if row.change_ns), key=lambda row: (-abs(row.change_ns), row.kind, row.name))


def _row(kind: str, name: str, before: float | None, after: float | None) -> Moved:
    b, a = (None if x is None else round(x) for x in (before, after))
    return Moved(kind=kind, name=name, before_ns=b, after_ns=a, change_ns=(a or 0) - (b or 0))


def _ranges(side: Side) -> Amounts | None:
    rows, steps = side.report.ranges, side.steps
    if rows is None or steps is None:
        return None
    own = [r for r in rows if not r.wrapper and r.process == steps.process and r.steady_total_ns is not None]
    return _summed((r.name, (r.steady_total_ns or 0) / max(steady_of(steps), 1)) for r in own)


def _categories(side: Side) -> Amounts | None:
    row = side.breakdown
    return None if row is None else {c.name: float(c.ns) for c in row.categories}


def _kernels(side: Side) -> Amounts | None:
    return _per_step(side, side.report.kernels, lambda name: _COMPILED.sub("*", name) if "triton" in name else name)


def _calls(side: Side) -> Amounts | None:
    return _per_step(side, side.report.api, plain)


def _per_step(side: Side, rows: Iterable[KernelRow | CallRow] | None, name: Callable[[str], str]) -> Amounts | None:
    steps = _steps_of_all(side)
    if rows is None or not steps:
        return None
    counted = ((r, (r.instances if isinstance(r, KernelRow) else r.calls) / steps) for r in rows)
    return _summed(
        (name(r.name), (r.avg_ns if r.median_ns is None else r.median_ns) * often)
        for r, often in counted
        if often >= ONCE
    )


def _copies(side: Side) -> Amounts | None:
    rows, steps = side.report.copies, side.steady_steps
    if rows is None or steps <= 0 or any(r.steady_total_ns is None for r in rows):
        return None
    steady = ((f"{r.kind} {r.source} → {r.destination}", (r.steady_total_ns or 0) / steps) for r in rows)
    return _summed((name, ns) for name, ns in steady if ns)


KINDS: dict[str, Callable[[Side], Amounts | None]] = {
    "range": _ranges,
    "category": _categories,
    "kernel": _kernels,
    "copy": _copies,
    "api": _calls,
}


def _steps_of_all(side: Side) -> int:
    """Steps of all processes, warm-up too: the tables of kernels and calls are of the whole capture."""
    return sum(row.count for row in side.report.steps)


def _summed(pairs: Iterable[tuple[str, float]]) -> Amounts:
    total: Amounts = {}
    for name, ns in pairs:
        total[name] = total.get(name, 0.0) + ns
    return total


def _folded(before: Amounts, after: Amounts) -> tuple[Amounts, Amounts]:
    """Names of one side alone meet where just numbers differ: ``block_0``, ``block_1`` there, ``block_*`` here."""
    common = before.keys() & after.keys()
    shapes = [{_NUMBER.sub("*", name) for name in side if name not in common} for side in (before, after)]
    shared = shapes[0] & shapes[1]

    def fold(side: Amounts) -> Amounts:
        named = ((name, _NUMBER.sub("*", name)) for name in side)
        new = {name: shape if name not in common and shape in shared else name for name, shape in named}
        return _summed((new[name], ns) for name, ns in side.items())

    return fold(before), fold(after)
