"""How often ``compare`` errs: A/A pairs, in which nothing changed, and the same pairs with a slowdown, small to large.

In: real step times (``tests/data/steps``, ``host_step_ms`` of ``../shared/profiles/*.truth.json`` where those are) and
made-up series with correlation, drift, outliers, bursts and two levels. Out: the tables of ``benchmarks/compare.md``,
on standard output. ``python benchmarks/compare_aa.py [--pairs 200]``; seven minutes.

A *false verdict* is ``faster`` or ``slower`` where nothing changed. *Caught* is ``slower`` where every step of the
second side was made that many times longer, and the two compared anew. ``--levels`` prints something else: how far
neighbouring stretches of one recorded run lie apart that do not share a single step time. Seeds are fixed.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from unstall.compare import compare
from unstall.compare.settled import settled

Floats = npt.NDArray[np.float64]
Pair = tuple[Floats, Floats]
Draw = Callable[[np.random.Generator], Pair]

ROOT = Path(__file__).parents[1]
SLOWER = (1.05, 1.3, 1.6, 3.0)
BLOCK = 25  # steps: two programs that take turns, as trials do; four turns a side where there are fewer than 100


# -- real step times ------------------------------------------------------------------------------------------


def recorded() -> dict[str, Floats]:
    """Long series of this repository, steady part."""
    return {f.stem: _steady(np.loadtxt(f)) for f in sorted((ROOT / "tests" / "data" / "steps").glob("*.txt"))}


def short_gpu() -> dict[str, Floats]:
    """32 host step times each of six workloads on an H200 and of the same with their remedy, steady part."""
    found = {}
    for file in sorted((ROOT.parent / "shared" / "profiles").glob("*.truth.json")):
        truth = json.loads(file.read_text(encoding="utf-8"))
        for key in ("host_step_ms", "host_step_fixed_ms"):
            found[f"{truth['case']} {key}"] = _steady(np.array(truth[key]))
    return {name: x for name, x in found.items() if x.size >= 20}


def _steady(x: Floats) -> Floats:
    return x[settled(x).first :]


def halves(series: dict[str, Floats]) -> Draw:
    """The first half of a run against its second half."""
    return lambda r: _cut(_one(r, series), 0.5)


def _cut(x: Floats, at: float) -> Pair:
    return x[: int(at * x.size)], x[int(at * x.size) :]


def shuffled(series: dict[str, Floats]) -> Draw:
    """Steps of one run dealt out at random, order kept."""

    def draw(r: np.random.Generator) -> Pair:
        x = _one(r, series)
        first = np.isin(np.arange(x.size), r.choice(x.size, x.size // 2, replace=False))
        return x[first], x[~first]

    return draw


def drawn(series: dict[str, Floats], n: int) -> Draw:
    """Two runs of ``n`` steps, each put together from pieces of five steps of one run."""

    def one(r: np.random.Generator, x: Floats) -> Floats:
        starts = r.integers(0, x.size - 4, -(-n // 5))
        return np.concatenate([x[s : s + 5] for s in starts])[:n]

    def draw(r: np.random.Generator) -> Pair:
        x = _one(r, series)
        return one(r, x), one(r, x)

    return draw


def windows(series: dict[str, Floats], n: int) -> Draw:
    """Two stretches of ``n`` steps out of one run, one right after the other."""

    def draw(r: np.random.Generator) -> Pair:
        x = _one(r, series)
        start = int(r.integers(0, x.size - 2 * n))
        return x[start : start + n], x[start + n : start + 2 * n]

    return draw


def turns(series: dict[str, Floats], n: int) -> Draw:
    """Two sides of ``n`` steps that take turns of at most :data:`BLOCK` steps."""

    def draw(r: np.random.Generator) -> Pair:
        x = _one(r, series)
        start = int(r.integers(0, x.size - 2 * n))
        mine = (np.arange(2 * n) // min(BLOCK, n // 4)) % 2 == 0
        part = x[start : start + 2 * n]
        return part[mine], part[~mine]

    return draw


def _one(r: np.random.Generator, series: dict[str, Floats]) -> Floats:
    return series[list(series)[r.integers(len(series))]]


# -- made-up step times ---------------------------------------------------------------------------------------


def independent(n: int, noise: float) -> Draw:
    return _twice(lambda r: r.normal(0, noise, n))


def correlated(n: int, rho: float, noise: float = 0.03) -> Draw:
    """A first-order process: every step remembers the one before."""
    return _twice(lambda r: noise * _remembering(r, n, rho))


def outliers(n: int) -> Draw:
    """3 % noise, and one step in 20 takes 2 to 10 times as long."""
    return _twice(lambda r: r.normal(0, 0.03, n) + (r.random(n) < 0.05) * np.log(r.uniform(2, 10, n)))


def bursts(n: int) -> Draw:
    """Loader stalls at random: one step in four takes 17 times as long."""
    return _twice(lambda r: r.normal(0, 0.05, n) + (r.random(n) < 0.25) * math.log(17))


def bursts_in_turn(n: int) -> Draw:
    """Three batches lie ready, the fourth is waited for."""
    return _twice(lambda r: r.normal(0, 0.05, n) + ((np.arange(n) + r.integers(4)) % 4 == 0) * math.log(17))


def two_levels(n: int, switch: float) -> Draw:
    """Two speeds 20 % apart; ``switch`` is the chance to change over after a step."""
    return _twice(lambda r: 0.2 * ((np.cumsum(r.random(n) < switch) + r.integers(2)) % 2) + r.normal(0, 0.02, n))


def drift_each(n: int, drift: float) -> Draw:
    """Both runs drift alike, each from its own start."""
    return _twice(lambda r: np.linspace(0, drift, n) + r.normal(0, 0.02, n))


def drift_through(n: int, drift: float, rho: float = 0.0) -> Draw:
    """One drifting run, cut in the middle: the two sides do differ, though nothing was changed."""

    def draw(r: np.random.Generator) -> Pair:
        return _cut(np.exp(np.linspace(0, drift, 2 * n) + 0.02 * _remembering(r, 2 * n, rho)), 0.5)

    return draw


def _twice(logs: Callable[[np.random.Generator], Floats]) -> Draw:
    return lambda r: (np.exp(logs(r)), np.exp(logs(r)))


def _remembering(r: np.random.Generator, n: int, rho: float) -> Floats:
    """Unit variance, correlation ``rho`` between neighbours, shape ``(n,)``."""
    shocks = r.normal(0, 1, n + 200) * math.sqrt(1 - rho * rho)
    out = np.empty(n + 200)
    level = r.normal()
    for i, shock in enumerate(shocks):
        level = rho * level + shock
        out[i] = level
    return out[200:]


# -- measuring ------------------------------------------------------------------------------------------------


def scenarios() -> Iterator[tuple[str, str, Draw]]:
    """Group, name, and how a pair is drawn."""
    if gpu := short_gpu():
        yield "H200, 32 steps a run", "steps dealt out at random", shuffled(gpu)
        yield "H200, 32 steps a run", "first half, second half", halves(gpu)
        yield "H200, 32 steps a run", "pieces of 5 steps, 100 a side", drawn(gpu, 100)
    for name, x in recorded().items():
        for n in (20, 30, 100, 300):
            yield "recorded, taking turns", f"{name}, {n} a side", turns({name: x}, n)
        yield "recorded, one after the other", f"{name}, 100 a side", windows({name: x}, 100)
    for n, noise in ((20, 0.02), (30, 0.02), (100, 0.02), (100, 0.05), (1000, 0.05)):
        yield "made up, independent", f"{noise:.0%} noise, {n} a side", independent(n, noise)
    for rho in (0.5, 0.8, 0.95):
        for n in (20, 30, 100, 1000):
            yield "made up, correlated", f"ρ = {rho}, {n} a side", correlated(n, rho)
    for n in (20, 30, 100):
        yield "made up, correlated", f"ρ = 0.95, 10 % noise, {n} a side", correlated(n, 0.95, 0.1)
    for n in (20, 30, 100):
        yield "made up, bursts", f"at random, {n} a side", bursts(n)
        yield "made up, bursts", f"every fourth step, {n} a side", bursts_in_turn(n)
    for n in (30, 100, 1000):
        yield "made up, outliers", f"one step in 20, {n} a side", outliers(n)
    for n, switch in ((100, 0.5), (100, 0.1), (1000, 0.1)):
        yield "made up, two speeds", f"changes over {switch:.0%}, {n} a side", two_levels(n, switch)
    for n in (30, 100, 1000):
        yield "made up, drift in each run", f"10 %, {n} a side", drift_each(n, 0.1)
    for n in (30, 100, 1000):
        yield "made up, drift through both", f"10 %, {n} a side", drift_through(n, 0.1)
        yield "made up, drift through both", f"4 %, ρ = 0.7, {n} a side", drift_through(n, 0.04, 0.7)


Counts = Counter[str | float]


def measure(draw: Draw, pairs: int) -> Counts:
    """Verdicts on pairs in which nothing changed, and how many slowdowns of each size were caught."""
    generator = np.random.default_rng(1)
    counts: Counts = Counter(pairs=pairs)
    for _ in range(pairs):
        before, after = draw(generator)
        counts[compare(before, after).verdict] += 1
        for by in SLOWER:
            counts[by] += compare(before, by * after).verdict == "slower"
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--levels", action="store_true")
    options = parser.parse_args()
    if options.levels:
        return levels()
    heading = " | ".join(f"{by}× caught" for by in SLOWER)
    print(f"| series | pair | false verdicts | no difference | inconclusive | {heading} |")
    print("|---|---|" + "---:|" * (3 + len(SLOWER)))
    groups: dict[str, Counts] = {}
    for group, name, draw in scenarios():
        counts = measure(draw, options.pairs)
        groups.setdefault(group, Counter()).update(counts)
        _row(group, name, counts)
    for group, counts in groups.items():
        _row(f"**{group}**", f"{counts['pairs']} pairs", counts)
    total = sum(groups.values(), Counter[str | float]())
    _row("**all**", f"{total['pairs']} pairs", total)


def _row(group: str, name: str, counts: Counts) -> None:
    false = counts["faster"] + counts["slower"]
    parts = [false, counts["no difference"], counts["inconclusive"], *(counts[by] for by in SLOWER)]
    shares = " | ".join(f"{100 * n / counts['pairs']:.1f} %" for n in parts)
    print(f"| {group} | {name.replace('%', ' %').replace('  %', ' %')} | {shares} |", flush=True)


def levels() -> None:
    """Neighbouring stretches of one run that share no step time: what a machine does to a program by itself."""
    print("| steps a side | pairs | nothing shared | furthest apart |")
    print("|---:|---:|---:|---:|")
    for n in (5, 10, 15, 20, 30, 50, 100):
        pairs = [_cut(x[s : s + 2 * n], 0.5) for x in machines() for s in range(0, x.size - 2 * n + 1, max(n // 4, 1))]
        apart = [(b, a) for b, a in pairs if b.min() > a.max() or a.min() > b.max()]
        most = max((math.exp(abs(math.log(np.median(b) / np.median(a)))) for b, a in apart), default=None)
        print(f"| {n} | {len(pairs)} | {len(apart)} | {'' if most is None else f'{most:.2f}×'} |")


def machines() -> list[Floats]:
    """All recorded runs, those of the planted loops' host as well: three stretches in a row, steady or not."""
    planted = json.loads((ROOT / "benchmarks" / "planted" / "exports" / "truth.json").read_text(encoding="utf-8"))
    hosts = [
        np.array(run[key]) for case in planted.values() for run in case.values() for key in run if "host_step" in key
    ]
    return [*recorded().values(), *short_gpu().values(), *(x for x in hosts if x.size >= 20)]


if __name__ == "__main__":
    main()
