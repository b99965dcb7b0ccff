"""Small good files to be damaged: cut real exports, texts of ``nsys stats``, JSON of all kinds, lists of step times.

Comes in: a folder. Goes out: the files in it, by kind. An input shall take a tenth of a second, so an export keeps a
few hundred rows a table and the strings that these name.
"""

from __future__ import annotations

import json
import lzma
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "data"
ROWS = 200
LONGEST_TEXT = 20_000  # characters: a longer one only repeats itself
KINDS = ("sqlite", "text", "json", "log")


def make(folder: Path) -> None:
    """Write all of them; ``folder`` is complete when this returns."""
    for packed in sorted(DATA.glob("*.sqlite.xz")):
        target = folder / packed.name.removesuffix(".xz")
        target.write_bytes(lzma.decompress(packed.read_bytes()))
        _cut(target)
    for source in sorted([*DATA.glob("lab/*.txt"), *DATA.glob("oracles/*.csv.xz")]):
        raw = source.read_bytes()
        text = lzma.decompress(raw) if source.suffix == ".xz" else raw
        (folder / f"{source.name.split('.')[0]}.text").write_bytes(text[:LONGEST_TEXT])
    for source in sorted(DATA.glob("steps/*.txt")):
        (folder / f"{source.stem}.log").write_bytes(source.read_bytes()[:LONGEST_TEXT])
    _json(folder)


def of_kind(folder: Path, kind: str) -> list[Path]:
    """The files of one kind, in a fixed order."""
    return sorted(folder.glob(f"*.{kind}"))


def _cut(path: Path) -> None:
    """The first rows of each table of events, and the strings that they name."""
    with closing(sqlite3.connect(path)) as db:
        for table in [n for (n,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]:
            if table != "StringIds":
                db.execute(f'DELETE FROM "{table}" WHERE rowid NOT IN (SELECT rowid FROM "{table}" LIMIT {ROWS})')
        used = " UNION ".join(_used(db))
        db.execute(f"DELETE FROM StringIds WHERE id NOT IN ({used})")
        db.commit()
        db.execute("VACUUM")


def _used(db: sqlite3.Connection) -> list[str]:
    from unstall.load.schema import NVTX, SOURCES

    found = ["SELECT 0"]
    for source in (*SOURCES, NVTX):
        have = {row[1] for row in db.execute(f'PRAGMA table_info("{source.origin}")')}
        named = {c[1:] for names in source.columns.values() for c in names if c[0] == "@"} & have
        found += [f'SELECT "{c}" FROM "{source.origin}" WHERE "{c}" IS NOT NULL' for c in sorted(named)]
    return found


def _json(folder: Path) -> None:
    """Reports, baselines, ``nsys stats --format json``, a list of step times, a trace of the PyTorch profiler."""
    from unstall.compare.baseline import slim
    from unstall.pipeline import report_of
    from unstall.report.json import to_json

    for name in ("twoproc", "slow_loader_window"):
        report = report_of(folder / f"{name}.sqlite", cache=False)
        report.profile.path = f"{name}.sqlite"
        (folder / f"{name}_report.json").write_bytes(to_json(report))
        (folder / f"{name}_baseline.json").write_bytes(to_json(slim(report), indent=1))
    (folder / "steps.json").write_text(json.dumps([25.0, 25.5, 24.9, 26.1] * 8))
    rows = [{"Time (%)": 60.0, "Total Time (ns)": 6000 + i, "Instances": 3, "Range": f":step_{i}"} for i in range(12)]
    (folder / "stats.json").write_text(json.dumps(rows))
    (folder / "kineto.json").write_text(json.dumps(_kineto()))


def _kineto() -> dict[str, Any]:
    events: list[dict[str, Any]] = []
    for i in range(12):
        at, host = 1000.0 * i, {"ph": "X", "pid": 100, "tid": 100}
        events += [
            {**host, "cat": "user_annotation", "name": f"ProfilerStep#{i}", "ts": at, "dur": 990.0},
            {**host, "cat": "cpu_op", "name": "aten::mm", "ts": at + 90, "dur": 40.5},
            {**host, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at + 100, "dur": 9.5,
             "args": {"correlation": i + 1}},
            {"ph": "X", "cat": "kernel", "name": "gemm<float>", "pid": 0, "tid": 7, "ts": at + 120, "dur": 500.0,
             "args": {"correlation": i + 1, "device": 0, "stream": 7, "context": 1, "grid": [1, 1, 1],
                      "block": [64, 1, 1]}},
            {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pageable -> Device)", "pid": 0, "tid": 7,
             "ts": at + 700, "dur": 100.0, "args": {"bytes": 4096, "device": 0, "stream": 7, "correlation": i + 99}},
        ]  # fmt: skip
    device = {"id": 0, "name": "NVIDIA H200", "totalGlobalMem": 150_109_880_320, "numSms": 132}
    facts = {"schemaVersion": 1, "deviceProperties": [device], "baseTimeNanoseconds": 1_700_000_000_000_000_000}
    return {**facts, "distributedInfo": {"rank": 1, "world_size": 2}, "traceEvents": events}
