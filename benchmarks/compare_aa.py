"""How often ``compare`` errs: A/A pairs, in which nothing changed, and the same pairs with a 5 % slowdown.

In: real step times (``tests/data/steps``, ``host_step_ms`` of ``../shared/profiles/*.truth.json`` where those are) and
made-up series with correlation, drift, outliers and two levels. Out: the table of ``benchmarks/compare.md``, on
standard output. ``python benchmarks/compare_aa.py [--pairs 200]``; about ten minutes.

A *false verdict* is ``faster`` or ``slower`` where nothing changed. ``caught`` is ``slower`` where the second side was
made 5 % slower. Seeds are fixed.
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

from unstall import stats
from unstall.compare import compare
from unstall.compare.settled import settled
from unstall.compare.verdict import judge

Floats = npt.NDArray[np.float64]
Pair = tuple[Floats, Floats]
Draw = Callable[[np.random.Generator], Pair]

ROOT = Path(__file__).parents[1]
SLOWER = 1.05
BLOCK = 25  # steps: two programs that take turns, as trials do


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
    """Two sides of ``n`` steps that take turns of :data:`BLOCK` steps."""

    def draw(r: np.random.Generator) -> Pair:
        x = _one(r, series)
        start = int(r.integers(0, x.size - 2 * n))
        mine = (np.arange(2 * n) // BLOCK) % 2 == 0
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
        for n in (100, 300):
            yield "recorded, taking turns", f"{name}, {n} a side", turns({name: x}, n)
        yield "recorded, one after the other", f"{name}, 100 a side", windows({name: x}, 100)
    for n, noise in ((30, 0.02), (100, 0.02), (100, 0.05), (1000, 0.05)):
        yield "made up, independent", f"{noise:.0%} noise, {n} a side", independent(n, noise)
    for rho in (0.5, 0.8, 0.95):
        for n in (30, 100, 1000):
            yield "made up, correlated", f"ρ = {rho}, {n} a side", correlated(n, rho)
    for n in (30, 100, 1000):
        yield "made up, outliers", f"one step in 20, {n} a side", outliers(n)
    for n, switch in ((100, 0.5), (100, 0.1), (1000, 0.1)):
        yield "made up, two speeds", f"changes over {switch:.0%}, {n} a side", two_levels(n, switch)
    for n in (30, 100, 1000):
        yield "made up, drift in each run", f"10 %, {n} a side", drift_each(n, 0.1)
    for n in (30, 100, 1000):
        yield "made up, drift through both", f"10 %, {n} a side", drift_through(n, 0.1)
        yield "made up, drift through both", f"4 %, ρ = 0.7, {n} a side", drift_through(n, 0.04, 0.7)


def measure(draw: Draw, pairs: int) -> tuple[Counter[str], int]:
    """Verdicts on pairs in which nothing changed, and how many slowdowns were caught."""
    generator = np.random.default_rng(1)
    verdicts: Counter[str] = Counter()
    caught = 0
    for _ in range(pairs):
        before, after = draw(generator)
        found = compare(before, after)
        verdicts[found.verdict] += 1
        if found.ratio is not None and found.ratio_low is not None and found.ratio_high is not None:
            slowed = stats.Ratio(found.ratio / SLOWER, found.ratio_low / SLOWER, found.ratio_high / SLOWER)
            caught += judge(slowed)[0] == "slower"  # the interval moves with the samples: a median has no scale
    return verdicts, caught


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=200)
    pairs = parser.parse_args().pairs
    print("| series | pair | false verdicts | no difference | inconclusive | 5 % slowdown caught |")
    print("|---|---|---:|---:|---:|---:|")
    total: Counter[str] = Counter()
    for group, name, draw in scenarios():
        verdicts, caught = measure(draw, pairs)
        total += verdicts
        print(
            f"| {group} | {name} | {_shares(verdicts, pairs)} | {caught / pairs:.1%} |".replace("%", " %").replace(
                "  %", " %"
            ),
            flush=True,
        )
    print(
        f"| **all** | {total.total()} pairs | {_shares(total, total.total())} | |".replace("%", " %").replace(
            "  %", " %"
        )
    )


def _shares(verdicts: Counter[str], pairs: int) -> str:
    false = verdicts["faster"] + verdicts["slower"]
    return " | ".join(f"{n / pairs:.1%}" for n in (false, verdicts["no difference"], verdicts["inconclusive"]))


if __name__ == "__main__":
    main()
