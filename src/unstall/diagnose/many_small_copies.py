"""Many small copies where one would do.

## What it detects

At least eight host-to-device copies of up to 64 kB in one step whose calls, preparation and waits keep the GPU idle.

## Why it costs time

A small copy is all overhead: 64 kB need 1 to 5 µs on the link, while preparing and issuing the copy takes the host 10
to 30 µs, and from pageable memory it waits for the result as well. Fifty of them are a millisecond in which nothing
else is launched.

## How safe

Safe: the same bytes arrive, in one copy instead of many.

## When it is a false alarm

- The copies run while the GPU has queued work; then they are not shown.
- Values that the host learns one after another during the step cannot be gathered beforehand.

## Thresholds

64 kB is where a copy's own time on a PCIe link reaches the order of the call's: what is below is limited by calls.
(The `cuda_memcpy_sync` rule of `nsys analyze` draws its line for host-to-device copies at the same size.) Eight a
step leaves out the two to five tensors of an ordinary batch. At least 2 % of the step.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from unstall.analyze import intervals
from unstall.analyze.replay import Change
from unstall.diagnose import copies
from unstall.diagnose.case import Case
from unstall.diagnose.events import lead_ins, some_of, spans
from unstall.diagnose.hit import Hit
from unstall.diagnose.texts import Fix, Texts, line
from unstall.diagnose.traces import GEMM, MS, US, Trace, steps

CODE = "many-small-copies"
CATEGORY = "copy_call"
TABLES = ("copies", "api")

COUNT = 8
SHARE = 0.02

TEXTS = {
    "en": Texts(
        title="{count:n} small copies a step, where one would do",
        says={
            "idle": "{value:ms} of a {step:ms} step ({share:pct}) the GPU waits for small copies to be made and issued",
            "many": "Host-to-device copies of up to 64 kB: {value:n} a step, {bytes:bytes} together",
            "host": "Each takes the host {value:us}, its preparation included",
        },
        fix=Fix(
            title="Gather small values and copy them once, or make them on the GPU",
            pytorch="Collate the batch on the host into few tensors (torch.stack, one packed buffer) and copy once "
            "with "
            ".to(device, non_blocking=True); create constants, masks and positions with device=... instead of "
            "copying them; "
            "keep scalars such as the learning rate on the host or in a device tensor that is updated in place.",
            jax="Pass one pytree per step and let jax.device_put move it at once; build constants inside the jitted "
            "function.",
            cuda="Pack the values into one pinned buffer and make one cudaMemcpyAsync, or pass small values as kernel "
            "arguments.",
            cupy="Put the values into one NumPy array and copy it once (cupy.asarray), or create them on the "
            "GPU (cupy.arange, cupy.full, cupy.random).",
        ),
    )
}


def check(case: Case) -> Iterator[Hit]:
    """Small host-to-device copies that the GPU waits for."""
    rows = case.ops.filter((pl.col("copy_kind") == "HtoD") & (pl.col("bytes") <= copies.SMALL_BYTES))
    if rows.height < COUNT * case.count:
        return
    calls = case.calls_of(rows)
    waits = case.syncs_after(calls)
    busy = intervals.merge(spans(calls, prepared=True), spans(waits, prepared=True))
    when = intervals.merge(copies.exposed(case, rows), case.idle(busy))
    cost = case.per_step(when)
    if case.share(cost) < SHARE:
        return
    count, moved = copies.by_size(rows, case)
    yield Hit(
        cost_ns=cost,
        lines=(
            line("idle", cost, "ns", "breakdown", step=case.step_ns, share=case.share(cost)),
            line("many", count, "copies", "copies", bytes=moved),
            line("host", case.host_per_step(busy) / count, "ns", "api"),
        ),
        range=case.range_of_ops(rows),
        change=_gathered(case, calls, waits),
        when=when,
        ops=rows["op"].to_numpy(),
        facts={"count": count},
        confidence="medium",
    )


def _gathered(case: Case, calls: pl.DataFrame, waits: pl.DataFrame) -> Change:
    """Only the first copy of each step is left, and a wait behind it."""
    dropped = calls.filter(pl.col("start") > pl.col("start").min().over("step"))
    waiting = waits.filter(some_of("after", dropped["correlation"]))
    gone = pl.concat([dropped, waiting])
    return Change(cut=lead_ins(gone), drop_calls=some_of("correlation", gone["correlation"]))


def fires(t: Trace) -> None:
    """Forty copies of 1 kB at the start of each step, 20 µs each, then 3 ms of work."""
    _trace(t, 40)


def silent(t: Trace) -> None:
    """Two copies."""
    _trace(t, 2)


def _trace(t: Trace, count: int) -> None:
    def body(i: int, at: int) -> None:
        for k in range(count):
            start = at + k * 20 * US
            t.copy("HtoD", start + 10 * US, 8 * US, copy_start=start + 12 * US, copy_dur=US, bytes=1024)
        begin = at + count * 20 * US
        t.launch(GEMM, begin + 10 * US, 10 * US, kernel_dur=3 * MS)
        t.sync("stream", begin + 30 * US, begin + 3 * MS + 30 * US)

    steps(t, count * 20 * US + 3 * MS + 100 * US, body)


KOREAN = """
한 번이면 될 복사를 여러 번 작게 나누어 합니다.

## 탐지 대상

한 스텝에 64 kB 이하의 호스트→디바이스 복사가 여덟 번 이상 있고, 그 호출과 준비와 대기 때문에 GPU가 유휴 상태인
경우입니다.

## 시간이 걸리는 이유

작은 복사는 거의 전부가 오버헤드입니다. 64 kB가 링크를 지나는 데는 1~5 µs면 되지만, 복사를 준비하고 내보내는 데 호스트
시간이 10~30 µs 들고, 페이지 가능 메모리에서라면 결과까지 기다립니다. 쉰 번이면 1 ms이고 그동안 다른 것은 실행되지
않습니다.

## 안전성

안전합니다. 같은 바이트가 여러 번 대신 한 번의 복사로 도착합니다.

## 오탐인 경우

- GPU의 큐에 작업이 있는 동안 복사가 진행된다면 표시하지 않습니다.
- 스텝 도중에 호스트가 하나씩 알게 되는 값은 미리 모을 수 없습니다.

## 판정 기준

64 kB는 PCIe 링크에서 복사 자체의 시간이 호출 시간과 비슷해지는 크기입니다. 그보다 작으면 호출이 한계입니다. (`nsys
analyze`의 `cuda_memcpy_sync` 규칙도 호스트→디바이스 복사의 선을 같은 크기에 긋습니다.) 스텝마다 여덟 번이면 보통
배치의 텐서 두 개에서 다섯 개는 걸리지 않습니다. 스텝의 2 % 이상이어야 합니다.
"""

TEXTS["ko"] = Texts(
    title="한 번이면 될 작은 복사를 스텝마다 {count:n}번 합니다",
    says={
        "idle": "{step:ms} 스텝 중 {value:ms}({share:pct}) 동안 GPU가 작은 복사의 준비와 호출을 기다립니다",
        "many": "64 kB 이하의 호스트→디바이스 복사: 스텝마다 {value:n}번, 합계 {bytes:bytes}",
        "host": "준비를 포함해 복사 한 번에 호스트 시간이 {value:us} 듭니다",
    },
    fix=Fix(
        title="작은 값을 모아 한 번에 복사하거나 GPU에서 만들기",
        pytorch="호스트에서 배치를 텐서 몇 개로 모아(torch.stack, 한 덩어리로 채운 버퍼) .to(device, "
        "non_blocking=True)로 한 번에 복사하십시오. 상수, 마스크, 위치는 복사하지 말고 device=...로 "
        "만드십시오. 학습률 같은 스칼라는 호스트에 두거나 제자리에서 갱신하는 디바이스 텐서에 두십시오.",
        jax="스텝마다 pytree 하나를 넘겨 jax.device_put이 한 번에 옮기게 하고, 상수는 jit으로 컴파일한 함수 안에서 "
        "만드십시오.",
        cuda="값들을 페이지 고정 버퍼 하나에 담아 cudaMemcpyAsync를 한 번만 하거나, 작은 값은 커널 인자로 넘기십시오.",
        cupy="값을 NumPy 배열 하나에 모아 한 번에 복사하거나(cupy.asarray), GPU에서 만드십시오(cupy.arange, "
        "cupy.full, cupy.random).",
    ),
    explain=KOREAN,
)
