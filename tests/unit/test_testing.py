"""A trace made by hand is the same in memory and through a file, in every release's schema."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from polars.testing import assert_frame_equal

from unstall.load import load
from unstall.load.write import VERSIONS
from unstall.model import TABLES, Profile, pid_of, tid_of
from unstall.testing import TraceBuilder, ms, us


def everything(version: str) -> TraceBuilder:
    """One of each kind of event, two processes, a range of every sort."""
    t = TraceBuilder(version=version)
    t.thread(name="python3")
    t.thread(7, "pt_autograd_0")
    t.range("step_0", 0, ms(25))
    t.range("registered", ms(1), ms(2), registered=True, domain="model")
    t.range("open", ms(3), None)
    t.range("crossing", ms(4), ms(5), style="start_end", end_tid=7)
    t.mark("here", ms(1))
    t.launch("gemm", at=ms(20), kernel_dur=ms(3), tid=7)
    t.sync("stream", ms(21), ms(24))
    t.sync("stream_wait_event", ms(24), ms(25), event=5)
    t.sync("context", ms(25), ms(26))
    t.copy("HtoD", ms(1), us(50))
    t.copy("DtoH", ms(2), destination="pinned")
    t.memset(ms(6))
    t.graph_launch(ms(7), kernels=[("a", ms(8), ms(9)), ("b", ms(9), ms(10))])
    t.graph_launch(ms(11), whole=(ms(12), ms(13)))
    t.api("cudaMalloc_v3020", ms(13), ms(14), result=2)
    t.osrt("read", ms(1), ms(2), frames=["read", ("main", "/usr/bin/python3")])
    t.osrt("poll", ms(3), ms(4))
    t.library("cublasGemmEx", ms(5), ms(6))
    t.library("cudnnConvolutionForward", ms(6), ms(7))
    t.gil("holding", 0, ms(1))
    t.gil("waiting", ms(1), ms(2), tid=7)
    t.sched(0, True)
    t.sched(ms(1), False, cpu=3)
    t.sample(ms(1), ["f", "g"])
    t.sample(ms(2), kind="python")
    t.overhead("buffer flush", ms(3), ms(4))
    t.metric("SM Active", ms(1), 50)
    t.process(200, "worker")
    t.range("step_0", 0, ms(9), domain="model")
    t.launch("gemm", at=ms(1))
    if version != "2022.4":  # it has neither diagnostics nor options
        t.diagnostic('he said "no"\n', severity=2)
        t.meta(options={"trace": "cuda,nvtx", "cuda_graph_trace": "node"})
    return t.meta(unprofiled_ns=123, rank=3, host="gpu-node", utc_epoch_ns=5)


def assert_same(ours: Profile, theirs: Profile) -> None:
    assert ours.present() == theirs.present()
    for name in ours.present():
        # stacks come back grouped by where they were kept; within a table of events the order is part of the promise
        assert_frame_equal(ours.table(name), theirs.table(name), check_row_order=name != "frames")
    assert replace(theirs.meta, path=ours.meta.path) == ours.meta


@pytest.mark.parametrize("version", VERSIONS)
def test_file_gives_the_same_profile(version: str, tmp_path: Path) -> None:
    t = everything(version)
    profile = t.profile()
    assert set(TABLES) - set(profile.present()) == (set() if version != "2022.4" else {"diagnostics"})
    assert_same(profile, load(t.write(tmp_path / "run.sqlite")))


def test_writing_again_replaces_the_file(tmp_path: Path) -> None:
    path = everything("2026.2").write(tmp_path / "run.sqlite")
    t = TraceBuilder(trace=["nvtx"])
    t.range("only", 0, 5)
    assert_same(t.profile(), load(t.write(path)))


@pytest.mark.parametrize(
    ("version", "table"),
    [("2022.4", "EXPORT_META_DATA"), ("2023.4", "META_DATA_EXPORT"), ("2026.2", "META_DATA_EXPORT")],
)
def test_schema_is_the_releases_own(version: str, table: str, tmp_path: Path) -> None:
    path = everything(version).write(tmp_path / "run.sqlite")
    with closing(sqlite3.connect(path)) as db:
        names = {n for (n,) in db.execute("SELECT name FROM sqlite_master")}
        columns = {r[1] for r in db.execute("PRAGMA table_info(CUPTI_ACTIVITY_KIND_KERNEL)")}
        overhead = {r[1] for r in db.execute("PRAGMA table_info(PROFILER_OVERHEAD)")}
        schema = dict(db.execute(f"SELECT name, value FROM {table}"))["EXPORT_SCHEMA_VERSION"]
    assert table in names and ("DIAGNOSTIC_EVENT" in names) == (version != "2022.4")
    assert ("greenContextId" in columns) == (version != "2022.4")
    assert ("clusterX" in columns) == ("overheadType" in overhead) == (version == "2026.2")
    assert schema == VERSIONS[version][1]


def test_correlation_ids_of_two_processes_collide() -> None:
    t = TraceBuilder(pid=1)
    first = t.launch("a", at=0)
    t.process(2)
    assert t.launch("b", at=0) == first
    kernels = t.profile().kernels
    assert kernels is not None
    assert [pid_of(p) for p in kernels["process"]] == [1, 2]


def test_defaults_make_a_trace_in_three_lines() -> None:
    t = TraceBuilder()
    t.steps(3, ms(10), lambda b, i, start: b.range(f"step_{i}", start, start + ms(9)))
    t.launch("gemm", at=ms(1), dur=us(5), kernel_dur=us(10))
    profile = t.profile()
    assert profile.ranges is not None and profile.kernels is not None and profile.api is not None
    assert profile.ranges["start"].to_list() == [0, ms(10), ms(20)]
    assert profile.kernels.select("start", "end").row(0) == (ms(1) + us(5), ms(1) + us(15))
    assert [tid_of(x) for x in profile.api["thread"]] == [100]
    assert profile.meta.end_ns == ms(29)
    assert profile.copies is not None and len(profile.copies) == 0, "traced, and none happened"
    assert profile.osrt is None, "not traced"


def test_rows_come_in_time_order() -> None:
    t = TraceBuilder()
    t.launch("late", at=ms(5))
    t.launch("early", at=ms(1))
    kernels = t.profile().kernels
    assert kernels is not None and kernels["name"].to_list() == ["early", "late"]


def test_what_a_collector_could_not_fill_is_absent(tmp_path: Path) -> None:
    t = TraceBuilder()
    t.launch("gemm", at=0)
    profile = load(t.write(tmp_path / "run.sqlite", not_collected=["syncs", "graphs"]))
    assert profile.syncs is None and profile.graphs is None and profile.copies is not None


def test_other_producers_keep_their_name(tmp_path: Path) -> None:
    t = TraceBuilder().meta(producer="unstall", producer_version="0.1.0")
    meta = load(t.write(tmp_path / "run.sqlite")).meta
    assert (meta.producer, meta.producer_version) == ("unstall", "0.1.0")
