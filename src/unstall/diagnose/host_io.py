"""Files are written or read inside the step.

## What it detects

Time in which the GPU is idle while the step's thread is in a range named after saving or logging (`checkpoint`, `save`,
`log` …), or inside a file, pipe or socket call of the OS runtime, outside of loading.

## Why it costs time

A checkpoint copies the weights to the host and writes gigabytes; nothing is launched meanwhile. Log lines flushed in
each step wait for a disk or a network file system, whose slow moments become slow steps.

## How safe

Saving in the background is safe if the weights are copied before the optimizer changes them.

## When it is a false alarm

- A pipe or socket call in which the main thread waits for data is loading; name the range (`data_load`) and it is
  counted as that.
- A step that waits for a debugger, a progress bar or a slow terminal while profiling.

## Thresholds

At least 2 % of the step, averaged over all steady steps: a checkpoint in every 50th step counts with its share. The
prediction is the step that does not do it.
"""

from __future__ import annotations

from collections.abc import Iterator

from unstall.analyze import intervals
from unstall.analyze.replay import Change
from unstall.diagnose.case import Case
from unstall.diagnose.hit import Hit
from unstall.diagnose.texts import Fix, Line, Texts, line
from unstall.diagnose.traces import GEMM, MS, US, Trace, steps

CODE = "host-io"
CATEGORY = "file_io"
TABLES = ()
GPU = False

SHARE = 0.02
FEW = 0.5
"""Below this share of the steps it is said in how many of them."""
PARTS = ("checkpoint", "file_io")

TEXTS = {
    "en": Texts(
        title="Files are written or read inside the step",
        titles={"saving": "Saving or logging holds up the step"},
        says={
            "idle": "The GPU is idle for {value:ms} of a {step:ms} step ({share:pct}) while the host reads or writes",
            "cpu": "Reading and writing take {value:ms} of a {step:ms} step ({share:pct}); this capture holds no GPU "
            "work",
            "seldom": "{value:pct} of the steady steps do it, {each:ms} each; over all of them it adds {cost:ms} a "
            "step",
            "call": "{value:pct} of that time is spent in {call}",
        },
        fix=Fix(
            title="Write in the background, less often, or after launching",
            pytorch="Save with torch.distributed.checkpoint.async_save, or copy the state dict to pinned host memory "
            "and "
            "torch.save it in a thread; log every 50th step and buffer the file; keep TensorBoard and similar "
            "writers in "
            "their own thread.",
            jax="Save with orbax's AsyncCheckpointer; log every 50th step.",
            cuda="Copy to pinned memory on a side stream and let another thread write it.",
            safety="manual",
        ),
    )
}


def check(case: Case) -> Iterator[Hit]:
    """Idle time in saving, logging and file calls."""
    usual_at = case.part(*PARTS)
    every_at = intervals.merge(*(case.steady_parts.get(n, intervals.NOTHING) for n in PARTS))
    usual, every = case.per_step(usual_at), case.per_steady_step(every_at)
    seldom = case.seldom(usual, every)
    cost, at = (every, every_at) if seldom else (usual, usual_at)
    if case.share(cost) < SHARE:
        return
    removed = intervals.merge(*(case.host_time[n] for n in PARTS))
    saving = intervals.intersect(at, case.host_time["checkpoint"])
    named = intervals.total(saving) > 0.5 * intervals.total(at)
    yield Hit(
        cost_ns=cost,
        lines=tuple(_lines(case, at, every_at, cost, seldom)),
        range=case.range_of(at),
        call=None if named else case.waits_in(at)[1] or None,
        change=None if seldom else Change(cut=removed),
        seldom=seldom,
        when=usual_at,
        title="saving" if named else "",
    )


def _lines(case: Case, at: intervals.Union, every_at: intervals.Union, cost: float, seldom: bool) -> Iterator[Line]:
    frame = case.steps.steady
    spent = intervals.covered(every_at, frame["start"], frame["end"])
    does = spent > cost / 2
    if not seldom:
        key = "idle" if case.device is not None else "cpu"
        yield line(key, cost, "ns", "breakdown", step=case.step_ns, share=case.share(cost))
    if seldom or does.mean() < FEW:
        each = spent[does].mean() if does.any() else cost
        yield line("seldom", does.mean(), "", "breakdown", each=each, cost=cost)
    share, call = case.waits_in(at)
    if call:
        yield line("call", share, "", "osrt", call=call)


def fires(t: Trace) -> None:
    """Every step writes a log for 1.5 ms, with the GPU idle, beside 5 ms of work."""
    _trace(t, 1500 * US)


def silent(t: Trace) -> None:
    """Every step writes a line in 20 µs."""
    _trace(t, 20 * US)


def _trace(t: Trace, writing: int) -> None:
    def body(i: int, at: int) -> None:
        t.launch(GEMM, at + 10 * US, 10 * US, kernel_dur=5 * MS)
        t.sync("stream", at + 30 * US, at + 5 * MS + 30 * US)
        done = at + 5 * MS + 40 * US
        t.range("write_log", done, done + writing)
        t.osrt("write", done, done + writing)
        t.osrt("fsync", done, done + writing)

    steps(t, 5 * MS + 60 * US + writing, body)


KOREAN = """
스텝 안에서 파일을 쓰거나 읽습니다.

## 탐지 대상

스텝을 돌리는 스레드가 저장이나 로그를 뜻하는 이름의 구간(`checkpoint`, `save`, `log` …)에 있거나, 로딩이 아닌데 OS
런타임의 파일, 파이프, 소켓 호출 안에 있는 동안 GPU가 유휴 상태인 시간입니다.

## 시간이 걸리는 이유

체크포인트는 가중치를 호스트로 복사하고 몇 기가바이트를 씁니다. 그동안 아무것도 실행되지 않습니다. 스텝마다 비우는
로그는 디스크나 네트워크 파일 시스템을 기다리며, 그 느린 순간이 느린 스텝이 됩니다.

## 안전성

옵티마이저가 가중치를 바꾸기 전에 복사해 둔다면 백그라운드 저장은 안전합니다.

## 오탐인 경우

- 메인 스레드가 데이터를 기다리는 파이프나 소켓 호출은 로딩입니다. 구간에 `data_load` 같은 이름을 붙이면 로딩으로
  셉니다.
- 프로파일링 중에 디버거, 진행 표시줄, 느린 터미널을 기다리는 스텝입니다.

## 판정 기준

모든 정상 상태 스텝의 평균으로 스텝의 2 % 이상입니다. 50스텝마다 한 번 하는 체크포인트는 그 몫만큼 셉니다. 예측은 그
일을 하지 않는 스텝의 시간입니다.
"""

TEXTS["ko"] = Texts(
    title="스텝 안에서 파일을 쓰거나 읽습니다",
    titles={
        "saving": "저장이나 로그가 스텝을 붙잡습니다",
    },
    says={
        "idle": "{step:ms} 스텝 중 {value:ms}({share:pct}) 동안, 호스트가 읽거나 쓰고 GPU는 유휴 상태입니다",
        "cpu": "읽기와 쓰기가 {step:ms} 스텝 중 {value:ms}({share:pct})를 차지합니다. 이 캡처에는 GPU 작업이 없습니다",
        "seldom": "정상 상태 스텝의 {value:pct}에서 한 번에 {each:ms}씩 일어나고, 전체로 나누면 스텝마다 {cost:ms}가 "
        "더해집니다",
        "call": "그 시간의 {value:pct}는 {call} 호출에 씁니다",
    },
    fix=Fix(
        title="백그라운드에서, 덜 자주, 또는 커널을 실행한 뒤에 쓰기",
        pytorch="torch.distributed.checkpoint.async_save로 저장하거나, state dict를 페이지 고정 호스트 메모리에 "
        "복사해 스레드에서 torch.save하십시오. 로그는 50스텝마다 남기고 파일을 버퍼링하십시오. TensorBoard "
        "같은 기록기는 전용 스레드에 두십시오.",
        jax="orbax의 AsyncCheckpointer로 저장하고, 로그는 50스텝마다 남기십시오.",
        cuda="별도 스트림에서 페이지 고정 메모리로 복사하고 다른 스레드가 쓰게 하십시오.",
    ),
    explain=KOREAN,
)
