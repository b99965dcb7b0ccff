"""The GPU waits for its next batch.

## What it detects

Time in which the GPU is idle while the step's thread is in a range that is named after loading (`data_load`,
`next_batch`, `dataloader` …) or, where the script has no such range, before the step's first host-to-device copy.
Loading in worker processes shows here as well: the main thread then waits in its queue. Two cases are told apart: the
main thread does the loading itself, or it waits for workers that do not keep up.

## Why it costs time

A step cannot start before its batch is there. Loading on the main thread happens strictly before the step; the GPU has
nothing to do meanwhile. Workers load several batches at once, while the GPU computes; then only the hand-over is left.

How many workers that takes is the loading over the rest of the step, and a quarter more. The prediction is for the
number that is advised: the step is never shorter than its loading over the workers, nor than its CPU work over the
cores of the machine. Loading that waits for files or a network needs no core meanwhile.

Where workers load already, the prediction is the step with loading that keeps up. If loading is CPU work, more workers
alone bring a step of N workers on C cores to N / C of its time and no further; the interval reaches that far. Less work
a sample has no such bound.

## How safe

Safe: the same samples in the same order for a map-style dataset. An iterable dataset must be split among the workers by
hand, and random augmentation draws from one generator a worker.

## When it is a false alarm

- A range whose name sounds like loading and that does something else. Compare with its place in your script.
- The first batches: workers are starting. Warm-up steps are left out, a capture of very few steps may still show it.
- The machine has no idle CPU cores: more workers then slow each other down. Faster decoding is the remedy there.

## Thresholds

At least 2 % of the step. Loading that the GPU hides costs nothing and is not shown. What remains of loading in the
prediction is 30 µs a step: taking a finished batch out of a queue took 10 to 30 µs in captures with workers. No more
than 16 workers are advised, and no more than the cores can keep computing (4 where it is not known that loading
computes).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl

from unstall.analyze import host
from unstall.analyze.intervals import Union
from unstall.analyze.replay import Change, Prediction
from unstall.diagnose import copies, workers
from unstall.diagnose.case import Case
from unstall.diagnose.hit import Hit
from unstall.diagnose.texts import Fix, Line, Texts, line
from unstall.diagnose.traces import GEMM, MS, US, Trace, steps
from unstall.diagnose.workers import Running, Workers

CODE = "host-data-loading"
CATEGORY = "data_loading"
TABLES = ()
GPU = False  # a training loop on the CPU loads as well

SHARE = 0.02
SOME = "4–8"  # workers to begin with, where no step was predicted
KEEP_NS = 30_000
HANDOVER_NS = 600_000
"""What receiving a batch from a worker process may cost the step's thread on top: 0.5 ms on an H200's host for two
tensors of 256 kB, which the main thread had made itself before."""
QUEUE = re.compile(
    r"(?i)^(poll|ppoll|select|epoll_\w*wait|read|recv\w*|sem_\w*wait|pthread_cond_\w*wait|futex|connect|accept)"
)
"""OS calls in which a main thread waits for worker processes: multiprocessing reads a pipe or waits on a semaphore."""
CONSUMER = (
    r"\b(_MultiProcessingDataLoaderIter\.|_try_get_data\b)|\b(_recv|_poll)\b.*\bconnection\.py"
    r"|\bget\b.*\bqueues?\.py|\b(next|get|wait)\b.*\bpool\.py|\bresult\b.*\bfutures/_base\.py"
)
"""Python functions in which a main thread waits for loaders: PyTorch's iterator over worker processes, connections and
queues of multiprocessing, queues of threads, pools and futures. (Before Python 3.11 no class stands before a name.)"""
WAITED = 0.5
"""Share of the loading time in such calls, or of the samples there in such functions, from which it is said that the
main thread waits for workers."""

TEXTS = {
    "en": Texts(
        title="The GPU waits while the main thread loads each batch",
        titles={
            "workers": "Batches come late: loading does not keep up",
            "cpu": "The step waits while the main thread loads each batch",
        },
        says={
            "idle": "The GPU is idle for {value:ms} of a {step:ms} step ({share:pct}) while the host is in {range}",
            "cpu": "{range} takes {value:ms} of a {step:ms} step ({share:pct}); this capture holds no GPU work",
            "unnamed": "The GPU is idle for {value:ms} of a {step:ms} step ({share:pct}) before the step's first copy; "
            "no range says what the host does there",
            "host": "{range} takes {value:ms} of host time a step; {hidden:ms} of it is hidden behind the GPU",
            "queue": "{value:pct} of that time the main thread waits in {call}, as a consumer of a queue does",
            "waits": "{value:pct} of that time the main thread waits in {call}",
            "consumer": "{value:pct} of the samples there are in {function}: the main thread waits for batches that "
            "others load",
            "hot": "Samples there are mostly in {symbols}",
            "hides": "{loading:ms} of loading a step beside {rest:ms} of everything else: {value:workers} can hide it",
            "assumed": "{loading:ms} of loading a step beside {rest:ms} of everything else: {value:workers} can hide it"
            ", assuming that there are cores for them (the capture does not say)",
            "short": "{loading:ms} of loading a step beside {rest:ms} of everything else: {needed:workers} would "
            "hide it; {value:n}, the most that are advised, bring the step to {step:ms}",
            "cores": "{loading:ms} of loading a step beside {rest:ms} of everything else: {busy:pct} of it is CPU "
            "work, which {cores:cores} can bring to {step:ms} a step with {value:workers}, and no further",
            "unsure": "{loading:ms} of loading a step beside {rest:ms} of everything else: {value:workers} on "
            "{cores:cores}; more of them help only if loading waits, which the capture does not tell",
            "room": "{value:workers} there already, and {cores:cores}: room for as many more as that takes",
            "bound": "{value:workers} there already: if loading is CPU work, {cores:cores} can bring the step to "
            "{step:ms} with more of them, and no further; less work a sample has no such bound",
            "full": "{value:workers} there already on {cores:cores}: more of them help only if loading waits; if it "
            "is CPU work, less work a sample does",
            "cores-unknown": "{value:workers} there already: more of them help as far as there are idle cores (the "
            "capture does not say how many there are), or if loading waits",
            "keep-up": "Batches would have to come {value:times} as fast to hide behind the rest of the step "
            "({rest:ms})",
        },
        fix=Fix(
            title="Load in worker processes and prefetch",
            pytorch="Pass num_workers={workers}, pin_memory=True and persistent_workers=True to the "
            "DataLoader, and copy with .to(device, non_blocking=True). In one line, for any iterable of batches: "
            "for batch in unstall.prefetch(loader, device='cuda') draws, pins and copies the next ones meanwhile.",
            jax="Feed the step from grain or tf.data with .prefetch(2) and parallel map calls, and put the next batch "
            "on the device (jax.device_put) before the current step is waited for.",
            cuda="Read and decode the next batch in other threads into pinned buffers, two or more of them in turn, "
            "and "
            "copy it with cudaMemcpyAsync on a stream of its own while the current batch is computed.",
            cupy="Load and decode the next batch in a thread or process while the current one is computed "
            "(unstall.fix.prefetch wraps the iterator), into pinned arrays (cupyx.empty_pinned), and copy it "
            "with x.set(batch, stream=side).",
            trial="dataloader-workers",
            patch="dataloader",
        ),
        fixes={
            "cpu": Fix(
                title="Load in worker processes and prefetch",
                when="without a GPU",
                pytorch="Pass num_workers={workers} and persistent_workers=True to the DataLoader. In one line, for "
                "any iterable of batches: for batch in unstall.prefetch(loader) draws the next ones meanwhile.",
                jax="Feed the step from grain or tf.data with .prefetch(2) and parallel map calls.",
                cuda="Read and decode the next batch in other threads while the current batch is computed.",
                trial="dataloader-workers",
                patch="dataloader",
            ),
            "workers": Fix(
                title="Make loading keep up: more workers, or less work a sample",
                pytorch="Raise num_workers and prefetch_factor while CPU cores are idle; then make a sample cheaper: "
                "decode at the needed size, cache what does not change, move augmentation to the GPU, read fewer and "
                "larger files. Keep pin_memory=True and persistent_workers=True.",
                jax="Raise the parallelism of the map calls and the prefetch depth; then make a sample cheaper "
                "(smaller "
                "decodes, caching, fewer and larger files).",
                cuda="Add reader threads while CPU cores are idle; then make a sample cheaper (smaller decodes, "
                "caching, "
                "fewer and larger files, decoding on the GPU).",
                cupy="Add reader threads or processes while CPU cores are idle; then make a sample cheaper: "
                "smaller decodes, caching, fewer and larger files, decoding on the GPU.",
                trial="dataloader-workers",
                patch="dataloader",
            ),
        },
    )
}


def check(case: Case) -> Iterator[Hit]:
    """Loading that the GPU does not hide."""
    idle = case.part("data_loading")
    cost = case.per_step(idle)
    if case.share(cost) < SHARE:
        return
    loading = case.host_time["data_loading"]
    name = case.range_of(idle) if host.has_loading_names(case.host) else None
    waiting = _waiting(case, idle)
    behind = "workers" if waiting.for_others else "cpu" if case.device is None else ""
    change = Change(cut=loading, keep_ns=KEEP_NS, **_pinned(case))
    rest, taken = case.predict(change), case.host_per_step(loading)
    advised = None if rest is None or waiting.for_others else workers.advise(case, rest, taken, loading)
    there = workers.running(case, rest) if rest is not None and waiting.for_others else None
    lines = [*_lines(case, idle, taken, name, waiting), *_running(there), *_paced(case, rest, advised)]
    yield Hit(
        cost_ns=cost,
        lines=tuple(lines),
        range=name,
        change=change,
        predicted=advised.predicted if advised else there.predicted if there else rest,
        workers=advised.count if advised else None,
        when=idle,
        title=behind,
        fix=behind,
        facts={"workers": advised.count if advised else SOME},
        doubtful=0.0 if waiting.for_others else min(HANDOVER_NS / cost, 1.0),
        confidence="medium" if name is None or behind == "workers" else "high",
    )


@dataclass(frozen=True)
class Waiting:
    """What the step's thread waits in while it loads: shares of that time, and the call and the Python function."""

    share: float
    call: str
    sampled: float
    function: str

    @property
    def for_others(self) -> bool:
        """Others load, the step's thread waits for them: by its OS calls, else by the Python functions it is in."""
        return bool(self.share >= WAITED and QUEUE.search(self.call)) or self.sampled >= WAITED


def _waiting(case: Case, idle: Union) -> Waiting:
    return Waiting(*case.waits_in(idle), *case.sampled_under(idle, CONSUMER))


def _running(there: Running | None) -> Iterator[Line]:
    """What stands in the way of more workers, where some are there."""
    if there is None:
        return
    key = "room" if there.room else "cores-unknown" if there.cores is None else "bound"
    key = "full" if there.cores is not None and there.count >= there.cores else key
    yield line(key, there.count, "", "replay", cores=there.cores, step=there.step_ns)


def _paced(case: Case, rest: Prediction | None, advised: Workers | None) -> Iterator[Line]:
    """How many workers, and what stands in the way of more; for workers that are there, how much faster."""
    if advised is None:
        if rest is not None and rest.step_ns < case.step_ns:
            yield line("keep-up", case.step_ns / rest.step_ns, "times", "replay", rest=rest.step_ns)
        return
    facts = {name: getattr(advised, name) for name in ("needed", "cores", "busy")}
    at = {"loading": advised.loading_ns, "rest": advised.rest_ns, "step": advised.predicted.step_ns}
    yield line(_pace_key(advised), advised.count, "", "replay", **facts, **at)


def _pace_key(advised: Workers) -> str:
    """What keeps more workers from helping, if anything does."""
    if not advised.short:
        return "hides" if advised.cores is not None else "assumed"
    if advised.limit == "most":
        return "short"
    return "unsure" if advised.busy is None else "cores"


def _pinned(case: Case) -> dict[str, Any]:
    """The remedy's second half: the loader pins what it hands over, so pageable copies no longer block."""
    rows = case.ops.filter((pl.col("copy_kind") == "HtoD") & (pl.col("source") == "pageable"))
    return copies.ahead(case, rows, copies.pinned_rate(case)) if rows.height else {}


def _lines(case: Case, idle: Union, taken: float, name: str | None, waiting: Waiting) -> Iterator[Line]:
    cost = case.per_step(idle)
    key = "unnamed" if name is None else "cpu" if case.device is None else "idle"
    yield line(key, cost, "ns", "breakdown", step=case.step_ns, share=case.share(cost), range=name)
    if name and case.device is not None and taken > 1.1 * cost:  # the rest is hidden behind the GPU, where one works
        yield line("host", taken, "ns", "ranges", range=name, hidden=taken - cost)
    if waiting.call and waiting.share >= 0.1:
        yield line("queue" if waiting.for_others else "waits", waiting.share, "", "osrt", call=waiting.call)
    if waiting.sampled >= WAITED:
        yield line("consumer", waiting.sampled, "", "samples", function=waiting.function)
    hot = [] if waiting.for_others else case.hot(idle)  # a queue, whoever waits in it
    if hot:
        yield line("hot", hot[0][1], "", "samples", symbols=", ".join(s for s, _ in hot))


def fires(t: Trace) -> None:
    """20 ms of loading on the main thread before 5 ms of work."""
    _trace(t, 20 * MS)


def silent(t: Trace) -> None:
    """The batch is ready: taking it takes 30 µs."""
    _trace(t, 30 * US)


def _trace(t: Trace, loading: int) -> None:
    def body(i: int, at: int) -> None:
        t.range("data_load", at, at + loading)
        t.copy("HtoD", at + loading, 20 * US, source="pinned", copy_dur=10 * US)
        t.launch(GEMM, at + loading + 40 * US, 10 * US, kernel_dur=4800 * US)
        t.sync("stream", at + loading + 60 * US, at + loading + 4950 * US)

    steps(t, loading + 5 * MS, body)


KOREAN = """
GPU가 다음 배치를 기다립니다.

## 탐지 대상

스텝을 돌리는 스레드가 로딩을 뜻하는 이름의 구간(`data_load`, `next_batch`, `dataloader` …)에 있는 동안, 또는 그런
구간이 없는 스크립트라면 스텝의 첫 호스트→디바이스 복사 이전에 GPU가 유휴 상태인 시간입니다. 워커 프로세스에서
로딩해도 여기에 나타납니다. 이때 메인 스레드는 워커의 큐에서 기다립니다. 메인 스레드가 직접 로딩하는 경우와, 따라오지
못하는 워커를 기다리는 경우를 구별합니다.

## 시간이 걸리는 이유

배치가 없으면 스텝을 시작할 수 없습니다. 메인 스레드에서 하는 로딩은 언제나 스텝보다 앞서 끝나야 하고, 그동안 GPU는 할
일이 없습니다. 워커는 GPU가 연산하는 동안 여러 배치를 한꺼번에 로딩하므로 넘겨받는 시간만 남습니다.

필요한 워커 수는 로딩 시간을 스텝의 나머지 시간으로 나눈 값에 4분의 1을 더한 것입니다. 예측은 권하는 워커 수를
기준으로 합니다. 스텝은 로딩 시간을 워커 수로 나눈 값보다도, CPU 작업을 장비의 코어 수로 나눈 값보다도 짧아지지
않습니다. 파일이나 네트워크를 기다리는 로딩은 그동안 코어를 쓰지 않습니다.

워커가 이미 로딩하고 있다면 예측은 로딩이 따라올 때의 스텝입니다. 로딩이 CPU 작업이라면, 코어 C개에서 워커 N개로 도는
스텝은 워커만 늘려서는 지금의 N / C까지만 짧아지며, 구간은 거기까지 미칩니다. 샘플당 일을 줄이는 데는 그런 한계가
없습니다.

## 안전성

안전합니다. 맵 방식 데이터 세트라면 같은 샘플이 같은 순서로 나옵니다. 반복 방식(iterable) 데이터 세트는 워커끼리 직접
나누어야 하고, 무작위 증강은 워커마다 따로 둔 난수 생성기를 씁니다.

## 오탐인 경우

- 이름만 로딩처럼 들리고 실제로는 다른 일을 하는 구간입니다. 스크립트에서 그 구간의 위치를 확인하십시오.
- 처음 몇 배치에서는 워커가 시작하는 중입니다. 워밍업 스텝은 제외하지만, 스텝이 아주 적은 캡처에는 남아 있을 수
  있습니다.
- 놀고 있는 CPU 코어가 없는 장비에서는 워커를 늘릴수록 서로 느려집니다. 이때의 해결책은 더 빠른 디코딩입니다.

## 판정 기준

스텝의 2 % 이상입니다. GPU에 가려지는 로딩은 비용이 없으므로 표시하지 않습니다. 예측에서 로딩에 남겨 두는 시간은
스텝마다 30 µs입니다. 워커를 쓴 캡처에서 완성된 배치를 큐에서 꺼내는 데 10~30 µs가 걸렸습니다. 워커는 16개까지, 그리고
코어가 쉬지 않고 계산시킬 수 있는 수까지만 권합니다(로딩이 CPU 작업인지 알 수 없으면 적어도 4개).
"""

TEXTS["ko"] = Texts(
    title="메인 스레드가 배치를 하나씩 로딩하는 동안 GPU가 기다립니다",
    titles={
        "workers": "배치가 늦게 옵니다: 로딩이 따라가지 못합니다",
        "cpu": "메인 스레드가 배치를 하나씩 로딩하는 동안 스텝이 기다립니다",
    },
    says={
        "idle": "{step:ms} 스텝 중 {value:ms}({share:pct}) 동안, 호스트가 {range} 구간에 있고 GPU는 유휴 상태입니다",
        "cpu": "{range} 구간이 {step:ms} 스텝 중 {value:ms}({share:pct})를 차지합니다. 이 캡처에는 GPU 작업이 없습니다",
        "unnamed": "{step:ms} 스텝 중 {value:ms}({share:pct}) 동안, 스텝의 첫 복사가 시작되기 전까지 GPU가 유휴 "
        "상태입니다. 그때 호스트가 무엇을 하는지 알려 주는 구간은 없습니다",
        "host": "{range} 구간은 호스트 시간을 스텝마다 {value:ms} 쓰고, 그중 {hidden:ms}는 GPU 작업에 가려집니다",
        "queue": "그 시간의 {value:pct} 동안 메인 스레드가 큐의 소비자처럼 {call}에서 기다립니다",
        "waits": "그 시간의 {value:pct} 동안 메인 스레드가 {call}에서 기다립니다",
        "consumer": "그때 CPU 샘플의 {value:pct}가 {function}에 있습니다. 메인 스레드는 다른 쪽이 로딩하는 배치를 "
        "기다립니다",
        "hot": "그때의 CPU 샘플은 대부분 다음 함수에 있습니다: {symbols}",
        "hides": "스텝마다 로딩이 {loading:ms}, 나머지가 {rest:ms}입니다. 워커 {value:n}개면 로딩이 가려집니다",
        "assumed": "스텝마다 로딩이 {loading:ms}, 나머지가 {rest:ms}입니다. 코어가 충분하다면(캡처에 코어 수가 "
        "없습니다) 워커 {value:n}개면 로딩이 가려집니다",
        "short": "스텝마다 로딩이 {loading:ms}, 나머지가 {rest:ms}입니다. 다 가리려면 워커 {needed:n}개가 필요하고, "
        "권하는 최대인 {value:n}개로는 스텝이 {step:ms}가 됩니다",
        "cores": "스텝마다 로딩이 {loading:ms}, 나머지가 {rest:ms}입니다. 로딩의 {busy:pct}가 CPU 작업이어서 코어 "
        "{cores:n}개로는 워커 {value:n}개로 스텝이 {step:ms}가 되고 그보다 짧아지지 않습니다",
        "unsure": "스텝마다 로딩이 {loading:ms}, 나머지가 {rest:ms}입니다. 코어 {cores:n}개에 워커 {value:n}개를 "
        "권합니다. 로딩이 기다리는 것일 때만 더 늘리는 것이 도움이 되는데, 캡처로는 알 수 없습니다",
        "room": "워커 {value:n}개가 이미 있고 코어는 {cores:n}개입니다. 필요한 만큼 늘릴 여유가 있습니다",
        "bound": "워커 {value:n}개가 이미 있습니다. 로딩이 CPU 작업이라면 워커를 늘려도 코어 {cores:n}개로는 "
        "스텝이 {step:ms}보다 짧아지지 않습니다. 샘플당 일을 줄이는 데는 그런 한계가 없습니다",
        "full": "코어 {cores:n}개에서 워커 {value:n}개가 이미 있습니다. 로딩이 기다리는 것일 때만 워커를 더 "
        "늘리는 것이 도움이 되고, CPU 작업이라면 샘플당 일을 줄여야 합니다",
        "cores-unknown": "워커 {value:n}개가 이미 있습니다. 노는 코어가 있는 만큼(캡처에 코어 수가 없습니다), "
        "또는 로딩이 기다리는 것일 때 더 늘리는 것이 도움이 됩니다",
        "keep-up": "배치가 {value:times} 빠르게 와야 스텝의 나머지({rest:ms})에 가려집니다",
    },
    fix=Fix(
        title="워커 프로세스에서 로딩하고 프리페치하기",
        pytorch="DataLoader에 num_workers={workers}, pin_memory=True, persistent_workers=True를 주고 "
        ".to(device, non_blocking=True)로 복사하십시오. 어떤 배치 이터러블이든 한 줄이면 됩니다. for batch "
        "in unstall.prefetch(loader, device='cuda')는 연산하는 동안 다음 배치들을 꺼내 페이지 고정 메모리에 "
        "담아 복사합니다.",
        jax="grain 또는 tf.data에서 .prefetch(2)와 병렬 map 호출로 스텝에 데이터를 공급하고, 현재 스텝을 기다리기 "
        "전에 다음 배치를 디바이스에 올리십시오(jax.device_put).",
        cuda="다음 배치를 다른 스레드에서 읽고 디코딩해 페이지 고정 버퍼 둘 이상에 번갈아 담고, 현재 배치를 연산하는 "
        "동안 별도 스트림에서 cudaMemcpyAsync로 복사하십시오.",
        cupy="현재 배치를 계산하는 동안 다음 배치를 스레드나 프로세스에서 읽고 "
        "디코딩하십시오(unstall.fix.prefetch가 반복자를 감쌉니다). 페이지 고정 배열(cupyx.empty_pinned)에 "
        "담아 x.set(batch, stream=side)로 복사하십시오.",
    ),
    fixes={
        "cpu": Fix(
            title="워커 프로세스에서 로딩하고 프리페치하기",
            when="GPU가 없을 때",
            pytorch="DataLoader에 num_workers={workers}, persistent_workers=True를 주십시오. 어떤 배치 이터러블이든 한 "
            "줄이면 됩니다. for batch in unstall.prefetch(loader)는 그동안 다음 배치들을 꺼냅니다.",
            jax="grain 또는 tf.data에서 .prefetch(2)와 병렬 map 호출로 스텝에 데이터를 공급하십시오.",
            cuda="현재 배치를 계산하는 동안 다음 배치를 다른 스레드에서 읽고 디코딩하십시오.",
        ),
        "workers": Fix(
            title="로딩이 따라오게 하기: 워커를 늘리거나 샘플당 일을 줄이기",
            pytorch="CPU 코어가 놀고 있는 한 num_workers와 prefetch_factor를 올리십시오. 그다음 샘플 하나를 싸게 "
            "만드십시오. 필요한 크기로 디코딩하고, 바뀌지 않는 것은 캐시에 두고, 증강을 GPU로 옮기고, 더 "
            "적고 큰 파일을 읽습니다. pin_memory=True와 persistent_workers=True는 그대로 두십시오.",
            jax="map 호출의 병렬도와 프리페치 깊이를 올리십시오. 그다음 샘플 하나를 싸게 만드십시오(더 작은 디코딩, "
            "캐시, 더 적고 큰 파일).",
            cuda="CPU 코어가 놀고 있는 한 읽기 스레드를 늘리십시오. 그다음 샘플 하나를 싸게 만드십시오(더 작은 "
            "디코딩, 캐시, 더 적고 큰 파일, GPU에서 디코딩).",
            cupy="CPU 코어가 노는 동안 읽는 스레드나 프로세스를 늘리고, 샘플을 가볍게 하십시오: 더 작은 "
            "디코딩, 캐시, 더 적고 큰 파일, GPU 디코딩.",
        ),
    },
    explain=KOREAN,
)
