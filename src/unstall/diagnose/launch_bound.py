"""The host cannot launch work as fast as the GPU does it.

## What it detects

A step of many short operations in which the GPU idles while the host is inside launch calls or between them, in
stretches too short to be work of its own (under 1 ms without a CUDA call): framework dispatch, Python, autograd.

## Why it costs time

Eager PyTorch needs 5 to 15 µs of one CPU core for each operation, however small. A kernel of 2 µs leaves the GPU idle
for the rest. The step then takes (launches) × (µs a launch), and a faster GPU changes nothing.

## How safe

A CUDA graph replays the same kernels on the same addresses: same results, but shapes must not change, inputs must be
copied into fixed buffers, and nothing in the graph may wait for the device. `torch.compile` fuses operations, which
changes rounding in the last bits.

## When it is a false alarm

- **The profiler itself**: tracing makes each call 2 to 9 µs longer, and launch-heavy steps 1.4 to 1.9 times. The
  figures in the evidence say how much of the step that is; give the real step time with `--unprofiled-ms` to be sure.
- A busy machine or a slow core: the same script launches faster elsewhere.

## Thresholds

At least 20 operations a step (fewer cannot add up: 20 × 15 µs is 0.3 ms; in a step shorter than that any number does)
and 5 % of the step idle in short stretches. From two waits a step on no graph holds the whole step as it is, and
confidence is medium at most.
The prediction launches each step as one CUDA graph: 0.33 µs between nodes, as measured for 1,033 nodes on an H200.
Host time inside the step that other findings explain (waits for the GIL, for locks or files, long stretches of
Python) stays in.
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
from unstall.diagnose.traces import ADD, US, Trace, launches, steps

CODE = "launch-bound"
CATEGORY = "launch"
GENERAL = 2
TABLES = ("kernels", "api")

OPS = 20
CALL_NS = 15_000
"""The most host time that an operation costs without a profiler."""
SHARE = 0.05
IN_THE_WAY = 2
"""Waits a step from which no graph can hold the whole step: one may stand at its end."""
WAITING = ("blocking-sync", "many-small-copies", "device-to-host-copy")
"""Whose remedy takes waits away."""
OTHERS = ("alloc", "gil_wait", "data_loading", "checkpoint", "file_io")
"""What the host may also be doing between two launches of a step, each with a rule of its own."""

TEXTS = {
    "en": Texts(
        title="Launching limits: {count:n} operations a step, {each:us} of host time each",
        says={
            "idle": "The GPU is idle for {value:ms} of a {step:ms} step ({share:pct}) while the host launches work",
            "rate": "{count:n} operations a step: {each:us} of host time and {work:us} of GPU time each",
            "known": "Under the profiler the step takes {step:ms}, without it {value:ms}: predictions start there",
            "traced": "Tracing slows launching itself: of {step:ms} under the profiler about {value:ms} would remain "
            "without "
            "it ({low:ms} to {high:ms}); give the real step time with --unprofiled-ms",
            "syncs": "{value:n} waits a step stand in the way of one graph for the whole step",
            "hot": "Samples meanwhile are mostly in {symbols}",
        },
        fix=Fix(
            title="Launch less: CUDA graphs or torch.compile",
            elsewhere="Launch less: fuse, or replay a CUDA graph",
            pytorch="Try torch.compile(model, mode='reduce-overhead') first: it fuses and uses CUDA graphs. By hand: "
            "capture "
            "the step with torch.cuda.graph, or make_graphed_callables for parts. Larger batches, fused optimizers and "
            "one large matrix product instead of many small ones help as well. Waits (.item()) must go first.",
            jax="Put the whole step into one jax.jit, with donated buffers; use lax.scan over micro-steps, and keep "
            "Python "
            "out of the loop.",
            cuda="Capture the launches of a step into a CUDA graph (cudaStreamBeginCapture) and replay it; fuse small "
            "kernels.",
            cupy="Fuse elementwise expressions (@cupy.fuse, cupy.ElementwiseKernel, a RawKernel), work on "
            "larger arrays at a time, or capture the step into a CUDA graph (stream.begin_capture(), "
            "stream.end_capture(), graph.launch()).",
            safety="manual",
            trial="cuda-graph",
        ),
    )
}


def check(case: Case) -> Iterator[Hit]:
    """Idle time while the host launches a step of many operations."""
    count = case.ops.height / case.count
    when = _when(case)
    cost = case.per_step(when)
    few = count < OPS and case.step_ns >= OPS * CALL_NS
    if few or case.share(cost) < SHARE:
        return
    waits = _syncs(case) >= IN_THE_WAY
    issuing = case.host_time["launch"], case.host_time["copy_call"], _short(case, case.host_time["python_cpu"])
    each = case.host_per_step(intervals.merge(*issuing)) / count
    yield Hit(
        cost_ns=cost,
        lines=tuple(_lines(case, when, cost, count, each)),
        range=case.range_of(when),
        change=Change(graph=True, keep_ns=_kept(case)),
        when=when,
        facts={"count": count, "each": each},
        needs=WAITING if waits else (),
        confidence="medium" if waits else "high",
    )


def _when(case: Case) -> Union:
    return intervals.merge(case.part("launch"), _short(case, case.part("python_cpu")))


def _short(case: Case, when: Union) -> Union:
    """What of ``when`` lies in short stretches between CUDA calls."""
    return intervals.subtract(when, case.long_host)


def _kept(case: Case) -> int:
    """Host time a step, between its first and last launch, that other rules explain."""
    launched = case.calls.filter(pl.col("kind").is_in(["launch", "graph"])).group_by("step")
    body = launched.agg(pl.col("start").min(), pl.col("end").max())
    others = [case.host_time[name] for name in OTHERS]
    waiting = case.host_time["lock_wait"]
    others += [
        intervals.intersect(case.host_time["python_cpu"], case.long_host),
        case.locks(waiting),
        case.sleeps(waiting),
    ]
    inside = intervals.intersect(intervals.union(body["start"], body["end"]), intervals.merge(*others))
    return round(case.host_per_step(inside))


def _syncs(case: Case) -> float:
    """Waiting calls a step."""
    return case.calls.filter(pl.col("kind") == "sync").height / case.count


def _lines(case: Case, when: Union, cost: float, count: float, each: float) -> Iterator[Line]:
    yield line("idle", cost, "ns", "breakdown", step=case.step_ns, share=case.share(cost))
    syncs = _syncs(case)
    if syncs >= IN_THE_WAY:
        yield line("syncs", syncs, "calls", "api")
    work = float(case.ops["dur"].sum()) / max(case.ops.height, 1)
    yield line("rate", count, "operations", "kernels, copies, memsets", count=count, each=each, work=work)
    base = case.baseline
    if base is not None and case.unprofiled_ns is not None:
        yield line("known", base.step_ns, "ns", "replay", step=case.step_ns)
    elif base is not None and base.step_ns < 0.97 * case.step_ns:
        yield line("traced", base.step_ns, "ns", "replay", step=case.step_ns, low=base.low_ns, high=base.high_ns)
    threads = [int(t) for t in np.unique(case.calls["thread"].to_numpy())]
    hot = case.hot(when, threads)
    if hot:
        yield line("hot", hot[0][1], "", "samples", symbols=", ".join(s for s, _ in hot))


def fires(t: Trace) -> None:
    """300 kernels of 3 µs, one launched every 20 µs."""
    steps(t, 300 * 20 * US, lambda i, at: _issue(t, at, 300, 20 * US, 3 * US))


def silent(t: Trace) -> None:
    """300 kernels of 30 µs, one launched every 10 µs: the host runs ahead."""
    steps(t, 300 * 31 * US, lambda i, at: _issue(t, at, 300, 10 * US, 30 * US))


def _issue(t: Trace, at: int, count: int, every: int, dur: int) -> None:
    launches(t, at + US, count, every=every, dur=dur, name=ADD)


KOREAN = """
호스트가 작업을 실행하는 속도가 GPU가 처리하는 속도를 따라가지 못합니다.

## 탐지 대상

짧은 작업이 많은 스텝에서, 호스트가 실행 호출 안에 있거나 호출과 호출 사이에 있는 동안 GPU가 유휴 상태인 시간입니다.
독립된 작업이라고 보기에는 짧은 틈(CUDA 호출 없이 1 ms 미만)만 셉니다. 프레임워크의 디스패치, Python, autograd가 그
틈을 채웁니다.

## 시간이 걸리는 이유

즉시 실행(eager) PyTorch는 아무리 작은 작업이라도 하나에 CPU 코어 하나의 5~15 µs를 씁니다. 커널이 2 µs라면 나머지 시간
동안 GPU는 유휴 상태입니다. 그러면 스텝은 (실행 횟수) × (실행 한 번의 µs)만큼 걸리고, 더 빠른 GPU를 써도 달라지지
않습니다.

## 안전성

CUDA 그래프는 같은 주소에서 같은 커널을 재생하므로 결과가 같습니다. 다만 형상이 바뀌지 않아야 하고, 입력을 고정된
버퍼에 복사해야 하며, 그래프 안에서 디바이스를 기다려서는 안 됩니다. `torch.compile`은 연산을 융합하므로 마지막 자리의
반올림이 달라집니다.

## 오탐인 경우

- **프로파일러 자체**: 추적은 호출 하나를 2~9 µs 늘리고, 실행이 많은 스텝을 1.4~1.9배로 늘립니다. 근거의 수치가
  스텝에서 그 몫이 얼마인지 알려 줍니다. 확실히 하려면 실제 스텝 시간을 `--unprofiled-ms`로 주십시오.
- 바쁜 장비나 느린 코어: 다른 곳에서는 같은 스크립트가 더 빨리 실행합니다.

## 판정 기준

스텝마다 작업 20개 이상(그보다 적으면 쌓이지 않습니다: 20 × 15 µs는 0.3 ms. 스텝이 그보다 짧으면 개수를 보지
않습니다)이고, 짧은 틈의 유휴 시간이 스텝의 5 % 이상이어야 합니다. 예측은 스텝마다 CUDA 그래프 하나로 실행하는
경우입니다. 노드 사이는 H200에서 노드 1,033개로 측정한 0.33 µs로 둡니다. 스텝마다 대기가 두 번 이상이면 지금
그대로는 그래프 하나에 담을 수 없으므로 확신도는 높아야 중간입니다. 스텝 안의 호스트 시간 가운데 다른 발견 사항이
설명하는 것(GIL, 락, 파일 대기, 긴 Python 작업)은 남겨 둡니다.
"""

TEXTS["ko"] = Texts(
    title="커널 실행이 한계입니다: 스텝마다 작업 {count:n}개, 하나에 호스트 시간 {each:us}",
    says={
        "idle": "{step:ms} 스텝 중 {value:ms}({share:pct}) 동안, 호스트가 작업을 실행하고 GPU는 유휴 상태입니다",
        "rate": "스텝마다 작업 {count:n}개: 하나에 호스트 시간 {each:us}, GPU 시간 {work:us}",
        "known": "스텝은 프로파일러 아래에서 {step:ms}, 프로파일러 없이 {value:ms} 걸립니다. 예측은 프로파일러 없는 "
        "시간에서 출발합니다",
        "traced": "추적 자체가 실행을 늦춥니다. 프로파일러 아래의 {step:ms} 가운데 프로파일러가 없으면 약 "
        "{value:ms}({low:ms}~{high:ms})가 남습니다. 실제 스텝 시간을 --unprofiled-ms로 주십시오",
        "syncs": "스텝마다 대기 {value:n}번이 스텝 전체를 그래프 하나로 만드는 것을 막습니다",
        "hot": "그때의 CPU 샘플은 대부분 다음 함수에 있습니다: {symbols}",
    },
    fix=Fix(
        title="실행 횟수 줄이기: CUDA 그래프 또는 torch.compile",
        elsewhere="실행 횟수 줄이기: 융합 또는 CUDA 그래프",
        pytorch="먼저 torch.compile(model, mode='reduce-overhead')를 써 보십시오. 연산을 융합하고 CUDA 그래프를 "
        "씁니다. 직접 하려면 torch.cuda.graph로 스텝을 캡처하거나 일부에 make_graphed_callables를 쓰십시오. "
        "더 큰 배치, 융합 옵티마이저, 작은 행렬 곱 여러 개 대신 큰 행렬 곱 하나도 도움이 됩니다. "
        "대기(.item())를 먼저 없애야 합니다.",
        jax="스텝 전체를 jax.jit 하나에 넣고 버퍼를 넘겨주십시오(donate). 작은 스텝들은 lax.scan으로 돌리고 반복문에 "
        "Python을 두지 마십시오.",
        cuda="스텝의 커널 실행을 CUDA 그래프로 캡처해(cudaStreamBeginCapture) 재생하고, 작은 커널은 융합하십시오.",
        cupy="요소별 식을 융합하고(@cupy.fuse, cupy.ElementwiseKernel, RawKernel), 한 번에 더 큰 배열을 "
        "다루거나, 스텝을 CUDA 그래프로 캡처하십시오(stream.begin_capture(), stream.end_capture(), "
        "graph.launch()).",
    ),
    explain=KOREAN,
)
