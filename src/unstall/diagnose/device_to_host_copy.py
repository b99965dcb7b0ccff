"""Results are copied back to the host inside the step.

## What it detects

Device-to-host copies of more than 4 kB (activations, predictions, metrics: `.cpu()`, `.numpy()`, `.tolist()`) that
hold up the step: time in which the GPU only copies, in which it idles while the host waits for the copy, or in which
it has run dry afterwards. Single values (`.item()`) are `blocking-sync`.

## Why it costs time

The host waits until everything queued before has been computed, and then until the bytes have arrived; into pageable
memory they come in pieces. Only then does it launch again, so the GPU is empty meanwhile.

## How safe

Reading results later or less often changes what you see, not what is trained. A non-blocking copy must be waited for
before its buffer is read, or the values are those of an earlier step.

## When it is a false alarm

- The copied values decide what is launched next (beam search, early exit): then they are needed at once.
- A copy at the end of a step whose GPU work fills the step anyway: it is shown with the small gain that it has.

## Thresholds

4 kB separate tensors from single values and small vectors, whose bytes cost nothing. At least 2 % of the step. The
prediction is the step that does not copy: log every 50th step, and 49 of 50 look like it.
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
from unstall.diagnose.texts import Fix, Line, Texts, line
from unstall.diagnose.traces import GEMM, MS, US, Trace, steps

CODE = "device-to-host-copy"
CATEGORY = "exposed_copy"
TABLES = ("copies", "api")

BYTES = 4096
SHARE = 0.02

TEXTS = {
    "en": Texts(
        title="Results are copied to the host inside the step",
        says={
            "idle": "{value:ms} of a {step:ms} step ({share:pct}) the GPU only copies, idles or has run dry because of "
            "copies to the host",
            "moved": "Such copies a step: {count:n}, {value:bytes} together, at {rate:rate}, into {memory} memory",
            "seldom": "They happen in {value:pct} of the steady steps, and add {cost:ms} to a step on average",
        },
        fix=Fix(
            title="Keep results on the GPU; read them later, and less often",
            pytorch="Accumulate metrics in device tensors and call .cpu() every 50 or 100 steps, outside the step; "
            "where a "
            "copy is needed in each, copy into a pinned buffer with non_blocking=True and read it a step later.",
            jax="Keep metrics as device arrays (they are futures) and call jax.device_get on them every 50 or 100 "
            "steps.",
            cuda="Reduce on the device, copy with cudaMemcpyAsync into pinned memory on a stream of its own, record an "
            "event, and read the buffer when the event of an earlier step is done.",
            cupy="Avoid .get(), cupy.asnumpy() and float(x) in the loop: keep results on the GPU, bring them "
            "every 50th step, or copy into a pinned array with x.get(stream=side, out=host, blocking=False) "
            "and read it a step later.",
            safety="manual",
        ),
    )
}


def check(case: Case) -> Iterator[Hit]:
    """Copies to the host that the step waits for."""
    rows = case.ops.filter((pl.col("copy_kind") == "DtoH") & (pl.col("bytes") > BYTES))
    if not rows.height:
        return
    calls = case.calls_of(rows)
    waits = case.syncs_after(calls)
    stuck = intervals.merge(spans(calls), spans(waits), case.after_waits(pl.concat([calls, waits])))
    stuck = intervals.merge(stuck, intervals.union(rows["start"], rows["end"]))
    held = intervals.subtract(stuck, case.computing)
    usual, every = case.per_step(intervals.intersect(held, case.window)), case.per_steady_step(held)
    seldom = case.seldom(usual, every)
    cost = every if seldom else usual
    if case.share(cost) < SHARE:
        return
    yield Hit(
        cost_ns=cost,
        lines=tuple(_lines(case, rows, cost, seldom)),
        range=case.range_of_ops(rows),
        change=None if seldom else _without(calls, waits, rows),
        seldom=seldom,
        when=intervals.intersect(held, case.window),
        ops=rows["op"].to_numpy(),
        confidence="medium",
    )


def _lines(case: Case, rows: pl.DataFrame, cost: float, seldom: bool) -> Iterator[Line]:
    if seldom:
        yield line("seldom", rows["step"].n_unique() / case.count, "", "copies", cost=cost)
    else:
        yield line("idle", cost, "ns", "breakdown", step=case.step_ns, share=case.share(cost))
    memory = str(rows["destination"].mode().sort()[0] or "host")
    yield copies.moved(rows, case, memory=memory)


def _without(calls: pl.DataFrame, waits: pl.DataFrame, rows: pl.DataFrame) -> Change:
    gone = pl.concat([calls, waits])
    return Change(
        cut=lead_ins(gone),
        drop_calls=some_of("correlation", gone["correlation"]),
        drop_ops=some_of("op", rows["op"]),
    )


def fires(t: Trace) -> None:
    """20 MB copied back in 4 ms between two halves of the step."""
    _trace(t, 20 << 20, 4 * MS)


def silent(t: Trace) -> None:
    """A single value comes back."""
    _trace(t, 4, 2 * US)


def _trace(t: Trace, size: int, dur: int) -> None:
    def body(i: int, at: int) -> None:
        t.launch(GEMM, at, 10 * US, kernel_dur=3 * MS)
        began = at + 3 * MS + 20 * US
        t.copy("DtoH", at + 20 * US, began + dur - at - 10 * US, copy_start=began, copy_dur=dur, bytes=size)
        t.launch(GEMM, began + dur + 60 * US, 10 * US, kernel_dur=3 * MS)
        t.sync("stream", began + dur + 80 * US, began + dur + 3 * MS + 80 * US)

    steps(t, 6 * MS + dur + 200 * US, body)


KOREAN = """
스텝 안에서 결과를 호스트로 복사해 옵니다.

## 탐지 대상

스텝을 붙잡는 4 kB 초과 디바이스→호스트 복사(활성값, 예측, 지표: `.cpu()`, `.numpy()`, `.tolist()`)입니다. GPU가
복사만 하는 시간, 호스트가 복사를 기다리는 동안 GPU가 유휴 상태인 시간, 그 뒤 GPU의 일감이 떨어진 시간을 셉니다. 값
하나(`.item()`)는 `blocking-sync`입니다.

## 시간이 걸리는 이유

호스트는 먼저 큐에 쌓인 것이 모두 연산될 때까지, 그다음 바이트가 도착할 때까지 기다립니다. 페이지 가능 메모리로는
조각조각 옵니다. 그런 뒤에야 다시 커널을 실행하므로 그동안 GPU는 비어 있습니다.

## 안전성

결과를 나중에 또는 덜 자주 읽으면 눈에 보이는 것은 달라져도 학습되는 것은 달라지지 않습니다. 비동기(non-blocking)
복사는 버퍼를 읽기 전에 끝나기를 기다려야 합니다. 그러지 않으면 이전 스텝의 값을 읽습니다.

## 오탐인 경우

- 복사한 값이 다음에 무엇을 실행할지 정하는 경우(빔 탐색, 조기 종료)입니다. 그때는 값이 곧바로 필요합니다.
- 어차피 GPU 작업이 스텝을 채우고 있을 때 스텝 끝에 있는 복사입니다. 실제의 작은 이득과 함께 표시합니다.

## 판정 기준

4 kB는 바이트의 비용이 없는 값 하나나 작은 벡터를 텐서와 가르는 선입니다. 스텝의 2 % 이상이어야 합니다. 예측은
복사하지 않는 스텝의 시간입니다. 50스텝마다 기록하면 50번 중 49번이 그런 스텝입니다.
"""

TEXTS["ko"] = Texts(
    title="스텝 안에서 결과를 호스트로 복사합니다",
    says={
        "idle": "{step:ms} 스텝 중 {value:ms}({share:pct}) 동안, 호스트로 가는 복사 때문에 GPU가 복사만 하거나 유휴 "
        "상태이거나 일감이 떨어져 있습니다",
        "moved": "이런 복사는 스텝마다 {count:n}번, 합계 {value:bytes}이고 속도는 {rate:rate}, 대상은 {memory} "
        "메모리입니다",
        "seldom": "정상 상태 스텝의 {value:pct}에서 일어나고, 평균하면 스텝마다 {cost:ms}가 더해집니다",
    },
    fix=Fix(
        title="결과를 GPU에 두고 나중에, 덜 자주 읽기",
        pytorch="지표를 디바이스 텐서에 모으고 .cpu()는 스텝 밖에서 50 또는 100스텝마다 호출하십시오. 스텝마다 "
        "복사가 필요하다면 non_blocking=True로 페이지 고정 버퍼에 복사하고 한 스텝 뒤에 읽으십시오.",
        jax="지표를 디바이스 배열로 두고(future와 같습니다) 50 또는 100스텝마다 jax.device_get을 호출하십시오.",
        cuda="디바이스에서 먼저 축약하고, 별도 스트림에서 페이지 고정 메모리로 복사한(cudaMemcpyAsync) 뒤 이벤트를 "
        "기록하고, 이전 스텝의 이벤트가 끝났을 때 버퍼를 읽으십시오.",
        cupy="반복문에서 .get(), cupy.asnumpy(), float(x)를 피하십시오: 결과를 GPU에 두고 50스텝마다 "
        "가져오거나, 페이지 고정 배열에 x.get(stream=side, out=host, blocking=False)로 복사해 한 스텝 뒤에 "
        "읽으십시오.",
    ),
    explain=KOREAN,
)
