"""One rank arrives late at the collectives, and the others wait for it.

## What it detects

Several ranks in one capture (several processes, or devices of one process): the k-th collective of each is matched,
and the rank whose kernel starts last is the one that the others wait for. Reported where it is the same rank most of
the time.

## Why it costs time

A collective ends for nobody before the last rank has joined. The others' kernels spin until then: it looks like
communication, and is waiting. One slow input pipeline, a hot GPU or an uneven share of the work slows all ranks.

## How safe

Nothing is changed by finding the reason on the late rank: compare its breakdown with the others'.

## When it is a false alarm

- Pipeline parallelism: ranks are meant to start at different times.
- Ranks on different hosts in separate captures: compare their reports; their clocks are not aligned here.

## Thresholds

The same rank last in at least 60 % of the collectives (by chance, two ranks would each be last in half), and a mean
wait of 2 % of the step or more.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from unstall.analyze.device import known
from unstall.analyze.intervals import Ints
from unstall.diagnose.case import Case
from unstall.diagnose.hit import Hit, Skip
from unstall.diagnose.texts import Fix, Texts, choose, line, say
from unstall.diagnose.traces import GEMM, MS, US, Trace, steps
from unstall.model import pid_of

CODE = "straggler-rank"
CATEGORY = "exposed_communication"
TABLES = ("kernels",)
STEPS = False
SIDE = "device"
ONCE = True

SHARE = 0.02
MOSTLY = 0.6
COLLECTIVES = 10
"""Fewer matched collectives cannot tell a habit from an accident."""

TEXTS = {
    "en": Texts(
        title="The other ranks wait for the rank of process {late} on GPU {gpu_index}",
        says={
            "last": "It starts last in {value:pct} of {count:n} collectives",
            "wait": "The others wait {value:ms} a step for it ({share:pct} of the step)",
            "not-ranks": "needs at least two ranks with collectives in one capture; with a capture for each rank, "
            "give them all to `unstall ranks`",
            "few": "needs at least {needed:n} collectives of each rank, and one rank has {seen:n}: capture more steps",
            "differ": "the ranks' collectives are not the same in the same order, so one cannot be held against the "
            "other: collect a capture of each rank and give them all to `unstall ranks`",
        },
        fix=Fix(
            title="Find what is different on the late rank",
            pytorch="See what it does longer than the others (unstall ranks): uneven batch sizes or sequence lengths "
            "(bucket them, DistributedSampler), a slower loader or disk, logging and checkpoints on rank 0 only, "
            "another process on its GPU, CPU affinity.",
            safety="manual",
        ),
    )
}


def check(case: Case) -> Iterator[Hit | Skip]:
    """The rank that starts its collectives last."""
    rows = case.analysis.ops.filter(pl.col("kind") == "communication").sort("start")
    found = rows.group_by("process", "device", maintain_order=True).agg("start", "code")
    why = _unmatched(found)
    if why:
        seen = min((len(c) for c in found["code"]), default=0)
        template = choose(TEXTS, case.language).says[why]
        yield Skip(say(template, {"needed": COLLECTIVES, "seen": seen}), applies=why != "not-ranks")
        return
    ranks, at = _starts(found)
    last = at.argmax(axis=0)
    late = int(np.bincount(last, minlength=len(ranks)).argmax())
    share = float((last == late).mean())
    waits = at[late] - np.delete(at, late, axis=0).mean(axis=0)
    steps_seen = _steps(case, at)
    cost = float(np.maximum(waits, 0).sum()) / steps_seen
    if share < MOSTLY or case.share(cost) < SHARE:
        return
    process, device = ranks[late]
    yield Hit(
        cost_ns=cost,
        lines=(
            line("last", share, "", "kernels", count=at.shape[1]),
            line("wait", cost, "ns", "kernels", share=case.share(cost)),
        ),
        gain_ns=cost,
        facts={"late": pid_of(process), "gpu_index": "?" if known(device) is None else device},
        confidence="medium",
    )


def _unmatched(found: pl.DataFrame) -> str:
    """Why the k-th collective of one rank is not known to be that of another: a key of the texts; empty if it is."""
    if found.height < 2:
        return "not-ranks"
    codes = found["code"].to_list()
    if min(len(c) for c in codes) < COLLECTIVES:
        return "few"
    return "differ" if any(c != codes[0] for c in codes) else ""


def _starts(found: pl.DataFrame) -> tuple[list[tuple[int, int]], Ints]:
    """Ranks, and the start of each one's k-th collective, shape (ranks, collectives)."""
    ranks = [(int(p), int(d)) for p, d in found.select("process", "device").iter_rows()]
    return ranks, np.array(found["start"].to_list(), np.int64)


def _steps(case: Case, at: Ints) -> float:
    """How many steps the matched collectives span."""
    if case.whole:
        return 1.0
    return max(float(at.max() - at.min()) / case.step_ns, 1.0)


_ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)"


def fires(t: Trace) -> None:
    """Two processes; the second computes 2 ms longer, and the first waits in its all-reduce."""
    _trace(t, 2 * MS)


def silent(t: Trace) -> None:
    """Both are ready at the same time, give or take 5 µs."""
    _trace(t, 0)


def _trace(t: Trace, later: int) -> None:
    for pid, device, extra in ((100, 0, 0), (200, 1, later)):
        t.process(pid)

        def body(i: int, at: int, extra: int = extra, device: int = device) -> None:
            begin = at + 5 * MS + extra + 20 * US + (5 * US if (i + device) % 2 else 0)
            t.launch(GEMM, at, 10 * US, kernel_dur=5 * MS + extra, device=device)
            end = at + 6 * MS + later + 20 * US
            t.launch(_ALL_REDUCE, at + 20 * US, 10 * US, kernel_start=begin, kernel_dur=end - begin, device=device)

        steps(t, 6 * MS + later + 50 * US, body, count=20)


KOREAN = """
한 랭크가 집합 통신에 늦게 도착하고, 다른 랭크들이 기다립니다.

## 탐지 대상

한 캡처에 여러 랭크(여러 프로세스, 또는 한 프로세스의 여러 디바이스)가 있을 때, 각 랭크의 k번째 집합 통신을 서로
맞춥니다. 커널이 가장 늦게 시작하는 랭크가 다른 랭크들을 기다리게 하는 랭크입니다. 대부분의 경우 같은 랭크일 때
보고합니다.

## 시간이 걸리는 이유

마지막 랭크가 들어오기 전에는 집합 통신이 누구에게도 끝나지 않습니다. 그때까지 다른 랭크의 커널은 헛돕니다. 통신처럼
보이지만 대기입니다. 느린 입력 파이프라인 하나, 뜨거운 GPU 하나, 고르지 않은 작업 배분이 모든 랭크를 늦춥니다.

## 안전성

늦은 랭크에서 이유를 찾는 것만으로는 아무것도 바뀌지 않습니다. 그 랭크의 시간 내역을 다른 랭크와 비교하십시오.

## 오탐인 경우

- 파이프라인 병렬화에서는 랭크들이 원래 서로 다른 때에 시작합니다.
- 서로 다른 호스트의 랭크를 따로 캡처한 경우에는 보고서를 비교하십시오. 여기서는 시계를 맞추지 않습니다.

## 판정 기준

집합 통신의 60 % 이상에서 같은 랭크가 마지막이고(우연이라면 두 랭크가 절반씩 마지막입니다), 평균 대기가 스텝의 2 %
이상이어야 합니다.
"""

TEXTS["ko"] = Texts(
    title="다른 랭크들이 프로세스 {late}(GPU {gpu_index})의 랭크를 기다립니다",
    says={
        "last": "집합 통신 {count:n}번 중 {value:pct}에서 마지막으로 시작합니다",
        "wait": "다른 랭크들이 스텝마다 {value:ms}(스텝의 {share:pct})를 기다립니다",
        "not-ranks": "한 캡처에 집합 통신을 하는 랭크가 둘 이상 필요합니다. 랭크마다 캡처가 따로 있다면 모두 "
        "`unstall ranks`에 주십시오",
        "few": "랭크마다 집합 통신이 {needed:n}번 이상 필요한데, {seen:n}번뿐인 랭크가 있습니다. 더 많은 스텝을 "
        "캡처하십시오",
        "differ": "랭크들의 집합 통신이 같은 순서로 같지 않아 서로 맞출 수 없습니다. 랭크마다 캡처를 수집해 모두 "
        "`unstall ranks`에 주십시오",
    },
    fix=Fix(
        title="늦은 랭크에서 무엇이 다른지 찾기",
        pytorch="그 랭크의 시간 내역을 다른 랭크들과 비교하십시오(unstall ranks). 고르지 않은 배치 크기나 시퀀스 "
        "길이(크기별로 묶기, DistributedSampler), 더 느린 로더나 디스크, 랭크 0에서만 하는 로그와 "
        "체크포인트, 그 GPU를 쓰는 다른 프로세스, CPU 친화도를 확인하십시오.",
    ),
    explain=KOREAN,
)
