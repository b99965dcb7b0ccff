"""Copies that need not be in the way run while the GPU has nothing else to do.

## What it detects

Copies from the host to the device, or between devices, that no compute hides; those from pageable memory are
`pageable-copy`'s. They are fast, and still in the way: they run in the compute stream, or are started when their data
is needed at once. Where the capture does not tell the memory, that is said, and confidence is low.

## Why it costs time

A GPU copies and computes at the same time, on separate engines, if the two are in different streams and neither waits
for the other. In one stream they take turns, and the step lasts as long as both together.

## How safe

Safe for results if the first use waits for the copy (an event or `wait_stream`), and the buffer is not reused before.

## When it is a false alarm

- Data that is produced only just before it is needed cannot be copied earlier.
- Weights that do not fit on the device are streamed in: overlap helps up to the link's rate, no further.

## Thresholds

At least 2 % of the step exposed. The prediction keeps each copy's own speed and runs it a step ahead on a stream of its
own, so that the link remains the limit where the copies take longer than the compute.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from unstall.analyze.device import stream
from unstall.analyze.replay import Change
from unstall.diagnose import copies
from unstall.diagnose.case import Case
from unstall.diagnose.events import some_of
from unstall.diagnose.hit import Hit
from unstall.diagnose.texts import Fix, Texts, line
from unstall.diagnose.traces import GEMM, MS, US, Trace, steps

CODE = "exposed-copy"
CATEGORY = "exposed_copy"
TABLES = ("copies",)
STEPS = False
SIDE = "device"

SHARE = 0.02
LINK = 0.7
"""Copy time as a share of the step from which overlap can no longer halve what the step takes."""

TEXTS = {
    "en": Texts(
        title="Copies run while the GPU has nothing to compute",
        titles={"link": "Copies limit: they take longer than everything else"},
        says={
            "exposed": "{value:ms} of a {step:ms} step ({share:pct}) the GPU only copies",
            "moved": "Such copies a step: {count:n}, {value:bytes} together, at {rate:rate}",
            "unsized": "Such copies a step: {value:n}, of a size that the capture does not tell",
            "untold": "The capture does not tell from which host memory {value:pct} of them are: pin it first",
            "stream": "{value:pct} of them are in the stream that computes",
            "link": "The copies alone take {value:ms}: overlap can gain no more than the rest",
        },
        fix=Fix(
            title="Copy ahead, on a stream of its own",
            pytorch="Start the copy of the next batch (or layer) before the current one is computed, inside "
            "torch.cuda.stream(side), with non_blocking=True; before use, "
            "torch.cuda.current_stream().wait_stream(side), "
            "and x.record_stream(torch.cuda.current_stream()).",
            jax="Call jax.device_put for the next batch before waiting for the current step.",
            cuda="Put the copy on a second stream a step ahead, record an event behind it, and let the compute "
            "stream wait "
            "for the event before use. Two buffers in turn keep one from being overwritten.",
            cupy="Copy on a stream of its own: with cupy.cuda.Stream(non_blocking=True) as side: x.set(host, "
            "stream=side), and let the computing stream wait for side.record() only where it needs the data.",
        ),
        fixes={
            "link": Fix(
                title="Copy fewer bytes",
                pytorch="Keep on the GPU what fits (weights that are offloaded to the host are copied again for each "
                "use), send "
                "lower precision or compressed data and expand it on the GPU, raise the batch size so that each "
                "copied weight "
                "does more work; then overlap what is left.",
                jax="Keep on the device what fits, and send lower precision; then overlap what is left.",
                cuda="Keep on the device what fits, send lower precision or compressed data; then overlap what is "
                "left.",
                safety="manual",
            )
        },
    )
}


def check(case: Case) -> Iterator[Hit]:
    """Copies that are neither pageable nor hidden."""
    from_host = pl.col("copy_kind") == "HtoD"
    pageable = from_host & pl.col("source").eq_missing(pl.lit("pageable"))
    rows = case.ops.filter(pl.col("copy_kind").is_in(["HtoD", "PtoP"]) & ~pageable)
    when = copies.exposed(case, rows)
    cost = case.per_step(when)
    if case.share(cost) < SHARE:
        return
    took = float(rows["dur"].sum()) / case.count
    untold = rows.filter(from_host & pl.col("source").fill_null("unknown").eq("unknown")).height / max(rows.height, 1)
    link = "link" if case.share(took) > LINK else ""
    yield Hit(
        cost_ns=cost,
        lines=(
            line("exposed", cost, "ns", "breakdown", step=case.step_ns, share=case.share(cost)),
            copies.moved(rows, case),
            *([line("untold", untold, "", "copies")] if untold else []),
            line("stream", _in_compute_stream(case, rows), "", "copies"),
            *([line("link", took, "ns", "copies")] if link else []),
        ),
        title=link,
        fix=link,
        range=case.range_of_ops(rows),
        change=Change(side=some_of("op", rows["op"])),
        gain_ns=min(cost, max(case.step_ns - took, 0.0)),
        when=when,
        ops=rows["op"].to_numpy(),
        confidence="low" if untold else "medium",
    )


def _in_compute_stream(case: Case, rows: pl.DataFrame) -> float:
    computing = case.ops.filter(pl.col("kind") == "kernel").select(stream().unique()).to_series()
    return rows.filter(stream().is_in(computing.implode())).height / max(rows.height, 1)


def fires(t: Trace) -> None:
    """2 ms of pinned copying and 5 ms of work, in one stream."""
    _trace(t, stream=7)


def silent(t: Trace) -> None:
    """The same copy on a stream of its own, while the GPU computes."""
    _trace(t, stream=13)


def _trace(t: Trace, stream: int) -> None:
    def body(i: int, at: int) -> None:
        t.copy(
            "HtoD",
            at,
            10 * US,
            source="pinned",
            copy_start=at + 30 * US,
            copy_dur=2 * MS,
            bytes=100 << 20,
            stream=stream,
        )
        begin = at + 50 * US + (2 * MS if stream == 7 else 0)
        t.launch(GEMM, at + 40 * US, 10 * US, kernel_start=begin, kernel_dur=4900 * US)
        t.sync("stream", at + 60 * US, begin + 4900 * US + 5 * US)

    steps(t, 5 * MS + (2 * MS if stream == 7 else 0), body)


KOREAN = """
길을 막지 않아도 될 복사가 GPU가 달리 할 일이 없는 동안 진행됩니다.

## 탐지 대상

호스트에서 디바이스로, 또는 디바이스 사이의 복사 가운데 연산이 가려 주지 않는 것입니다. 페이지 가능 메모리에서 하는
복사는 `pageable-copy`가 다룹니다. 빠르지만 걸림돌입니다. 연산 스트림에서 진행되거나, 데이터가 곧바로 필요할 때에야
시작되기 때문입니다. 어떤 메모리인지 캡처에 없으면 그렇다고 알리고 확신도를 낮춥니다.

## 시간이 걸리는 이유

GPU는 별개의 엔진으로 복사와 연산을 동시에 합니다. 다만 둘이 서로 다른 스트림에 있고 서로를 기다리지 않아야 합니다. 한
스트림에서는 번갈아 하므로 스텝이 둘의 합만큼 걸립니다.

## 안전성

첫 사용이 복사를 기다리고(이벤트 또는 `wait_stream`) 그전에 버퍼를 다시 쓰지 않는다면 결과에는 영향이 없습니다.

## 오탐인 경우

- 필요하기 직전에야 만들어지는 데이터는 더 일찍 복사할 수 없습니다.
- 디바이스에 다 들어가지 않는 가중치는 흘려 넣습니다. 겹치는 것은 링크의 속도까지만 도움이 됩니다.

## 판정 기준

스텝의 2 % 이상이 노출되어야 합니다. 예측은 복사마다 자체 속도를 유지하면서 별도 스트림에서 한 스텝 앞서 복사하는
경우입니다. 그래서 복사가 연산보다 오래 걸리면 링크가 한계로 남습니다.
"""

TEXTS["ko"] = Texts(
    title="GPU가 연산할 것이 없는 동안 복사가 진행됩니다",
    titles={
        "link": "복사가 한계입니다: 나머지 전부보다 오래 걸립니다",
    },
    says={
        "exposed": "{step:ms} 스텝 중 {value:ms}({share:pct}) 동안 GPU가 복사만 합니다",
        "moved": "이런 복사는 스텝마다 {count:n}번, 합계 {value:bytes}이고 속도는 {rate:rate}입니다",
        "unsized": "이런 복사는 스텝마다 {value:n}번이고, 크기는 캡처에 없습니다",
        "untold": "그중 {value:pct}는 어떤 호스트 메모리에서 오는지 캡처에 없습니다. 먼저 페이지를 고정하십시오",
        "stream": "그중 {value:pct}는 연산하는 스트림에 있습니다",
        "link": "복사만으로 {value:ms}가 걸립니다. 겹쳐서 얻는 이득은 그 나머지를 넘을 수 없습니다",
    },
    fix=Fix(
        title="별도 스트림에서 앞서 복사하기",
        pytorch="현재 배치(또는 층)를 연산하기 전에 torch.cuda.stream(side) 안에서 non_blocking=True로 다음 것의 "
        "복사를 시작하십시오. 쓰기 전에는 torch.cuda.current_stream().wait_stream(side)와 "
        "x.record_stream(torch.cuda.current_stream())을 호출하십시오.",
        jax="현재 스텝을 기다리기 전에 다음 배치에 jax.device_put을 호출하십시오.",
        cuda="한 스텝 앞선 복사를 두 번째 스트림에 두고, 그 뒤에 이벤트를 기록해 연산 스트림이 쓰기 전에 기다리게 "
        "하십시오. 버퍼 둘을 번갈아 쓰면 덮어쓰지 않습니다.",
        cupy="별도 스트림에서 복사하십시오: with cupy.cuda.Stream(non_blocking=True) as side: x.set(host, "
        "stream=side). 연산 스트림은 데이터가 필요한 곳에서만 side.record()를 기다리게 하십시오.",
    ),
    fixes={
        "link": Fix(
            title="더 적은 바이트 복사하기",
            pytorch="들어가는 것은 GPU에 두십시오(호스트로 내린 가중치는 쓸 때마다 다시 복사됩니다). 더 낮은 "
            "정밀도나 압축한 데이터를 보내 GPU에서 펼치고, 배치를 키워 복사한 가중치가 더 많은 일을 하게 "
            "하십시오. 그런 다음 남은 것을 겹치십시오.",
            jax="들어가는 것은 디바이스에 두고 더 낮은 정밀도로 보내십시오. 그런 다음 남은 것을 겹치십시오.",
            cuda="들어가는 것은 디바이스에 두고 더 낮은 정밀도나 압축한 데이터를 보내십시오. 그런 다음 남은 것을 "
            "겹치십시오.",
        ),
    },
    explain=KOREAN,
)
