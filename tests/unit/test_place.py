"""Rows without a process, thread or GPU: kept, said, and never read as another process's or as no work."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from unstall.analyze import analyze
from unstall.analyze.place import placed
from unstall.diagnose import diagnose
from unstall.model import Profile, Report
from unstall.testing import TraceBuilder, ms, us


def a_loop() -> Profile:
    t = TraceBuilder()
    for i in range(8):
        at = i * ms(10)
        t.range(f"step_{i}", at, at + ms(9))
        t.copy("HtoD", at + us(100))
        t.memset(at + us(200))
        t.launch("gemm", at + us(300), kernel_dur=ms(1))
    return t.profile()


def without(profile: Profile, table: str, *columns: str) -> Profile:
    frame = profile.table(table)
    assert frame is not None
    return replace(profile, **{table: frame.with_columns(pl.lit(None, frame[c].dtype).alias(c) for c in columns)})


def examined(profile: Profile) -> Report:
    return diagnose(analyze(profile))


@pytest.mark.parametrize("table", ["kernels", "copies", "memsets", "ranges", "api"])
@pytest.mark.parametrize("columns", [("process",), ("thread",), ("process", "thread"), ("device",), ("correlation",)])
def test_a_column_without_values_is_said_and_counted(table: str, columns: tuple[str, ...]) -> None:
    profile = a_loop()
    if not set(columns) <= set(profile.table(table).columns):  # type: ignore[union-attr]
        pytest.skip("no such column in this table")
    report = examined(without(profile, table, *columns))
    told = {w.code for w in report.warnings}
    assert {f"unknown-{c.replace('device', 'gpu')}" for c in columns if c != "correlation"} <= told
    assert "rule-crashed" not in told
    assert report.device_total_ns == examined(profile).device_total_ns, "no work is lost"


def test_kernels_without_a_gpu_are_no_idle_gpu() -> None:
    report = examined(without(a_loop(), "kernels", "device"))
    compute = next(c.ns for c in report.breakdown[0].categories if c.name == "gpu_compute")
    assert compute == pytest.approx(ms(1), rel=0.01)


def test_a_gpu_is_that_of_its_context() -> None:
    t = TraceBuilder()
    for device in (0, 1):
        t.copy("HtoD", us(100 * device), device=device, context=device + 1)
        t.launch("gemm", us(100 * device + 50), device=device, context=device + 1)
    kernels = placed(without(t.profile(), "kernels", "device")).kernels
    assert kernels is not None and kernels["device"].to_list() == [0, 1]


def test_an_unknown_gpu_is_no_gpu_of_another_process() -> None:
    """Two processes whose exports tell neither GPU nor context: neither is said to share, nobody computes on GPU 0."""
    t = TraceBuilder()
    for pid in (100, 200):
        t.process(pid)
        for i in range(8):
            t.range(f"step_{i}", ms(10 * i), ms(10 * i + 9))
            t.launch("gemm", ms(10 * i) + us(pid), kernel_dur=ms(5))
    report = examined(without(t.profile(), "kernels", "device", "context"))
    told = {w.code: w.text for w in report.warnings}
    assert "shared-gpu" not in told
    assert told["unknown-gpu"].endswith("0 are put on the GPU of their context, 16 on an unknown one.")
    parts = [{c.name: c.ns for c in row.categories} for row in report.breakdown]
    assert [p["gpu_compute"] for p in parts] == [ms(5), ms(5)] and not any("other_process" in p for p in parts)
    copies = analyze(without(a_loop(), "kernels", "device", "context")).report.copies
    assert copies is not None and copies[0].exposed_ns == 8 * us(10), "no kernel is known to hide them on GPU 0"


def test_calls_that_must_have_been_made_are_absent_not_zero() -> None:
    profile = a_loop()
    assert profile.api is not None
    report = examined(replace(profile, api=profile.api.clear()))
    assert report.api is None
    assert "api" in {n.code for n in report.not_checked}


def test_copies_of_no_known_kind_break_no_rule() -> None:
    report = examined(without(a_loop(), "copies", "kind"))
    assert not [w for w in report.warnings if w.code == "rule-crashed"]


def test_a_whole_profile_is_left_as_it_is() -> None:
    profile = a_loop()
    assert placed(profile) is profile
    empty = TraceBuilder().profile()
    assert placed(empty) is empty, "no device work, no calls: that is what happened"


@pytest.mark.parametrize(("later", "meets"), [(0, True), (ms(75), False)])
def test_processes_that_share_a_gpu_wait_for_each_other_only_where_they_meet(later: int, meets: bool) -> None:
    """The second begins with the first, or when that takes its last step: then its own first one is warm-up."""
    t = TraceBuilder()
    for pid, begin in ((100, 0), (200, later)):
        t.process(pid)
        for i in range(8):
            at = begin + ms(10 * i)
            t.range(f"step_{i}", at, at + ms(9))
            t.launch("gemm", at + us(pid), kernel_dur=ms(15 if i == 0 and pid == 200 else 4))
    (told,) = (w.text for w in examined(t.profile()).warnings if w.code == "shared-gpu")
    assert ("waiting for the other's kernels" in told, "no steady step" in told) == (meets, not meets)
