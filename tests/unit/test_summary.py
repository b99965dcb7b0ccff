"""Totals of tables: what is hidden, what is exposed, who called; absent tables stay absent."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from unstall.analyze import analyze, summary
from unstall.analyze.ranges import nest
from unstall.model import TABLES, Profile
from unstall.testing import TraceBuilder, ms, us

SECTIONS = (
    summary.kernel_rows, summary.copy_rows, summary.memset_rows, summary.api_rows, summary.osrt_rows,
    summary.library_rows, summary.sample_rows,
)  # fmt: skip


@pytest.mark.parametrize("section", SECTIONS)
def test_absent_is_not_empty(section: object) -> None:
    assert section(Profile()) is None  # type: ignore[operator]
    every = Profile(**{t: pl.DataFrame(schema=TABLES[t]) for t in TABLES})  # type: ignore[arg-type]
    assert section(every) == []  # type: ignore[operator]


def test_kernels_by_name() -> None:
    t = TraceBuilder()
    for i, ns in enumerate((10, 20, 40, 50)):
        t.launch("gemm", at=1000 * i, dur=5, kernel_dur=ns)
    t.launch("add", at=9000, dur=5, kernel_dur=30)
    gemm, add = summary.kernel_rows(t.profile()) or []
    assert (gemm.name, gemm.instances, gemm.total_ns, gemm.avg_ns, gemm.median_ns) == ("gemm", 4, 120, 30.0, 30.0)
    assert (gemm.min_ns, gemm.max_ns, gemm.percent, add.percent) == (10, 50, 80.0, 20.0)
    assert add.stddev_ns == 0.0


def test_steady_copies_are_those_that_steady_steps_launch() -> None:
    t = TraceBuilder()
    t.copy("HtoD", 0, copy_dur=ms(50), bytes=800_000_000)  # the model
    for i in range(10):
        at = ms(100 + 10 * i) + (ms(90) if i else 0)  # the first step is warm-up
        t.range(f"step_{i}", at, at + (ms(100) if i == 0 else ms(10)) - us(10))
        t.copy("HtoD", at, copy_start=at + us(10), copy_dur=ms(1), bytes=1000)
        t.copy("HtoD", at + us(20), copy_start=at + us(9990), copy_dur=us(500), bytes=10, source="pinned")
        t.launch("gemm", at + ms(2))
    t.copy("HtoD", ms(500), copy_dur=ms(7))  # afterwards
    pageable, pinned = analyze(t.profile()).report.copies or []
    assert (pageable.instances, pageable.steady_total_ns, pageable.steady_bytes) == (12, ms(9), 9000)
    assert (pinned.instances, pinned.steady_total_ns) == (10, 9 * us(500)), "the last one runs behind its step"


def test_the_steady_part_is_unknown_without_steps_and_where_a_size_is() -> None:
    t = TraceBuilder()
    t.copy("DtoH", 0)
    (alone,) = analyze(t.profile()).report.copies or []
    assert (alone.steady_total_ns, alone.steady_bytes) == (None, None)
    for i in range(10):
        t.range(f"step_{i}", ms(10 * i + 1), ms(10 * i + 11))
        t.copy("HtoD", ms(10 * i + 1))
    made = t.profile()
    assert made.copies is not None
    blind = made.copies.with_columns(
        bytes=pl.when(pl.int_range(pl.len()) == 4).then(None).otherwise("bytes")
    )  # one of the steady ones
    to_host, to_device = sorted(analyze(replace(made, copies=blind)).report.copies or [], key=lambda r: r.kind)
    assert to_device.bytes is None and to_device.steady_bytes is None and to_device.steady_total_ns
    assert (to_host.steady_total_ns, to_host.steady_bytes) == (0, 0), "before the first step: none, and that is known"


def test_a_copy_is_exposed_where_no_kernel_of_the_device_runs() -> None:
    t = TraceBuilder()
    t.gpu(1)
    t.copy(at=0, dur=5, copy_start=100, copy_dur=100, bytes=400)
    t.launch("hides a quarter", at=0, dur=5, kernel_start=150, kernel_dur=25)
    t.launch("another device", at=0, dur=5, kernel_start=100, kernel_dur=100, device=1)
    (row,) = summary.copy_rows(t.profile()) or []
    assert (row.kind, row.source, row.destination) == ("HtoD", "pageable", "device")
    assert (row.total_ns, row.bytes, row.gb_per_s, row.exposed_ns) == (100, 400, 4.0, 75)


def test_copies_that_overlap_each_other_are_exposed_once() -> None:
    t = TraceBuilder()
    t.copy(at=0, dur=5, copy_start=100, copy_dur=100)
    t.copy(at=0, dur=5, copy_start=150, copy_dur=100, stream=9)
    (row,) = summary.copy_rows(t.profile()) or []
    assert (row.instances, row.total_ns, row.exposed_ns) == (2, 200, 150)


def test_the_same_instant_on_two_devices_is_exposed_twice() -> None:
    t = TraceBuilder()
    t.gpu(1)
    for device in (0, 1):
        t.copy(at=0, dur=5, copy_start=100, copy_dur=100, device=device)
    (row,) = summary.copy_rows(t.profile()) or []
    assert row.exposed_ns == 200


def test_whole_graphs_and_other_processes_hide_copies_too() -> None:
    t = TraceBuilder(1)
    t.copy(at=0, dur=5, copy_start=100, copy_dur=100)
    t.graph_launch(at=0, dur=5, whole=(100, 130))
    t.process(2)
    t.launch("theirs", at=0, dur=5, kernel_start=150, kernel_dur=50)
    (row,) = summary.copy_rows(t.profile()) or []
    assert row.exposed_ns == 20


def test_bytes_that_are_not_known_are_not_zero() -> None:
    t = TraceBuilder()
    t.copy(at=0, dur=5)
    t.copy(at=100, dur=5)
    profile = t.profile()
    copies = profile.copies.with_columns(pl.when(pl.int_range(pl.len()) > 0).then("bytes").alias("bytes"))  # type: ignore[union-attr]
    (row,) = summary.copy_rows(replace(profile, copies=copies)) or []
    assert (row.bytes, row.gb_per_s) == (None, None)


def test_calls_lose_their_version_whatever_its_length() -> None:
    t = TraceBuilder()
    t.api("cudaLaunchKernel_v7000", 0, 10)
    t.api("cudaGraphLaunch_v10000", 20, 50)
    t.api("cudaGraphLaunch", 60, 70)
    t.api("cuLaunchKernel", 80, 81)
    got = {r.name: r.total_ns for r in summary.api_rows(t.profile()) or []}
    assert got == {"cudaGraphLaunch": 40, "cudaLaunchKernel": 10, "cuLaunchKernel": 1}


def test_callers_are_the_users_innermost_ranges_most_time_first() -> None:
    t = TraceBuilder(trace=("cuda", "nvtx", "osrt"))
    t.range("step_0", 0, 1000)
    t.range("load", 100, 300)
    t.range("cub::DeviceScan", 500, 600)
    t.osrt("read", 120, 150)
    t.osrt("read", 510, 520)
    t.osrt("read", 2000, 2500)
    t.osrt("read", 150, 160, tid=7)
    t.osrt("sleep", 700, 800)
    profile = t.profile()
    got = {r.name: (r.calls, r.callers) for r in summary.osrt_rows(profile, nest(profile.ranges)) or []}  # type: ignore[arg-type]
    assert got == {"read": (4, ["load", "step_0"]), "sleep": (1, ["step_0"])}
    assert (summary.osrt_rows(profile) or [])[0].callers == []


def test_a_call_that_never_ended_has_no_duration() -> None:
    t = TraceBuilder()
    t.api("cudaFree_v3020", 0, 10)
    profile = t.profile()
    api = pl.concat([profile.api, profile.api.with_columns(end=pl.lit(None, pl.Int64))])  # type: ignore[union-attr, list-item]
    (row,) = summary.api_rows(replace(profile, api=api)) or []
    assert (row.calls, row.total_ns) == (1, 10)


def test_samples_by_innermost_frame_and_kind() -> None:
    t = TraceBuilder()
    for at in range(3):
        t.sample(at, ["spin", "main"])
    t.sample(5, ["read", "main"])
    t.sample(6, ["train.py:12 step"], kind="python")
    got = [(r.kind, r.symbol, r.samples, r.percent) for r in summary.sample_rows(t.profile()) or []]
    assert got == [("cpu", "spin", 3, 75.0), ("cpu", "read", 1, 25.0), ("python", "train.py:12 step", 1, 100.0)]
