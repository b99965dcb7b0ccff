"""The host works, or sleeps, in long stretches, and the GPU has nothing to do.

## What it detects

Time in which the GPU is idle while the host makes no CUDA call for at least 1 ms, and is not loading, saving, waiting
for a lock or for the interpreter: Python or NumPy work inside the step (metrics, augmentation, string handling,
building masks in a loop), or a `sleep`.

## Why it costs time

As long as the host computes, nothing is launched. Once the GPU has finished what was queued, it waits.

## How safe

Moving work to another thread, to the GPU or out of the step does not change the training, if its result is not needed
in the same step. Doing it less often changes what you see.

## When it is a false alarm

- Loading in a range whose name does not say so: name it (`data_load`), and it is counted as loading.
- Library start-up and compilation in early steps; warm-up steps are left out.
- A range that the profiler itself slows: Python sampling and backtraces make Python slower.

## Thresholds

1 ms without a CUDA call: an eager framework launches dozens of operations in that time, and the Python of an
optimizer step over a few hundred parameters stays below. Shorter pauses are counted as launching. At least 2 % of the
step.
"""

from __future__ import annotations

from collections.abc import Iterator

from unstall.analyze import intervals
from unstall.analyze.collecting import SAMPLES, in_terms_of
from unstall.analyze.intervals import Union
from unstall.analyze.replay import Change
from unstall.diagnose.case import Case
from unstall.diagnose.hit import Hit
from unstall.diagnose.texts import Fix, Line, Texts, line
from unstall.diagnose.traces import GEMM, MS, US, Trace, steps
from unstall.lang import speaker

CODE = "host-python-work"
CATEGORY = "python_cpu"
TABLES = ("api",)

SHARE = 0.02

TEXTS = {
    "en": Texts(
        title="Host work between launches leaves the GPU idle",
        titles={"sleep": "The host sleeps while the GPU is idle"},
        says={
            "idle": "The GPU is idle for {value:ms} of a {step:ms} step ({share:pct}) while the host works without "
            "launching, "
            "in stretches of 1 ms and more",
            "seldom": "{value:pct} of the steady steps do it; over all of them it adds {cost:ms} a step",
            "where": "{value:pct} of it is in {range}",
            "sleep": "{value:pct} of that time the host sleeps ({call})",
            "hot": "Samples there are mostly in {symbols}",
            "unsampled": "No CPU samples say in which function; {how}",
        },
        fix=Fix(
            title="Take the work out of the step",
            pytorch="Do it on the GPU (torch instead of NumPy), in the DataLoader's workers, in a thread, or every "
            "50th step; "
            "replace Python loops over tensors by tensor operations. What must stay can run after the launches of a "
            "step, "
            "while the GPU is busy.",
            jax="Move it into the jitted step, into the input pipeline, or run it every 50th step; JAX launches "
            "asynchronously, so do it after dispatching the step and before reading its results.",
            cuda="Launch first, compute on the host afterwards while the GPU works; move what another thread can do "
            "to a "
            "thread.",
            cupy="Do it on the GPU (cupy instead of numpy; cupyx.scipy), in a thread while the GPU works, or "
            "every 50th step; replace Python loops over elements by array operations.",
            safety="manual",
        ),
    )
}


def check(case: Case) -> Iterator[Hit]:
    """Idle time in long stretches of host work."""
    when, always = _work(case, case.parts), _work(case, case.steady_parts)
    usual, every = case.per_step(when), case.per_steady_step(always)
    seldom = case.seldom(usual, every)
    cost, at = (every, always) if seldom else (usual, when)
    if case.share(cost) < SHARE:
        return
    slept = intervals.total(case.sleeps(at)) / max(intervals.total(at), 1)
    yield Hit(
        cost_ns=cost,
        lines=tuple(_lines(case, at, cost, seldom, slept)),
        range=case.range_of(at),
        change=None if seldom else Change(cut=_work(case, case.host_time)),
        seldom=seldom,
        when=when,
        title="sleep" if slept > 0.5 else "",
        confidence="medium",
    )


def _work(case: Case, parts: dict[str, Union]) -> Union:
    """Long stretches of host work, and sleeps."""
    return intervals.merge(intervals.intersect(parts["python_cpu"], case.long_host), case.sleeps(parts["lock_wait"]))


def _lines(case: Case, at: Union, cost: float, seldom: bool, slept: float) -> Iterator[Line]:
    if seldom:
        frame = case.steps.steady
        hit = intervals.covered(at, frame["start"], frame["end"]) > cost
        yield line("seldom", hit.sum() / case.count, "", "breakdown", cost=cost)
    else:
        yield line("idle", cost, "ns", "breakdown", step=case.step_ns, share=case.share(cost))
    ranges = case.where(at)
    if ranges:
        yield line("where", ranges[0][1], "", "ranges", range=ranges[0][0])
    if slept > 0.1:
        yield line("sleep", slept, "", "osrt", call=case.waits_in(at)[1])
    hot = case.hot(at)
    if hot:
        yield line("hot", hot[0][1], "", "samples", symbols=", ".join(s for s, _ in hot))
    elif case.profile.samples is None:
        how = speaker(case.language).heard(in_terms_of(case.profile, "samples", SAMPLES))
        yield line("unsampled", source="samples", how=how)


def fires(t: Trace) -> None:
    """Each step computes metrics on the host for 4 ms, with the GPU idle, and then works for 5 ms."""
    _trace(t, 4 * MS)


def silent(t: Trace) -> None:
    """0.1 ms of host work."""
    _trace(t, 100 * US)


def _trace(t: Trace, work: int) -> None:
    def body(i: int, at: int) -> None:
        t.range("metrics", at, at + work)
        t.launch(GEMM, at + work + 10 * US, 10 * US, kernel_dur=5 * MS)
        t.sync("stream", at + work + 30 * US, at + work + 5 * MS + 30 * US)

    steps(t, work + 5 * MS + 50 * US, body)


KOREAN = """
호스트가 긴 시간 동안 일하거나 잠들어 있고, GPU는 할 일이 없습니다.

## 탐지 대상

호스트가 1 ms 이상 CUDA 호출을 하지 않는 동안 GPU가 유휴 상태인 시간 가운데 로딩, 저장, 락 대기, 인터프리터 락 대기가
아닌 것입니다. 스텝 안의 Python 또는 NumPy 작업(지표, 증강, 문자열 처리, 반복문으로 만드는 마스크)이거나
`sleep`입니다.

## 시간이 걸리는 이유

호스트가 계산하는 동안에는 아무 커널도 실행되지 않습니다. 큐에 쌓인 작업을 마치면 GPU는 기다립니다.

## 안전성

같은 스텝에서 결과가 필요하지 않다면, 작업을 다른 스레드나 GPU로 옮기거나 스텝 밖으로 빼도 학습은 달라지지 않습니다.
덜 자주 하면 눈에 보이는 것이 달라집니다.

## 오탐인 경우

- 이름에 드러나지 않는 구간에서 하는 로딩입니다. `data_load`처럼 이름을 붙이면 로딩으로 셉니다.
- 초기 스텝의 라이브러리 시작과 컴파일입니다. 워밍업 스텝은 제외합니다.
- 프로파일러 자체가 느리게 만드는 구간입니다. Python 샘플링과 백트레이스는 Python을 느리게 합니다.

## 판정 기준

CUDA 호출 없이 1 ms입니다. 즉시 실행(eager) 프레임워크는 그동안 작업 수십 개를 실행하며, 파라미터 수백 개에 대한
옵티마이저 스텝의 Python도 이보다 짧습니다. 더 짧은 틈은 실행 시간으로 셉니다. 스텝의 2 % 이상이어야 합니다.
"""

TEXTS["ko"] = Texts(
    title="커널 실행 사이의 호스트 작업이 GPU를 유휴 상태로 둡니다",
    titles={
        "sleep": "GPU가 유휴 상태인 동안 호스트가 잠들어 있습니다",
    },
    says={
        "idle": "{step:ms} 스텝 중 {value:ms}({share:pct}) 동안, 호스트가 아무것도 실행하지 않고 1 ms 이상씩 이어서 "
        "일하며 GPU는 유휴 상태입니다",
        "seldom": "정상 상태 스텝의 {value:pct}에서 일어나고, 전체로 나누면 스텝마다 {cost:ms}가 더해집니다",
        "where": "그중 {value:pct}는 {range} 구간에 있습니다",
        "sleep": "그 시간의 {value:pct} 동안 호스트가 잠들어 있습니다({call})",
        "hot": "그때의 CPU 샘플은 대부분 다음 함수에 있습니다: {symbols}",
        "unsampled": "어느 함수인지 알려 줄 CPU 샘플이 없습니다; {how}",
    },
    fix=Fix(
        title="그 작업을 스텝 밖으로 빼기",
        pytorch="GPU에서(NumPy 대신 torch로), DataLoader의 워커에서, 스레드에서, 또는 50스텝마다 한 번 하십시오. "
        "텐서를 도는 Python 반복문은 텐서 연산으로 바꾸십시오. 남겨야 하는 것은 스텝의 커널을 모두 실행한 "
        "뒤, GPU가 바쁜 동안 하면 됩니다.",
        jax="jit으로 컴파일한 스텝 안이나 입력 파이프라인으로 옮기거나 50스텝마다 한 번 하십시오. JAX는 비동기로 "
        "실행하므로 스텝을 내보낸 뒤, 결과를 읽기 전에 하십시오.",
        cuda="먼저 커널을 실행하고, 호스트 계산은 그 뒤 GPU가 일하는 동안 하십시오. 다른 스레드가 할 수 있는 일은 "
        "스레드로 옮기십시오.",
        cupy="GPU에서 하거나(numpy 대신 cupy, cupyx.scipy), GPU가 일하는 동안 스레드에서 하거나, 50스텝마다 "
        "하십시오. 요소를 도는 Python 반복문은 배열 연산으로 바꾸십시오.",
    ),
    explain=KOREAN,
)
