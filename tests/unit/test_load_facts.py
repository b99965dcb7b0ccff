"""Absent is not empty, and other things that a file says of itself."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

from unstall.collect import meta
from unstall.lang import speaker
from unstall.load import load
from unstall.model import Profile
from unstall.pipeline import report_of
from unstall.testing import TraceBuilder, ms

CUDA = {"kernels", "copies", "memsets", "graphs", "api", "syncs"}


def changed(path: Path, *statements: tuple[str, tuple[object, ...]] | str) -> Profile:
    with closing(sqlite3.connect(path)) as db:
        for statement in statements:
            sql, values = (statement, ()) if isinstance(statement, str) else statement
            db.execute(sql, values)
        db.commit()
    return load(path)


def without_empty_tables(path: Path) -> None:
    """As nsys writes it: an event table without rows is not there."""
    with closing(sqlite3.connect(path)) as db:
        for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            if (
                table.isupper()
                and not table.startswith("META")
                and not db.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0]
            ):
                db.execute(f'DROP TABLE "{table}"')
        db.commit()


@pytest.fixture
def kernels_only(tmp_path: Path) -> Path:
    """CUDA and NVTX traced; kernels and calls, no copy, no range."""
    t = TraceBuilder()
    t.launch("gemm", at=ms(1))
    path = t.write(tmp_path / "run.sqlite")
    without_empty_tables(path)
    return path


def say(text: str) -> tuple[str, tuple[object, ...]]:
    """A line of the profiler's own diagnostics."""
    return "INSERT INTO DIAGNOSTIC_EVENT VALUES (0, 1, 1, 1, ?, 0)", (text,)


DIAGNOSTICS = "CREATE TABLE IF NOT EXISTS DIAGNOSTIC_EVENT(timestamp, timestampType, source, severity, text, globalPid)"


def test_no_copies_happened_where_kernels_were_recorded(kernels_only: Path) -> None:
    profile = load(kernels_only)
    assert set(profile.present()) >= CUDA
    assert profile.copies is not None and len(profile.copies) == 0
    assert profile.ranges is None, "nothing says that NVTX was watched"


def test_nvtx_that_started_and_saw_nothing_is_empty(kernels_only: Path) -> None:
    profile = changed(kernels_only, DIAGNOSTICS, say("NVTX injection initialized successfully."))
    assert profile.ranges is not None and len(profile.ranges) == 0 and profile.marks is not None


def test_cuda_merely_asked_for_stays_unknown(kernels_only: Path) -> None:
    tables = ("KERNEL", "RUNTIME")
    profile = changed(
        kernels_only,
        *(f"DROP TABLE CUPTI_ACTIVITY_KIND_{t}" for t in tables),
        "INSERT INTO META_DATA_CAPTURE VALUES ('CAPTURE_EVENT_TYPE', 'Cuda')",
    )
    assert CUDA.isdisjoint(profile.present())
    assert profile.meta.options == {"trace": "cuda"}
    assert [n.code for n in profile.notes] == ["no-events", "cuda-not-recorded"]


def test_cuda_that_started_and_saw_nothing_is_empty(kernels_only: Path) -> None:
    tables = ("KERNEL", "RUNTIME")
    drops = (f"DROP TABLE CUPTI_ACTIVITY_KIND_{t}" for t in tables)
    profile = changed(kernels_only, *drops, DIAGNOSTICS, say("CUDA injection initialized successfully."))
    assert set(profile.present()) >= CUDA


def test_export_that_writes_every_table_proves_nothing_by_an_empty_one(tmp_path: Path) -> None:
    t = TraceBuilder(trace=["cuda", "nvtx", "osrt"])
    t.range("step", 0, ms(1))
    path = t.write(tmp_path / "eager.sqlite")
    assert load(path).osrt is not None
    profile = changed(path, "INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PARAM_LAZY', 'false')")
    assert profile.osrt is None and profile.kernels is None and profile.ranges is not None


@pytest.mark.parametrize(
    ("environment", "rank"),
    [
        (["RANK=3", "SLURM_PROCID=9", "PATH=/bin"], 3),
        (["A=b", "OMPI_COMM_WORLD_RANK=2"], 2),
        (["SLURM_PROCID=0"], 0),
        (["PMI_RANK=11", "X=RANK=4"], 11),
        (["LOCAL_RANK=1", "MY_RANK=2"], None),
        (["RANK=", "SLURM_PROCID=many"], None),
    ],
)
def test_rank_comes_from_the_launchers_environment(
    kernels_only: Path, environment: Iterable[str], rank: int | None
) -> None:
    """One row holds all variables with NULs between them, as nsys writes it."""
    table = "CREATE TABLE TARGET_INFO_SYSTEM_ENV(globalVid, devStateName, name, nameEnum, value)"
    row = "INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (1, 'Local', 'DeviceEnvironment', 610, ?)"
    assert changed(kernels_only, table, (row, ("\0".join(environment),))).meta.rank == rank


def test_duration_is_the_profilers_and_never_less_than_the_events(tmp_path: Path) -> None:
    t = TraceBuilder()
    t.range("step", ms(5), ms(9))
    path = t.meta(end=ms(100)).write(tmp_path / "run.sqlite")
    assert (load(path).meta.start_ns, load(path).meta.end_ns) == (0, ms(100))
    assert changed(path, f"UPDATE ANALYSIS_DETAILS SET duration = {ms(7)}").meta.end_ns == ms(9)
    cut = changed(path, "INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PARAM_TIMES_TO_EXPORT', '5ms/9ms')").meta
    assert (cut.start_ns, cut.end_ns) == (ms(5), ms(9))


def test_devices_are_the_machines_not_the_process_own(tmp_path: Path) -> None:
    """Each of two processes calls its GPU 0 (``CUDA_VISIBLE_DEVICES``); they are two."""
    t = TraceBuilder(pid=10)
    t.gpu(1)
    t.launch("a", at=0)
    t.process(11)
    t.launch("b", at=0)
    path = t.write(tmp_path / "run.sqlite")
    pairs = "DELETE FROM TARGET_INFO_CUDA_DEVICE", "INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (0, 0, 10), (1, 0, 11)"
    kernels = changed(path, *pairs).kernels
    assert kernels is not None
    assert dict(kernels.select(pl.col("name").cast(pl.String), "device").iter_rows()) == {"a": 0, "b": 1}


def test_calls_say_what_was_waited_for(tmp_path: Path) -> None:
    """nsys 2025.3 writes the same code for two kinds; without the call's name, the code is all there is."""
    t = TraceBuilder(version="2025.3")
    t.sync("stream", 0, ms(1))
    t.sync("stream_wait_event", ms(1), ms(2))
    path = t.write(tmp_path / "run.sqlite")
    syncs = load(path).syncs
    assert syncs is not None and syncs["kind"].to_list() == ["stream", "stream_wait_event"]
    syncs = changed(path, "DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME").syncs
    assert syncs is not None and syncs["kind"].to_list() == ["stream_wait_event", "stream_wait_event"]


def test_domain_names_are_per_process(tmp_path: Path) -> None:
    t = TraceBuilder(pid=10)
    t.range("r", 0, 5, domain="first")
    t.process(11)
    t.range("r", 1, 6, domain="second")
    path = t.write(tmp_path / "run.sqlite")
    # both processes number their own domains from 1
    ranges = changed(path, "UPDATE NVTX_EVENTS SET domainId = 1").ranges
    assert ranges is not None and ranges["domain"].to_list() == ["first", "second"]


def test_lost_ranges_are_recognised_without_a_diagnostic(tmp_path: Path) -> None:
    """nsys 2022.4 with pip nvtx 0.2.15 leaves rows that end domains, and nothing else."""
    domain_end = "INSERT INTO NVTX_EVENTS(start, eventType, domainId) VALUES (5, 76, 0)"
    t = TraceBuilder(version="2022.4")
    t.osrt("read", 0, ms(1))
    lost = changed(t.write(tmp_path / "lost.sqlite"), domain_end)
    assert [n.code for n in lost.notes] == ["nvtx-lost"] and "nvtx<0.2.12" in lost.notes[0].text
    t = TraceBuilder(version="2026.2")
    t.osrt("read", 0, ms(1))
    assert changed(t.write(tmp_path / "newer.sqlite"), domain_end).notes == ()


def test_our_collector_is_no_old_nsys(tmp_path: Path) -> None:
    """Its version, 0.1, is no release of nsys that loses ranges."""
    t = TraceBuilder(version="2022.4")
    t.meta(producer="unstall", producer_version="0.1.0")
    t.osrt("read", 0, ms(1))
    domain_end = "INSERT INTO NVTX_EVENTS(start, eventType, domainId) VALUES (5, 76, 0)"
    version = "UPDATE EXPORT_META_DATA SET value = '0.1.0' WHERE name = 'EXPORT_PRODUCT_VERSION'"
    assert changed(t.write(tmp_path / "ours.sqlite"), domain_end, version).notes == ()


@pytest.mark.parametrize(("facts", "command"), [({}, "`unstall run --auto`"), ({"cell": "one"}, "`%%unstall --auto`")])
def test_a_cell_is_told_the_command_of_a_cell(facts: dict[str, str], command: str, tmp_path: Path) -> None:
    t = TraceBuilder()
    t.meta(producer="unstall")
    t.launch("gemm", at=ms(1))
    path = t.write(tmp_path / "run.sqlite")
    meta.write(path, facts)
    report = report_of(path, cache=False)
    (said,) = [w.text for w in report.warnings if w.code == "no-steps"]
    assert command in said and command in speaker("ko").heard(said)
    assert not any("unstall run --auto" in n.reason for n in report.not_checked) or not facts


@pytest.mark.parametrize("stated", ["9" * 400, str(2**63 - 1), "-5", "soon"])
def test_duration_that_cannot_be_is_that_of_the_events(stated: str, tmp_path: Path) -> None:
    t = TraceBuilder()
    t.range("step", ms(1), ms(9))
    path = t.write(tmp_path / "run.sqlite")
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE other AS SELECT ? AS duration", [stated])
        db.execute("DROP TABLE ANALYSIS_DETAILS")
        db.execute("ALTER TABLE other RENAME TO ANALYSIS_DETAILS")
        db.commit()
    assert load(path).meta.duration_ns == ms(8)


@pytest.mark.parametrize(
    ("produced", "error", "lost"), [(11_314, True, True), (11_314, False, False), (2, True, False)]
)
def test_lost_cuda_events_are_said(tmp_path: Path, produced: int, error: bool, lost: bool) -> None:
    t = TraceBuilder()
    t.launch("gemm", at=ms(1))
    t.diagnostic(f"Number of CUPTI events produced: \t{produced}, CUPTI buffers: 50.")
    if error:
        t.diagnostic("Error when processing events: Source ID=", severity=2, source="analysis")
    profile = load(t.write(tmp_path / "run.sqlite"))
    assert ("cuda-lost" in {n.code for n in profile.notes}) is lost
    assert (profile.copies is None) is lost, "none is a claim that a capture without its events cannot make"
    assert profile.kernels is not None and profile.kernels.height == 1


def test_what_was_traced_and_not_seen_is_not_advised_to_be_traced(kernels_only: Path) -> None:
    dropped = [f"DROP TABLE CUPTI_ACTIVITY_KIND_{t}" for t in ("KERNEL", "RUNTIME")]
    changed(kernels_only, *dropped, "INSERT INTO META_DATA_CAPTURE VALUES ('CAPTURE_EVENT_TYPE', 'Cuda')")
    told = [n for n in report_of(kernels_only, cache=False).not_checked if "CUDA" in n.reason or "GPU" in n.reason]
    assert {n.code for n in told} >= {"api", "kernels", "blocking-sync", "launch-bound"}
    for note in told:
        assert "made no CUDA call" in note.reason and "--trace" not in note.reason and "not traced" not in note.reason
        assert "made no CUDA call" not in speaker("ko").heard(note.reason)


def test_what_our_run_asked_an_old_nsys_for_is_known(tmp_path: Path) -> None:
    t = TraceBuilder(version="2022.4", trace=("nvtx",))
    t.range("step", 0, ms(1))
    path = t.write(tmp_path / "run.sqlite")
    meta.write(path, {"trace": "cuda,nvtx"})
    reasons = {n.code: n.reason for n in report_of(path, cache=False).not_checked}
    assert "made no CUDA call" in reasons["api"] and "--trace" not in reasons["api"]


@pytest.mark.parametrize(("version", "hangs"), [("2022.4", True), ("2026.2", False)])
def test_samples_are_not_advised_with_an_nsys_that_hangs(version: str, hangs: bool, tmp_path: Path) -> None:
    t = TraceBuilder(version=version)
    t.launch("gemm", at=ms(1))
    path = t.write(tmp_path / "run.sqlite")
    (said,) = [n.reason for n in report_of(path, cache=False).not_checked if n.code == "samples"]
    assert ("may hang" in said, "--sample" in said) == (hangs, not hangs)


def test_cores_are_those_of_the_machine_or_those_that_our_collector_was_allowed(kernels_only: Path) -> None:
    assert load(kernels_only).meta.cores is None
    told = "CREATE TABLE TARGET_INFO_SYSTEM_ENV AS SELECT 'CpuCores' AS name, '16' AS value"
    assert changed(kernels_only, told).meta.cores == 16
    ours = "CREATE TABLE UNSTALL_META AS SELECT 'processes' AS name, '{\"7\": {\"cpus\": 2}}' AS value"
    assert changed(kernels_only, ours).meta.cores == 2
