"""Many ranks merged: planted faults are found with their rank and reason, and waits go to the rank that came late."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ranks_job import COMPUTE, LOAD, MOVE, Job

from unstall.model import Ranks, Report
from unstall.ranks.collectives import KINDS, MOST, code_of, kind_of, parts_of
from unstall.ranks.merge import merge
from unstall.ranks.summary import FileSummary, decode, encode, summarise
from unstall.report.json import from_json, schema, to_json
from unstall.testing import TraceBuilder, ms, us


def merged(job: Job, folder: Path, leave: Sequence[int] = ()) -> Ranks:
    """The job's captures, each read as a worker reads it."""
    files = [p for r, p in enumerate(job.write(folder)) if r not in leave]
    return merge([decode(encode(summarise(str(p), str(p), cache=False))) for p in files])[0]


def slow_loading(rank: int, step: int) -> int:
    return ms(6) if rank == 2 else LOAD


LATE = {
    "its loading": (Job(load=slow_loading), 2, "data-loading"),
    "its GPU": (Job(compute=lambda r, s: ms(12) if r == 1 else COMPUTE), 1, "compute"),
    "its work": (
        Job(compute=lambda r, s: ms(12) if r == 1 else COMPUTE, pieces=lambda r: 6 if r == 1 else 4), 1, "more-work",
    ),
    "its saving": (Job(save=lambda r, s: ms(4) if r == 3 else 0), 3, "saving"),
    "among two": (Job(ranks=2, load=lambda r, s: ms(6) if r == 0 else LOAD), 0, "data-loading"),
}  # fmt: skip


@pytest.mark.parametrize("name", LATE)
def test_the_late_rank_is_named_with_its_reason(name: str, tmp_path: Path) -> None:
    job, rank, cause = LATE[name]
    found = merged(job, tmp_path)
    assert [(s.rank, s.cause, s.always) for s in found.stragglers] == [(rank, cause, True)]
    late = found.stragglers[0]
    assert late.cost_ns_per_step == pytest.approx(ms(5) if "oading" in cause else ms(4), rel=0.25)
    assert late.lost_percent == pytest.approx(
        100 * late.cost_ns_per_step * (job.ranks - 1) / (job.ranks * (found.step_ns or 0)), rel=0.1
    )
    assert found.ranks[rank].findings[0].code == "straggler-rank"


def test_a_wait_is_charged_to_the_late_rank_and_not_to_the_network(tmp_path: Path) -> None:
    found = merged(Job(load=slow_loading), tmp_path)
    late, early = found.ranks[2], found.ranks[0]
    assert (late.wait_ns or 0) < us(20) and late.late_share == 1.0 and (late.caused_ns or 0) > ms(3)
    assert early.caused_ns == 0 and early.late_share == 0.0 and (early.wait_ns or 0) > ms(3)
    assert early.breakdown and late.breakdown
    spent = {c.name: c.ns for c in early.breakdown.categories}
    assert spent["rank_wait"] == pytest.approx(ms(4), rel=0.1), "4 of the 6 ms in NCCL kernels are waiting"
    assert spent["exposed_communication"] == pytest.approx(ms(2), rel=0.1)
    for rank in found.ranks:
        assert rank.breakdown and sum(c.ns for c in rank.breakdown.categories) == rank.breakdown.step_ns
        assert not any(f.code == "exposed-communication" and f.cost_ns_per_step > ms(3) for f in rank.findings)
    row = found.collectives[0]
    assert row.kind == "AllReduce" and row.last == 2 and row.transfer_ns == pytest.approx(MOVE, rel=0.05)


def test_equal_ranks_have_no_straggler(tmp_path: Path) -> None:
    found = merged(Job(), tmp_path)
    assert found.stragglers == [] and found.meeting == "collectives"
    assert found.imbalance is not None and found.imbalance.percent < 1 and found.imbalance.lost_percent < 0.1
    assert all(r.late_share is None for r in found.ranks), "who comes together with the others is not last"


def test_one_slow_step_is_told_with_its_number(tmp_path: Path) -> None:
    found = merged(Job(save=lambda r, s: ms(60) if (r, s) == (0, 11) else 0, first_step=100), tmp_path)
    assert [(s.rank, s.cause, s.always, s.steps) for s in found.stragglers] == [(0, "saving", False, ["111"])]
    assert found.stragglers[0].cost_ns_per_step == pytest.approx(ms(59), rel=0.02)


def test_a_slow_network_is_nobodys_fault(tmp_path: Path) -> None:
    found = merged(Job(move=lambda r, s: ms(9) if s in (7, 8) else MOVE), tmp_path)
    assert [(s.rank, s.cause, s.steps) for s in found.stragglers] == [(None, "network", ["7", "8"])]
    assert all(r.wait_ns is not None and r.wait_ns < us(20) for r in found.ranks)


def test_groups_wait_for_their_own_members_only(tmp_path: Path) -> None:
    def load(rank: int, step: int) -> int:
        return LOAD + us(137) * ((step * 7 + rank // 2 * 5) % 11) + (ms(4) if rank == 5 else 0)

    job = Job(ranks=8, group=lambda r: r // 2, load=load, move=lambda r, s: ms(4) if r < 2 else MOVE)
    found = merged(job, tmp_path)
    assert {(s.rank, s.cause, tuple(s.ranks)) for s in found.stragglers} == {
        (5, "data-loading", ()), (None, "network", (0, 1)),
    }  # fmt: skip
    assert (found.ranks[0].wait_ns or 0) < us(20), "ranks 0 and 1 have nothing to do with rank 5"
    assert [4, 5] in [c.members for c in found.collectives]


def test_clocks_are_aligned_by_the_ends_of_collectives(tmp_path: Path) -> None:
    found = merged(Job(skew={1: ms(3), 3: -ms(7)}, zero={1: -ms(2)}, load=slow_loading), tmp_path)
    offsets = [r.clock.offset_ns for r in found.ranks if r.clock and r.clock.offset_ns is not None]
    assert np.array(offsets) - offsets[0] == pytest.approx([0, ms(3), 0, -ms(7)], abs=us(10))
    assert found.clock and found.clock.by == "collectives" and found.clock.skew_ns == pytest.approx(ms(10), abs=us(10))
    assert found.stragglers[0].rank == 2


def test_without_wall_clocks_durations_still_tell(tmp_path: Path) -> None:
    found = merged(Job(epoch=False, load=slow_loading), tmp_path)
    assert found.stragglers[0].rank == 2 and found.clock and found.clock.by == "collectives"
    assert all(r.clock and r.clock.offset_ns is None for r in found.ranks), "there is no wall clock to be off"


def test_steps_without_numbers_are_matched_by_the_clock(tmp_path: Path) -> None:
    job = Job(names="train step", load=slow_loading, steps=20)
    whole = job.write(tmp_path)
    summaries = [summarise(str(p), str(p), cache=False) for p in whole]
    cut = summaries[1].ranks[0]
    keys = cut.keys.array()
    assert not cut.named and keys[0] == 0
    later = 3  # this rank's capture began three steps later: the same steps have other places
    for field in ("keys", "starts", "periods"):
        array = getattr(cut, field).array()[later:] - (later if field == "keys" else 0)
        setattr(cut, field, type(cut.keys)("i8", array.astype("i8").tobytes()))
    cut.categories = {}
    per_step = (1 << 6) * (1 << 4) * (1 << 14)
    assert cut.meetings
    cut.meetings.code = type(cut.keys)("i8", (cut.meetings.code.array() - later * per_step).astype("i8").tobytes())
    found, _ = merge(summaries)
    assert found.stragglers and found.stragglers[0].rank == 2
    assert found.ranks[1].periods_ns[:3] == [None] * 3 and found.ranks[1].periods_ns[3] is not None


def test_a_rank_that_numbers_its_steps_one_off_is_shifted_only_if_its_periods_agree(tmp_path: Path) -> None:
    def load(rank: int, step: int) -> int:
        return LOAD + us(400) * (step * step * 7919 % 13) + (ms(5) if rank == 2 else 0)

    files = [summarise(str(p), str(p), cache=False) for p in Job(load=load).write(tmp_path / "job")]
    off = files[1].ranks[0]
    off.keys = type(off.keys)("i8", (off.keys.array() + 1).astype("i8").tobytes())
    per_step = (1 << 6) * (1 << 4) * (1 << 14)
    assert off.meetings and off.named
    off.meetings.code = type(off.keys)("i8", (off.meetings.code.array() + per_step).astype("i8").tobytes())
    found, _ = merge(files)
    assert found.ranks[1].periods_ns == pytest.approx(found.ranks[0].periods_ns, abs=us(5))
    skewed = Job(load=load, skew={1: ms(40), 3: -ms(31)})  # by several steps: the numbers are right, the clocks are not
    files = [summarise(str(p), str(p), cache=False) for p in skewed.write(tmp_path / "skewed")]
    found, _ = merge(files)
    assert [(s.rank, s.always) for s in found.stragglers] == [(2, True)]
    assert found.ranks[1].periods_ns == pytest.approx(found.ranks[0].periods_ns, abs=us(5))


def test_ranks_that_never_meet_are_compared_and_not_charged(tmp_path: Path) -> None:
    for rank in range(2):
        trace = TraceBuilder(pid=100 + rank).meta(rank=rank)
        for i in range(12):
            at = i * ms(8 + 12 * rank)
            trace.range(f"step_{i}", at, at + ms(7))
            trace.launch("gemm", at + us(5), kernel_dur=ms(6))
        trace.write(tmp_path / f"{rank}.sqlite")
    found, warnings = merge([summarise(str(p), p.name, cache=False) for p in sorted(tmp_path.iterdir())])
    assert found.meeting == "none" and found.stragglers == [] and found.imbalance is None
    assert [r.step_ns for r in found.ranks] == pytest.approx([ms(8), ms(20)], rel=0.1)
    assert "ranks-not-coupled" in {w.code for w in warnings}


def test_collectives_without_steps_are_matched_over_the_whole_capture(tmp_path: Path) -> None:
    for rank in range(2):
        trace = TraceBuilder(pid=100 + rank, trace=("cuda",)).meta(rank=rank)
        at = 0
        for i in range(40):
            late = us(300) if rank else 0
            begin, end = at + late, at + us(400)
            trace.launch("ncclDevKernel_AllGather_RING_LL", at, us(3), kernel_start=begin, kernel_dur=end - begin)
            at += us(500) + us(170) * (i * i * 7919 % 47)  # no rhythm: nothing to take for steps
        trace.write(tmp_path / f"{rank}.sqlite")
    found, _ = merge([summarise(str(p), p.name, cache=False) for p in sorted(tmp_path.iterdir())])
    assert [(c.kind, c.matched, c.last) for c in found.collectives] == [("AllGather", 40, 1)]
    assert all(r.step_ns is None for r in found.ranks)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)", "AllReduce"),
        ("ncclKernel_ReduceScatter_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)", "ReduceScatter"),
        ("ncclDevKernel_AllGather_RING_LL", "AllGather"),
        ("ncclDevKernel_Reduce_Sum_f32_RING_LL", "Reduce"),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096>)", "SendRecv"),
        ("ncclDevKernel_Broadcast_RING_LL", "Broadcast"),
        ("all_to_all_kernel<float>", "AllToAll"),
        ("ncclDevKernel_Generic", "other"),
    ],
)
def test_kinds_of_collectives(name: str, kind: str) -> None:
    assert KINDS[kind_of(name)] == kind


@given(st.integers(0, 1 << 38), st.integers(0, 63), st.integers(0, 15), st.integers(0, (1 << 14) - 1))
def test_numbers_of_collectives_can_be_taken_apart(step: int, communicator: int, kind: int, sequence: int) -> None:
    code = code_of(*(np.array([x]) for x in (step, communicator, kind, sequence)))
    assert [int(p[0]) for p in parts_of(code)] == [step, communicator, kind]


@given(st.integers(0, 5000), st.integers(300, 3000), st.integers(0, 40))
def test_ranks_keep_the_same_steps_whatever_they_captured(first: int, count: int, warm: int) -> None:
    import polars as pl

    from unstall.model import StepTable
    from unstall.ranks.anatomy import MOST_STEPS, chosen

    def kept(start: int, end: int) -> set[int]:
        keys = np.arange(start, end)
        frame = pl.DataFrame({"steady": np.arange(len(keys)) >= warm})
        return set(keys[chosen(keys, StepTable(1, 1, "", "host", frame), 0)].tolist())

    one, other = kept(first, first + count), kept(first, first + count // 2)
    assert 0 < len(one) <= MOST_STEPS and 0 < len(other) <= MOST_STEPS
    both = {k for k in one if k < first + count // 2}
    assert both <= other, "a rank that keeps fewer keeps a part of the others'"


def test_a_summary_does_not_grow_with_the_capture(tmp_path: Path) -> None:
    sizes = []
    for steps in (300, 1200):
        path = Job(ranks=1, steps=steps).write(tmp_path / str(steps))[0]
        found = summarise(str(path), str(path), cache=False)
        assert found.ranks[0].steps == steps and found.ranks[0].meetings
        assert len(found.ranks[0].meetings.code.array()) <= MOST
        sizes.append(len(encode(found)))
    assert max(sizes) < 100_000 and sizes[1] < 1.5 * sizes[0]


def test_report_is_valid_json_of_the_schema(tmp_path: Path) -> None:
    import unstall

    Job(load=slow_loading).write(tmp_path)
    (tmp_path / "profile_rank4.sqlite").write_bytes(b"SQLite format 3\0" + bytes(100))
    report = unstall.ranks([str(tmp_path)], workers=2, cache=False)
    jsonschema.validate(json.loads(to_json(report)), schema())
    again: Report = from_json(to_json(report))
    assert again.ranks and again.ranks.stragglers[0].rank == 2
    assert [(f.rank, "profile_rank4" in f.file) for f in again.ranks.failed] == [(4, True)]
    assert again.ranks.missing == []


def test_a_rank_that_stops_early_costs_only_its_own_steps(tmp_path: Path) -> None:
    job = Job(load=slow_loading, steps=24)
    paths = job.write(tmp_path / "whole")
    short = replace(job, steps=10).write(tmp_path / "short")[3]
    files = [*paths[:3], short]
    found, _ = merge([summarise(str(p), str(p), cache=False) for p in files])
    assert found.stragglers[0].rank == 2 and found.matched_steps == 23
    assert found.ranks[3].periods_ns[15] is None and found.ranks[0].periods_ns[15] is not None


def on_host(rank: int, folder: Path, **phases: int) -> FileSummary:
    """A CPU rank: its phases, then a reduction inside ``backward`` that ends for both at the same time."""
    trace = TraceBuilder(pid=100 + rank, trace=("nvtx",), gpu="").meta(rank=rank, host="node", utc_epoch_ns=1)
    for i in range(20):
        at = i * ms(20)
        for name, lasts in phases.items():
            trace.range(name, at + us(1), at + lasts - us(1))
            at += lasts
        trace.range("backward", at, i * ms(20) + ms(18) + us(i % 3))
        trace.range(f"step_{i}", i * ms(20), i * ms(20) + ms(19))
    return summarise(str(trace.write(folder / f"{rank}.sqlite")), f"{rank}", cache=False)


@pytest.mark.parametrize(
    ("late", "cause", "where"),
    [
        ({"data_load": ms(9), "forward": ms(2)}, "data-loading", "data_load"),
        ({"data_load": ms(1), "forward": ms(10)}, "compute", "forward"),
        ({"data_load": ms(1), "forward": ms(2), "forward_no_grad": ms(8)}, "compute", "forward_no_grad"),
        ({"data_load": ms(1), "forward": ms(2), "gc": ms(8)}, "garbage-collection", "gc"),
        ({"data_load": ms(1), "forward": ms(2), "save_checkpoint": ms(8)}, "saving", "save_checkpoint"),
    ],
)
def test_without_a_gpu_ranks_meet_where_a_phase_ends_together(
    late: dict[str, int], cause: str, where: str, tmp_path: Path
) -> None:
    usual = {"data_load": ms(1), "forward": ms(2)}
    found, said = merge([on_host(0, tmp_path, **late), on_host(1, tmp_path, **usual), on_host(2, tmp_path, **usual)])
    assert found.meeting == "host" and "ranks-meet-on-host" in {w.code for w in said}
    assert [(s.rank, s.cause, s.range, s.always) for s in found.stragglers] == [(0, cause, where, True)]
    assert found.stragglers[0].cost_ns_per_step == pytest.approx(ms(8), rel=0.02)
    assert found.ranks[1].wait_ns == pytest.approx(ms(8), rel=0.02) and (found.ranks[0].wait_ns or 0) < us(10)


def test_equal_ranks_on_the_host_have_no_straggler(tmp_path: Path) -> None:
    usual = {"data_load": ms(1), "forward": ms(2)}
    assert merge([on_host(r, tmp_path, **usual) for r in range(3)])[0].stragglers == []


def test_nothing_at_all_is_no_crash() -> None:
    found, _ = merge([FileSummary(file="a", error="a: broken")])
    assert found.ranks == [] and found.failed[0].reason == "broken"
