"""Real exports of four releases against plain SQL on the same file: every row, every column that has a counterpart."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from unstall.load import load
from unstall.load.schema import CODES, SOURCES
from unstall.model import pid_of, tid_of

ProfilePath = Callable[[str], Path]
CAPTURES = (
    "slow_loader_window", "twoproc", "nvtx_lost_nsys2024", "nsys2022_nvtx_cpu", "fp32_matmul_window",
    "item_sync_window", "healthy_window", "pageable_h2d_window", "nsys2024_gpu",
    "slow_loader", "graph_node", "gil_threads", "launch_bound", "nccl_2gpu_nsys2026",
)  # fmt: skip
RANGES = "eventType IN (59, 60, 70, 71)"


def sql(path: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        return db.execute(query).fetchall()


def tables_of(path: Path) -> dict[str, set[str]]:
    names = [n for (n,) in sql(path, "SELECT name FROM sqlite_master WHERE type = 'table'")]
    return {n: {r[1] for r in sql(path, f'PRAGMA table_info("{n}")')} for n in names}


@pytest.mark.parametrize("capture", CAPTURES)
def test_every_row_and_number_of_every_table(capture: str, profile_path: ProfilePath) -> None:
    """Sums over all rows of all plain columns, added up by SQLite and by us."""
    path = profile_path(capture)
    profile, have = load(path, cache=False), tables_of(path)
    checked = 0
    for table in {s.table for s in SOURCES} - {"nvtx", "threads", "gpu_metrics"}:
        sources = [s for s in SOURCES if s.table == table and s.usable(set(have.get(s.origin, ())))]
        frame = profile.table(table)
        if not sources or frame is None:
            continue
        if table == "samples":
            frame = frame.filter(pl.col("kind") == "cpu")
        wheres = {s.origin: f" WHERE {s.where}" if s.where_column in have[s.origin] else "" for s in sources}
        assert len(frame) == sum(sql(path, f'SELECT count(*) FROM "{o}"{w}')[0][0] for o, w in wheres.items())
        plain = [c for c in sources[0].columns if frame.schema.get(c) == pl.Int64 and (table, c) != ("syncs", "event")]
        for column in (c for c in plain if (table, c) not in CODES):
            theirs = 0
            for s in sources:
                name = s.found(have[s.origin]).get(column)
                total = f'SELECT sum("{name}" / 1000), sum("{name}" % 1000) FROM "{s.origin}"{wheres[s.origin]}'
                high, low = sql(path, total)[0] if name else (0, 0)
                theirs += (high or 0) * 1000 + (low or 0)
            ours = frame.select(high=(pl.col(column).abs() // 1000 * pl.col(column).sign()).sum(),
                                low=(pl.col(column).abs() % 1000 * pl.col(column).sign()).sum()).row(0)  # fmt: skip
            assert ours[0] * 1000 + ours[1] == theirs, (table, column)
            checked += 1
    assert checked > 10
    assert [n.code for n in profile.notes] == (["nvtx-lost"] if capture == "nvtx_lost_nsys2024" else [])


@pytest.mark.parametrize("capture", CAPTURES)
def test_ranges_are_the_rows_that_are_ranges(capture: str, profile_path: ProfilePath) -> None:
    path = profile_path(capture)
    profile = load(path, cache=False)
    gil = len(profile.gil) if profile.gil is not None else 0
    ((count, total),) = sql(path, f"SELECT count(*), coalesce(sum(end - start), 0) FROM NVTX_EVENTS WHERE {RANGES}")
    frames = [f.select("start", "end") for f in (profile.ranges, profile.gil) if f is not None]
    ours = pl.concat(frames)
    assert (len(ours), (ours["end"] - ours["start"]).sum()) == (count, total)
    assert (gil > 0) == (capture == "gil_threads")


@pytest.mark.parametrize("capture", ["slow_loader_window", "twoproc", "nsys2024_gpu", "nccl_2gpu_nsys2026"])
def test_names_are_joined_to_the_right_rows(capture: str, profile_path: ProfilePath) -> None:
    path = profile_path(capture)
    profile = load(path, cache=False)
    assert profile.kernels is not None and profile.api is not None and profile.ranges is not None
    theirs = sql(
        path,
        "SELECT k.start, d.value, s.value FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds d ON d.id = demangledName "
        "JOIN StringIds s ON s.id = shortName",
    )
    text = pl.col("name", "short_name").cast(pl.String)
    assert sorted(profile.kernels.select("start", text).rows()) == sorted(theirs)
    theirs = sql(path, "SELECT r.start, value FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds ON id = nameId")
    assert sorted(profile.api.select("start", pl.col("name").cast(pl.String)).rows()) == sorted(theirs)
    theirs = sql(
        path,
        "SELECT start, globalTid, coalesce(text, value) FROM NVTX_EVENTS LEFT JOIN StringIds ON id = textId "
        f"WHERE {RANGES}",
    )
    ours = profile.ranges.select("start", "thread", pl.col("name").cast(pl.String)).rows()
    assert sorted(ours) == sorted(theirs)


NVTX_CUDA = {"trace": "nvtx,cuda", "cuda_graph_trace": "graph"}


@pytest.mark.parametrize(
    ("capture", "versions", "duration", "options"),
    [
        ("nsys2022_nvtx_cpu", ("2022.4.2.1", "3.0.0"), 672292219, {}),
        ("nvtx_lost_nsys2024", ("2024.2.3.38", "3.11.1"), 627486109, {"trace": "osrt,nvtx"}),
        ("twoproc", ("2025.3.2.0", "3.20.3"), 13102808406, NVTX_CUDA),
        ("graph_node", ("2025.3.2.0", "3.20.3"), 8590510862, {**NVTX_CUDA, "cuda_graph_trace": "node"}),
    ],
)
def test_what_the_file_says_of_itself(
    capture: str, versions: tuple[str, str], duration: int, options: dict[str, str], profile_path: ProfilePath
) -> None:
    meta = load(profile_path(capture), cache=False).meta
    assert (meta.producer, meta.producer_version, meta.schema_version) == ("nsys", *versions)
    assert (meta.duration_ns, meta.options, meta.host) == (duration, options, "gpu-node")
    assert meta.utc_epoch_ns is not None and meta.utc_epoch_ns > 1.7e18


def test_a_cut_out_lasts_as_long_as_its_events(profile_path: ProfilePath) -> None:
    """One second of a capture of 296 seconds, whose stated duration is still that of the whole."""
    meta = load(profile_path("nccl_2gpu_nsys2026"), cache=False).meta
    assert meta.producer_version == "2026.2.1.210" and 0.9e9 < meta.duration_ns < 1.1e9


@pytest.mark.parametrize(
    ("capture", "absent"),
    [
        ("nsys2022_nvtx_cpu", {"kernels", "api", "copies", "memsets", "graphs", "syncs", "diagnostics", "gpus", "gil"}),
        ("twoproc", {"osrt", "gil", "sched", "samples", "library", "gpu_metrics", "frames"}),
        ("fp32_matmul_window", {"gil", "sched", "samples", "library", "gpu_metrics"}),
        ("gil_threads", {"library", "gpu_metrics"}),
    ],
)
def test_what_was_not_captured_is_absent(capture: str, absent: set[str], profile_path: ProfilePath) -> None:
    present = set(load(profile_path(capture), cache=False).present())
    assert absent.isdisjoint(present)
    if "kernels" not in absent:
        assert {"kernels", "copies", "memsets", "graphs", "api", "syncs", "ranges", "marks"} <= present


def test_no_copies_in_the_window_is_none_and_not_unknown(profile_path: ProfilePath) -> None:
    """``fp32_matmul`` copies nothing in its steady steps: the export has no table of copies."""
    profile = load(profile_path("fp32_matmul_window"), cache=False)
    assert "CUPTI_ACTIVITY_KIND_MEMCPY" not in tables_of(profile_path("fp32_matmul_window"))
    assert profile.copies is not None and len(profile.copies) == 0


def test_two_processes_with_the_same_correlation_ids(profile_path: ProfilePath) -> None:
    profile = load(profile_path("twoproc"), cache=False)
    assert profile.kernels is not None and profile.api is not None
    assert sorted({pid_of(p) for p in profile.kernels["process"]}) == [817, 818]
    assert profile.kernels["correlation"].n_unique() < profile.kernels.select("process", "correlation").n_unique()
    joined = profile.kernels.join(profile.api, on=["process", "correlation"], how="inner")
    assert len(joined) == len(profile.kernels), "every kernel finds exactly one call, in its own process"


def test_stream_synchronisation_is_not_taken_for_a_wait_on_the_device(profile_path: ProfilePath) -> None:
    """nsys 2025.3 stores ``cudaStreamSynchronize`` under the code of ``cudaStreamWaitEvent``; 2024.2 does not."""
    counts = {}
    for capture in ("item_sync_window", "nsys2024_gpu", "graph_node", "nccl_2gpu_nsys2026"):
        syncs = load(profile_path(capture), cache=False).syncs
        assert syncs is not None
        counts[capture] = dict(syncs["kind"].cast(pl.String).value_counts().iter_rows())
    assert counts == {
        "item_sync_window": {"stream": 1225, "context": 1},
        "nsys2024_gpu": {"stream": 6},
        "graph_node": {"stream": 240, "stream_wait_event": 2},
        "nccl_2gpu_nsys2026": {"stream": 8, "stream_wait_event": 236},
    }


def test_copies_say_where_from_and_where_to(profile_path: ProfilePath) -> None:
    copies = load(profile_path("pageable_h2d_window"), cache=False).copies
    assert copies is not None
    kinds = copies.select(pl.col("kind", "source", "destination").cast(pl.String), "bytes").unique().rows()
    assert kinds == [("HtoD", "pageable", "device", 201326592)]


def test_interpreter_lock_and_samples_are_no_ranges(profile_path: ProfilePath) -> None:
    profile = load(profile_path("gil_threads"), cache=False)
    assert profile.gil is not None and profile.ranges is not None and profile.samples is not None
    assert set(profile.gil["state"].cast(pl.String)) == {"holding", "waiting"}
    assert {tid_of(t) for t in profile.gil["thread"]} > {456}
    assert len(profile.ranges) == 180 and profile.marks is not None and len(profile.marks) == 0
    kinds = dict(profile.samples["kind"].cast(pl.String).value_counts().iter_rows())
    assert kinds == {"cpu": 6228, "python": 22213}
    chains = profile.samples.filter(pl.col("kind") == "cpu")["callchain"]
    assert profile.frames is not None
    known = profile.frames.filter((pl.col("kind") == "cpu") & (pl.col("depth") == 0))["callchain"]
    assert set(chains) <= set(known)


def test_graph_kernels_share_their_launch(profile_path: ProfilePath) -> None:
    kernels = load(profile_path("graph_node"), cache=False).kernels
    assert kernels is not None
    replayed = kernels.filter(pl.col("graph_node").is_not_null())
    assert len(replayed) == 19440 and replayed.group_by("process", "correlation").len()["len"].to_list() == [972] * 20


def test_lost_ranges_are_recognised(profile_path: ProfilePath) -> None:
    profile = load(profile_path("nvtx_lost_nsys2024"), cache=False)
    (note,) = profile.notes
    assert note.code == "nvtx-lost" and profile.ranges is not None and len(profile.ranges) == 0
    assert "nvtx 0.2.12 or newer" in note.text and "pip install 'nvtx<0.2.12'" in note.text


@pytest.mark.parametrize("capture", CAPTURES[:9])
def test_input_is_only_read(capture: str, profile_path: ProfilePath) -> None:
    path = profile_path(capture)
    before, beside = hashlib.sha256(path.read_bytes()).digest(), sorted(path.parent.iterdir())
    load(path)
    load(path)
    assert hashlib.sha256(path.read_bytes()).digest() == before and sorted(path.parent.iterdir()) == beside
