"""How long a PyTorch trace takes to read: 25 MB of JSON in under 2 s is the aim.

    python benchmarks/kineto.py                  # 25 MB, plain and packed
    python benchmarks/kineto.py --mb 100 --repeat 5

Comes in: a real capture (a launch-bound training run, 970 kernels a step), written in Kineto's format and repeated in
time. Goes out: a table of the best times: *json* is the standard library's parser alone, *load* is ``unstall.load``
with the cache off, *report* everything from the file to the findings. Each figure comes from a process of its own.
"""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from load import source

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "unit"))


def parse(path: Path) -> None:
    data = path.read_bytes()
    json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)


def load(path: Path) -> None:
    from unstall.load import load as read

    assert read(path, cache=False).present()


def report(path: Path) -> None:
    from unstall.pipeline import report_of

    assert report_of(path, cache=False).steps


MEASURES = {"json": parse, "load": load, "report": report}


def measure(name: str, path: Path) -> None:
    """One measure in this process; imports are not counted."""
    import unstall.load.kineto
    import unstall.pipeline  # noqa: F401

    start = time.perf_counter()
    MEASURES[name](path)
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


def make(room: Path, size: int) -> tuple[Path, int]:
    """A trace of about ``size`` bytes, and its number of events."""
    import kineto_trace

    from unstall.load import load as read

    whole = kineto_trace.trace(read(source("training", room), cache=False))
    one = len(kineto_trace.dumps(whole))
    events = sorted(whole["traceEvents"], key=lambda e: str(e["ts"]))
    period = 10**6  # µs: far beyond what one copy spans
    rows = [_later(e, i * period) for i in range(-(-size // one)) for e in events]
    rows = rows[: int(len(events) * size / one)]
    path = room / "trace.json"
    path.write_text(kineto_trace.dumps({**whole, "traceEvents": rows}), encoding="utf-8")
    return path, len(rows)


def _later(event: dict[str, Any], us: int) -> dict[str, Any]:
    whole, _, rest = str(event["ts"])[1:].partition(".")
    return {**event, "ts": f"\ue000{int(whole) + us}.{rest}"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=float, default=25)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--measure", nargs=2, metavar=("NAME", "FILE"), help=argparse.SUPPRESS)
    parser.add_argument("--make", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.make:
        return print(make(Path(options.make), round(options.mb * 1e6))[1])
    if options.measure:
        return measure(options.measure[0], Path(options.measure[1]))
    print(f"| file | {' | '.join(MEASURES)} |\n|---{'|---' * len(MEASURES)}|")
    with tempfile.TemporaryDirectory(prefix="unstall-benchmark-") as room_:
        making = [sys.executable, __file__, "--make", room_, "--mb", str(options.mb)]  # a child begins with our peak
        plain, count = Path(room_, "trace.json"), int(subprocess.check_output(making))
        packed = Path(f"{plain}.gz")
        with plain.open("rb") as a, gzip.open(packed, "wb", 6) as b:
            shutil.copyfileobj(a, b)
        for path in (plain, packed):
            cells = []
            for name in MEASURES:
                line = [sys.executable, __file__, "--measure", name, str(path)]
                runs = [json.loads(subprocess.check_output(line)) for _ in range(options.repeat)]
                best, peak = min(r["seconds"] for r in runs), max(r["peak_mb"] for r in runs)
                cells.append(f"{best:.2f} s, {peak:,.0f} MB")
            print(f"| {path.name}, {count:,} events, {path.stat().st_size / 1e6:.1f} MB | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
