"""Every type that crosses a stage border: :class:`Profile` going in, :class:`Report` coming out.

Two kinds of type live here. *Tables* are Polars frames, one row an event, times in int64 nanoseconds since the
capture's own zero; a table that the capture lacks is ``None``, which is not the same as an empty frame. *Records* are
``msgspec`` structs: they are the JSON contract (``schema_version`` 1), field by field.

Imports nothing of ours but the pace of a series of step times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
import polars as pl

from unstall.pace import pace

SCHEMA_VERSION = 1
LONGEST_STEP_NS = 10**15  # 11.6 days: a longer "step" is a slip of units

# --------------------------------------------------------------------------------------------------------------------
# Profile: what a capture holds
# --------------------------------------------------------------------------------------------------------------------

NAME = pl.String
"""Names are string-like in every table: ``String``, ``Enum`` or ``Categorical``; cast after aggregating, not before."""

# fmt: off
TABLES: dict[str, dict[str, Any]] = {
    # NVTX push/pop and start/end ranges of the user and of libraries. GIL rows are in ``gil``, marks in ``marks``.
    # ``end`` is null where the range was never closed; ``end_thread`` differs from ``thread`` where it crossed threads.
    "ranges": {
        "start": pl.Int64, "end": pl.Int64, "name": NAME, "domain": NAME, "style": NAME,  # push_pop | start_end
        "process": pl.Int64, "thread": pl.Int64, "end_thread": pl.Int64,
        "cpu_ns": pl.Int64,  # CPU time of the thread inside; null where the capture does not tell (nsys never does)
    },
    "marks": {"time": pl.Int64, "name": NAME, "domain": NAME, "process": pl.Int64, "thread": pl.Int64},
    # Device side. ``correlation`` joins to ``api`` together with ``process``, never alone.
    # A stream is (process, device, context, stream). ``graph_node`` is null outside CUDA graphs.
    "kernels": {
        "start": pl.Int64, "end": pl.Int64, "process": pl.Int64, "device": pl.Int64, "context": pl.Int64,
        "stream": pl.Int64, "correlation": pl.Int64, "name": NAME, "short_name": NAME,
        "grid_x": pl.Int64, "grid_y": pl.Int64, "grid_z": pl.Int64,
        "block_x": pl.Int64, "block_y": pl.Int64, "block_z": pl.Int64,
        "registers": pl.Int64, "static_smem_bytes": pl.Int64, "dynamic_smem_bytes": pl.Int64, "graph_node": pl.Int64,
    },
    "copies": {
        "start": pl.Int64, "end": pl.Int64, "process": pl.Int64, "device": pl.Int64, "context": pl.Int64,
        "stream": pl.Int64, "correlation": pl.Int64, "kind": NAME,  # HtoD DtoH DtoD HtoH PtoP UVM-HtoD … other
        "source": NAME, "destination": NAME,  # pageable | pinned | device | array | managed | unknown
        "bytes": pl.Int64, "graph_node": pl.Int64,
    },
    "memsets": {
        "start": pl.Int64, "end": pl.Int64, "process": pl.Int64, "device": pl.Int64, "context": pl.Int64,
        "stream": pl.Int64, "correlation": pl.Int64, "memory": NAME, "bytes": pl.Int64, "graph_node": pl.Int64,
    },
    # Whole-graph rows (``--cuda-graph-trace=graph``): one a replay; they count as GPU time.
    "graphs": {
        "start": pl.Int64, "end": pl.Int64, "process": pl.Int64, "device": pl.Int64, "context": pl.Int64,
        "stream": pl.Int64, "correlation": pl.Int64, "graph": pl.Int64,
    },
    # Host side.
    "api": {
        "start": pl.Int64, "end": pl.Int64, "process": pl.Int64, "thread": pl.Int64, "correlation": pl.Int64,
        "name": NAME,  # as recorded, version suffix included (cudaLaunchKernel_v7000)
        "result": pl.Int64, "callchain": pl.Int64,
    },
    "syncs": {
        "start": pl.Int64, "end": pl.Int64, "process": pl.Int64, "device": pl.Int64, "context": pl.Int64,
        "stream": pl.Int64, "correlation": pl.Int64, "kind": NAME,  # event | stream_wait_event | stream | context
        "event": pl.Int64,
    },
    "osrt": {
        "start": pl.Int64, "end": pl.Int64, "process": pl.Int64, "thread": pl.Int64, "name": NAME,
        "callchain": pl.Int64,
    },
    "library": {  # cuBLAS, cuDNN … calls, where traced
        "start": pl.Int64, "end": pl.Int64, "process": pl.Int64, "thread": pl.Int64, "name": NAME,
    },
    "gil": {  # state: holding | waiting
        "start": pl.Int64, "end": pl.Int64, "process": pl.Int64, "thread": pl.Int64, "state": NAME,
    },
    "sched": {"time": pl.Int64, "cpu": pl.Int64, "process": pl.Int64, "thread": pl.Int64, "running": pl.Boolean},
    # One row a sample and frame-stack id; frames are in ``frames`` (depth 0 is the innermost).
    "samples": {"time": pl.Int64, "process": pl.Int64, "thread": pl.Int64, "callchain": pl.Int64, "kind": NAME},
    "frames": {"callchain": pl.Int64, "depth": pl.Int64, "symbol": NAME, "module": NAME, "kind": NAME},  # kind: cpu|python|osrt|api
    "gpu_metrics": {"time": pl.Int64, "device": pl.Int64, "name": NAME, "value": pl.Float64},
    "overhead": {"start": pl.Int64, "end": pl.Int64, "process": pl.Int64, "thread": pl.Int64, "name": NAME},
    # Facts.
    "diagnostics": {"time": pl.Int64, "severity": pl.Int64, "source": NAME, "text": NAME, "process": pl.Int64},
    "gpus": {
        "device": pl.Int64, "name": NAME, "sm_count": pl.Int64, "clock_hz": pl.Int64,
        "memory_bytes": pl.Int64, "memory_bandwidth_bytes_per_s": pl.Int64,
        "compute_major": pl.Int64, "compute_minor": pl.Int64, "async_engines": pl.Int64,
    },
    "processes": {"process": pl.Int64, "pid": pl.Int64, "name": NAME},
    "threads": {"thread": pl.Int64, "process": pl.Int64, "tid": pl.Int64, "name": NAME},
}
# fmt: on
"""Table → column → dtype, the schema that every loader fills and every stage after it may rely on.

``process`` and ``thread`` are the profiler's global ids (``process = thread & ~0xFFFFFF``; pid and tid are in the
``processes`` and ``threads`` tables, or ``(process >> 24) & 0xFFFFFF`` and ``thread & 0xFFFFFF``).
Rows are sorted by ``start`` (or ``time``). Columns unknown to the capture are null, not zero.
"""

DEVICE_TABLES = ("kernels", "copies", "memsets", "graphs")
CAPTURES = (".sqlite", ".nsys-rep", ".qdstrm")
"""How the names of capture files end."""
CUDA_TABLES = (*DEVICE_TABLES, "api", "syncs")
CUDA_LOST = "cuda-lost"
"""The loader's note that most CUDA events are missing: those of these tables that are absent were lost."""


@dataclass(frozen=True)
class Meta:
    """What is known of the capture itself.

    Attributes:
        path: the file as the user named it.
        producer: ``nsys``, ``unstall`` (built-in collector), ``kineto`` or ``nsys-stats`` (text).
        producer_version: for instance ``2025.3.1.90``; empty when unknown.
        schema_version: the export's own schema version, for instance ``3.20.0``.
        start_ns, end_ns: span of the capture in its own clock.
        utc_epoch_ns: wall-clock time of the capture's zero, where stored.
        unprofiled_ns: step time without the profiler, stored by ``unstall run``, ns; ``None`` when unknown.
        options: traced options as far as the file tells (``trace``, ``cuda_graph_trace``, ``auto`` …).
        rank: rank from the environment stored in the capture, where known.
        host: host name as stored; may be redacted.
        cores: CPU cores that the program could use (our own captures) or that the machine has (nsys).
    """

    path: str = ""
    producer: str = "nsys"
    producer_version: str = ""
    schema_version: str = ""
    start_ns: int = 0
    end_ns: int = 0
    utc_epoch_ns: int | None = None
    unprofiled_ns: int | None = None
    options: dict[str, str] = field(default_factory=dict)
    rank: int | None = None
    host: str = ""
    cores: int | None = None

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.start_ns


@dataclass(frozen=True)
class Profile:
    """One capture: a frame a table (see :data:`TABLES`), or ``None`` where the capture lacks it.

    ``notes`` are the loader's own observations (rows that could not be trusted, tables cut off), as warnings.
    """

    meta: Meta = field(default_factory=Meta)
    ranges: pl.DataFrame | None = None
    marks: pl.DataFrame | None = None
    kernels: pl.DataFrame | None = None
    copies: pl.DataFrame | None = None
    memsets: pl.DataFrame | None = None
    graphs: pl.DataFrame | None = None
    api: pl.DataFrame | None = None
    syncs: pl.DataFrame | None = None
    osrt: pl.DataFrame | None = None
    library: pl.DataFrame | None = None
    gil: pl.DataFrame | None = None
    sched: pl.DataFrame | None = None
    samples: pl.DataFrame | None = None
    frames: pl.DataFrame | None = None
    gpu_metrics: pl.DataFrame | None = None
    overhead: pl.DataFrame | None = None
    diagnostics: pl.DataFrame | None = None
    gpus: pl.DataFrame | None = None
    processes: pl.DataFrame | None = None
    threads: pl.DataFrame | None = None
    notes: tuple[Warning_, ...] = ()

    def table(self, name: str) -> pl.DataFrame | None:
        """The table called ``name``, or ``None`` where the capture lacks it."""
        frame: pl.DataFrame | None = getattr(self, name)
        return frame

    def present(self) -> tuple[str, ...]:
        """Names of the tables that the capture holds, empty ones included."""
        return tuple(n for n in TABLES if self.table(n) is not None)


def pid_of(process: int) -> int:
    """The OS process id inside a global process id."""
    return (process >> 24) & 0xFFFFFF


def tid_of(thread: int) -> int:
    """The OS thread id inside a global thread id."""
    return thread & 0xFFFFFF


# --------------------------------------------------------------------------------------------------------------------
# What analysis hands to diagnosis: frames with a meaning
# --------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StepTable:
    """The training steps of one process.

    Attributes:
        process: global process id.
        thread: global id of the thread that runs the steps (the one that feeds the GPU).
        source: how the steps were found: ``range:step_*``, ``regex:…``, ``marker:…``, ``kernels`` (periodic sequence).
        limit: ``host`` or ``gpu``, the resource whose period is the step period.
        frame: one row a step, in order: ``index``, ``name``, ``host_start``, ``host_end`` (the range itself),
            ``gpu_start``, ``gpu_end`` (first start and last end of the device work launched in it; null without any),
            ``start``, ``end`` (the step's window on the limiting resource; windows abut), ``period_ns`` (= end − start),
            ``busy_ns`` (union of device work inside the window), ``ops`` (device operations launched in it),
            ``warmup`` (bool), ``steady`` (bool: after warm-up, and its window is a period), ``typical`` (bool: steady,
            and its period in the middle half; all steady ones where they come in bursts).
    """

    process: int
    thread: int
    source: str
    limit: str
    frame: pl.DataFrame

    @property
    def steady(self) -> pl.DataFrame:
        """Steps after warm-up whose windows are periods: the last one lacks what lies between two steps."""
        return self.frame.filter("steady")

    @property
    def steady_span(self) -> tuple[int, int]:
        """Host time of the steady steps, ns: to the start of the step that follows them, else to their own end."""
        begin, end = self.frame["host_start"], self.frame["host_end"]
        own = self.frame["steady"].arg_true()
        first, last = int(own[0]), int(own[-1])
        return int(begin[first]), int(end[last] if last + 1 == len(begin) else begin[last + 1])

    @property
    def step_ns(self) -> int:
        """What a steady step takes, ns: the median, or the mean where steps come in bursts."""
        return round(pace(self.steady["period_ns"].to_list()))


# --------------------------------------------------------------------------------------------------------------------
# Report: the hinge. Field names are the JSON contract.
# --------------------------------------------------------------------------------------------------------------------


views: dict[str, Callable[[Any], str | None]] = {}
"""How a notebook shows a record, as ``html`` and as ``text``; ``None`` for records that have no view. Filled by the
package's ``__init__``: this module knows no output."""


class Record(msgspec.Struct, kw_only=True):
    """Base of every JSON record."""

    def _repr_html_(self) -> str | None:
        """For Jupyter, by its name for that."""
        return views["html"](self) if "html" in views else None

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """For IPython in a terminal, by its name for that."""
        shown = views["text"](self) if "text" in views else None
        printer.text(repr(self) if shown is None else shown)


class Warning_(Record, kw_only=True):
    """Something the reader must know before trusting a figure."""

    code: str
    text: str


class NotChecked(Record, kw_only=True):
    """A rule (or section) that could not run, and how to collect what it needs."""

    code: str
    reason: str
    applies: bool = True  # false: the capture has what it needs, and the program nothing of that kind (one rank alone)


class Gpu(Record, kw_only=True):
    device: int
    name: str
    sm_count: int | None = None
    memory_bytes: int | None = None
    memory_bandwidth_bytes_per_s: int | None = None
    compute_capability: str | None = None


class Process(Record, kw_only=True):
    process: int  # OS pid
    name: str = ""
    has_steps: bool = False
    kernels: int = 0
    devices: list[int] = []  # GPUs on which it ran something; those that the capture does not number are not listed


class ProfileFacts(Record, kw_only=True):
    path: str
    producer: str
    producer_version: str
    schema_version: str
    duration_ns: int | None  # null where the input does not tell (tables of sums)
    gpus: list[Gpu] = []
    processes: list[Process] = []
    tables: dict[str, int] = {}  # present table → rows; a table that is absent is not listed
    rank: int | None = None
    host: str = ""


class RangeRow(Record, kw_only=True):
    """One range family of one process. ``process`` is the OS pid, null where a table of sums cannot tell."""

    name: str
    members: int
    domain: str
    style: str
    process: int | None
    instances: int
    total_ns: int
    steady_total_ns: int | None
    self_ns: int | None
    avg_ns: float | None
    median_ns: float | None
    min_ns: int | None
    max_ns: int | None
    stddev_ns: float | None
    gpu_ns: int | None  # device time launched inside, children included; null without device tables
    percent_of_wall: float | None
    share: float | None  # total over the sum of the listed rows without wrappers, percent; null for wrappers
    wrapper: bool
    gpu_by_time_ns: int | None = None  # the part of gpu_ns launched by another thread while this range was open
    gpu_span_ns: int | None = None  # first op start → last op end, summed over instances (nsys's projection)
    unclosed: int = 0
    library: bool = False  # written by a library (cub, NCCL, aten), not by the user


class KernelRow(Record, kw_only=True):
    name: str
    instances: int
    total_ns: int
    avg_ns: float
    median_ns: float | None
    min_ns: int
    max_ns: int
    stddev_ns: float | None
    percent: float


class CopyRow(Record, kw_only=True):
    kind: str
    source: str
    destination: str
    instances: int
    total_ns: int
    bytes: int | None
    gb_per_s: float | None
    exposed_ns: int | None  # not hidden behind compute on the same device
    steady_total_ns: int | None = None  # of those launched in steady steps; null where no steps are known
    steady_bytes: int | None = None  # the same; null as well where the size of any is not known


class MemsetRow(Record, kw_only=True):
    memory: str
    instances: int
    total_ns: int
    bytes: int | None


class CallRow(Record, kw_only=True):
    """One CUDA API, OS runtime or library call."""

    name: str
    calls: int
    total_ns: int
    avg_ns: float
    median_ns: float | None
    min_ns: int
    max_ns: int
    stddev_ns: float | None
    percent: float
    callers: list[str] = []  # innermost user ranges in which it was made, most time first


class SampleRow(Record, kw_only=True):
    symbol: str
    samples: int
    percent: float
    kind: str = "cpu"  # cpu | python


class Period(Record, kw_only=True):
    median: int
    p10: int
    p90: int
    mean: int | None = None


class StepGpu(Record, kw_only=True):
    """One of the GPUs that a process drives."""

    device: int | None  # null where the capture does not tell
    busy_ns: int  # union of the process's work on it in a steady step


class StepsRow(Record, kw_only=True):
    """The steps of one process. Its figures a step are of what `step_ns` is: medians, or means where ``bursty``."""

    process: int | None
    source: str
    count: int
    warmup: int
    period_ns: Period
    samples_ns: list[int]  # steady steps only
    unprofiled_ns: int | None
    host_ns: int  # the host's own step range
    gpu_busy_ns: int | None  # union of device work in a steady step, on the process's busiest GPU: `gpus[0]`
    kernels_per_step: float | None  # device operations of any kind on any GPU: kernels, copies, memsets, whole graphs
    warmup_steps: list[str] = []
    warmup_ns: int = 0  # wall time of all warm-up steps
    warmup_samples_ns: list[int] = []  # each of them, in order
    limit: str = "host"
    host_period_ns: int | None = None
    gpu_period_ns: int | None = None
    confidence: Literal["high", "medium", "low"] = "high"
    gpus: list[StepGpu] = []  # that the process drives, the busiest first: the breakdown is of that one
    bursty: bool = False  # steps of another kind come again and again: the mean is what a step takes, not the median

    @property
    def step_ns(self) -> int:
        """What a steady step takes, ns: the median, or the mean where steps come in bursts."""
        mean = self.period_ns.mean
        return mean if self.bursty and mean is not None else self.period_ns.median


class Category(Record, kw_only=True):
    name: str
    ns: int
    percent: float
    ranges: list[RangeShare] = []  # where on the host, most first
    parts: list[CategoryPart] = []  # gpu_compute by hardware counters; empty without them


class CategoryPart(Record, kw_only=True):
    """What a category consists of; parts add up to it exactly."""

    name: str  # computing_hard | waiting_on_memory | computing_lightly | not_sampled
    ns: int
    percent: float  # of the step


class RangeShare(Record, kw_only=True):
    name: str
    ns: int


class BreakdownRow(Record, kw_only=True):
    """Exclusive categories of one steady step: they add up to ``step_ns`` exactly."""

    process: int
    step_ns: int
    categories: list[Category]
    device: int | None = None  # the GPU that it is of, the process's busiest; null without one, or where unknown


class GpuMetricsRow(Record, kw_only=True):
    """Means of sampled hardware counters of a process's busiest GPU, over its steady steps or a part of them."""

    process: int
    device: int
    scope: str  # "step", or a category of the breakdown
    samples: int
    sm_active_percent: float | None = None
    sm_issue_percent: float | None = None
    tensor_active_percent: float | None = None
    dram_read_percent: float | None = None
    dram_write_percent: float | None = None
    dram_read_gb_per_s: float | None = None
    dram_write_gb_per_s: float | None = None
    clock_mhz: float | None = None


class Where(Record, kw_only=True):
    range: str | None = None
    process: int | None = None
    others: list[int] = []  # further processes that have the same finding in the same range
    kernel: str | None = None
    call: str | None = None  # host call


class Evidence(Record, kw_only=True):
    """A figure and where it comes from."""

    text: str
    value: float | None = None
    unit: str = ""
    source: str = ""  # table or section
    start_ns: int | None = None
    end_ns: int | None = None


class FixText(Record, kw_only=True):
    title: str
    safety: Literal["safe", "changes-numerics", "manual"]
    text: str
    trial: str | None = None  # name of the trial switch, where there is one
    patch: str | None = None  # name of the LibCST remedy, where there is one
    workers: int | None = None  # worker processes that the prediction is for, where the remedy is about them


class Finding(Record, kw_only=True):
    code: str
    title: str
    where: Where
    cost_ns_per_step: int
    predicted_step_ns: int | None
    predicted_low_ns: int | None
    predicted_high_ns: int | None
    predicted_speedup: float | None
    confidence: Literal["high", "medium", "low"]
    evidence: list[Evidence]
    fix: FixText
    category: str = ""  # the part of the breakdown that it speaks of
    next_limit: str = ""  # what would limit next
    overlaps: list[str] = []  # codes whose cost is partly the same time
    needs: list[str] = []  # codes of findings whose remedy has to come before this one
    main: bool = True  # false for side notes: no gain worth acting on is predicted
    baseline_ns: int | None = None  # the step without the profiler, from which the speedup is predicted


class StepFigure(Record, kw_only=True):
    step_ns: int | None  # what a steady step takes; null where that side has no steps
    count: int
    label: str = ""


class Moved(Record, kw_only=True):
    kind: str  # range | kernel | category | copy | api
    name: str
    before_ns: int | None  # per step; null where it did not exist
    after_ns: int | None
    change_ns: int


class Comparison(Record, kw_only=True):
    verdict: Literal["faster", "slower", "no difference", "inconclusive"]
    ratio: float | None  # before / after: above 1 is faster
    ratio_low: float | None
    ratio_high: float | None
    before: StepFigure
    after: StepFigure
    moved: list[Moved] = []
    warnings: list[Warning_] = []
    reason: str = ""  # why this verdict, in one sentence
    level: Literal["median", "mean"] = "median"  # of each side's steps: what step_ns and ratio are of
    language: str = "en"  # of its texts


# -- many ranks (`unstall ranks`): times are a mean over the matched steps where they say "a step" ---------------------


class RankFinding(Record, kw_only=True):
    """A finding of one rank's own report, without its evidence (`unstall report FILE` has it)."""

    code: str
    title: str
    where: Where
    cost_ns_per_step: int  # waits for other ranks taken out
    predicted_step_ns: int | None
    confidence: str


class RankClock(Record, kw_only=True):
    """How the rank's times came onto the common clock."""

    by: Literal["collectives", "utc", "none"]
    offset_ns: int | None = None  # against the ranks' median, beyond the wall clock that its capture stores
    residual_ns: int | None = None  # spread of the ends of its collectives after alignment


class RankRow(Record, kw_only=True):
    rank: int
    rank_from: str  # capture | file name | process name | file order | process
    file: str
    host: str = ""
    process: int | None = None  # OS pid
    gpu: str = ""
    device: int | None = None
    step_ns: int | None  # what a steady step takes; null without steps
    steps: int = 0
    warmup: int = 0
    own_ns: int | None = None  # the mean matched step without waiting for later ranks
    wait_ns: int | None = None  # waiting a step for ranks that came later, where nothing hid it
    transfer_ns: int | None = None  # exposed communication a step that is no waiting
    late_share: float | None = None  # of its collectives, the part that it entered last
    caused_ns: int | None = None  # waiting a step that the others spent on it, mean of the others
    breakdown: BreakdownRow | None = None  # as in its report, `rank_wait` apart from `exposed_communication`
    findings: list[RankFinding] = []
    clock: RankClock | None = None
    periods_ns: list[int | None] = []  # one a step of `Ranks.steps`; null where this rank lacks it
    waits_ns: list[int | None] = []


class Straggler(Record, kw_only=True):
    """Who (or what) made the others wait."""

    rank: int | None  # null: no rank but the network between them
    steps: list[str]  # step labels in which it did, of `Ranks.steps`
    always: bool  # in most steps, not now and then
    cause: str  # compute | more-work | data-loading | saving | file-io | copies | host | garbage-collection | …
    cost_ns_per_step: int  # always: a matched step; else: one of `steps`
    lost_percent: float  # of the time of all ranks over the matched steps
    late_share: float | None  # of the collectives in those steps, the part that it entered last
    excess_ns: int | None = None  # more than the median of the others of what `cause` names, in those steps
    range: str | None = None  # where, on the late rank
    ranks: list[int] = []  # for the network: who took part
    confidence: Literal["high", "medium", "low"] = "medium"


class CollectiveRow(Record, kw_only=True):
    """One kind of collective of one communicator."""

    kind: str
    communicator: int  # in order of first use; on the host, the phase in which the ranks meet
    members: list[int]
    matched: int
    per_step: float
    duration_ns: int  # median over members and calls
    transfer_ns: int  # median of the fastest member
    wait_ns: int  # mean over members: beyond the fastest
    exposed_ns: int  # a step, mean over members
    last: int | None  # the member that most often comes last
    last_share: float | None


class Imbalance(Record, kw_only=True):
    """How unequal the ranks are in the time of their own (a step without waiting for others)."""

    min_ns: int
    median_ns: int
    max_ns: int
    percent: float  # max over mean, minus one
    wait_ns: int  # mean over ranks, a step
    lost_percent: float  # of the time of all ranks


class RanksClock(Record, kw_only=True):
    by: Literal["collectives", "utc", "none", "mixed"]
    hosts: int | None = None  # null where the captures do not tell, as after redaction
    skew_ns: int | None = None  # largest offset between the wall clocks of two captures, as estimated
    residual_ns: int | None = None


class FailedRank(Record, kw_only=True):
    file: str
    reason: str
    rank: int | None = None


class Ranks(Record, kw_only=True):
    """Many ranks, merged."""

    ranks: list[RankRow]  # by rank
    stragglers: list[Straggler] = []  # most lost first
    imbalance: Imbalance | None = None
    failed: list[FailedRank] = []
    missing: list[int] = []  # numbers between the ranks that nobody has
    files: int = 0
    step_ns: int | None = None  # median over ranks and matched steps
    matched_steps: int = 0
    steps: list[str] = []  # labels of the matched steps
    collectives: list[CollectiveRow] = []
    meeting: Literal["collectives", "host", "none"] = "none"  # where the ranks were seen to wait for each other
    clock: RanksClock | None = None


class Report(Record, kw_only=True):
    """Everything that every output renders. Lists are complete; ``--top`` cuts only what people look at."""

    schema_version: int = SCHEMA_VERSION
    unstall_version: str = ""
    language: str = "en"  # of its texts; codes and field names are English always
    profile: ProfileFacts
    ranges: list[RangeRow] | None = None
    kernels: list[KernelRow] | None = None
    copies: list[CopyRow] | None = None
    memsets: list[MemsetRow] | None = None
    api: list[CallRow] | None = None
    osrt: list[CallRow] | None = None
    library: list[CallRow] | None = None
    samples: list[SampleRow] | None = None
    steps: list[StepsRow] = []
    breakdown: list[BreakdownRow] = []
    gpu_metrics: list[GpuMetricsRow] | None = None  # with --gpu-metrics only
    findings: list[Finding] = []
    not_checked: list[NotChecked] = []
    warnings: list[Warning_] = []
    comparison: Comparison | None = None
    ranks: Ranks | None = None
    device_total_ns: int | None = None  # all device time: attributed to ranges + unattributed
    device_attributed_ns: int | None = None

    def table(self, name: str) -> pl.DataFrame | None:
        """A list of records as a frame, one row a record; ``None`` where the capture lacks it.

        Records inside a record become columns (``where_range``, ``period_ns_median``), lists of them one text each.
        ``breakdown`` has a row for each category. For pandas: ``report.table("ranges").to_pandas()``.

        Raises:
            AttributeError: the report has no such list.
        """
        if name == "breakdown":
            rows = [
                {"process": r.process, "step_ns": r.step_ns, **_cells(c)} for r in self.breakdown for c in r.categories
            ]
            return pl.DataFrame(rows, infer_schema_length=None)
        records = getattr(self, name)
        return pl.DataFrame(list(map(_cells, records)), infer_schema_length=None) if isinstance(records, list) else None


def _cells(record: Record, prefix: str = "") -> dict[str, Any]:
    """The fields of a record, column by column."""
    cells: dict[str, Any] = {}
    for name in record.__struct_fields__:
        value = getattr(record, name)
        if isinstance(value, Record):
            cells |= _cells(value, f"{prefix}{name}_")
        elif isinstance(value, list):
            cells[prefix + name] = [
                getattr(v, "text", getattr(v, "name", str(v))) if isinstance(v, Record) else v for v in value
            ]
        else:
            cells[prefix + name] = value
    return cells


# --------------------------------------------------------------------------------------------------------------------
# Timeline: the events themselves, for what draws them
# --------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Track:
    """One row of a timeline over the whole capture, as ``analyze.tracks`` gives it.

    Attributes:
        kind: ``steps``, ``nvtx``, ``nvtx_async`` (start/end ranges), ``api``, ``osrt``, ``library``, ``gil``, ``cpu`` (when
            the thread ran), ``samples``, ``overhead``, ``stream`` or ``counter``.
        process: global process id; -1 for counters of a GPU.
        process_name, thread, thread_name: whose it is; ``thread`` is the global id, ``None`` for what is not a thread's.
        device, device_name, context, stream: of streams and counters, else ``None`` and empty; a device below 0 is
            unknown.
        label: name of a counter.
        frame: rows by lane and start; rows of one lane do not overlap. Columns: ``start``, ``end`` (ns), ``lane``,
            ``name`` (string-like), ``link`` (correlation id, null for none), ``table`` and ``row`` (where the event stands
            in its profile), ``chain`` (call chain, null for none). Counters: ``time``, ``value``.
    """

    kind: str
    process: int
    frame: pl.DataFrame
    process_name: str = ""
    thread: int | None = None
    thread_name: str = ""
    device: int | None = None
    device_name: str = ""
    context: int | None = None
    stream: int | None = None
    label: str = ""

    @property
    def lanes(self) -> int:
        """How many lanes its rows need."""
        return int(self.frame["lane"].max() or 0) + 1 if "lane" in self.frame.columns else 1  # type: ignore[arg-type]


class Omitted(Record, kw_only=True):
    """Events that a timeline does not show one by one."""

    what: Literal["merged", "tracks", "ranges", "samples", "lanes", "names"]
    count: int
    text: str


class Jump(Record, kw_only=True):
    """Where on a timeline a finding is to be seen; ns after ``Timeline.zero_ns``."""

    start_ns: int
    end_ns: int
    label: str
    track: int | None = None  # index into ``Timeline.tracks``
    idle: list[list[int]] = []  # the longest gaps of the GPU, to shade
    idle_ns: int = 0  # all gaps there
    gaps: int = 0
    marks: list[list[int]] = []  # the kernels or calls it is about


class TimelineGroup(Record, kw_only=True):
    """A heading that can be folded."""

    kind: Literal["process", "thread", "gpu", "others", "metrics"]
    name: str = ""
    id: int | None = None  # OS id of the process or thread, number of the GPU
    parent: int | None = None
    open: bool = True


class Merged(Record, kw_only=True):
    """Which rows of a track stand for several events: ``at`` are row numbers, delta-coded."""

    at: list[int]
    count: list[int]
    busy: list[int]  # ns of the row that its events really take


class TimelineTrack(Record, kw_only=True):
    """One track's events in columns, rows by lane and start."""

    kind: str
    group: int
    process: int  # index of its process: links join on (process, link)
    name: str = ""
    id: int | None = None  # number of the stream
    lanes: list[int]  # rows of each lane
    start: list[int]  # delta-coded, ns after ``Timeline.zero_ns``
    dur: list[int]
    label: list[int]  # index into ``Timeline.names``
    link: list[int] | None = None  # correlation id, delta-coded over the rows; -1 is none
    fact: list[int] | None = None  # index into ``Timeline.facts``, -1 is none
    stack: list[int] | None = None  # node of ``Timeline.stacks``, -1 is none
    merged: Merged | None = None
    values: list[float] | None = None  # of counters
    step: int | None = None  # of steps: how many leading rows are warm-up
    limit: str = ""  # of steps: host | gpu, the clock they are cut on


class Stacks(Record, kw_only=True):
    """Call stacks as a tree of frames; a node's ancestors are its callers."""

    parent: list[int]
    name: list[int]


class Timeline(Record, kw_only=True):
    """Events of one capture for drawing: some steady steps in full, the rest thinned; bounded in size.

    ``docs`` of ``analyze.timeline`` describe the encoding. All times are ns after ``zero_ns`` of the capture's clock.
    """

    version: int = 1
    zero_ns: int
    begin_ns: int
    end_ns: int
    home: list[int]
    windows: list[list[int]]  # shown in full; none where even one step has too many events
    names: list[str]
    facts: list[list[int | str | None]]
    stacks: Stacks
    groups: list[TimelineGroup]
    tracks: list[TimelineTrack]
    jumps: list[Jump | None] = []
    omitted: list[Omitted] = []


def empty(table: str) -> pl.DataFrame:
    """An empty frame of one table of :data:`TABLES`: present, with no rows."""
    return pl.DataFrame(schema=TABLES[table])


@dataclass(frozen=True)
class Analysis:
    """What analysis knows beyond the report: the frames on which diagnosis, replay and the timeline work.

    Attributes:
        profile: the capture.
        ranges: ``analyze.ranges.nest`` of its ranges, or ``None`` where NVTX is absent.
        ops: ``analyze.device.device_ops`` with ``range`` and ``by`` of ``analyze.project.attribute``.
        steps: one table a process that has steps, the most important first.
        report: the same, as figures; findings are added by ``diagnose``.
        focus: for each of ``steps``, the same cut to a bounded run of steady steps, from which breakdown and diagnosis
            read the anatomy of a step; empty without steps.
    """

    profile: Profile
    ranges: pl.DataFrame | None
    ops: pl.DataFrame
    steps: tuple[StepTable, ...]
    report: Report
    focus: tuple[Analysis, ...] = ()
