"""Device memory is allocated and freed inside steady steps.

## What it detects

`cudaMalloc`, `cudaFree`, `cudaHostAlloc` and their kin in steps after warm-up, where they leave the GPU idle.

## Why it costs time

These calls go to the driver, and most of them wait for the device: `cudaFree` until everything queued has finished.
PyTorch and JAX keep freed memory in a cache exactly for this reason; calls in steady steps mean that the cache does
not fit: sizes that change from step to step, fragmentation near the memory limit, `empty_cache()` in the loop, or
pinned buffers made anew.

## How safe

Safe: the same memory from a cache. `expandable_segments` maps memory differently and costs nothing in steady state.

## When it is a false alarm

- The first steps, and the first time a larger shape comes by: that is how a cache fills. Warm-up is left out.
- Evaluation or checkpointing between steps that allocates on purpose.

## Thresholds

At least 2 % of the step on average over all steady steps, and in at least three of them: one step is no churn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import polars as pl

from unstall.analyze import intervals
from unstall.analyze.replay import Change
from unstall.diagnose.case import Case
from unstall.diagnose.events import some_of, spans
from unstall.diagnose.hit import Hit
from unstall.diagnose.texts import Fix, Texts, line
from unstall.diagnose.traces import GEMM, MS, US, Trace, steps

CODE = "allocator-churn"
CATEGORY = "alloc"
TABLES = ("api",)

SHARE = 0.02
STEPS_HIT = 3

TEXTS = {
    "en": Texts(
        title="Memory is allocated and freed by the driver in steady steps",
        says={
            "idle": "The GPU is idle for {value:ms} of a {step:ms} step ({share:pct}) during or directly after such "
            "calls",
            "calls": "{call}: {value:n} calls a step, {mean:us} each",
            "seldom": "They come in {value:pct} of the steady steps, and add {cost:ms} to a step on average",
        },
        fix=Fix(
            title="Let the caching allocator keep the memory",
            pytorch="Remove torch.cuda.empty_cache() and gc.collect() from the loop; set "
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; pad or bucket shapes that change from batch to batch; "
            "reuse "
            "pinned buffers instead of calling pin_memory() in each step; leave some memory free.",
            jax="Keep XLA_PYTHON_CLIENT_PREALLOCATE on (or set XLA_PYTHON_CLIENT_MEM_FRACTION), and pad shapes so "
            "that one "
            "compiled step serves all batches.",
            cuda="Allocate once before the loop, or use cudaMallocAsync with a memory pool whose release threshold "
            "keeps the "
            "memory.",
            cupy="Keep CuPy's memory pool on (it is by default: no cupy.cuda.set_allocator(None), no "
            "free_all_blocks() in the loop), write into existing arrays (out=), and allocate pinned buffers "
            "once.",
            trial="expandable-segments",
        ),
    )
}


def check(case: Case) -> Iterator[Hit]:
    """Driver allocations in steady steps that leave the GPU idle."""
    calls = case.calls.filter(pl.col("kind") == "alloc")
    if calls["step"].n_unique() < min(STEPS_HIT, case.count):
        return
    stuck = intervals.merge(spans(calls), case.after_waits(calls))
    held = intervals.subtract(stuck, case.computing)
    usual, every = case.per_step(intervals.intersect(held, case.window)), case.per_steady_step(held)
    seldom = case.seldom(usual, every)
    cost = every if seldom else usual
    if case.share(cost) < SHARE:
        return
    by = calls.group_by("name").agg(pl.len(), (pl.col("end") - pl.col("start")).sum().alias("ns"))
    name, count, inside = by.sort("ns", "name", descending=[True, False]).row(0)
    first = (
        line("seldom", calls["step"].n_unique() / case.count, "", "api", cost=cost)
        if seldom
        else line("idle", cost, "ns", "breakdown", step=case.step_ns, share=case.share(cost))
    )
    yield Hit(
        cost_ns=cost,
        lines=(first, line("calls", count / case.count, "calls", "api", call=name, mean=inside / count)),
        range=case.range_of(intervals.intersect(held, case.steady_span)),
        call=name,
        change=None if seldom else Change(drop_calls=some_of("correlation", calls["correlation"])),
        seldom=seldom,
        when=intervals.intersect(held, case.window),
        confidence="medium",
    )


def fires(t: Trace) -> None:
    """Four allocations and frees of 250 µs each in every step of 3 ms of work."""
    _trace(t, lambda i: True)


def silent(t: Trace) -> None:
    """The same in the first step only."""
    _trace(t, lambda i: i == 0)


def _trace(t: Trace, churns: Callable[[int], bool]) -> None:
    def body(i: int, at: int) -> None:
        now = at
        for k in range(4) if churns(i) else ():
            t.api("cudaMalloc_v3020" if k % 2 else "cudaFree_v3020", now + US, now + 250 * US)
            now += 260 * US
        t.launch(GEMM, now + 10 * US, 10 * US, kernel_dur=3 * MS)
        t.sync("stream", now + 30 * US, now + 3 * MS + 30 * US)

    steps(t, 3 * MS + 1100 * US, body)


KOREAN = """
정상 상태 스텝 안에서 디바이스 메모리를 할당하고 해제합니다.

## 탐지 대상

워밍업이 끝난 스텝에 있으면서 GPU를 유휴 상태로 두는 `cudaMalloc`, `cudaFree`, `cudaHostAlloc`과 그 부류의 호출입니다.

## 시간이 걸리는 이유

이 호출들은 드라이버까지 내려가고 대부분 디바이스를 기다립니다. `cudaFree`는 큐에 쌓인 것이 모두 끝날 때까지
기다립니다. PyTorch와 JAX가 해제한 메모리를 캐시에 두는 것이 바로 이 때문입니다. 정상 상태 스텝에 이런 호출이 있다면
캐시가 맞지 않는 것입니다. 스텝마다 바뀌는 크기, 메모리 한계 근처의 단편화, 반복문 안의 `empty_cache()`, 매번 새로
만드는 페이지 고정 버퍼가 원인입니다.

## 안전성

안전합니다. 같은 메모리가 캐시에서 나옵니다. `expandable_segments`는 메모리를 다르게 매핑하며 정상 상태에서는 비용이
없습니다.

## 오탐인 경우

- 처음 몇 스텝, 그리고 더 큰 형상이 처음 나올 때입니다. 캐시는 그렇게 채워집니다. 워밍업은 제외합니다.
- 스텝 사이에서 일부러 할당하는 평가나 체크포인트입니다.

## 판정 기준

모든 정상 상태 스텝의 평균으로 스텝의 2 % 이상이고, 그중 적어도 세 스텝에 있어야 합니다. 한 스텝만으로는 되풀이라고
하지 않습니다.
"""

TEXTS["ko"] = Texts(
    title="정상 상태 스텝에서 드라이버가 메모리를 할당하고 해제합니다",
    says={
        "idle": "{step:ms} 스텝 중 {value:ms}({share:pct}) 동안, 이런 호출 중이거나 직후에 GPU가 유휴 상태입니다",
        "calls": "{call}: 스텝마다 호출 {value:n}번, 한 번에 {mean:us}",
        "seldom": "정상 상태 스텝의 {value:pct}에서 일어나고, 평균하면 스텝마다 {cost:ms}가 더해집니다",
    },
    fix=Fix(
        title="캐시하는 할당자가 메모리를 쥐고 있게 하기",
        pytorch="반복문에서 torch.cuda.empty_cache()와 gc.collect()를 빼고, "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True를 설정하십시오. 배치마다 바뀌는 형상은 패딩하거나 "
        "크기별로 묶고, 스텝마다 pin_memory()를 호출하는 대신 페이지 고정 버퍼를 다시 쓰고, 메모리를 조금 "
        "비워 두십시오.",
        jax="XLA_PYTHON_CLIENT_PREALLOCATE를 켜 두거나 XLA_PYTHON_CLIENT_MEM_FRACTION을 설정하고, 컴파일한 스텝 "
        "하나가 모든 배치를 처리하도록 형상을 패딩하십시오.",
        cuda="반복문 앞에서 한 번 할당하거나, 해제 기준값으로 메모리를 쥐고 있는 메모리 풀과 함께 cudaMallocAsync를 "
        "쓰십시오.",
        cupy="CuPy의 메모리 풀을 켜 두고(기본값: cupy.cuda.set_allocator(None)이나 반복문 안의 "
        "free_all_blocks()를 쓰지 않기), 있는 배열에 쓰고(out=), 페이지 고정 버퍼는 한 번만 할당하십시오.",
    ),
    explain=KOREAN,
)
