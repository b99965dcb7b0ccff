"""A capture's events for drawing: some steady steps in full, the whole run thinned, in a bounded number of bytes.

In: an :class:`~unstall.model.Analysis` of a whole capture and the report with its findings. Out: one
:class:`~unstall.model.Timeline`, a record that JSON holds in at most ``most_bytes``, every ``<`` written ``\\u003c``.

**The encoding** (``version`` 1). Times are ns after ``zero_ns`` of the capture's clock, which is where the step of
``home`` begins. ``windows`` are shown in full: the typical step of each process with neighbours that fit, or none where
one step alone is too much. Elsewhere neighbouring short events of a lane may be one row; ``merged`` says which rows,
how many events stand in each and how long they take, and ``omitted`` tells all that is not shown one by one.
Texts, facts and stacks are held once and referred to by index.

*Tracks* stand under ``groups`` (headings, each under its ``parent``). The rows of a track are columns by lane and
start: ``lanes`` holds the number of rows of each lane, ``start`` differences to the row before (the first to 0),
``dur`` ns, ``label`` an index into ``names``. ``link`` (differences as well, of the correlation id or -1) ties calls to
device work of the same ``process``. ``fact`` is an index into ``facts`` or -1: ``["kernel", grid x y z, block x y z,
registers, static and dynamic shared memory]``, ``["copy", bytes, kind, source, destination]``, ``["memset", bytes,
memory]`` or ``["domain", name]`` of a range. ``stack`` is a node of ``stacks`` or -1, the innermost frame, whose
``parent`` is its caller. Counters have ``start`` and ``values``. ``jumps`` belong to the report's findings one by one.
"""

from __future__ import annotations

from unstall.analyze.timeline.build import EVENTS, MOST_BYTES, timeline

__all__ = ["EVENTS", "MOST_BYTES", "timeline"]
