"""Copies from pageable host memory hold up the step.

## What it detects

Host-to-device copies whose source is pageable memory (ordinary `malloc` memory, an unpinned tensor), where nothing
hides them: time in which the device only copies, and time in which it idles while the host is inside the copy call.

## Why it costs time

The GPU can only read pinned memory by itself. Pageable memory is first copied by the CPU, piece by piece, into a
pinned staging buffer: slower than the link, and the call returns only when the last piece has left.
`non_blocking=True` changes nothing about that. A pinned copy runs at the link's rate, returns at once, and can run
while the GPU computes.

## How safe

Safe for results. Pinned memory cannot be swapped out: pin buffers of a few batches, not the data set. A copy on a side
stream needs an event between the copy and its first use, or the kernel reads a half-filled buffer.

## When it is a false alarm

- The copy is hidden behind compute: then it is not shown here, however many bytes it moves.
- Copies of up to 64 kB are left out: their calls cost, whatever memory they come from (`many-small-copies`).

## Thresholds

At least 2 % of the step exposed. The pinned rate in the prediction is that of the capture's own pinned copies of 4 MB
and more; without any, what ×16 links reach in practice: 55 GB/s on PCIe 5, 25 on PCIe 4, 12 on PCIe 3, down to 1/1.6
of it in the pessimistic bound.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from unstall.analyze.replay import Change
from unstall.diagnose import copies
from unstall.diagnose.case import Case
from unstall.diagnose.hit import Hit
from unstall.diagnose.texts import Fix, Texts, line
from unstall.diagnose.traces import GEMM, MS, US, Trace, steps

CODE = "pageable-copy"
CATEGORY = "exposed_copy"
TABLES = ("copies", "api")
STEPS = False

SHARE = 0.02

TEXTS = {
    "en": Texts(
        title="Copies from pageable memory hold up the step",
        says={
            "exposed": "{value:ms} of a {step:ms} step ({share:pct}) the GPU waits for copies from pageable memory",
            "moved": "Such copies a step: {count:n}, {value:bytes} together, at {rate:rate}",
            "unsized": "Such copies a step: {value:n}, of a size that the capture does not tell",
            "seen": "Pinned copies in this capture run at {value:rate}",
            "link": "A pinned copy to {gpu} usually reaches about {value:rate}",
        },
        fix=Fix(
            title="Pin the source memory and copy the next batch while this one is computed",
            pytorch="Pass pin_memory=True to the DataLoader (or allocate with tensor.pin_memory() once and reuse "
            "it), copy "
            "with .to(device, non_blocking=True) on a side torch.cuda.Stream one step ahead, and let the compute "
            "stream "
            "wait for it (wait_stream) before use.",
            jax="Call jax.device_put on the next batch before the current step is waited for; keep inputs in buffers "
            "that "
            "are reused, and prefer a loader that yields device arrays.",
            cuda="Allocate the source with cudaHostAlloc (or cudaHostRegister it once), copy with cudaMemcpyAsync on a "
            "second stream, record an event behind the copy and let the compute stream wait for it.",
            cupy="Keep host arrays in pinned memory (cupyx.empty_pinned, cupyx.zeros_pinned) and copy them "
            "with x.set(host, stream=side) on a cupy.cuda.Stream(non_blocking=True) while the current batch "
            "is computed.",
            trial="pin-memory",
            patch="pin-memory",
        ),
    )
}


def check(case: Case) -> Iterator[Hit]:
    """Pageable host-to-device copies that nothing hides."""
    large = pl.col("bytes").fill_null(copies.SMALL_BYTES + 1) > copies.SMALL_BYTES
    rows = case.ops.filter((pl.col("copy_kind") == "HtoD") & (pl.col("source") == "pageable") & large)
    when = copies.exposed(case, rows)
    cost = case.per_step(when)
    if case.share(cost) < SHARE:
        return
    rate = copies.pinned_rate(case)
    _, size = copies.by_size(rows, case)
    pinned = float(rows["dur"].sum()) / case.count if size is None else size / rate.usual * 1e9
    yield Hit(
        cost_ns=cost,
        lines=(
            line("exposed", cost, "ns", "breakdown", step=case.step_ns, share=case.share(cost)),
            copies.moved(rows, case),
            line(
                "seen" if rate.seen else "link", rate.usual, "bytes/s", "copies" if rate.seen else "", gpu=case.gpu_name
            ),
        ),
        range=case.range_of_ops(rows),
        change=Change(**copies.ahead(case, rows, rate)),
        gain_ns=max(cost - pinned, 0.0),
        when=when,
        ops=rows["op"].to_numpy(),
        confidence="high" if rate.seen or case.peaks.known else "low",
    )


def fires(t: Trace) -> None:
    """A 100 MB pageable copy of 10 ms before 5 ms of work; the call returns when it is over."""
    _trace(t, "pageable", call=10 * MS, dur=10 * MS)


def silent(t: Trace) -> None:
    """The same bytes from pinned memory, in 2 ms while the step before is computed."""

    def body(i: int, at: int) -> None:
        t.copy(
            "HtoD", at, 10 * US, source="pinned", copy_start=at + 100 * US, copy_dur=2 * MS, bytes=100 << 20, stream=13
        )
        t.launch(GEMM, at + 50 * US, 10 * US, kernel_dur=4900 * US)

    steps(t, 5 * MS, body)


def _trace(t: Trace, source: str, call: int, dur: int) -> None:
    def body(i: int, at: int) -> None:
        t.range("copy_batch", at, at + call)
        t.copy("HtoD", at, call, source=source, copy_start=at + 10 * US, copy_dur=dur - 20 * US, bytes=100 << 20)
        t.launch(GEMM, at + call + 50 * US, 10 * US, kernel_dur=4900 * US)
        t.sync("stream", at + call + 70 * US, at + call + 4980 * US)

    steps(t, call + 5 * MS, body)


KOREAN = """
페이지 가능 호스트 메모리에서 하는 복사가 스텝을 붙잡습니다.

## 탐지 대상

원본이 페이지 가능 메모리(보통의 `malloc` 메모리, 페이지를 고정하지 않은 텐서)이고 아무것도 가려 주지 않는
호스트→디바이스 복사입니다. 디바이스가 복사만 하는 시간과, 호스트가 복사 호출 안에 있는 동안 디바이스가 유휴 상태인
시간을 셉니다.

## 시간이 걸리는 이유

GPU가 스스로 읽을 수 있는 것은 페이지 고정 메모리뿐입니다. 페이지 가능 메모리는 먼저 CPU가 조각조각 페이지 고정
스테이징 버퍼로 복사합니다. 이 과정은 링크보다 느리고, 마지막 조각이 떠난 뒤에야 호출이 끝납니다.
`non_blocking=True`도 이를 바꾸지 못합니다. 페이지 고정 메모리의 복사는 링크의 속도로 진행되고 호출이 곧바로 끝나며,
GPU가 연산하는 동안에도 진행될 수 있습니다.

## 안전성

결과에는 영향이 없습니다. 페이지 고정 메모리는 스왑할 수 없으므로, 데이터 세트 전체가 아니라 배치 몇 개 분량의 버퍼만
고정하십시오. 별도 스트림에서 복사할 때는 복사와 첫 사용 사이에 이벤트가 필요합니다. 없으면 커널이 덜 채워진 버퍼를
읽습니다.

## 오탐인 경우

- 복사가 연산에 가려진다면 몇 바이트를 옮기든 여기에 표시하지 않습니다.
- 64 kB 이하의 복사는 여기에 넣지 않습니다. 어떤 메모리에서 오든 비용은 호출에 있습니다(`many-small-copies`).

## 판정 기준

스텝의 2 % 이상이 노출되어야 합니다. 예측에 쓰는 페이지 고정 복사 속도는 같은 캡처에 있는 4 MB 이상 페이지 고정 복사의
속도입니다. 없으면 ×16 링크가 실제로 내는 속도를 씁니다. PCIe 5는 55 GB/s, PCIe 4는 25, PCIe 3은 12이며, 비관적
한계에서는 그 1/1.6까지 낮춥니다.
"""

TEXTS["ko"] = Texts(
    title="페이지 가능 메모리에서 하는 복사가 스텝을 붙잡습니다",
    says={
        "exposed": "{step:ms} 스텝 중 {value:ms}({share:pct}) 동안 GPU가 페이지 가능 메모리에서 오는 복사를 기다립니다",
        "moved": "이런 복사는 스텝마다 {count:n}번, 합계 {value:bytes}이고 속도는 {rate:rate}입니다",
        "unsized": "이런 복사는 스텝마다 {value:n}번이고, 크기는 캡처에 없습니다",
        "seen": "이 캡처의 페이지 고정 복사는 {value:rate}로 진행됩니다",
        "link": "{gpu} 장치로 가는 페이지 고정 복사는 보통 약 {value:rate}까지 나옵니다",
    },
    fix=Fix(
        title="원본 메모리의 페이지를 고정하고, 현재 배치를 연산하는 동안 다음 배치를 복사하기",
        pytorch="DataLoader에 pin_memory=True를 주거나 tensor.pin_memory()로 한 번 할당해 다시 쓰고, 별도 "
        "torch.cuda.Stream에서 한 스텝 앞서 .to(device, non_blocking=True)로 복사한 다음, 쓰기 전에 연산 "
        "스트림이 그 복사를 기다리게 하십시오(wait_stream).",
        jax="현재 스텝을 기다리기 전에 다음 배치에 jax.device_put을 호출하십시오. 입력은 다시 쓰는 버퍼에 두고, "
        "디바이스 배열을 내주는 로더를 쓰는 편이 좋습니다.",
        cuda="원본을 cudaHostAlloc으로 할당하고(또는 cudaHostRegister로 한 번 등록하고), 두 번째 스트림에서 "
        "cudaMemcpyAsync로 복사한 뒤 이벤트를 기록해 연산 스트림이 그 이벤트를 기다리게 하십시오.",
        cupy="호스트 배열을 페이지 고정 메모리(cupyx.empty_pinned, cupyx.zeros_pinned)에 두고, 현재 배치를 "
        "계산하는 동안 cupy.cuda.Stream(non_blocking=True)에서 x.set(host, stream=side)로 복사하십시오.",
    ),
    explain=KOREAN,
)
