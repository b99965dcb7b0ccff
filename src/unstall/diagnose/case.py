"""What a rule gets to see: one process's steady steps, with the questions that rules ask answered once.

In: an :class:`~unstall.model.Analysis` and one of its step tables (or none: then the whole active window of the device
counts as one step, ``whole`` is true and nothing can be predicted). Out: frames, unions and figures *a step*; and
:class:`Hit`, what a rule hands back.

Two views of time. ``parts`` says where the typical step's wall time goes, exclusively (the breakdown's own unions):
what a cause *costs* is taken from there. ``host_time`` says what the host does at any instant, hidden behind the GPU or
not: what a remedy *removes* is taken from there, and the replay says what that gains.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from unstall.analyze import breakdown, host, intervals, ranges
from unstall.analyze.device import busy, devices_of
from unstall.analyze.intervals import NOTHING, Ints, Union
from unstall.analyze.replay import Change, Prediction, Replay
from unstall.diagnose import gpus, kernels
from unstall.diagnose.texts import Line
from unstall.model import Analysis, Profile, StepTable, pid_of

if TYPE_CHECKING:
    from unstall.analyze.host import HostView

KINDS = (
    ("sync", host.SYNC),
    ("alloc", host.ALLOC),
    ("graph", "GraphLaunch"),
    ("copy", host.COPY),
    ("launch", "Launch"),
)
LONG_NS = 1_000_000
"""Host time without a CUDA call from which it is work of its own, not the cost of issuing the next operation. Eager PyTorch
needs 5 to 15 µs an operation (up to 40 under trace), and the Python of one optimizer step over a few hundred parameters
stays below 1 ms."""
SLEEP = r"(?i)sleep"
WORK = ("gpu_compute", "exposed_communication", "exposed_copy", "other_process")
SELDOM = 0.02
"""Share of the step from which a cost counts as seen."""
LEAD_IN_NS = 100_000
"""At most this much host time before a call is taken for its own preparation (dispatch, allocation from the cache)."""


@dataclass(frozen=True)
class Hit:
    """What a rule found.

    Attributes:
        cost_ns: what it costs a step, ns, in the capture.
        lines: the evidence.
        range, kernel, call: where.
        change: what the remedy does to the step; the replay turns it into a prediction.
        gain_ns: gain a step where no replay can tell (a whole-capture case, or what happens in few steps only).
        seldom: it happens in a few steps only: the typical step is the step without it.
        when: idle instants that it explains, to tell overlaps.
        ops: ids of the device operations that it is about, to tell overlaps.
        title, fix: key of another title or remedy in the rule's texts.
        facts: values for the title's and the remedy's templates.
        confidence: the most that may be claimed.
        side_note: no gain worth acting on, whatever is predicted.
    """

    cost_ns: float
    lines: tuple[Line, ...]
    range: str | None = None
    kernel: str | None = None
    call: str | None = None
    change: Change | None = None
    gain_ns: float | None = None
    seldom: bool = False
    when: Union = NOTHING
    ops: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    title: str = ""
    fix: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    confidence: str = "high"
    side_note: bool = False


@dataclass(frozen=True)
class Skip:
    """The rule could not decide: why, and how to collect what it needs."""

    reason: str


class Case:
    """One process to diagnose. Everything expensive is computed when first asked for."""

    def __init__(self, analysis: Analysis, steps: StepTable, *, whole: bool = False, language: str = "en") -> None:
        self.analysis, self.steps, self.whole, self.language = analysis, steps, whole, language
        self.best_host_gain = 0.0  # share of the step, of what was found so far on the host's side

    # -- who and how long -----------------------------------------------------------------------------------------

    @property
    def profile(self) -> Profile:
        return self.analysis.profile

    @property
    def process(self) -> int:
        return self.steps.process

    @property
    def pid(self) -> int:
        """OS process id, as the report shows it."""
        return pid_of(self.steps.process)

    @cached_property
    def step_ns(self) -> int:
        """Median steady period in the capture; the whole window where there are no steps."""
        return int(np.median(self.steps.steady["period_ns"].to_numpy()))

    @cached_property
    def count(self) -> int:
        """Steady steps."""
        return max(self.steps.steady.height, 1)

    @cached_property
    def unprofiled_ns(self) -> int | None:
        """Step time without the profiler, where known."""
        rows = [r for r in self.analysis.report.steps if r.process == self.pid]
        return rows[0].unprofiled_ns if rows else None

    @cached_property
    def device(self) -> int | None:
        """The process's busiest device."""
        found = devices_of(self.analysis.ops, self.process)
        return found[0] if found else None

    @cached_property
    def peaks(self) -> gpus.Peaks:
        return gpus.peaks(self.profile.gpus, self.device)

    @cached_property
    def gpu_name(self) -> str:
        return gpus.name_of(self.profile.gpus, self.device)

    @cached_property
    def framework(self) -> str:
        """``pytorch``, ``jax`` or ``cuda``: whose terms a remedy is given in."""
        names = " ".join(self.ops["name"].unique().drop_nulls().to_list()[:500])
        if "at::" in names or "c10::" in names:
            return "pytorch"
        if "fusion" in names or "xla" in names.lower():
            return "jax"
        process = next((p.name for p in self.analysis.report.profile.processes if p.process == self.pid), "")
        return "cuda" if self.ops.height and "python" not in process.lower() else "pytorch"

    # -- where the wall time goes ---------------------------------------------------------------------------------

    @cached_property
    def _split(self) -> tuple[dict[str, Union], HostView]:
        return breakdown.split(self.profile, self.analysis.ranges, self.analysis.ops, self.steps)

    @property
    def parts(self) -> dict[str, Union]:
        """Category → when, in the typical steps: exclusive."""
        return self._split[0]

    @property
    def host(self) -> HostView:
        return self._split[1]

    @cached_property
    def steady_parts(self) -> dict[str, Union]:
        """The same over all steady steps: what happens now and then is in here, too."""
        frame = self.steps.frame.with_columns(typical=~pl.col("warmup"))
        every = StepTable(self.process, self.steps.thread, self.steps.source, self.steps.limit, frame)
        return breakdown.split(self.profile, self.analysis.ranges, self.analysis.ops, every)[0]

    @cached_property
    def window(self) -> Union:
        """The typical steps' windows."""
        typical = self.steps.frame.filter("typical")
        return intervals.union(typical["start"], typical["end"])

    def per_step(self, when: Union) -> float:
        """Length of a union inside the typical steps, scaled to the median step (as the breakdown does), ns."""
        whole = intervals.total(self.window)
        return intervals.total(when) / whole * self.step_ns if whole else 0.0

    def share(self, ns: float) -> float:
        """Fraction of the captured step."""
        return ns / self.step_ns if self.step_ns else 0.0

    def part(self, *names: str) -> Union:
        """The union of some categories."""
        return intervals.merge(*(self.parts.get(n, NOTHING) for n in names))

    def per_steady_step(self, when: Union) -> float:
        """Length of a union inside all steady steps, over their number, ns: what happens now and then is in here."""
        frame = self.steps.steady
        return intervals.total(intervals.intersect(when, intervals.union(frame["start"], frame["end"]))) / self.count

    def seldom(self, usual: float, every: float) -> bool:
        """Whether a cost is hardly seen in the typical step, and yet counts when all steady steps share it."""
        return usual < SELDOM * self.step_ns <= every and self.count >= 4

    @cached_property
    def computing(self) -> Union:
        """When the process's device computes (for anybody), at any time of the capture."""
        on = self.analysis.ops.filter(pl.col("device") == self.device)
        return busy(on, "kernel", "memset", "graph", "communication")

    @cached_property
    def steady_span(self) -> Union:
        """Host time from the first steady step's start to the last one's end."""
        frame = self.steps.steady
        return intervals.union([frame["host_start"].min()], [frame["host_end"].max()])

    @cached_property
    def host_time(self) -> dict[str, Union]:
        """Activity → when the host does it, over all steady steps, whether or not the GPU is idle meanwhile."""
        first = breakdown._before_first_copies(self.analysis.ops, self.steps)
        return host.activities(self.host, self.steady_span, first)

    @cached_property
    def long_host(self) -> Union:
        """Host time without a CUDA call on any thread, in stretches long enough to be work of their own."""
        gaps = idle_stretches(self.calls, self.steady_span)
        return longer_than(gaps, LONG_NS)

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

    def host_per_step(self, when: Union) -> float:
        """Length of a union of ``host_time`` a steady step, ns."""
        return intervals.total(when) / self.count

    # -- events ---------------------------------------------------------------------------------------------------

    @cached_property
    def ops(self) -> pl.DataFrame:
        """Device operations launched in steady steps: columns of ``device_ops`` and ``step``, ``dur``, ``name``,
        ``family``, ``grid``, ``block``, ``bytes``, ``copy_kind``, ``source``, ``destination``."""
        own = self.analysis.ops.filter(pl.col("process") == self.process)
        at = own.select(pl.coalesce("api_start", "start")).to_series()
        own = self._in_steps(own, at).with_columns(dur=pl.col("end") - pl.col("start"))
        return _with_facts(own, self.profile)

    @cached_property
    def calls(self) -> pl.DataFrame:
        """CUDA calls made in steady steps: ``start``, ``end``, ``thread``, ``correlation``, ``name``, ``step``, and

        - ``kind``: sync | alloc | copy | graph | launch | other,
        - ``prepared``: from when on the host prepared it (the end of the call before on its thread, at most
          ``LEAD_IN_NS`` back),
        - ``after``: correlation of the last call on its thread that was not ``other``.
        """
        schema = {"start": pl.Int64, "end": pl.Int64, "thread": pl.Int64, "correlation": pl.Int64, "name": pl.String}
        api = self.profile.api
        rows = pl.DataFrame(schema=schema) if api is None else api.filter(pl.col("process") == self.process)
        rows = rows.select("start", "end", "thread", "correlation", pl.col("name").cast(pl.String)).sort("start")
        before = pl.col("end").cum_max().shift(1).over("thread").fill_null(pl.col("start"))
        rows = rows.with_columns(
            prepared=pl.min_horizontal(pl.max_horizontal(before, pl.col("start") - LEAD_IN_NS), pl.col("start")),
            kind=_kinds(rows["name"]),
        )
        rows = rows.with_columns(
            after=pl.when(pl.col("kind") != "other").then("correlation").forward_fill().shift(1).over("thread")
        )
        return self._in_steps(rows, rows["start"])

    def calls_of(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The calls that launched these operations, one row each."""
        return self.calls.filter(some_of("correlation", rows["correlation"]))

    def syncs_after(self, calls: pl.DataFrame) -> pl.DataFrame:
        """Calls that wait for the device directly after one of these calls, on its thread."""
        return self.calls.filter((pl.col("kind") == "sync") & some_of("after", calls["correlation"]))

    def idle(self, within: Union) -> Union:
        """Instants of ``within``, in the typical steps, at which the device does not work for anybody."""
        return intervals.subtract(intervals.intersect(self.window, within), self.part(*WORK))

    def _in_steps(self, rows: pl.DataFrame, at: pl.Series) -> pl.DataFrame:
        """Rows whose instant lies in a steady step's host window, with that ``step``."""
        frame = self.steps.frame
        start = frame["host_start"].to_numpy()
        step = np.searchsorted(start, at.to_numpy(), side="right") - 1
        end = np.append(start[1:], frame["host_end"][-1])
        warm = frame["warmup"].to_numpy()
        safe = np.maximum(step, 0)
        inside = (step >= 0) & (at.to_numpy() < end[safe]) & ~warm[safe]
        return rows.with_columns(step=pl.Series(step, dtype=pl.Int64)).filter(pl.Series(inside, dtype=pl.Boolean))

    def kernel_times(self) -> pl.DataFrame:
        """Kernels by device time a step: ``name``, ``family``, ``ns`` and ``count`` a step, ``mean`` ns, ``op`` (ids)."""
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

    # -- where in the program -------------------------------------------------------------------------------------

    @cached_property
    def _innermost(self) -> Any:
        own = self.host.ranges
        if own is None:
            return None
        own = own.filter((pl.col("thread") == self.host.thread) & pl.col("trusted"))
        cuts = np.unique(np.concatenate((own["start"].to_numpy(), own["end"].to_numpy())))
        return own, cuts, ranges.innermost(own)

    def where(self, when: Union) -> list[tuple[str, float]]:
        """Innermost ranges of the step's thread during ``when``, as (family, share of ``when``), most first."""
        if self._innermost is None or not len(when[0]):
            return []
        own, cuts, index = self._innermost
        far = np.iinfo(np.int64).max // 4
        cells = (np.concatenate(([-far], cuts)), np.append(cuts, far))
        pieces = intervals.intersect(when, cells)
        ids = index.at(np.full(len(pieces[0]), self.host.thread), pieces[0])
        spent = pl.DataFrame({"id": ids, "ns": pieces[1] - pieces[0]})
        by = spent.join(own.select("id", "family"), on="id", how="inner").group_by("family").agg(pl.col("ns").sum())
        whole = intervals.total(when) or 1
        return [(str(f), ns / whole) for f, ns in by.sort("ns", "family", descending=[True, False]).iter_rows()]

    def range_of(self, when: Union) -> str | None:
        """The innermost range in which most of ``when`` lies; ``None`` without ranges."""
        found = self.where(when)
        return found[0][0] if found else None

    def range_of_ops(self, rows: pl.DataFrame) -> str | None:
        """The range in which most of these operations' device time was launched."""
        if self.analysis.ranges is None or "range" not in rows.columns or not rows.height:
            return None
        names = self.analysis.ranges.select(pl.col("id").alias("range"), pl.col("family").cast(pl.String).alias("at"))
        by = rows.join(names, on="range", how="inner").group_by("at").agg(pl.col("dur").sum())
        return str(by.sort("dur", "at", descending=[True, False])["at"][0]) if by.height else None

    def call_ranges(self, pattern: str) -> Union:
        """When the step's thread is inside a range whose family matches."""
        own = self.host.ranges
        if own is None:
            return NOTHING
        rows = own.filter(
            (pl.col("thread") == self.host.thread) & pl.col("family").cast(pl.String).str.contains(pattern)
        )
        return intervals.union(rows["start"], rows["end"])

    def waits_in(self, when: Union) -> tuple[float, str]:
        """Share of ``when`` that the step's thread spends in OS runtime calls, and the call that takes most of it."""
        if self.host.osrt is None or not len(when[0]):
            return 0.0, ""
        rows = self.host.osrt.filter(pl.col("thread") == self.host.thread)
        spent = pl.Series("ns", intervals.covered(when, rows["start"], rows["end"]))
        by = rows.select(pl.col("name").cast(pl.String)).with_columns(spent).group_by("name").agg(pl.col("ns").sum())
        by = by.filter(pl.col("ns") > 0).sort("ns", "name", descending=[True, False])
        if not by.height:
            return 0.0, ""
        inside = intervals.intersect(when, intervals.union(rows["start"], rows["end"]))
        return intervals.total(inside) / intervals.total(when), str(by["name"][0])

    def hot(self, when: Union, threads: list[int] | None = None, top: int = 3) -> list[tuple[str, float]]:
        """Functions that samples of some threads (default: the step's) show during ``when``: (symbol, share).

        The innermost Python frame where the capture has Python frames, else the innermost symbol that has a name.
        """
        samples, frames = self.profile.samples, self.profile.frames
        if samples is None or frames is None or not samples.height or not len(when[0]):
            return []
        rows = samples.filter(
            pl.col("thread").is_in(threads or [self.host.thread]) & pl.col("callchain").is_not_null()
        )
        rows = rows.filter(pl.Series(contains(when, rows["time"].to_numpy()), dtype=pl.Boolean))
        return _symbols(rows, frames, top)

    # -- prediction -----------------------------------------------------------------------------------------------

    @cached_property
    def replay(self) -> Replay | None:
        """The replayable step; ``None`` where the whole capture is looked at, which no replay can repeat."""
        return None if self.whole else Replay(self.analysis, self.steps, self.unprofiled_ns)

    @cached_property
    def baseline(self) -> Prediction | None:
        return None if self.replay is None else self.replay.baseline

    def predict(self, change: Change) -> Prediction | None:
        return None if self.replay is None else self.replay.predict(change)


def spans(calls: pl.DataFrame, *, prepared: bool = False) -> Union:
    """When these calls are open; with ``prepared``, from when on the host prepared them."""
    return intervals.union(calls["prepared" if prepared else "start"], calls["end"])


def after_waits(case: Case, calls: pl.DataFrame) -> Union:
    """For each waiting call, from its end to the start of the next operation on the device: the queue is empty then."""
    on = case.analysis.ops.filter((pl.col("process") == case.process) & (pl.col("device") == case.device))
    starts = np.sort(on["start"].to_numpy())
    ends = calls["end"].to_numpy()
    i = np.searchsorted(starts, ends)
    known = i < len(starts)
    return intervals.union(ends[known], starts[i[known]]) if len(starts) else NOTHING


def lead_ins(calls: pl.DataFrame) -> Union:
    """The host time that prepared these calls, the calls themselves left out."""
    return intervals.union(calls["prepared"], calls["start"])


def _kinds(names: pl.Series) -> pl.Series:
    """The kind of each call, decided once a distinct name."""
    distinct = [n for n in names.unique().to_list() if n]
    found = [next((k for k, p in KINDS if re.search(p, n)), "other") for n in distinct]
    return names.replace_strict(distinct, found, default="other", return_dtype=pl.String)


def contains(when: Union, at: Ints) -> Any:
    """For each instant, whether a union covers it."""
    if not len(when[0]):
        return np.zeros(len(at), np.bool_)
    i = np.searchsorted(when[0], at, side="right") - 1
    return (i >= 0) & (at < when[1][np.maximum(i, 0)])


def some_of(column: str, values: pl.Series) -> pl.Expr:
    """The column's value is one of these."""
    return pl.col(column).is_in(values.drop_nulls().unique().implode())


def longer_than(when: Union, ns: int) -> Union:
    """The intervals of a union that are at least so long."""
    keep = when[1] - when[0] >= ns
    return when[0][keep], when[1][keep]


def idle_stretches(calls: pl.DataFrame, span: Union) -> Union:
    """Host time of a span in which no CUDA call is open on any thread."""
    if not len(span[0]):
        return NOTHING
    return intervals.subtract(span, intervals.union(calls["start"], calls["end"]))


def _with_facts(own: pl.DataFrame, profile: Profile) -> pl.DataFrame:
    """Adds what the operations' own tables say of them."""
    parts = [_facts(rows, str(table), profile) for (table,), rows in own.group_by("table", maintain_order=True)]
    text, number = pl.String, pl.Int64
    schema: dict[str, Any] = {
        "name": text, "grid": number, "block": number, "graph_node": number, "bytes": number, "copy_kind": text, "source": text,
        "destination": text, "family": text,
    }  # fmt: skip
    if not parts:
        return own.with_columns(pl.lit(None, dtype).alias(name) for name, dtype in schema.items())
    rows = pl.concat(parts, how="diagonal").sort("start", "op", maintain_order=True)
    missing = [pl.lit(None, dtype).alias(name) for name, dtype in schema.items() if name not in rows.columns]
    return rows.with_columns(missing)


def _facts(rows: pl.DataFrame, table: str, profile: Profile) -> pl.DataFrame:
    source = profile.table(table)
    assert source is not None  # the operations came from there
    picked = source[rows["row"]]
    if table == "kernels":
        facts = picked.select(
            name=pl.col("name").cast(pl.String),
            grid=pl.col("grid_x") * pl.col("grid_y") * pl.col("grid_z"),
            block=pl.col("block_x") * pl.col("block_y") * pl.col("block_z"),
            graph_node="graph_node",
        ).with_columns(family=kernels.families(picked["name"]))
    elif table == "copies":
        kind = pl.col("kind").cast(pl.String)
        text = [pl.col(c).cast(pl.String) for c in ("source", "destination")]
        facts = picked.select(kind.alias("name"), "bytes", *text, copy_kind=kind)
    else:
        facts = picked.select(name=pl.lit(table), bytes=pl.col("bytes") if "bytes" in picked.columns else pl.lit(None, pl.Int64))
    return rows.hstack(facts)


def _symbols(rows: pl.DataFrame, frames: pl.DataFrame, top: int) -> list[tuple[str, float]]:
    chains = rows.group_by("callchain").len()
    known = frames.join(chains, on="callchain", how="inner").with_columns(pl.col("symbol").cast(pl.String))
    python = known.filter(pl.col("kind").cast(pl.String) == "python")
    named = python if python.height else known.filter(~pl.col("symbol").str.contains(r"^0x|^\[|^$"))
    leaf = named.sort("depth").group_by("callchain").first()
    by = leaf.group_by("symbol").agg(pl.col("len").sum()).sort("len", "symbol", descending=[True, False]).head(top)
    whole = int(leaf["len"].sum()) or 1
    return [(s, n / whole) for s, n in by.iter_rows()]


def cases(analysis: Analysis, language: str = "en") -> Iterator[Case]:
    """The processes to diagnose: those with steps; without any steps, those with device work, over the whole capture."""
    if analysis.steps:
        yield from (Case(analysis, s, language=language) for s in analysis.steps)
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
            "busy_ns": [busy], "warmup": [False], "typical": [True],
        }
    )  # fmt: skip
    return StepTable(process, int(threads.mode().sort()[0]) if len(threads) else -1, "capture", "gpu", frame)
