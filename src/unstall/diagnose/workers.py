"""How many worker processes hide the loading of batches, and how far those that are advised get.

In: the step without loading as the replay predicts it, the loading that has to be done each step, and what the capture
says of CPU cores and of CPU time spent loading. Out: :class:`Workers`, with the predicted step; for a loop whose
workers do not keep up, :class:`Running`.

N workers make a batch every (loading / N), and all the CPU work of a step has to find a core: the step takes the
longest of its rest, of loading / N, and of the CPU work over the cores. Loading that waits (for files, a network, a
sleep) needs no core meanwhile, so more workers than cores help it. Where the capture does not tell waiting from
computing, the interval spans both.

N workers that do not keep up with a step of P take N × P for a batch, since the loop takes every batch at once. If that
is CPU work, C cores make a batch every N × P / C, and no more workers help any further.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import polars as pl

from unstall.analyze.intervals import Union, covered
from unstall.analyze.replay import Prediction
from unstall.diagnose.case import Case

SPARE = 1.25
"""Workers beyond those that keep up on average: batches are not all alike, and one late batch is a late step."""
FEWEST, MOST = 4, 16
"""Where it is not known whether loading computes, few cores are no reason for fewer than 4 workers; each worker costs
memory and start-up time, so more than 16 must be asked for."""
JITTER = (0.85, 1.25)
"""How far a step that waits for workers strays from loading / N: their batches come unevenly, and the hand-over through
a queue costs time of its own."""
NEARLY = 0.25  # of a worker: 99 % of CPU work on two cores is work for two, not for three
SEEN = 1.1  # from which it is said that the step without loading is not reached
INSIDE = 0.9  # of a range, from which its CPU time is taken for that of loading
WIDE, FAIR = 0.7, 0.3  # the replay's own borders of confidence
PROCESS = "pt_data_worker"
"""What PyTorch (2.13; seen of 2.11 too) calls its worker processes."""
LOOP = r"\b_worker_loop\b|\bworker\b.*\bpool\.py"
"""Python functions that PyTorch's workers and those of ``multiprocessing.Pool`` never leave."""


@dataclass(frozen=True)
class Workers:
    """What is advised.

    Attributes:
        count: worker processes.
        needed: how many it would take to hide the loading.
        loading_ns, rest_ns: loading a step, and the step without it.
        cores: of the captured machine; ``None`` where the capture does not tell.
        busy: share of the loading that is CPU work; ``None`` where the capture does not tell.
        limit: what keeps the count below the need: ``cores`` or ``most``; empty where nothing does.
        predicted: the step with that many.
    """

    count: int
    needed: int
    loading_ns: float
    rest_ns: int
    cores: int | None
    busy: float | None
    limit: str
    predicted: Prediction

    @property
    def short(self) -> bool:
        """Whether the step with them is seen to be longer than the one without loading, whatever keeps them few."""
        return self.predicted.step_ns > SEEN * self.rest_ns


@dataclass(frozen=True)
class Running:
    """Workers that are there already.

    Attributes:
        count: of them; those of another loader of the program count as well.
        cores: of the captured machine; ``None`` where the capture does not tell.
        step_ns: what the cores bring the step to if loading computes; ``None`` where that is not known.
        room: whether the cores let more workers hide the loading; ``None`` where that is not known.
        predicted: the step without loading, as far as that goes.
    """

    count: int
    cores: int | None
    step_ns: float | None
    room: bool | None
    predicted: Prediction


def running(case: Case, rest: Prediction) -> Running | None:
    """The workers of a loop that waits for them; ``None`` where the capture does not show them."""
    count, cores, base = _count(case), _cores(case), case.baseline
    if not count or base is None:
        return None
    if cores is None:
        return Running(count, None, None, None, rest)
    floor = base.step_ns * min(count / cores, 1.0)
    if floor <= max(SEEN * rest.step_ns, rest.high_ns):
        return Running(count, cores, floor, count < cores, rest)
    high = max(rest.high_ns, min(round(JITTER[1] * floor), base.step_ns))
    spread = (high - rest.low_ns) / max(rest.step_ns, 1)
    made = replace(rest, high_ns=high, limit="data_loading", confidence=_confidence(spread, rest))
    return Running(count, cores, floor, False, made)


def _count(case: Case) -> int:
    """Worker processes for each process that trains: by their name, else by the Python loop that they are in."""
    processes, samples, frames = case.profile.processes, case.profile.samples, case.profile.frames
    found = 0 if processes is None else processes.filter(pl.col("name").cast(pl.String) == PROCESS).height
    if not found and samples is not None and frames is not None:
        loops = frames.filter(pl.col("symbol").cast(pl.String).str.contains(LOOP))["callchain"]
        others = samples.filter(
            (pl.col("process") != case.process) & pl.col("callchain").is_in(loops.unique().implode())
        )
        found = others["process"].n_unique()
    return found // _trainers(case) or min(found, 1)


def _trainers(case: Case) -> int:
    return max(1, sum(p.has_steps for p in case.analysis.report.profile.processes))


def advise(case: Case, rest: Prediction, loading_ns: float, when: Union) -> Workers:
    """Workers for a loop that loads ``loading_ns`` a step (at the instants ``when``) on its own thread."""
    cores, busy = _cores(case), busy_share(case, when)
    needed = max(1, math.ceil(SPARE * loading_ns / max(rest.step_ns, 1)))
    by_cores = _by_cores(cores, busy)
    count = min(needed, by_cores, MOST)
    limit = "" if count == needed else "cores" if by_cores < MOST else "most"
    made = Workers(count, needed, loading_ns, rest.step_ns, cores, busy, limit, rest)
    return replace(made, predicted=_bounded(made, rest, device=case.device is not None))


def _cores(case: Case) -> int | None:
    """Cores for this process: those of the machine, shared with others of the capture that train."""
    cores = case.profile.meta.cores
    return None if cores is None else max(1, cores // _trainers(case))


def busy_share(case: Case, when: Union) -> float | None:
    """Share of ``when`` in which the step's thread computes: by its CPU clock, else by the OS calls it waits in."""
    clocked = _clocked(case, when)
    if clocked is not None:
        return clocked
    return None if case.host.osrt is None else 1.0 - case.waits_in(when)[0]


def _clocked(case: Case, when: Union) -> float | None:
    """CPU time over wall time of the outermost ranges that lie in ``when``; ``None`` without such a clock."""
    ranges = case.host.ranges
    if ranges is None or "cpu_ns" not in ranges.columns:
        return None
    own = ranges.filter((pl.col("thread") == case.host.thread) & pl.col("cpu_ns").is_not_null())
    own = own.with_columns(ns=pl.col("end") - pl.col("start"))
    inside = pl.Series(covered(when, own["start"], own["end"])) > INSIDE * own["ns"]
    own = own.filter(inside)
    own = own.filter(~pl.col("parent").is_in(own["id"].implode()).fill_null(value=False))
    whole = int(own["ns"].sum())
    return min(int(own["cpu_ns"].sum()) / whole, 1.0) if whole else None


def _by_cores(cores: int | None, busy: float | None) -> int:
    """As many workers as the cores can keep computing at once."""
    if cores is None:
        return MOST
    if busy is None:
        return max(cores, FEWEST)
    return max(1, math.ceil(cores / busy - NEARLY)) if cores < MOST * busy else MOST


def _bounded(made: Workers, rest: Prediction, *, device: bool) -> Prediction:
    """The step with its loading done by that many workers."""
    idle, full = (0.0, 1.0) if made.busy is None else (made.busy, made.busy)
    floors = [_floor(made, idle, beside=0.0), _floor(made, full, beside=0.0 if device else 1.0)]
    usual = floors[1] if device else sum(floors) / 2
    if usual <= rest.step_ns and floors[1] <= rest.high_ns:
        return rest
    step = max(rest.step_ns, usual)
    low = min(max(rest.low_ns, JITTER[0] * floors[0]), step)
    high = max(rest.high_ns, JITTER[1] * floors[1], step)
    limit = "data_loading" if usual > rest.step_ns else rest.limit
    return Prediction(round(step), round(low), round(high), limit, _confidence((high - low) / step, rest))


def _confidence(spread: float, rest: Prediction) -> str:
    """Of an interval as wide as that share of the step: no better than that of the step without loading."""
    level = "low" if spread >= WIDE else "medium" if spread >= FAIR else rest.confidence
    return min(level, rest.confidence, key=("low", "medium", "high").index)


def _floor(made: Workers, busy: float, *, beside: float) -> float:
    """No step is shorter with those workers: their pace, and the CPU work over the cores.

    Args:
        made: how many, of what.
        busy: share of the loading that is CPU work.
        beside: 0 where the rest of the step keeps one core busy, 1 where it keeps all of them (training on the CPU).
    """
    pace = made.loading_ns / made.count
    if made.cores is None:
        return pace
    rest = made.rest_ns * (1 + beside * (made.cores - 1))
    return max(pace, (busy * made.loading_ns + rest) / made.cores)
