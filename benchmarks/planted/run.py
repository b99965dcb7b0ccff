"""The planted-bottleneck benchmark: scripts with one known fault each, and what ``unstall`` makes of them.

    python benchmarks/planted/run.py --out DIR             on a GPU: time, profile, diagnose; table, exports
    python benchmarks/planted/run.py --replay DIR          diagnose the exports in DIR again, rewrite the table
    python benchmarks/planted/run.py --device cpu          a smoke test: every script, three tiny steps

In: the scripts in ``cases``, or exports of an earlier run. Out: ``results.json``, ``table.md``, ``exports.tar``.
"""

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
import traceback
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "src")]

import capture  # noqa: E402
import exports  # noqa: E402
import judge  # noqa: E402
from catalog import VARIANTS, Planted, catalog  # noqa: E402

FINISHING = 150.0  # seconds for all exports and diagnoses; what is late is left out

Truth = dict[str, dict[str, Any]]


def main() -> int:
    options = arguments()
    cases = catalog(options.cases)
    if options.device == "cpu":
        return smoke(cases)
    if options.replay:
        folder = Path(options.replay)
        rows = replay(cases, folder, options.processes)
        sums = judge.write(rows, Path(options.out or HERE))
    else:
        sums = measure(cases, options)
    print(json.dumps(sums))
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", help="folder for the results; the benchmark's own when replaying")
    parser.add_argument("--replay", metavar="DIR", help="folder with exports and truth.json of an earlier run")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--cases", nargs="*", help="only these")
    parser.add_argument("--nsys", help="the profiler; the best of this machine by default")
    parser.add_argument("--options", default=capture.OPTIONS, help="its options, all but the traces")
    parser.add_argument("--trace", default=capture.TRACE)
    parser.add_argument("--budget", type=float, default=380, help="seconds after which no further capture starts")
    parser.add_argument("--at-once", type=int, default=3, help="captures started at once; one at a time has the GPU")
    parser.add_argument("--processes", type=int, default=min(os.cpu_count() or 1, 12))
    return parser.parse_args()


def smoke(cases: list[Planted]) -> int:
    """Every script on the CPU, both variants, sizes shrunken; 1 when one of them does not run."""
    failed = 0
    with tempfile.TemporaryDirectory() as room:
        for case in cases:
            out = Path(room) / f"{case.name}.json"
            command = [sys.executable, str(HERE / "worker.py"), case.name, "bad", str(out)]
            said = capture.run_bounded(command, {**os.environ, "PLANTED_SMALL": "1"})
            failed += not out.exists()
            print(f"{case.name:28} {'ok' if out.exists() else said[-800:]}", flush=True)
    return int(failed > 0)


def measure(cases: list[Planted], options: argparse.Namespace) -> dict[str, Any]:
    """The whole benchmark on this machine's GPU."""
    out, begin = Path(options.out or HERE / "out"), time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="planted-", ignore_cleanup_errors=True) as room:
        nsys = options.nsys or capture.find_profiler()
        runner = capture.Runner(nsys, Path(room), begin + options.budget, options.options, options.trace)
        jobs = capture.capture_all(cases, runner, options.at_once)
        print(f"captures: {time.monotonic() - begin:.0f} s", flush=True)
        tasks = {j.name: (j.raw, Path(room), _own_ms(j)) for j in jobs if j.done}
        said = in_pool(_finish, tasks, options.processes, FINISHING)
        truth = truth_of(jobs)
        (Path(room) / "truth.json").write_text(json.dumps(truth, indent=1))
        left_out = exports.pack([*Path(room).glob("*.sqlite.xz"), Path(room) / "truth.json"], out / "exports.tar")
    print(f"all: {time.monotonic() - begin:.0f} s; not packed: {', '.join(left_out) or 'none'}", flush=True)
    return judge.write([_row(case, truth, said) for case in cases], out)


def replay(cases: list[Planted], folder: Path, processes: int) -> list[judge.Row]:
    """Diagnose exports again: one row a case."""
    truth: Truth = json.loads((folder / "truth.json").read_text())
    wanted = {}
    for case in cases:
        for variant in VARIANTS:
            file = folder / f"{case.name}.{variant}.sqlite.xz"
            if file.exists():
                wanted[f"{case.name}.{variant}"] = (file, truth[case.name][variant]["unprofiled_ms"])
    said = in_pool(judge.judge, wanted, processes)
    return [_row(case, truth, said) for case in cases if case.name in truth]


def in_pool(work: Any, tasks: dict[str, tuple[Any, ...]], processes: int, seconds: float = 900) -> dict[str, judge.Row]:
    """Results by name; a task that fails, or is not done in time, is told and leaves none."""
    os.environ.setdefault("POLARS_MAX_THREADS", "2")
    found, until = {}, time.monotonic() + seconds
    pool = ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn"))
    futures = {name: pool.submit(work, *task) for name, task in tasks.items()}
    for name, future in futures.items():
        try:
            found[name] = future.result(timeout=max(until - time.monotonic(), 0.01))
        except Exception as error:  # one bad capture must not cost the others
            print(f"{name}: {''.join(traceback.format_exception(error))[-1500:]}", flush=True)
    own = list((pool._processes or {}).values())
    late = [name for name, future in futures.items() if not future.done()]
    pool.shutdown(wait=not late, cancel_futures=True)
    for process in own if late else ():
        process.kill()
    return found


def truth_of(jobs: list[capture.Job]) -> Truth:
    """What the workers measured, by case and variant."""
    found: Truth = {}
    for job in jobs:
        if job.done:
            found.setdefault(job.case.name, {})[job.variant] = job.truth
    return found


def _own_ms(job: capture.Job) -> float:
    return float(job.truth["unprofiled_ms"])


def _finish(raw: Path, room: Path, unprofiled_ms: float) -> judge.Row:
    """One capture from raw file to findings."""
    target = room / f"{raw.name.removesuffix('.qdstrm').removesuffix('.nsys-rep')}.sqlite"
    exports.make_export(raw, target)
    return judge.judge(target, unprofiled_ms)


def _row(case: Planted, truth: Truth, said: dict[str, judge.Row]) -> judge.Row:
    own = {v: said[f"{case.name}.{v}"] for v in VARIANTS if f"{case.name}.{v}" in said}
    return judge.row_of(case, truth.get(case.name, {}), own)


if __name__ == "__main__":
    sys.exit(main())
