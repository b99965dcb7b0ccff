"""What a rule gets to see: one process's steady steps, with the questions that rules ask answered once.

In: an :class:`~unstall.model.Analysis` and one of its step tables (or none: then the whole active window of the device
counts as one step, ``whole`` is true and nothing can be predicted). Out: frames, unions and figures *a step*.

Two views of time. ``parts`` says where the typical step's wall time goes, exclusively (the breakdown's own unions):
what a cause *costs* is taken from there. ``host_time`` says what the host does at any instant, hidden behind the GPU or
not: what a remedy *removes* is taken from there, and the replay says what that gains.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
import polars as pl

from unstall.analyze import intervals
from unstall.analyze.host import call_kinds
from unstall.analyze.intervals import NOTHING, Union
from unstall.analyze.replay import Change, Prediction, Replay
from unstall.diagnose import gpus
from unstall.diagnose.events import longer_than, some_of, spans, with_facts
from unstall.diagnose.frameworks import Framework, recognised
from unstall.diagnose.places import Places
from unstall.model import Analysis, StepTable

LONG_NS = 1_000_000
"""Host time without a CUDA call from which it is work of its own, not the cost of issuing the next operation. Eager
PyTorch needs 5 to 15 µs an operation (up to 40 under trace), and the Python of one optimizer step over a few hundred
parameters stays below 1 ms."""
LEAD_IN_NS = 100_000
"""At most this much host time before a call is taken for its own preparation (dispatch, allocation from the cache)."""
SLEEP = r"(?i)sleep"
NAMES = 500  # distinct ones looked at: enough to tell a framework by


class Case(Places):
    """One process to diagnose."""

    @cached_property
    def peaks(self) -> gpus.Peaks:
        return gpus.peaks(self.profile.gpus, self.device)

    @cached_property
    def gpu_name(self) -> str:
        return gpus.name_of(self.profile.gpus, self.device)

    @cached_property
    def framework(self) -> Framework:
        """Whose terms a remedy is given in."""
        names = self.ops["name"].unique().drop_nulls().to_list()[:NAMES]
        if self.analysis.ranges is not None:
            own = self.analysis.ranges.filter(pl.col("process") == self.process)
            names += [n for c in ("family", "domain") for n in own[c].cast(pl.String).unique().to_list()[:NAMES] if n]
        process = next((p.name for p in self.analysis.report.profile.processes if p.process == self.pid), "")
        return recognised(names, process, works=bool(self.ops.height))

    @cached_property
    def ops(self) -> pl.DataFrame:
        """Device operations launched in steady steps: columns of ``device_ops`` and ``step``, ``dur``, ``name``,
        ``family``, ``grid``, ``block``, ``bytes``, ``copy_kind``, ``source``, ``destination``."""
        own = self.analysis.ops.filter(pl.col("process") == self.process)
        at = own.select(pl.coalesce("api_start", "start")).to_series()
        own = self._in_steps(own, at).with_columns(dur=pl.col("end") - pl.col("start"))
        return with_facts(own, self.profile)

    @cached_property
    def calls(self) -> pl.DataFrame:
        """CUDA calls made in steady steps: ``start``, ``end``, ``thread``, ``correlation``, ``name``, ``step``, and

        - ``kind``: sync | alloc | copy | graph | launch | other,
        - ``prepared``: from when on the host prepared it (the end of the last call on its thread that was not
          ``other``, which only asks the driver something; at most ``LEAD_IN_NS`` back),
        - ``after``: correlation of the last call on its thread that was not ``other``.
        """
        schema = {"start": pl.Int64, "end": pl.Int64, "thread": pl.Int64, "correlation": pl.Int64, "name": pl.String}
        api = self.profile.api
        rows = pl.DataFrame(schema=schema) if api is None else api.filter(pl.col("process") == self.process)
        rows = rows.select("start", "end", "thread", "correlation", pl.col("name").cast(pl.String)).sort("start")
        rows = rows.with_columns(kind=call_kinds(rows["name"]))
        acted = pl.when(pl.col("kind") != "other").then("end").cum_max().forward_fill()
        before = acted.shift(1).over("thread").fill_null(pl.col("start"))
        rows = rows.with_columns(
            prepared=pl.min_horizontal(pl.max_horizontal(before, pl.col("start") - LEAD_IN_NS), pl.col("start")),
            after=pl.when(pl.col("kind") != "other").then("correlation").forward_fill().shift(1).over("thread"),
        )
        return self._in_steps(rows, rows["start"])

    def calls_of(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The calls that launched these operations, one row each."""
        return self.calls.filter(some_of("correlation", rows["correlation"]))

    def syncs_after(self, calls: pl.DataFrame) -> pl.DataFrame:
        """Calls that wait for the device directly after one of these calls, on its thread."""
        return self.calls.filter((pl.col("kind") == "sync") & some_of("after", calls["correlation"]))

    def _in_steps(self, rows: pl.DataFrame, at: pl.Series) -> pl.DataFrame:
        """Rows whose instant lies in a steady step's host window, with that ``step``."""
        frame = self.steps.frame
        start = frame["host_start"].to_numpy()
        step = np.searchsorted(start, at.to_numpy(), side="right") - 1
        end = np.append(start[1:], frame["host_end"][-1])
        steady = frame["steady"].to_numpy()
        safe = np.maximum(step, 0)
        inside = (step >= 0) & (at.to_numpy() < end[safe]) & steady[safe]
        return rows.with_columns(step=pl.Series(step, dtype=pl.Int64)).filter(pl.Series(inside, dtype=pl.Boolean))

    def kernel_times(self) -> pl.DataFrame:
        """Kernels by device time a step: ``name``, ``family``, ``ns`` and ``count`` a step, ``mean`` ns, ``op``
        (ids)."""
        rows = self.ops.filter(pl.col("table") == "kernels")
        return (
            rows.group_by("name", "family")
            .agg(
                ns=pl.col("dur").sum() / self.count,
                count=pl.len() / self.count,
                mean=pl.col("dur").mean(),
                grid=pl.col("grid").median(),
                block=pl.col("block").median(),
                op=pl.col("op"),
            )
            .sort("ns", "name", descending=[True, False])
        )

    @cached_property
    def long_host(self) -> Union:
        """Host time without a CUDA call on any thread, in stretches long enough to be work of their own."""
        return longer_than(intervals.subtract(self.steady_span, spans(self.calls)), LONG_NS)

    def sleeps(self, when: Union) -> Union:
        """What of ``when`` the step's thread sleeps away."""
        return intervals.intersect(when, self._osrt(pl.col("name").cast(pl.String).str.contains(SLEEP)))

    def locks(self, when: Union) -> Union:
        """What of ``when`` the step's thread waits for a lock: no sleeps, and no waiting for a thread that launches
        meanwhile (autograd's)."""
        if self.host.osrt is None:
            return NOTHING
        rows = self.host.osrt.filter(pl.col("thread") == self.host.thread)
        others = self.calls.filter(pl.col("thread") != self.host.thread)["start"].to_numpy()
        start, end = rows["start"].to_numpy(), rows["end"].to_numpy()
        joins = np.searchsorted(others, end) > np.searchsorted(others, start)
        return intervals.subtract(when, intervals.merge(self.sleeps(when), intervals.union(start[joins], end[joins])))

    def _osrt(self, wanted: pl.Expr) -> Union:
        if self.host.osrt is None:
            return NOTHING
        rows = self.host.osrt.filter((pl.col("thread") == self.host.thread) & wanted)
        return intervals.union(rows["start"], rows["end"])

    def after_waits(self, calls: pl.DataFrame) -> Union:
        """From each waiting call's end to the start of the next operation on the device: the queue is empty then."""
        on = self.analysis.ops.filter((pl.col("process") == self.process) & (pl.col("device") == self.device))
        starts = np.sort(on["start"].to_numpy())
        ends = calls["end"].to_numpy()
        i = np.searchsorted(starts, ends)
        known = i < len(starts)
        return intervals.union(ends[known], starts[i[known]]) if len(starts) else NOTHING

    @cached_property
    def replay(self) -> Replay | None:
        """The replayable step; ``None`` for a whole capture, which no replay can repeat, and where the calls that
        launched the device's work were not captured.
        """
        if self.whole:
            return None
        made = Replay(self.analysis, self.steps, self.unprofiled_ns)
        return made if made.ops.height or not self.ops.height else None

    @cached_property
    def baseline(self) -> Prediction | None:
        return None if self.replay is None else self.replay.baseline

    def predict(self, change: Change) -> Prediction | None:
        return None if self.replay is None else self.replay.predict(change)


def cases(analysis: Analysis, language: str = "en") -> Iterator[Case]:
    """The processes to diagnose: those with steps; without any steps, those with device work, over the whole
    capture."""
    if analysis.steps:
        yield from (Case(narrow, narrow.steps[0], language=language) for narrow in analysis.focus)
        return
    spent = analysis.ops.group_by("process").agg((pl.col("end") - pl.col("start")).sum().alias("ns"))
    for process in spent.sort("ns", "process", descending=[True, False])["process"]:
        yield Case(analysis, _whole(analysis, process), whole=True, language=language)


def _whole(analysis: Analysis, process: int) -> StepTable:
    """One pseudo step: from the first to the last device operation of a process."""
    own = analysis.ops.filter(pl.col("process") == process)
    start, end = own.select(pl.col("start").min(), pl.col("end").max()).row(0)
    called = own.select(pl.min_horizontal(pl.col("api_start").min(), pl.col("start").min())).item()
    busy = intervals.total(intervals.union(own["start"], own["end"]))
    threads = own["thread"].drop_nulls()
    frame = pl.DataFrame(
        {
            "index": [0], "name": ["capture"], "host_start": [called], "host_end": [end], "gpu_start": [start],
            "gpu_end": [end], "ops": [own.height], "start": [start], "end": [end], "period_ns": [end - start],
            "busy_ns": [busy], "warmup": [False], "steady": [True], "typical": [True],
        }
    )  # fmt: skip
    return StepTable(process, int(threads.mode().sort()[0]) if len(threads) else -1, "capture", "gpu", frame)
