"""How long a capture takes to read, against the limit and against the profiler itself.

    python benchmarks/load.py                      # 1, 3 and 10 million events, and 10 million with most of them NVTX
    python benchmarks/load.py --millions 1 --repeat 5

Comes in: two real captures (a launch-bound training run, and one second of inference with ranges around everything),
repeated in time by ``bigfile.py``. Goes out: a table. Every figure is the best of ``--repeat`` runs, each in a process
of its own, and the different measures take turns, so a ratio compares what ran side by side:

- *scan*: all columns that we use, into Arrow and Polars by one thread, and nothing done with them: the limit;
- *load*: ``unstall.load``, cache off;
- *five*: load, and the five summaries that ``nsys stats`` prints: ranges, kernels, CUDA calls, projection, OS runtime;
- *report*: everything, from the file to the findings;
- *again*: ``unstall.load`` of a file that was read before;
- *nsys*: ``nsys stats`` with the same five reports, where an installed nsys can do it, given up after ``--limit`` s.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bigfile import repeat

ROOT = Path(__file__).parents[1]
PLACES = (ROOT / "tests" / "data", ROOT.parent / "shared" / "profiles")
KINDS = {"training": ("launch_bound", "item_sync_window"), "nvtx": ("nccl_2gpu_nsys2026", "nsys2024_gpu")}
REPORTS = {"nvtx_sum": "nvtxsum", "cuda_gpu_kern_sum": "gpukernsum", "cuda_api_sum": "cudaapisum",
           "nvtx_gpu_proj_sum": "nvtxgpuproj", "osrt_sum": "osrtsum"}  # fmt: skip


def scan(path: Path) -> None:
    from unstall.load.database import Database
    from unstall.load.schema import SOURCES

    db = Database(path)
    kept = [db.query(s.select(db.tables[s.origin])) for s in SOURCES if s.usable(db.columns(s.origin))]
    assert kept


def load(path: Path) -> None:
    from unstall.load import load as read

    assert read(path, cache=False).present()


def again(path: Path) -> None:
    from unstall.load import load as read

    assert read(path).present()


def five(path: Path) -> None:
    from unstall.analyze import project, ranges, summary
    from unstall.analyze.device import device_ops
    from unstall.load import load as read

    profile = read(path, cache=False)
    summary.kernel_rows(profile), summary.api_rows(profile), summary.osrt_rows(profile)
    if profile.ranges is not None:
        summary.statistics(profile.ranges, "name")
        nested = ranges.nest(profile.ranges)
        project.gpu_span(project.attribute(device_ops(profile), nested), nested)


def report(path: Path) -> None:
    from unstall.pipeline import report_of

    assert report_of(path, cache=False).profile


def nsys(path: Path) -> None:
    """Old names for releases before 2023; its exit code says nothing, so there must be a table and no complaint."""
    tool = os.environ["BENCHMARK_NSYS"]
    names = REPORTS.values() if os.environ["BENCHMARK_OLD"] == "1" else REPORTS.keys()
    command = [tool, "stats", "--format", "csv", *(a for n in names for a in ("--report", n)), str(path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=subprocess.STDOUT, text=True, start_new_session=True) as process:
        try:
            said, _ = process.communicate(timeout=float(os.environ["BENCHMARK_LIMIT"]))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # with the scripts that it started
            sys.exit(f"nsys had not finished after {os.environ['BENCHMARK_LIMIT']} s")
    if "Time (%)" not in said or "ERROR" in said:
        sys.exit(f"nsys: {(said.strip().splitlines() or ['it printed nothing'])[-1][:100]}")


MEASURES: dict[str, Callable[[Path], None]] = {
    "scan": scan, "load": load, "five": five, "report": report, "again": again, "nsys": nsys,
}  # fmt: skip


def measure(name: str, path: Path) -> None:
    """One measure in this process; its figures as JSON. Imports are not counted, the interpreter's memory is."""
    from unstall.memory import frugal

    frugal()  # as the commands do

    import unstall.pipeline  # noqa: F401

    who = resource.RUSAGE_CHILDREN if name == "nsys" else resource.RUSAGE_SELF
    clock, before = time.perf_counter(), resource.getrusage(who)
    MEASURES[name](path)
    seconds, after = time.perf_counter() - clock, resource.getrusage(who)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({"seconds": seconds, "cpu": cpu, "peak_mb": after.ru_maxrss / 1024}))


def run(path: Path, names: list[str], times: int) -> dict[str, dict[str, float]]:
    """Best times and highest peak of each measure, all of them taking turns."""
    found: dict[str, list[dict[str, float]]] = {}
    for _ in range(times):
        for name in list(names):
            done = subprocess.run(
                [sys.executable, __file__, "--measure", name, str(path)], capture_output=True, text=True, check=False
            )
            if done.returncode:
                print(f"# {name} left out: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
                names.remove(name)
                continue
            found.setdefault(name, []).append(json.loads(done.stdout.splitlines()[-1]))
    picks = {"seconds": min, "cpu": min, "peak_mb": max}
    return {n: {k: pick(r[k] for r in runs) for k, pick in picks.items()} for n, runs in found.items()}


def source(kind: str, room: Path) -> Path:
    """The first capture of this kind that is to be had, unpacked."""
    for name in KINDS[kind]:
        packed = next((p for d in PLACES if (p := d / f"{name}.sqlite.xz").exists()), None)
        if packed:
            target = room / f"{name}.sqlite"
            with lzma.open(packed) as a, target.open("wb") as b:
                shutil.copyfileobj(a, b)
            return target
    sys.exit(f"no capture of kind {kind}: {', '.join(KINDS[kind])}")


def line(label: str, figures: dict[str, dict[str, float]]) -> str:
    def cell(name: str) -> str:
        got = figures.get(name)
        if not got:
            return "–"
        ratio = f" ({got['seconds'] / figures['scan']['seconds']:.2f}×)" if name != "scan" else ""
        return f"{got['seconds']:.2f} s{ratio}, CPU {got['cpu']:.2f} s, {got['peak_mb']:,.0f} MB"

    return f"| {label} | " + " | ".join(cell(n) for n in MEASURES) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millions", default="1,3,10", help="event rows of the training files, in millions")
    parser.add_argument("--nvtx-millions", default="10", help="event rows of the NVTX-heavy files; empty for none")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--limit", type=int, default=300, help="seconds after which nsys is given up")
    parser.add_argument("--only", default=",".join(MEASURES), help="measures to take")
    parser.add_argument("--measure", nargs=2, metavar=("NAME", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        return measure(options.measure[0], Path(options.measure[1]))
    from unstall.nsys.discover import find_nsys

    tool = next(iter(find_nsys()), None)
    names = [n for n in options.only.split(",") if n != "nsys" or tool]
    if tool:
        old = str(int(tool.version < (2023, 1)))
        os.environ |= {"BENCHMARK_NSYS": str(tool.path), "BENCHMARK_OLD": old, "BENCHMARK_LIMIT": str(options.limit)}
    print("| file | " + " | ".join(MEASURES) + " |\n|---" + "|---" * len(MEASURES) + "|")
    with tempfile.TemporaryDirectory(prefix="unstall-benchmark-") as room_:
        room = Path(room_)
        os.environ["UNSTALL_CACHE_DIR"] = str(room / "cache")
        wanted = [("training", m) for m in options.millions.split(",") if m]
        wanted += [("nvtx", m) for m in options.nvtx_millions.split(",") if m]
        for kind, millions in wanted:
            big = room / f"{kind}_{millions}.sqlite"
            counts = repeat(source(kind, room), big, round(float(millions) * 1e6))
            # The first look, which the second is measured after. In a process of its own as well: a child begins with
            # the peak of its parent.
            run(big, ["again"], 1)
            size = f"{sum(counts.values()):,} events, {big.stat().st_size / 1e6:,.0f} MB"
            print(line(f"{kind}, {size}", run(big, list(names), options.repeat)), flush=True)
            big.unlink()
            shutil.rmtree(room / "cache", ignore_errors=True)


if __name__ == "__main__":
    main()
