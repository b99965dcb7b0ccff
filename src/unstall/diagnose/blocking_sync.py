"""The host waits for the GPU, and the GPU then runs dry.

## What it detects

Calls that wait for the device inside the step: `.item()`, `print(tensor)`, `if tensor:`, `torch.cuda.synchronize()`,
`cudaStreamSynchronize`, `cudaDeviceSynchronize`, `cudaEventSynchronize`, synchronous `cudaMemcpy` of a few bytes and
synchronous memsets of pinned or managed memory.

## Why it costs time

Waiting is no cost: the GPU works meanwhile. The cost comes afterwards. When the wait ends the queue is empty, and the
GPU stays idle until the host has prepared and launched the next operation. If the host cannot run ahead anyway,
because issuing work is the limit, removing the wait gains almost nothing; so the prediction decides, not the time in
the call.

## How safe

Removing a wait does not change what is computed. Values read from the device must be read later or less often.

## When it is a false alarm

- One wait at the end of a step that the GPU fills: the gain is what is predicted, usually little.
- Waits in front of timers or logging in steps that you added for measuring.

## Thresholds

At least 2 % of the step idle during or directly after waits. Below 3 % of predicted gain it is a side note: the wait
looks expensive in a table of calls and is not.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from unstall.analyze import intervals
from unstall.analyze.replay import Change
from unstall.diagnose.case import Case
from unstall.diagnose.events import lead_ins, some_of, spans
from unstall.diagnose.hit import Hit
from unstall.diagnose.texts import Fix, Texts, line
from unstall.diagnose.traces import ADD, MS, US, Trace, launches, steps

CODE = "blocking-sync"
CATEGORY = "sync"
GENERAL = 1
TABLES = ("api",)

SHARE = 0.02
OTHERS = ("alloc", "gil_wait", "data_loading", "checkpoint", "file_io", "lock_wait")
"""What the host may be doing after a wait that has a rule of its own."""
VALUE_BYTES = 4096
"""Device-to-host copies up to this size carry a value for the host: the wait is the point, not the bytes."""

TEXTS = {
    "en": Texts(
        title="Waits for the GPU leave it without work",
        says={
            "dry": "The GPU is idle for {value:ms} of a {step:ms} step ({share:pct}) during or directly after waits",
            "waits": "{call}: {value:n} waits a step, {inside:ms} inside; waiting for the GPU is not a cost, what "
            "follows is",
            "values": "{value:n} of them a step read a value back (.item(), bool(tensor), print)",
        },
        fix=Fix(
            title="Do not wait inside the step",
            pytorch="Keep losses and metrics as device tensors (detach(), add up) and call .item() every 50 or 100 "
            "steps; "
            "replace `if tensor:` and boolean indexing by torch.where or masks; drop torch.cuda.synchronize() around "
            "timers (use torch.cuda.Event).",
            jax="Do not call block_until_ready, float() or np.asarray on results inside the step; read metrics every "
            "50 or "
            "100 steps.",
            cuda="Order work with streams and cudaStreamWaitEvent instead of synchronising; poll with "
            "cudaEventQuery, or "
            "read results of an earlier step. Use the Async form of memset and memcpy.",
            cupy="float(x), bool(x), if x: and .get() wait for the GPU; so does "
            "cupy.cuda.Device().synchronize(). Keep conditions on the GPU (cupy.where), log every 50th step, "
            "and wait for an event only where its result is needed.",
            safety="manual",
        ),
    )
}


def check(case: Case) -> Iterator[Hit]:
    """Waits behind which the GPU is idle."""
    calls = _waits(case)
    if not calls.height:
        return
    dry = case.idle(intervals.merge(spans(calls), case.after_waits(calls)))
    when = intervals.subtract(dry, case.part(*OTHERS))
    cost = case.per_step(when)
    if case.share(cost) < SHARE:
        return
    values = _values(case, calls)
    by = calls.group_by("name").agg(pl.len(), (pl.col("end") - pl.col("start")).sum().alias("ns"))
    name, count, inside = by.sort("ns", "name", descending=[True, False]).row(0)
    lines = [
        line("dry", cost, "ns", "breakdown", step=case.step_ns, share=case.share(cost)),
        line("waits", count / case.count, "calls", "api", call=name, inside=inside / case.count),
    ]
    if values.height:
        lines.append(line("values", values.height / case.count, "copies", "copies"))
    yield Hit(
        cost_ns=cost,
        lines=tuple(lines),
        range=case.range_of(when),
        call=name,
        change=_without(calls, values, case),
        when=when,
        ops=values["op"].to_numpy(),
        confidence="medium",
    )


def _waits(case: Case) -> pl.DataFrame:
    """Waiting calls that other rules do not claim: those behind large copies belong to the copy."""
    sync = case.calls.filter((pl.col("kind") == "sync") & ~pl.col("name").str.contains("Query"))
    copies = case.ops.filter(pl.col("kind") == "copy")
    large = copies.filter(
        ((pl.col("copy_kind") == "DtoH") & (pl.col("bytes") > VALUE_BYTES)) | (pl.col("copy_kind") == "HtoD")
    )
    mine = ~some_of("after", large["correlation"]) & ~some_of("correlation", large["correlation"])
    return pl.concat([sync.filter(mine.fill_null(value=True)), _memsets(case)])


def _memsets(case: Case) -> pl.DataFrame:
    """Synchronous memsets of host memory: they wait as well."""
    own = case.ops.filter((pl.col("table") == "memsets") & ~pl.col("api_name").cast(pl.String).str.contains("Async"))
    if case.profile.memsets is None or not own.height:
        return case.calls.head(0)
    memory = case.profile.memsets["memory"][own["row"]].cast(pl.String).is_in(["pinned", "managed"])
    return case.calls_of(own.filter(memory))


def _values(case: Case, calls: pl.DataFrame) -> pl.DataFrame:
    """Small device-to-host copies that these calls wait for, or are."""
    small = case.ops.filter((pl.col("copy_kind") == "DtoH") & (pl.col("bytes") <= VALUE_BYTES))
    return small.filter(some_of("correlation", calls["after"]) | some_of("correlation", calls["correlation"]))


def _without(calls: pl.DataFrame, values: pl.DataFrame, case: Case) -> Change:
    """No waits, and no reading back of values: neither the calls nor what prepared the read."""
    reads = case.calls_of(values)
    gone = pl.concat([calls, reads])
    return Change(
        cut=lead_ins(reads),
        drop_calls=some_of("correlation", gone["correlation"]),
        drop_ops=some_of("op", values["op"]),
    )


def fires(t: Trace) -> None:
    """Forty times a step: 100 µs of work, waited for, and then 60 µs until the next launch."""

    def body(i: int, at: int) -> None:
        for k in range(40):
            start = at + k * 180 * US
            t.launch(ADD, start + 60 * US, 5 * US, kernel_dur=100 * US)
            t.sync("stream", start + 70 * US, start + 170 * US)

    steps(t, 40 * 180 * US, body)


def silent(t: Trace) -> None:
    """The host runs ahead of 5 ms of work, and waits once, at the end."""

    def body(i: int, at: int) -> None:
        end = launches(t, at, 50, every=15 * US, dur=100 * US)
        t.sync("stream", at + MS, end + 5 * US)

    steps(t, 5030 * US, body)


KOREAN = """
호스트가 GPU를 기다리고, 그 뒤 GPU의 일감이 떨어집니다.

## 탐지 대상

스텝 안에서 디바이스를 기다리는 호출입니다. `.item()`, `print(tensor)`, `if tensor:`, `torch.cuda.synchronize()`,
`cudaStreamSynchronize`, `cudaDeviceSynchronize`, `cudaEventSynchronize`, 몇 바이트를 옮기는 동기 `cudaMemcpy`, 페이지
고정 메모리나 관리형 메모리의 동기 memset이 여기에 듭니다.

## 시간이 걸리는 이유

기다리는 것 자체는 비용이 아닙니다. 그동안 GPU가 일하기 때문입니다. 비용은 그 뒤에 생깁니다. 대기가 끝나면 큐가 비어
있고, 호스트가 다음 작업을 준비해 실행할 때까지 GPU는 유휴 상태입니다. 작업을 내보내는 속도가 한계여서 호스트가 어차피
앞서 나갈 수 없다면 대기를 없애도 얻는 것이 거의 없습니다. 그래서 호출에 든 시간이 아니라 예측으로 판단합니다.

## 안전성

대기를 없애도 계산 결과는 달라지지 않습니다. 디바이스에서 읽는 값은 나중에 또는 덜 자주 읽어야 합니다.

## 오탐인 경우

- GPU가 가득 채우는 스텝의 끝에 있는 대기 하나입니다. 이득은 예측된 만큼이고 보통 적습니다.
- 측정하려고 직접 넣은 타이머나 로그 앞의 대기입니다.

## 판정 기준

대기 중이거나 대기 직후에 스텝의 2 % 이상이 유휴 상태여야 합니다. 예측 이득이 3 %보다 작으면 참고 사항입니다. 호출
표에서는 비싸 보여도 실제로는 그렇지 않은 대기입니다.
"""

TEXTS["ko"] = Texts(
    title="GPU를 기다리는 대기 때문에 GPU의 일감이 떨어집니다",
    says={
        "dry": "{step:ms} 스텝 중 {value:ms}({share:pct}) 동안, 대기 중이거나 대기 직후에 GPU가 유휴 상태입니다",
        "waits": "{call}: 스텝마다 대기 {value:n}번, 호출 안의 시간 {inside:ms}. GPU를 기다리는 것은 비용이 아니고 "
        "그 뒤에 오는 것이 비용입니다",
        "values": "그중 스텝마다 {value:n}번은 값을 읽어 옵니다(.item(), bool(tensor), print)",
    },
    fix=Fix(
        title="스텝 안에서 기다리지 않기",
        pytorch="손실과 지표를 디바이스 텐서로 두고(detach()로 떼어 더하고) .item()은 50 또는 100스텝마다 "
        "호출하십시오. `if tensor:`와 불리언 인덱싱은 torch.where나 마스크로 바꾸고, 타이머 주변의 "
        "torch.cuda.synchronize()는 빼십시오(torch.cuda.Event를 쓰십시오).",
        jax="스텝 안에서 결과에 block_until_ready, float(), np.asarray를 호출하지 마십시오. 지표는 50 또는 "
        "100스텝마다 읽으십시오.",
        cuda="동기화 대신 스트림과 cudaStreamWaitEvent로 순서를 정하십시오. cudaEventQuery로 확인하거나 이전 스텝의 "
        "결과를 읽으십시오. memset과 memcpy는 Async 형식을 쓰십시오.",
        cupy="float(x), bool(x), if x:, .get()은 GPU를 기다립니다. cupy.cuda.Device().synchronize()도 "
        "그렇습니다. 조건은 GPU에 두고(cupy.where), 50스텝마다 기록하고, 결과가 필요한 곳에서만 이벤트를 "
        "기다리십시오.",
    ),
    explain=KOREAN,
)
