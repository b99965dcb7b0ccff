"""``--auto`` and the built-in collector on a GPU, beside nsys: what they cost, and whether they agree.

    python benchmarks/gpu/auto_h200.py [--repeats 3] [--json FILE]

1. ``--auto`` on a step of 2 ms, hooks in and out in turns in one process (``benchmarks/auto_overhead.py``).
2. Losses of three loops (``loops.py``), plain and with ``--auto`` under the built-in collector: the same bit for bit?
3. The same loops captured by nsys and by the built-in collector, steps 20 to 45, in turns: step period, kernel and copy
   time a step (medians over the repeats) and their ratio; and, within each run, the captured step against the steps
   before the window, which is what the collector costs.

Needs torch with CUDA and an nsys (any place that ``unstall doctor`` finds); nothing else but the standard library.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src"
sys.path.insert(0, str(SOURCE))

from unstall.collect import CollectOptions, collect  # noqa: E402
from unstall.instrument import PARTS, Options, environment  # noqa: E402

CASES = ("loading", "launch", "gemm")
WINDOW, STEPS, COLD = (20, 45), 60, 5  # captured steps; steps of a run; captured steps left out at the start
STARTS = """SELECT e.start FROM NVTX_EVENTS e LEFT JOIN StringIds s ON s.id = e.textId
    WHERE coalesce(e.text, s.value) GLOB 'step_*' AND e.eventType IN (59, 60) ORDER BY e.start"""
WORK = """SELECT r.start, k.start, k."end" FROM {table} k JOIN CUPTI_ACTIVITY_KIND_RUNTIME r
    ON r.correlationId = k.correlationId AND (r.globalTid & ~16777215) = k.globalPid
    WHERE r.start >= ? AND r.start < ?"""
THREADS = """SELECT count(DISTINCT globalTid) FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds s ON s.id = r.nameId
    WHERE s.value LIKE '%LaunchKernel%'"""
EARLY = """SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN CUPTI_ACTIVITY_KIND_RUNTIME r
    ON r.correlationId = k.correlationId AND (r.globalTid & ~16777215) = k.globalPid WHERE k.start < r.start"""


def losses(case: str, env: dict[str, str]) -> str:
    """The losses that one run prints."""
    line = [sys.executable, str(HERE / "loops.py"), case, str(STEPS)]
    done = subprocess.run(line, env=env, capture_output=True, text=True, check=True)
    return next(line for line in done.stdout.splitlines() if line.startswith("LOSSES"))


def same_losses(case: str, folder: Path) -> bool:
    """Plain against instrumented and recorded."""
    options = Options(parts=PARTS, record=str(folder / case), step_log=str(folder / f"{case}-{{pid}}.json"))
    return losses(case, dict(os.environ)) == losses(case, environment(options))


def figures(path: Path) -> dict[str, float]:
    """Period, kernel time, copy time and kernels of a captured step, in ns; and how well the two clocks agree.

    Work belongs to the step that gave it to the GPU: a host that runs ahead has begun later steps when it is done.
    """
    with closing(sqlite3.connect(path)) as db:
        tables = {n for (n,) in db.execute("SELECT name FROM sqlite_master")}
        starts = [start for (start,) in db.execute(STARTS)][COLD:]
        steps, first, last = len(starts) - 1, starts[0], starts[-1]
        out: dict[str, float] = {"steps": steps}
        begun: list[int] = []
        for name, table in (("kernels", "CUPTI_ACTIVITY_KIND_KERNEL"), ("copies", "CUPTI_ACTIVITY_KIND_MEMCPY")):
            rows = db.execute(WORK.format(table=table), (first, last)).fetchall() if table in tables else []
            out[name], out[f"{name}_count"] = sum(end - start for _, start, end in rows) / steps, len(rows) / steps
            begun = begun or [min(s for call, s, _ in rows if a <= call < b) for a, b in pairwise(starts) if rows]
        # on the GPU where it has work: the host's own steps are short while it fills the queue
        out["period"] = median(b - a for a, b in pairwise(begun or starts))
        gpu = "CUPTI_ACTIVITY_KIND_KERNEL" in tables
        # kernels that start before the call that launched them: none, unless the clocks of host and device disagree
        out["before_launch"] = float(db.execute(EARLY).fetchone()[0]) if gpu else float("nan")
        if "UNSTALL_META" in tables:
            meta = dict(db.execute("SELECT name, value FROM UNSTALL_META"))
            out["clock_error"] = float(meta.get("gpu_clock_error_ns", "nan"))
            out["launch_threads"] = float(db.execute(THREADS).fetchone()[0]) if gpu else 0.0
    return out


def capture(case: str, collector: str, folder: Path) -> dict[str, float]:
    """One capture, its figures, and the step before the window in the same process."""
    options = CollectOptions(
        collector=collector,  # type: ignore[arg-type]
        auto=True,
        steps=WINDOW,
        output=folder,
        sample="none",
        trace=("cuda", "nvtx"),
        keep_report=False,
    )
    made = collect([sys.executable, str(HERE / "loops.py"), case, str(STEPS), "quiet"], options)
    if made.sqlite is None:
        raise SystemExit(f"{collector} captured nothing of {case}: {[note.text for note in made.notes]}")
    return {**figures(made.sqlite), "unprofiled": made.unprofiled_ns or float("nan")}


def compare(case: str, repeats: int, folder: Path) -> dict[str, Any]:
    """Both collectors in turns; medians over the repeats, and ratio built-in / nsys."""
    runs: dict[str, list[dict[str, float]]] = {"nsys": [], "builtin": []}
    for i in range(repeats):
        for collector in ("nsys", "builtin") if i % 2 == 0 else ("builtin", "nsys"):
            runs[collector].append(capture(case, collector, folder / f"{case}-{collector}-{i}"))
    found: dict[str, Any] = {}
    for collector, some in runs.items():
        found[collector] = {key: median(run[key] for run in some) for key in some[0]}
        found[collector]["cost"] = median(run["period"] / run["unprofiled"] for run in some)
    nsys, own = found["nsys"], found["builtin"]
    found["ratio"] = {key: own[key] / nsys[key] for key in ("period", "kernels", "copies") if nsys[key]}
    return found


def overhead(*more: str) -> Any:
    """``benchmarks/auto_overhead.py`` in a process of its own."""
    line = [sys.executable, str(HERE.parent / "auto_overhead.py"), *more]
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(line, capture_output=True, text=True, env=env, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else {"failed": done.stderr.strip().splitlines()[-1:]}


def main() -> None:
    """Measure, print a table, and write everything where asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--rounds", type=int, default=110, help="of auto_overhead.py, 0: none; with recording a third of them"
    )
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=CASES)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    found: dict[str, Any] = {}
    rounds = (("overhead", (asked.rounds,)), ("overhead_recording", (asked.rounds // 3, "--record")))
    for name, more in rounds if asked.rounds else ():
        found[name] = overhead("--rounds", *map(str, more))
        print(name, json.dumps(found[name]), flush=True)
    with tempfile.TemporaryDirectory(prefix="unstall-bench-") as room:
        for case in asked.cases:
            same = same_losses(case, Path(room))
            print(f"{case}: losses with --auto and recording {'the same' if same else 'DIFFERENT'}", flush=True)
            found[case] = {"same_losses": same, **compare(case, asked.repeats, Path(room))}
            show(case, found[case])
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1) + "\n")


def show(case: str, found: dict[str, Any]) -> None:
    """A table of one case."""
    print(f"{case:<10}{'nsys':>12}{'built-in':>12}{'ratio':>9}")
    for key in ("period", "kernels", "copies", "unprofiled"):
        nsys, own = found["nsys"][key], found["builtin"][key]
        ratio = f"{own / nsys:9.3f}" if nsys else f"{'-':>9}"
        print(f"  {key:<8}{nsys / 1e6:>9.3f} ms{own / 1e6:>9.3f} ms{ratio}")
    for key, unit in (("kernels_count", "a step"), ("cost", "× the step"), ("before_launch", "kernels")):
        print(f"  {key:<14}{found['nsys'][key]:>9.2f}{found['builtin'][key]:>12.2f} {unit}")
    clock, threads = found["builtin"]["clock_error"] / 1e3, found["builtin"]["launch_threads"]
    print(f"  clocks of host and GPU put together within {clock:.1f} µs; {threads:.0f} threads launch")


if __name__ == "__main__":
    main()
