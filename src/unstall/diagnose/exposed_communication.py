"""Collectives that no compute hides.

## What it detects

Time in which the GPU runs only communication kernels (NCCL all-reduce, all-gather, reduce-scatter, all-to-all, send and
receive), with no compute beside them.

## Why it costs time

A collective moves data over NVLink or the network, while the compute units idle. Gradients of late layers are ready
long before those of early ones: started at once, their reduction runs beside the rest of the backward pass. A
collective kernel also waits inside for the slowest rank, so part of this time may be a straggler's
(`straggler-rank`).

## How safe

Overlap does not change results. Compression and reducing less often (local steps) do.

## When it is a false alarm

- Waiting for another rank looks like communication; look at the reports of all ranks side by side.
- The first collective after start-up connects the ranks; warm-up steps are left out.

## Thresholds

At least 2 % of the step. The prediction runs the collectives beside compute as far as they fit, which is what is
reached if everything overlaps; the pessimistic bound leaves out half of that gain.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from unstall.analyze import intervals
from unstall.analyze.replay import Change
from unstall.diagnose import kernels
from unstall.diagnose.case import Case
from unstall.diagnose.events import some_of
from unstall.diagnose.hit import Hit
from unstall.diagnose.texts import Fix, Texts, line
from unstall.diagnose.traces import GEMM, MS, US, Trace, steps

CODE = "exposed-communication"
TABLES = ("kernels",)
STEPS = False
SIDE = "device"

SHARE = 0.02

TEXTS = {
    "en": Texts(
        title="Communication between GPUs is not hidden behind compute",
        says={
            "exposed": "{value:ms} of a {step:ms} step ({share:pct}) the GPU only communicates",
            "all": "Collectives take {value:ms} a step in {count:n} launches; {hidden:pct} of that is hidden behind "
            "compute",
            "top": "{kernel}: {value:ms} a step in {count:n} launches",
        },
        fix=Fix(
            title="Overlap communication with compute",
            pytorch="DistributedDataParallel overlaps by itself: use it instead of reducing by hand after backward; "
            "tune "
            "bucket_cap_mb, set gradient_as_bucket_view=True and static_graph=True; with gradient accumulation, "
            "no_sync() for "
            "all but the last micro-batch. FSDP: forward_prefetch and backward_prefetch. bf16 gradients halve the "
            "bytes.",
            jax="Turn on XLA's latency-hiding scheduler (--xla_gpu_enable_latency_hiding_scheduler=true), and "
            "combine small "
            "collectives (its combine-threshold flags).",
            cuda="Launch collectives on a stream of their own as soon as their input is ready, grouped "
            "(ncclGroupStart/End), and let compute wait for an event only where the result is used.",
            safety="manual",
        ),
    )
}


def check(case: Case) -> Iterator[Hit]:
    """Communication that nothing hides."""
    when = case.part("exposed_communication")
    cost = case.per_step(when)
    if case.share(cost) < SHARE:
        return
    rows = case.ops.filter((pl.col("kind") == "communication") & (pl.col("device") == case.device))
    total = intervals.total(intervals.union(rows["start"], rows["end"])) / case.count
    by = case.kernel_times().filter(pl.col("family") == kernels.COMMUNICATION)
    yield Hit(
        cost_ns=cost,
        lines=(
            line("exposed", cost, "ns", "breakdown", step=case.step_ns, share=case.share(cost)),
            line(
                "all", total, "ns", "kernels", count=rows.height / case.count, hidden=max(1 - cost / max(total, 1), 0.0)
            ),
            *(
                line("top", ns, "ns", "kernels", kernel=kernels.short(name), count=count)
                for name, ns, count in by.select("name", "ns", "count").head(2).iter_rows()
            ),
        ),
        range=case.range_of_ops(rows),
        kernel=by["name"][0] if by.height else None,
        change=Change(side=some_of("op", rows["op"])),
        gain_ns=cost,
        when=when,
        ops=rows["op"].to_numpy(),
        doubtful=0.5,
        confidence="low",
    )


_ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)"


def fires(t: Trace) -> None:
    """2 ms of all-reduce after 5 ms of compute."""
    _trace(t, at_end=True)


def silent(t: Trace) -> None:
    """The same all-reduce beside the compute."""
    _trace(t, at_end=False)


def _trace(t: Trace, at_end: bool) -> None:
    def body(i: int, at: int) -> None:
        t.launch(GEMM, at, 10 * US, kernel_dur=5 * MS)
        begin = at + 5 * MS + 20 * US if at_end else at + 2 * MS
        t.launch(_ALL_REDUCE, at + 20 * US, 10 * US, kernel_start=begin, kernel_dur=2 * MS, stream=20)
        end = begin + 2 * MS if at_end else at + 5 * MS + 10 * US
        t.sync("context", at + 40 * US, end + 5 * US)

    steps(t, 7 * MS + 50 * US if at_end else 5 * MS + 50 * US, body)


KOREAN = """
연산이 가려 주지 않는 집합 통신입니다.

## 탐지 대상

옆에서 도는 연산 없이 GPU가 통신 커널(NCCL all-reduce, all-gather, reduce-scatter, all-to-all, 송신과 수신)만 돌리는
시간입니다.

## 시간이 걸리는 이유

집합 통신은 NVLink나 네트워크로 데이터를 옮기고, 그동안 연산 장치는 유휴 상태입니다. 뒤쪽 층의 기울기는 앞쪽 층의
기울기보다 훨씬 먼저 준비됩니다. 곧바로 시작하면 나머지 역전파와 나란히 축약할 수 있습니다. 집합 통신 커널은 안에서
가장 느린 랭크를 기다리기도 하므로, 이 시간의 일부는 뒤처진 랭크의 몫일 수 있습니다(`straggler-rank`).

## 안전성

겹쳐도 결과는 달라지지 않습니다. 압축하거나 덜 자주 축약하면(로컬 스텝) 달라집니다.

## 오탐인 경우

- 다른 랭크를 기다리는 것도 통신처럼 보입니다. 모든 랭크의 보고서를 나란히 놓고 보십시오.
- 시작 뒤의 첫 집합 통신은 랭크들을 연결합니다. 워밍업 스텝은 제외합니다.

## 판정 기준

스텝의 2 % 이상입니다. 예측은 집합 통신을 들어가는 만큼 연산과 나란히 돌린 것으로, 모두 겹칠 때 도달하는 값입니다.
비관적 한계에서는 그 이득의 절반을 뺍니다.
"""

TEXTS["ko"] = Texts(
    title="GPU 사이의 통신이 연산에 가려지지 않습니다",
    says={
        "exposed": "{step:ms} 스텝 중 {value:ms}({share:pct}) 동안 GPU가 통신만 합니다",
        "all": "집합 통신은 스텝마다 {value:ms}, 실행 {count:n}번이고, 그중 {hidden:pct}가 연산에 가려집니다",
        "top": "{kernel}: 스텝마다 {value:ms}, 실행 {count:n}번",
    },
    fix=Fix(
        title="통신을 연산과 겹치기",
        pytorch="DistributedDataParallel은 스스로 겹칩니다. 역전파 뒤에 직접 축약하지 말고 이것을 쓰십시오. "
        "bucket_cap_mb를 조정하고 gradient_as_bucket_view=True와 static_graph=True를 주십시오. 기울기 "
        "누적에서는 마지막을 뺀 모든 마이크로배치에 no_sync()를 쓰십시오. FSDP라면 forward_prefetch와 "
        "backward_prefetch입니다. bf16 기울기는 바이트를 절반으로 줄입니다.",
        jax="XLA의 지연 숨김 스케줄러를 켜고(--xla_gpu_enable_latency_hiding_scheduler=true), 작은 집합 통신을 "
        "합치십시오(combine-threshold 플래그).",
        cuda="입력이 준비되는 즉시 집합 통신을 묶어서(ncclGroupStart/End) 별도 스트림에서 실행하고, 결과를 쓰는 "
        "곳에서만 연산이 이벤트를 기다리게 하십시오.",
    ),
    explain=KOREAN,
)
