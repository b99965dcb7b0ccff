"""The thread that feeds the GPU waits for Python's interpreter lock.

## What it detects

Time in which the GPU is idle while the thread that launches (or the step's thread) waits for the GIL, which other
threads of the process hold: prefetch threads, logging, a monitoring loop, a thread pool that decodes images in
Python.

## Why it costs time

Only one thread at a time runs Python. A thread that computes gives the lock up every 5 ms (the switch interval), so a
thread that launches kernels and releases the lock around each call may wait up to 5 ms a time to get it back.

## How safe

Safe: other processes do the same work. What threads shared in memory must be sent between processes.

## When it is a false alarm

- The waits are hidden behind the GPU's work; then they are not shown.
- A queue that is full is no proof of the contrary: with the queue full, loading takes no time, and each *launch* waits.

## Thresholds

At least 2 % of the step. The prediction takes the waits out and leaves everything else as it is.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from unstall.analyze import intervals
from unstall.analyze.intervals import Union
from unstall.analyze.replay import Change
from unstall.diagnose.case import Case
from unstall.diagnose.hit import Hit
from unstall.diagnose.texts import Fix, Line, Texts, line
from unstall.diagnose.traces import ADD, MS, US, Trace, launches, steps
from unstall.model import tid_of

CODE = "gil-contention"
CATEGORY = "gil_wait"
TABLES = ("gil", "api")

SHARE = 0.02

TEXTS = {
    "en": Texts(
        title="The thread that feeds the GPU waits for the GIL",
        says={
            "idle": "The GPU is idle for {value:ms} of a {step:ms} step ({share:pct}) while the launching thread "
            "waits for the "
            "GIL",
            "waits": "It waits {value:n} times a step, {mean:us} each",
            "where": "{value:pct} of it is in {range}",
            "holders": "Meanwhile the lock is held by {names}",
            "hot": "Samples of the threads that hold it are mostly in {symbols}",
        },
        fix=Fix(
            title="Move the other threads' Python work to processes",
            pytorch="Use DataLoader(num_workers=...), which loads in processes, instead of threads; move decoding and "
            "augmentation there; send logging and metrics to a process, or do them every 50th step. Threads that "
            "only wait "
            "(I/O, sleep) or run NumPy and other code that releases the lock do no harm.",
            jax="Load with grain's or tf.data's worker processes instead of Python threads.",
            cuda="Use processes instead of threads for Python work beside the launching thread.",
            safety="manual",
        ),
    )
}


def check(case: Case) -> Iterator[Hit]:
    """Waits for the interpreter lock that leave the GPU idle."""
    when = case.part("gil_wait")
    cost = case.per_step(when)
    if case.share(cost) < SHARE:
        return
    yield Hit(
        cost_ns=cost,
        lines=tuple(_lines(case, when, cost)),
        range=case.range_of(when),
        change=Change(cut=_waits(case), contention=True),
        when=when,
    )


def _feeders(case: Case) -> list[int]:
    return [int(t) for t in np.unique(np.append(case.calls["thread"].to_numpy(), case.host.thread))]


def _rows(case: Case, state: str) -> pl.DataFrame:
    assert case.host.gil is not None  # the rule needs the table
    return case.host.gil.filter(pl.col("state").cast(pl.String) == state)


def _waits(case: Case) -> Union:
    rows = _rows(case, "waiting").filter(pl.col("thread").is_in(_feeders(case)))
    return intervals.intersect(case.steady_span, intervals.union(rows["start"], rows["end"]))


def _lines(case: Case, when: Union, cost: float) -> Iterator[Line]:
    yield line("idle", cost, "ns", "breakdown", step=case.step_ns, share=case.share(cost))
    waits = _waits(case)
    holders = _holders(case, waits)
    if holders:
        names = ", ".join(f"{_name(case, t)} ({100 * s:.0f} %)" for t, s in holders[:4])
        yield line("holders", holders[0][1], "", "gil", names=names)
        hot = case.hot(waits, [t for t, _ in holders])
        if hot:
            yield line("hot", hot[0][1], "", "samples", symbols=", ".join(s for s, _ in hot))
    if len(waits[0]):
        mean = intervals.total(waits) / len(waits[0])
        yield line("waits", len(waits[0]) / case.count, "waits", "gil", mean=mean)
    ranges = case.where(when)
    if ranges:
        yield line("where", ranges[0][1], "", "ranges", range=ranges[0][0])


def _holders(case: Case, when: Union) -> list[tuple[int, float]]:
    """Other threads that hold the lock during ``when``, with their share of it.

    The waits of all steady steps: in the typical half of them, chance decides which of several equal threads has it.
    """
    rows = _rows(case, "holding").filter(~pl.col("thread").is_in(_feeders(case)))
    spent = rows.select("thread", ns=pl.Series(intervals.covered(when, rows["start"], rows["end"])))
    by = spent.group_by("thread").agg(pl.col("ns").sum()).filter(pl.col("ns") > 0)
    whole = max(intervals.total(when), 1)
    return [(t, n / whole) for t, n in by.sort("ns", "thread", descending=[True, False]).iter_rows()]


def _name(case: Case, thread: int) -> str:
    threads = case.profile.threads
    names = [] if threads is None else threads.filter(pl.col("thread") == thread)["name"].cast(pl.String).to_list()
    return f"{names[0]} [{tid_of(thread)}]" if names and names[0] else f"thread {tid_of(thread)}"


def fires(t: Trace) -> None:
    """Each of 20 launches waits 300 µs for the lock, which a worker thread holds."""
    _trace(t, 300 * US)


def silent(t: Trace) -> None:
    """Each of them waits 2 µs."""
    _trace(t, 2 * US)


def _trace(t: Trace, wait: int) -> None:
    every = wait + 20 * US
    period = max(20 * every, 3 * MS)

    def body(i: int, at: int) -> None:
        t.range("forward", at, at + 20 * every)
        for k in range(20):
            t.gil("waiting", at + k * every, at + k * every + wait)
            t.gil("holding", at + k * every, at + k * every + wait, tid=77)
        launches(t, at + wait + 5 * US, 20, every=every, dur=145 * US, name=ADD)

    steps(t, period, body)


KOREAN = """
GPU에 일을 공급하는 스레드가 Python의 인터프리터 락을 기다립니다.

## 탐지 대상

커널을 실행하는 스레드(또는 스텝을 돌리는 스레드)가 GIL을 기다리고, 그 GIL을 같은 프로세스의 다른 스레드가 쥐고 있는
동안 GPU가 유휴 상태인 시간입니다. 프리페치 스레드, 로그, 감시 반복문, Python으로 이미지를 디코딩하는 스레드 풀이 흔한
원인입니다.

## 시간이 걸리는 이유

Python은 한 번에 스레드 하나만 돌립니다. 계산하는 스레드는 5 ms(전환 간격)마다 락을 내놓습니다. 그래서 커널을 실행하며
호출할 때마다 락을 놓는 스레드는 되찾을 때마다 최대 5 ms를 기다릴 수 있습니다.

## 안전성

안전합니다. 다른 프로세스가 같은 일을 합니다. 스레드가 메모리에서 공유하던 것은 프로세스 사이에 보내야 합니다.

## 오탐인 경우

- 대기가 GPU의 작업에 가려진다면 표시하지 않습니다.
- 큐가 가득 차 있다고 해서 이상이 없는 것은 아닙니다. 큐가 가득 차면 로딩에는 시간이 들지 않지만 커널을 *실행*할
  때마다 기다립니다.

## 판정 기준

스텝의 2 % 이상입니다. 예측은 대기만 없애고 나머지는 그대로 둡니다.
"""

TEXTS["ko"] = Texts(
    title="GPU에 일을 공급하는 스레드가 GIL을 기다립니다",
    says={
        "idle": "{step:ms} 스텝 중 {value:ms}({share:pct}) 동안, 커널을 실행하는 스레드가 GIL을 기다리고 GPU는 유휴 "
        "상태입니다",
        "waits": "스텝마다 {value:n}번, 한 번에 {mean:us}씩 기다립니다",
        "where": "그중 {value:pct}는 {range} 구간에 있습니다",
        "holders": "그동안 락을 쥐고 있는 스레드: {names}",
        "hot": "락을 쥔 스레드의 CPU 샘플은 대부분 다음 함수에 있습니다: {symbols}",
    },
    fix=Fix(
        title="다른 스레드의 Python 작업을 프로세스로 옮기기",
        pytorch="스레드 대신 프로세스에서 로딩하는 DataLoader(num_workers=...)를 쓰고 디코딩과 증강도 그리로 "
        "옮기십시오. 로그와 지표는 별도 프로세스로 보내거나 50스텝마다 한 번 처리하십시오. 기다리기만 하는 "
        "스레드(I/O, sleep)나 락을 놓는 NumPy 같은 코드를 돌리는 스레드는 해가 없습니다.",
        jax="Python 스레드 대신 grain이나 tf.data의 워커 프로세스로 로딩하십시오.",
        cuda="커널을 실행하는 스레드 곁의 Python 작업에는 스레드 대신 프로세스를 쓰십시오.",
    ),
    explain=KOREAN,
)
