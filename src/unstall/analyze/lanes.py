"""Lanes: events of one track spread over rows so that no two of a row overlap.

In: starts and ends, any order, overlaps and crossings allowed. Out: a lane an event. What nests gets its depth; of what
crosses, the later moves down.
"""

from __future__ import annotations

import numpy as np

from unstall.analyze.intervals import Ints

MOST = 40
"""Deeper is not drawn: a stack of that many rows fills a screen, and recursion can go on for hundreds."""


def lanes(start: Ints, end: Ints, most: int = MOST) -> Ints:
    """Lane of each event, shape ``(n,)``; -1 for what would need a lane beyond ``most``.

    A lane keeps the events that begin after everything before them has ended; the others are looked at for the next
    lane. For nested events that is their depth.
    """
    out = np.full(len(start), -1, np.int64)
    rest = np.lexsort((-end, start))
    for lane in range(most):
        if not len(rest):
            break
        reach = np.concatenate(([np.iinfo(np.int64).min], np.maximum.accumulate(end[rest])[:-1]))
        fits = start[rest] >= reach
        out[rest[fits]] = lane
        rest = rest[~fits]
    return out
