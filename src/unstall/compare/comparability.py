"""Whether two sides may be compared at all: one small check a reason to doubt it.

In: two :class:`~unstall.compare.sides.Side` s and the spread of each. Out: warnings; those whose code is in
:data:`BLOCKING` leave no verdict but ``inconclusive``. A check that lacks what it needs has no reason to doubt.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from unstall import stats
from unstall.compare.sides import Side
from unstall.model import KernelRow, Report, StepsRow, Warning_

BLOCKING = ("no-steps", "lost-gpu", "different-gpu", "too-few-steps", "long-steps")
"""Codes that leave no verdict, the gravest first."""
MIN_STEPS = 5
"""Fewer steady steps a side give no verdict: of 3 against 3, the best rank test errs 10 times in 100 with every sample
of one side beyond the other's; of 4 against 4 still 3 times, before any correlation."""
FEW_STEPS = stats.ENOUGH  # below, one slow episode is a large part of the run
WORK = 0.1  # relative difference in kernels a step from which the two sides do not launch the same
BATCH = 0.2  # relative difference in bytes copied to the GPU a step from which the batch is another one
CLOCK = 0.04
"""The same kernels on the same H200 differed by up to 1.5 % from run to run; twice that and more is a clock."""
UNIFORM = 0.03  # kernels within this of the common factor follow it (those of a run scattered by ±3 %)
FOLLOWING = 0.75  # share of the kernel time that must follow it
FEW_EFFECTIVE = 10
STRONG_DRIFT = 0.03
COSTLY = ("osrt", "samples", "gil", "sched", "gpu_metrics")  # tables whose collection slows the program


def doubts(before: Side, after: Side, spreads: tuple[stats.Side, stats.Side] | None) -> list[Warning_]:
    """Everything that speaks against trusting the comparison."""
    found = [*_steps(before, after), *_gpus(before, after), *_profilers(before, after), *_ranks(before, after)]
    if before.steps is not None and after.steps is not None:
        found += [*_work(before.steps, after.steps), *_batch(before, after), *_clock(before.report, after.report)]
    for side, spread in zip((before, after), spreads or (), strict=False):
        found += _series(side, spread)
    return found


def _steps(before: Side, after: Side) -> Iterator[Warning_]:
    for side in (before, after):
        n = side.samples.size
        if not n:
            yield Warning_(code="no-steps", text=f"{side.name}: no steady steps in it, so there is nothing to compare")
        elif n < MIN_STEPS:
            few = f"{n} steady step{'s' * (n > 1)}"
            text = f"{side.name}: {few}, and fewer than {MIN_STEPS} cannot tell a change from noise"
            yield Warning_(code="too-few-steps", text=text)
        elif n < FEW_STEPS:
            yield Warning_(code="few-steps", text=f"{side.name}: only {n} steady steps; 100 make a 5 % change certain")
    b, a = before.steps, after.steps
    if b and a and b.source != a.source and not (before.is_log or after.is_log):
        text = f"steps were found differently: {b.source} before, {a.source} after; name them with --step"
        yield Warning_(code="different-steps", text=text)


def _gpus(before: Side, after: Side) -> Iterator[Warning_]:
    names = [sorted({g.name for g in side.report.profile.gpus}) for side in (before, after)]
    if all(names) and names[0] != names[1]:
        text = f"different GPUs: {', '.join(names[0])} before, {', '.join(names[1])} after"
        yield Warning_(code="different-gpu", text=text)
    work = {side.has_gpu_work: side.name for side in (before, after)}
    if True in work and False in work:
        text = f"GPU work {work[True]}, none {work[False]}: a step that does nothing on the GPU is no faster step"
        yield Warning_(code="lost-gpu", text=text)


def _profilers(before: Side, after: Side) -> Iterator[Warning_]:
    facts = [side.report.profile for side in (before, after)]
    profiled = [side for side in (before, after) if not side.unprofiled]
    if len(profiled) == 1:
        text = f"a profiler on one side only ({profiled[0].name}): the interval allows for what it can cost"
        yield Warning_(code="profiler-one-side", text=text)
    elif len(profiled) == 2 and facts[0].producer != facts[1].producer:
        text = (
            f"different profilers ({facts[0].producer} before, {facts[1].producer} after): the interval allows for it"
        )
        yield Warning_(code="different-profiler", text=text)
    if not before.is_log and not after.is_log and not before.unprofiled:
        yield from _options(before.report, after.report)


def _options(before: Report, after: Report) -> Iterator[Warning_]:
    b, a = before.profile, after.profile
    if b.producer == a.producer and b.producer_version != a.producer_version:
        text = f"{b.producer} {b.producer_version or '?'} before, {a.producer_version or '?'} after"
        yield Warning_(code="different-version", text=text)
    only = [(t, "before" if t in b.tables else "after") for t in COSTLY if (t in b.tables) != (t in a.tables)]
    if only:
        text = "traced on one side only: " + ", ".join(f"{t} ({side})" for t, side in only)
        yield Warning_(code="different-traces", text=text)


def _ranks(before: Side, after: Side) -> Iterator[Warning_]:
    b, a = before.report.profile.rank, after.report.profile.rank
    if b is not None and a is not None and b != a:
        yield Warning_(code="different-rank", text=f"rank {b} before, rank {a} after")


def _work(before: StepsRow, after: StepsRow) -> Iterator[Warning_]:
    b, a = before.kernels_per_step, after.kernels_per_step
    if b and a and abs(b - a) > WORK * max(a, b):
        text = (
            f"{b:.0f} GPU operations a step before, {a:.0f} after: another batch or model, or a change that fuses them"
        )
        yield Warning_(code="different-work", text=text)


def _batch(before: Side, after: Side) -> Iterator[Warning_]:
    b, a = _copied(before), _copied(after)
    if b and a and abs(b - a) > BATCH * max(a, b):
        text = f"{b / 1e6:.3g} MB copied to the GPU a step before, {a / 1e6:.3g} MB after: is it the same batch?"
        yield Warning_(code="different-batch", text=text)


def _copied(side: Side) -> float | None:
    """Bytes to the GPU in a steady step; ``None`` where the size of any copy is not known."""
    copies = side.report.copies
    sizes = None if copies is None else [row.steady_bytes for row in copies if row.kind == "HtoD"]
    if sizes is None or None in sizes or side.steady_steps <= 0:
        return None
    return sum(size or 0 for size in sizes) / side.steady_steps


def _clock(before: Report, after: Report) -> Iterator[Warning_]:
    """The same kernels, slower or faster by one factor: not the program's doing."""
    pairs = _common_kernels(before.kernels or [], after.kernels or [])
    if len(pairs) < 3:
        return
    change = np.array([np.log(_typical(a) / _typical(b)) for b, a in pairs])
    weight = np.array([float(b.total_ns) for b, _ in pairs])
    order = np.argsort(change)
    factor = float(change[order][np.searchsorted(np.cumsum(weight[order]), weight.sum() / 2)])
    following = float(weight[np.abs(change - factor) < UNIFORM].sum() / weight.sum())
    if abs(factor) > CLOCK and following >= FOLLOWING:
        much = f"{abs(np.expm1(factor)):.0%}".replace("%", " %")
        word = "slower" if factor > 0 else "faster"
        why = "a clock, a power limit or another tenant of the GPU"
        yield Warning_(code="clocks", text=f"the same {len(pairs)} kernels run {much} {word} after: {why}")


def _common_kernels(before: list[KernelRow], after: list[KernelRow]) -> list[tuple[KernelRow, KernelRow]]:
    by_name = {row.name: row for row in after}
    both = [(row, by_name[row.name]) for row in before if row.name in by_name]
    return [(b, a) for b, a in both if min(b.instances, a.instances) >= MIN_STEPS and min(_typical(b), _typical(a)) > 0]


def _typical(row: KernelRow) -> float:
    return row.avg_ns if row.median_ns is None else row.median_ns


def _series(side: Side, spread: stats.Side) -> Iterator[Warning_]:
    n = side.samples.size
    if abs(spread.drift) > max(2 * spread.drift_noise, STRONG_DRIFT):
        much = f"{np.expm1(spread.drift):+.0%}".replace("%", " %")
        yield Warning_(code="drift", text=f"{side.name}: the step time drifts ({much} from start to end)")
    if n >= FEW_STEPS and spread.effective < FEW_EFFECTIVE:
        text = f"{side.name}: {n} steps are worth {spread.effective:.0f} independent ones, so slowly do they change"
        yield Warning_(code="correlated", text=text)
    if two_speeds(side.samples):
        low, high = (float(q) / 1e6 for q in np.quantile(side.samples, (0.1, 0.9)))
        text = f"{side.name}: two speeds, about {low:.3g} and {high:.3g} ms: the median jumps between them"
        yield Warning_(code="two-speeds", text=text)


def two_speeds(samples: np.typing.NDArray[np.float64]) -> bool:
    """Whether step times fall into two groups, each at least a fifth of all, with a wide gap between them."""
    x = np.sort(np.log(samples))
    edge = x.size // 5
    if x.size < FEW_STEPS:
        return False
    gaps = np.diff(x)[edge : x.size - edge]
    widest = int(np.argmax(gaps))
    low, high = x[: edge + widest + 1], x[edge + widest + 1 :]
    inside = max(float(np.subtract(*np.quantile(part, (0.75, 0.25)))) for part in (low, high))
    return bool(gaps[widest] > max(inside, 0.02))
