"""Captures of unrelated runs are told from ranks of one job, whatever their steps are called; nobody is charged."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from ranks_job import COMPUTE, EPOCH, LOAD, Job

import unstall
from unstall.lang import speaker
from unstall.model import Ranks, Report, Warning_
from unstall.ranks.merge import merge
from unstall.ranks.numbers import Numbered
from unstall.ranks.relation import MOST_GROUPS, relate
from unstall.ranks.summary import FileSummary, RankSummary, summarise
from unstall.ranks.words import verdict
from unstall.testing import TraceBuilder, ms, us

SECOND, HOUR = 10**9, 3600 * 10**9


def uneven(seed: int) -> Callable[[int, int], int]:
    """Loading that differs from step to step, and not between ranks; of another run it is another."""
    return lambda rank, step: LOAD + us(random.Random(seed * 1000 + step).randrange(2000))


def merged(paths: list[Path]) -> tuple[Ranks, list[Warning_]]:
    return merge([summarise(str(p), str(p), cache=False) for p in paths])


def unrelated(warnings: list[Warning_]) -> list[str]:
    return [w.text for w in warnings if w.code == "ranks-unrelated"]


def run(folder: Path, seed: int, later: int = 0, **job: object) -> list[Path]:
    """Two ranks of a run that began ``later``."""
    made = Job(ranks=2, load=uneven(seed), skew=dict.fromkeys(range(2), later), **job)  # type: ignore[arg-type]
    return made.write(folder)


def test_two_runs_of_one_program_are_not_one_job(tmp_path: Path) -> None:
    first, second = run(tmp_path / "a", 1), run(tmp_path / "b", 2, later=30 * HOUR)
    found, said = merged([first[0], second[1]])
    (text,) = unrelated(said)
    assert "rank 1 was captured 30.0 hours after the capture of rank 0 had ended" in text
    assert said[0].text == text, "first of all"
    assert found.meeting == "none" and not found.stragglers and not found.collectives and not found.matched_steps
    assert [r.rank for r in found.ranks] == [0, 1] and all(r.step_ns and r.wait_ns is None for r in found.ranks)
    assert "ranks-not-coupled" not in {w.code for w in said}


def test_a_stranger_among_ranks_is_neither_matched_nor_charged(tmp_path: Path) -> None:
    late = lambda r, s: ms(12) if r == 1 else COMPUTE  # noqa: E731
    job = Job(ranks=3, load=uneven(1), compute=late).write(tmp_path / "job")
    stranger = Job(ranks=4, load=uneven(2), skew={3: -50 * HOUR}).write(tmp_path / "old")[3]
    alone, _ = merged(job)
    found, said = merged([*job, stranger])
    (text,) = unrelated(said)
    assert text.startswith("Ranks 3 do not look like ranks of the same job as 0–2: rank 0 was captured 2 days after")
    assert found.stragglers == alone.stragglers and found.stragglers[0].rank == 1
    assert found.imbalance == alone.imbalance and found.step_ns == alone.step_ns and found.steps == alone.steps
    assert found.ranks[:3] == alone.ranks
    assert found.ranks[3].periods_ns == [None] * len(found.steps) and found.ranks[3].step_ns


def test_ranks_of_one_job_are_not_doubted(tmp_path: Path) -> None:
    jobs = {
        "plain": Job(),
        "late": Job(load=lambda r, s: ms(6) if r == 2 else LOAD),
        "no clock": Job(epoch=False),
        "groups": Job(group=lambda r: r // 2),
        "a clock an hour off": Job(load=uneven(1), skew={1: HOUR}, host=lambda r: f"node-{r}"),
        "a clock unset": Job(load=uneven(1), skew={3: -EPOCH}, host=lambda r: f"node-{r}"),
    }
    for name, job in jobs.items():
        _, said = merged(job.write(tmp_path / name))
        assert unrelated(said) == [], name
    whole = Job().write(tmp_path / "whole")
    short = replace(Job(), steps=9).write(tmp_path / "short")[3]
    assert unrelated(merged([*whole[:3], short])[1]) == [], "one that ended early"


def cpu(folder: Path, rank: int, *, count: int = 20, epoch: int = 1, host: str = "node", step: str = "step") -> Path:
    trace = TraceBuilder(pid=100 + rank, trace=("nvtx",), gpu="").meta(rank=rank, host=host, utc_epoch_ns=epoch)
    for i in range(count):
        trace.range("backward", i * ms(20) + ms(3), i * ms(20) + ms(18))
        trace.range(f"{step}_{i}", i * ms(20), i * ms(20) + ms(19))
    return trace.write(folder / f"{rank}.sqlite")


@pytest.mark.parametrize(
    ("other", "doubted"),
    [
        ({}, False),
        ({"epoch": 2 * SECOND}, True),  # 1.6 s after the end of the first, by the same clock
        ({"epoch": 2 * SECOND, "host": "other"}, False),  # by another clock that says little
        ({"epoch": 2 * SECOND, "host": "[redacted]"}, False),
        ({"epoch": 40 * SECOND, "host": "[redacted]"}, True),
        ({"count": 100}, False),  # one thing alone
        ({"step": "iteration"}, False),
        ({"count": 100, "step": "iteration"}, True),
    ],
)
def test_what_speaks_against_ranks_without_collectives(other: dict[str, object], doubted: bool, tmp_path: Path) -> None:
    found, said = merged([cpu(tmp_path, 0), cpu(tmp_path, 1, **other)])  # type: ignore[arg-type]
    assert bool(unrelated(said)) is doubted
    assert found.stragglers == [] and bool(found.matched_steps) is not doubted


def numbered(rank: int, file: FileSummary | None = None, **told: object) -> Numbered:
    row = RankSummary(rank=rank, **told)  # type: ignore[arg-type]
    return Numbered(rank, "capture", file or FileSummary(file=f"{rank}.sqlite", ranks=[row]), row)


def test_programs_gpus_and_steps_are_named() -> None:
    two = [
        numbered(0, program="train.py", gpu="NVIDIA H200", steps=20),
        numbered(1, program="infer.py", gpu="NVIDIA L4", steps=2000),
    ]
    assert relate(two).against == [
        "rank 0 is train.py and rank 1 is infer.py", "NVIDIA H200 on rank 0 and NVIDIA L4 on rank 1",
        "20 steps on rank 0 and 2,000 on rank 1",
    ]  # fmt: skip
    file = FileSummary(file="one.sqlite")
    one = [numbered(n.rank, file, program=n.summary.program, gpu=n.summary.gpu) for n in two]
    assert relate(one).others == [], "processes of one capture ran together"


def test_many_strangers_cost_no_more_than_many_groups() -> None:
    everybody = [numbered(r, program=f"p{r}", gpu=f"g{r}") for r in range(3 * MOST_GROUPS)]
    found = relate(everybody)
    assert sorted(found.core + found.others) == list(range(3 * MOST_GROUPS))


def test_every_doubt_has_its_korean(tmp_path: Path) -> None:
    korean = speaker("ko")
    two = [numbered(0, program="a", gpu="G", steps=2), numbered(1, program="b", gpu="H", steps=20)]
    for relation in (relate(two), relate([*two, numbered(2, program="b", gpu="H", steps=20)])):
        (warning,) = relation.warnings([*two, numbered(2)])
        told = korean.heard(warning.text)
        assert "rank" not in told.lower() and "program" not in told and "steps" not in told, told
    for apart in (12 * SECOND, 300 * SECOND, 5 * HOUR, 2400 * HOUR):
        _, said = merged([cpu(tmp_path, 0), cpu(tmp_path, 1, epoch=apart)])
        assert "captured" not in korean.heard(unrelated(said)[0])


def test_the_verdict_says_so_first(tmp_path: Path) -> None:
    paths = [str(cpu(tmp_path, 0)), str(cpu(tmp_path, 1, epoch=HOUR))]
    report: Report = unstall.ranks(paths, workers=1, cache=False)
    assert verdict(report, speaker("en")).startswith("The captures do not all look like ranks of one job")
