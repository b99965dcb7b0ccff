"""The step's thread waits for a lock, and the GPU has nothing to do.

## What it detects

Time in which the GPU is idle while the thread that drives the step is inside a mutex, condition, semaphore, barrier
or join call of the OS runtime: it waits for another thread of the process. Sleeps are `host-python-work`; the
interpreter's own lock is `gil-contention`.

## Why it costs time

While it waits, nothing is launched. Typical: a queue whose producer is slow, a lock shared with a logging or monitoring
thread, oversubscribed OpenMP threads that spin against each other, a memory allocator under contention.

## How safe

Depends on what the lock protects: shorten what is done while holding it rather than removing it.

## When it is a false alarm

- Autograd: the main thread waits while a second thread launches backward. Waits during which another thread launches
  are left out.
- A queue between loader and step: name the range (`data_load`), and it is counted as loading.

## Thresholds

At least 2 % of the step.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from unstall.analyze.intervals import Union
from unstall.analyze.replay import Change
from unstall.diagnose.case import Case
from unstall.diagnose.hit import Hit
from unstall.diagnose.texts import Fix, Line, Texts, line
from unstall.diagnose.traces import GEMM, MS, US, Trace, steps

CODE = "host-lock-contention"
CATEGORY = "lock_wait"
TABLES = ("osrt", "api")  # without calls nobody can tell who launches meanwhile

SHARE = 0.02

TEXTS = {
    "en": Texts(
        title="The thread that runs the step waits for another thread",
        says={
            "idle": "The GPU is idle for {value:ms} of a {step:ms} step ({share:pct}) while the step's thread waits "
            "in {call}",
            "where": "{value:pct} of it is in {range}",
            "hot": "Samples of the other threads are mostly in {symbols}",
        },
        fix=Fix(
            title="Find who holds the lock, and hold it shorter",
            pytorch="Look at the waiting call's backtrace (collect with --osrt-file-access or --cudabacktrace, and "
            "CPU samples): "
            "a queue's producer needs more workers; a lock shared with logging or metrics should protect less; set "
            "OMP_NUM_THREADS and torch.set_num_threads to the cores that each process really has.",
            jax="Look at the waiting call's backtrace; let the input pipeline produce ahead, and limit the host "
            "threads "
            "(OMP_NUM_THREADS) to the cores that are there.",
            cuda="Look at the waiting call's backtrace; give each thread buffers of its own, and hold locks only for "
            "the "
            "hand-over.",
            safety="manual",
        ),
    )
}


def check(case: Case) -> Iterator[Hit]:
    """Idle time in lock waits of the thread that drives the step."""
    when = case.locks(case.part("lock_wait"))
    cost = case.per_step(when)
    if case.share(cost) < SHARE:
        return
    call = case.waits_in(when)[1]
    yield Hit(
        cost_ns=cost,
        lines=tuple(_lines(case, when, cost, call)),
        range=case.range_of(when),
        call=call,
        change=Change(cut=case.locks(case.host_time["lock_wait"]), contention=True),
        when=when,
        confidence="medium",
    )


def _lines(case: Case, when: Union, cost: float, call: str) -> Iterator[Line]:
    yield line("idle", cost, "ns", "breakdown", step=case.step_ns, share=case.share(cost), call=call)
    ranges = case.where(when)
    if ranges:
        yield line("where", ranges[0][1], "", "ranges", range=ranges[0][0])
    samples = case.profile.samples
    if samples is not None:
        others = samples.filter((pl.col("process") == case.process) & (pl.col("thread") != case.host.thread))
        hot = case.hot(when, others["thread"].unique().sort().to_list()) if others.height else []
        if hot:
            yield line("hot", hot[0][1], "", "samples", symbols=", ".join(s for s, _ in hot))


def fires(t: Trace) -> None:
    """2 ms in a condition wait before 5 ms of work."""
    _trace(t, 2 * MS)


def silent(t: Trace) -> None:
    """The condition is signalled at once."""
    _trace(t, 10 * US)


def _trace(t: Trace, wait: int) -> None:
    def body(i: int, at: int) -> None:
        t.range("acquire", at, at + wait)
        t.osrt("pthread_cond_wait", at, at + wait)
        t.launch(GEMM, at + wait + 10 * US, 10 * US, kernel_dur=5 * MS)
        t.sync("stream", at + wait + 30 * US, at + wait + 5 * MS + 30 * US)

    steps(t, wait + 5 * MS + 50 * US, body)


KOREAN = """
스텝을 돌리는 스레드가 락을 기다리고, GPU는 할 일이 없습니다.

## 탐지 대상

스텝을 돌리는 스레드가 OS 런타임의 뮤텍스, 조건 변수, 세마포어, 배리어, join 호출 안에 있는 동안 GPU가 유휴 상태인
시간입니다. 그 스레드는 같은 프로세스의 다른 스레드를 기다립니다. 잠드는 것은 `host-python-work`이고, 인터프리터
자체의 락은 `gil-contention`입니다.

## 시간이 걸리는 이유

기다리는 동안에는 아무것도 실행되지 않습니다. 흔한 원인은 생산자가 느린 큐, 로그나 감시 스레드와 함께 쓰는 락,
코어보다 많아 서로 헛도는 OpenMP 스레드, 경합하는 메모리 할당자입니다.

## 안전성

락이 무엇을 지키는지에 달려 있습니다. 락을 없애기보다 락을 쥔 채 하는 일을 줄이십시오.

## 오탐인 경우

- Autograd: 두 번째 스레드가 역전파를 실행하는 동안 메인 스레드는 기다립니다. 다른 스레드가 커널을 실행하는 동안의
  대기는 제외합니다.
- 로더와 스텝 사이의 큐: 구간에 `data_load` 같은 이름을 붙이면 로딩으로 셉니다.

## 판정 기준

스텝의 2 % 이상입니다.
"""

TEXTS["ko"] = Texts(
    title="스텝을 돌리는 스레드가 다른 스레드를 기다립니다",
    says={
        "idle": "{step:ms} 스텝 중 {value:ms}({share:pct}) 동안, 스텝을 돌리는 스레드가 {call}에서 기다리고 GPU는 "
        "유휴 상태입니다",
        "where": "그중 {value:pct}는 {range} 구간에 있습니다",
        "hot": "다른 스레드의 CPU 샘플은 대부분 다음 함수에 있습니다: {symbols}",
    },
    fix=Fix(
        title="누가 락을 쥐고 있는지 찾아 더 짧게 쥐게 하기",
        pytorch="기다리는 호출의 백트레이스를 보십시오(--osrt-file-access나 --cudabacktrace, 그리고 CPU 샘플과 함께 "
        "수집). 큐의 생산자에게는 워커가 더 필요합니다. 로그나 지표와 함께 쓰는 락은 더 적은 것을 지켜야 "
        "합니다. OMP_NUM_THREADS와 torch.set_num_threads는 프로세스마다 실제로 가진 코어 수로 설정하십시오.",
        jax="기다리는 호출의 백트레이스를 보십시오. 입력 파이프라인이 앞서 만들어 두게 하고, 호스트 스레드 "
        "수(OMP_NUM_THREADS)를 있는 코어 수로 제한하십시오.",
        cuda="기다리는 호출의 백트레이스를 보십시오. 스레드마다 자기 버퍼를 주고, 락은 넘겨줄 때만 쥐게 하십시오.",
    ),
    explain=KOREAN,
)
