"""Nothing on the host holds the GPU back: its kernels set the pace.

## What it detects

A GPU that computes for most of the step, and nothing on the host that would gain 5 %. It is the
verdict when nothing is wrong, and names the kernels in which the time goes.

## Why it matters

Loader workers, pinned memory or fewer waits gain nothing here. What is left is to compute less, in fewer bytes, or on
more GPUs: other precision, fused kernels, larger batches for small kernels, more GPUs.

## How safe

Nothing is proposed that changes the program by itself.

## When it is a false alarm

- A GPU shared with another process looks busy (see the warnings).
- Busy is not efficient: a kernel with one block occupies one of the GPU's processors and counts as busy. Kernels with
  fewer blocks than the GPU has multiprocessors are pointed out.

## Thresholds

90 % busy, counting pauses between queued operations, which no host change closes; 50 % where the host's side was
captured. And a best predicted gain on the host below 5 %, about what repeats of one training run differ by. Without
steps, at least three kernels that take 1 % of the capture.
Memory or arithmetic: matrix products, convolutions and fused
attention do hundreds of operations a byte and are limited by arithmetic if large; elementwise kernels, reductions,
norms, softmax and optimizers do a few, and are limited by memory. For PyTorch's vectorised elementwise kernels the
launch gives the bytes: blocks × 1,024 elements (512 in older versions) × tensors × bytes an element.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import polars as pl

from unstall.diagnose import kernels
from unstall.diagnose.case import Case
from unstall.diagnose.hit import Hit
from unstall.diagnose.texts import Fix, Line, Texts, line
from unstall.diagnose.traces import GEMM, MS, US, Trace, steps

CODE = "compute-bound"
CATEGORY = "gpu_compute"
TABLES = ("kernels",)
STEPS = False
SIDE = "device"
LAST = True

BUSY = 0.90
GAIN = 0.05
MOSTLY = 0.5
"""Busy share below which the verdict is not given, even if no rule predicts a gain: then something is unexplained."""
ELSEWHERE = 0.10
"""More of the step than this in exposed copies or communication, and it is not compute that bounds it."""
FEW, WHOLE = 3, 0.01
"""Without steps, fewer kernels or graphs, or less device time than this share of the capture, and nothing is said of
the GPU: a JAX capture of 7 s, of which nsys lost the CUDA events, kept one memset of 768 ns. Both
numbers are chosen, not measured."""
TOP = 5
COUNTERS = ("sm_active_percent", "tensor_active_percent", "dram_read_percent", "dram_write_percent")
SMALL_NS = 20_000

TEXTS = {
    "en": Texts(
        title="Nothing on the host holds the GPU back: its kernels set the pace",
        says={
            "busy": "The GPU computes in {value:pct} of a {step:ms} step",
            "latency": "Another {value:pct} are pauses between operations that were already queued",
            "gain": "The best that a change on the host would gain is predicted at {value:pct}",
            "kernel": "{kernel}: {value:ms} a step ({share:pct}) in {count:n} launches; {limit}",
            "others": "All other kernels: {value:ms} a step ({share:pct}) in {count:n} launches",
            "graphs": "{value:ms} a step in CUDA graphs that are recorded as a whole; collect with "
            "--cuda-graph-trace=node",
            "memory": "memory limits",
            "traffic": "memory limits: about {rate:rate} of {peak:rate}",
            "tensor": "arithmetic limits (tensor cores)",
            "fp32": "arithmetic limits (fp32 on CUDA cores, no tensor cores)",
            "arithmetic": "arithmetic limits",
            "small": "too small for this GPU: {blocks:n} blocks for {sms:n} multiprocessors",
            "unknown": "what limits it is not in its name; a kernel profiler (Nsight Compute) tells",
            "sm_active_percent": "Hardware counters: SMs active {value:.0f} % of a step on average",
            "tensor_active_percent": "Hardware counters: tensor cores active {value:.0f} % of a step on average",
            "dram_read_percent": "Hardware counters: DRAM reads at {value:.0f} % of peak on average",
            "dram_write_percent": "Hardware counters: DRAM writes at {value:.0f} % of peak on average",
        },
        fix=Fix(
            title="Compute less, in fewer bytes, or on more GPUs",
            pytorch="bf16 autocast or TF32 where kernels are fp32; torch.compile fuses elementwise kernels and "
            "halves their "
            "memory traffic; fused attention and optimizers; larger batches if kernels are too small; otherwise more "
            "GPUs.",
            jax="bfloat16 matrix products, jax.jit over the whole step so that XLA fuses, larger batches, more "
            "devices.",
            cuda="Lower precision on tensor cores, fused elementwise kernels, fewer passes over memory; profile the "
            "top kernel "
            "with Nsight Compute.",
            cupy="CUPY_TF32=1 or float16 for products, @cupy.fuse for chains of elementwise operations, "
            "cupyx.optimizing for launch shapes, larger arrays if kernels are too small; `unstall kernel` "
            "says why one kernel is slow.",
            safety="manual",
        ),
    )
}


def check(case: Case) -> Iterator[Hit]:
    """The verdict when the device sets the pace."""
    share = {n: case.share(case.per_step(case.part(n))) for n in case.parts}
    compute, latency = share["gpu_compute"] + share["other_process"], share["device_latency"]
    if case.whole and not _seen(case):
        return
    elsewhere = share["exposed_copy"] + share["exposed_communication"]
    checked = not case.whole and case.replay is not None and share["unknown"] < GAIN
    enough = compute + latency >= (MOSTLY if checked else BUSY)
    if elsewhere > ELSEWHERE or case.best_host_gain >= GAIN or not enough:
        return
    rows = case.kernel_times()
    yield Hit(
        cost_ns=case.per_step(case.part("gpu_compute")),
        lines=tuple(_lines(case, rows, compute, latency)),
        kernel=rows["name"][0] if rows.height else None,
        side_note=True,
        confidence="high",
    )


def _seen(case: Case) -> bool:
    """Whether a capture without steps holds enough computing to judge the GPU by.

    The window of a whole capture is its own device work: one memset fills it by 100 %.
    """
    work = case.ops.filter(pl.col("kind").is_in(["kernel", "communication", "graph"]))
    meta = case.profile.meta
    return work.height >= FEW and float(work["dur"].sum()) >= WHOLE * (meta.end_ns - meta.start_ns)


def _lines(case: Case, rows: pl.DataFrame, compute: float, latency: float) -> Iterator[Line]:
    yield line("busy", compute, "", "breakdown", step=case.step_ns)
    if latency >= 0.02:
        yield line("latency", latency, "", "breakdown")
    if not case.whole:
        yield line("gain", case.best_host_gain, "", "replay")
    spent = float(case.ops["dur"].sum()) / case.count or 1.0
    for row in rows.head(TOP).iter_rows(named=True):
        if row["ns"] >= 0.02 * spent:
            yield line("kernel", row["ns"], "ns", "kernels", kernel=kernels.short(row["name"]),
                       share=case.share(row["ns"]), count=row["count"], limit=limit(case, row))  # fmt: skip
    rest = rows[TOP:]
    if rest.height:
        others = float(rest["ns"].sum())
        yield line("others", others, "ns", "kernels", share=case.share(others), count=rest["count"].sum())
    graphs = case.ops.filter(pl.col("kind") == "graph")
    if graphs.height:
        yield line("graphs", float(graphs["dur"].sum()) / case.count, "ns", "graphs")
    yield from _metrics(case)


def _metrics(case: Case) -> Iterator[Line]:
    """The report's own means over the typical steps, of the GPU that this process is on."""
    rows = case.analysis.report.gpu_metrics or []
    for mean in (row for row in rows if row.process == case.pid and row.scope == "step"):
        for name in COUNTERS:
            if (value := getattr(mean, name)) is not None:
                yield line(name, value, "%", "gpu_metrics")


def limit(case: Case, row: dict[str, Any]) -> str:
    """What limits a kernel, in words, as far as its name and its launch tell."""
    from unstall.diagnose.texts import choose, say

    says = choose(TEXTS, case.language).says
    key, facts = verdict(case, row)
    return say(says[key], facts)


def verdict(case: Case, row: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The same as a key of the texts, with its figures."""
    sms = _multiprocessors(case)
    if row["grid"] and sms and row["grid"] < sms / 2 and row["mean"] < SMALL_NS:
        return "small", {"blocks": row["grid"], "sms": sms}
    family = row["family"]
    if family in kernels.MEMORY_BOUND:
        rate = traffic(row["name"], row["grid"] or 0, row["mean"], case.peaks.memory * 1e9)
        return ("traffic", {"rate": rate, "peak": case.peaks.memory * 1e9}) if rate else ("memory", {})
    if family == kernels.TENSOR_GEMM:
        return "tensor", {}
    if kernels.is_fp32(row["name"]):
        return "fp32", {}
    return ("arithmetic", {}) if family in kernels.ARITHMETIC else ("unknown", {})


def _multiprocessors(case: Case) -> int:
    gpus = case.profile.gpus
    rows = None if gpus is None else gpus.filter(pl.col("device") == case.device)
    return int(rows["sm_count"][0] or 0) if rows is not None and rows.height else 0


SIZES = {
    "double": 8,
    "long": 8,
    "float": 4,
    "int": 4,
    "c10::BFloat16": 2,
    "c10::Half": 2,
    "bool": 1,
    "unsigned char": 1,
}


def traffic(name: str, grid: float, mean_ns: float, peak: float) -> float:
    """Bytes/s of a vectorised elementwise kernel of PyTorch, from its name and grid; 0 where they do not tell."""
    # nsys prints ``std::array<char *, (unsigned long)3>``, Kineto ``std::array<char*, 3ul>``
    array = r"std::array<char ?\*, (?:\((?:unsigned )?long\))?(\d+)(?:ul)?>"
    vector = re.search(f"vectorized_elementwise_kernel<.*{array}", name)
    kind = re.search(r"<(double|long|float|int|c10::BFloat16|c10::Half|bool)[,>]", name)
    if not vector or not kind or not grid or not mean_ns:
        return 0.0
    rates = (grid * e * int(vector.group(1)) * SIZES[kind.group(1)] * 1e9 / mean_ns for e in (1024, 512))
    return next((r for r in rates if r <= 1.05 * peak), 0.0)


def fires(t: Trace) -> None:
    """The GPU works all the time; the host is ready early."""
    _trace(t, 0)


def silent(t: Trace) -> None:
    """The host sleeps 5 ms before it launches 5 ms of work."""
    _trace(t, 5 * MS)


def _trace(t: Trace, late: int) -> None:
    def body(i: int, at: int) -> None:
        t.launch(GEMM, at + late + US, 10 * US, kernel_start=at + late + 20 * US, kernel_dur=5 * MS - 2 * US)
        if late:
            t.sync("stream", at + late + 30 * US, at + late + 5 * MS + 20 * US)

    steps(t, 5 * MS + late + (30 * US if late else 0), body)


KOREAN = """
호스트 쪽에는 GPU를 붙잡는 것이 없고, 커널이 속도를 정합니다.

## 탐지 대상

스텝의 대부분을 연산하는 GPU, 그리고 호스트에서 무엇을 고쳐도 5 %를 얻지 못하는 스텝입니다. 이상이 없을 때의
판정이며, 시간이 드는 커널들을 알려 줍니다.

## 중요한 이유

여기서는 로더 워커, 페이지 고정 메모리, 대기 줄이기가 아무 이득도 주지 않습니다. 남은 것은 더 적게, 더 적은 바이트로,
또는 더 많은 GPU에서 연산하는 것입니다. 다른 정밀도, 융합 커널, 작은 커널에는 더 큰 배치, 더 많은 GPU입니다.

## 안전성

프로그램을 저절로 바꾸는 제안은 없습니다.

## 오탐인 경우

- 다른 프로세스와 함께 쓰는 GPU는 바빠 보입니다(경고를 보십시오).
- 바쁘다고 효율적인 것은 아닙니다. 블록이 하나인 커널은 GPU의 멀티프로세서 하나만 차지하면서 바쁜 것으로 셉니다.
  GPU의 멀티프로세서보다 블록이 적은 커널은 따로 알려 줍니다.

## 판정 기준

큐에 쌓인 작업 사이의, 호스트를 고쳐도 없어지지 않는 틈까지 세어 90 % 이상, 호스트 쪽을 캡처했다면 50 % 이상 바쁘고,
호스트에서 예측된 최대 이득이 5 % 미만이어야 합니다. 5 %는 같은 학습을 되풀이해도 나는 차이 정도입니다. 스텝이
없으면 캡처의 1 %를 차지하는 커널이 셋 이상이어야 합니다. 메모리가 한계인지 산술이 한계인지: 행렬 곱, 합성곱, 융합
어텐션은 바이트당 연산이 수백 번이어서 크면 산술이 한계이고, 요소별 커널, 축약, 정규화, softmax, 옵티마이저는 몇
번뿐이어서 메모리가 한계입니다. PyTorch의 벡터화된 요소별 커널은 실행 설정에서 바이트를 알 수 있습니다: 블록 × 요소
1,024개(이전 버전은 512개) × 텐서 × 요소당 바이트.
"""

TEXTS["ko"] = Texts(
    title="호스트 쪽에는 GPU를 붙잡는 것이 없습니다: 커널이 속도를 정합니다",
    says={
        "busy": "GPU가 {step:ms} 스텝의 {value:pct}를 연산합니다",
        "latency": "또 다른 {value:pct}는 이미 큐에 있던 작업 사이의 틈입니다",
        "gain": "호스트를 고쳐서 얻을 수 있는 최대 이득은 {value:pct}로 예측됩니다",
        "kernel": "{kernel}: 스텝마다 {value:ms}({share:pct}), 실행 {count:n}번. {limit}",
        "others": "나머지 모든 커널: 스텝마다 {value:ms}({share:pct}), 실행 {count:n}번",
        "graphs": "스텝마다 {value:ms}는 통째로 기록된 CUDA 그래프입니다. --cuda-graph-trace=node로 수집하십시오",
        "memory": "메모리가 한계",
        "traffic": "메모리가 한계: {peak:rate} 중 약 {rate:rate}",
        "tensor": "산술이 한계(텐서 코어)",
        "fp32": "산술이 한계(텐서 코어 없이 CUDA 코어의 fp32)",
        "arithmetic": "산술이 한계",
        "small": "이 GPU에는 너무 작음: 멀티프로세서 {sms:n}개에 블록 {blocks:n}개",
        "unknown": "무엇이 한계인지 이름으로는 알 수 없음. 커널 프로파일러(Nsight Compute)로 확인",
        "sm_active_percent": "하드웨어 카운터: SM 활성이 스텝의 평균 {value:.0f} %",
        "tensor_active_percent": "하드웨어 카운터: 텐서 코어 활성이 스텝의 평균 {value:.0f} %",
        "dram_read_percent": "하드웨어 카운터: DRAM 읽기가 최대치의 평균 {value:.0f} %",
        "dram_write_percent": "하드웨어 카운터: DRAM 쓰기가 최대치의 평균 {value:.0f} %",
    },
    fix=Fix(
        title="더 적게, 더 적은 바이트로, 또는 더 많은 GPU에서 연산하기",
        pytorch="fp32 커널이라면 bf16 autocast나 TF32를 쓰십시오. torch.compile은 요소별 커널을 융합해 메모리 "
        "트래픽을 절반으로 줄입니다. 융합 어텐션과 융합 옵티마이저, 커널이 너무 작다면 더 큰 배치, 그래도 "
        "모자라면 더 많은 GPU입니다.",
        jax="bfloat16 행렬 곱, XLA가 융합하도록 스텝 전체에 jax.jit, 더 큰 배치, 더 많은 디바이스입니다.",
        cuda="텐서 코어에서 더 낮은 정밀도, 융합한 요소별 커널, 메모리를 지나는 횟수 줄이기입니다. 가장 큰 커널을 "
        "Nsight Compute로 프로파일링하십시오.",
        cupy="행렬 곱은 CUPY_TF32=1이나 float16, 이어지는 요소별 연산은 @cupy.fuse, 실행 모양은 "
        "cupyx.optimizing, 커널이 너무 작으면 더 큰 배열. 커널 하나가 느린 이유는 `unstall kernel`이 알려 "
        "줍니다.",
    ),
    explain=KOREAN,
)
