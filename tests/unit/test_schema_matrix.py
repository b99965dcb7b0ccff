"""The same small trace in the schema of every known release of nsys gives the same report."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from unstall.load.write import _COLUMN, LAYOUT, VERSIONS
from unstall.pipeline import report_of
from unstall.report.json import to_json
from unstall.testing import TraceBuilder, ms, us

NEWEST = list(VERSIONS)[-1]
REAL = {"nsys2022_nvtx_cpu": 0, "nsys2024_gpu": 2, "slow_loader_window": 3, "nccl_2gpu_nsys2026": 4}
"""Real exports and their release, as an index into ``VERSIONS``; 2023.4 lies between its neighbours."""
MORE_IN_REAL = {"TARGET_INFO_GPU"}  # thirty columns that nobody reads
TYPES = {"": "INTEGER", "t": "TEXT", "r": "REAL"}


def trace(version: str, *, registered: bool = False) -> TraceBuilder:
    """Two processes that share a GPU and correlation ids, a step with loading, copies, a wait, and a bit of everything
    that a table can hold.
    """
    t = TraceBuilder(version=version, trace=("cuda", "nvtx", "osrt"))
    t.meta(utc_epoch_ns=1_700_000_000_000_000_000, rank=3, host="node-7")
    for pid, period in ((100, ms(8)), (200, ms(20))):
        t.process(pid)
        t.thread(name="main")
        for i in range(12):
            _step(t, i, i * period, period, registered)
    t.mark("epoch", ms(1), domain="trainer")
    t.sched(ms(2), False)
    t.sched(ms(3), True)
    t.gil("waiting", ms(2), ms(2.5))
    t.gil("holding", ms(2.5), ms(3))
    t.sample(ms(4), [("sin", "libm.so"), "main"])
    t.overhead("CUDA profiling overhead", ms(5), ms(5.1))
    t.library("cublasGemmEx", ms(6), ms(6.2))
    t.metric("SM Active [%]", ms(1), 17)
    t.metric("SM Active [%]", ms(2), 93)
    return t


def _step(t: TraceBuilder, i: int, at: int, period: int, registered: bool) -> None:
    t.range(f"step_{i}", at, at + period - us(100), registered=registered)
    t.range("load", at, at + period // 2, registered=True)
    t.osrt("read", at + us(10), at + period // 3, frames=[("read", "libc.so"), "load_batch"])
    t.copy("HtoD", at + period // 2, dur=us(200), bytes=1 << 24, copy_dur=us(900))
    t.range("forward 데이터", at + period // 2 + us(300), at + period - us(500), domain="model")
    for k in range(5):
        t.launch(f"gemm<{k % 2}>(float const*)", at + period // 2 + us(400 + 20 * k), kernel_dur=us(150))
    t.memset(at + period // 2 + us(700))
    t.sync("stream", at + period - us(400), at + period - us(200))


def figures(path: Path) -> dict[str, Any]:
    """The report, but for what it says of the file itself."""
    report: dict[str, Any] = json.loads(to_json(report_of(path, cache=False)))
    for name in ("path", "producer_version", "schema_version"):
        del report["profile"][name]
    return report


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    report = figures(trace(NEWEST).write(tmp_path_factory.mktemp("newest") / "run.sqlite"))
    assert len(report["steps"]) == 2 and report["findings"] and report["breakdown"] and report["kernels"]
    assert {"gil", "sched", "samples", "frames", "overhead", "gpu_metrics"} <= report["profile"]["tables"].keys()
    return report


@pytest.mark.parametrize("version", VERSIONS)
def test_every_release_gives_the_same_report(version: str, expected: dict[str, Any], tmp_path: Path) -> None:
    assert figures(trace(version).write(tmp_path / "run.sqlite")) == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_rows_in_any_order_and_names_by_id(version: str, expected: dict[str, Any], tmp_path: Path) -> None:
    """From 2025.6 on nsys no longer promises an order; whether a name is text or an id is the program's choice."""
    path = trace(version, registered=True).write(tmp_path / "run.sqlite")
    with closing(sqlite3.connect(path)) as db:
        for table in [n for (n,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]:
            rows = db.execute(f'SELECT * FROM "{table}"').fetchall()
            if table not in ("PROCESSES", "ThreadNames"):  # which name is the last one matters there
                random.Random(7).shuffle(rows)
            db.execute(f'DELETE FROM "{table}"')
            if rows:
                db.executemany(f'INSERT INTO "{table}" VALUES ({", ".join("?" * len(rows[0]))})', rows)
        db.commit()
    assert figures(path) == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_columns_that_nobody_needs_may_come_and_go(version: str, expected: dict[str, Any], tmp_path: Path) -> None:
    """The next release adds some, and moves others."""
    path = trace(version).write(tmp_path / "run.sqlite")
    with closing(sqlite3.connect(path)) as db:
        for table in ("CUPTI_ACTIVITY_KIND_KERNEL", "NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_RUNTIME", "OSRT_API"):
            old = [row[1] for row in db.execute(f'PRAGMA table_info("{table}")')]
            moved = ", ".join(f'"{name}"' for name in reversed(old))
            db.execute(f"CREATE TABLE moved AS SELECT 7 AS newColumn, {moved}, 'x' AS newText FROM \"{table}\"")
            db.execute(f'DROP TABLE "{table}"')
            db.execute(f'ALTER TABLE moved RENAME TO "{table}"')
        db.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_NEW (start INTEGER)")
        db.commit()
    assert figures(path) == expected


@pytest.mark.parametrize("name", REAL)
def test_what_we_write_is_what_nsys_writes(name: str, profile_path: Callable[[str], Path]) -> None:
    """Tables and columns, in order, types and constraints included, are those of a real export of that release."""
    release, seen = REAL[name], 0
    with closing(sqlite3.connect(f"file:{profile_path(name)}?mode=ro", uri=True)) as db:
        for table in [n for (n,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]:
            real = [(r[1], r[2], bool(r[3])) for r in db.execute(f'PRAGMA table_info("{table}")')]
            if table in LAYOUT:
                seen += 1
                ours = _layout(table, release)
                assert set(ours) <= set(real) if table in MORE_IN_REAL else ours == real, table
    assert seen >= 8


def _layout(table: str, release: int) -> list[tuple[str, str, bool]]:
    columns = [c for c in _COLUMN.findall(LAYOUT[table]) if not c[3] or int(c[3]) <= release <= int(c[4])]
    return [(name, TYPES[kind], bool(needed)) for name, kind, needed, *_ in columns]
