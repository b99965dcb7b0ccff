"""Matrix products in fp32 run on CUDA cores, and the tensor cores stand idle.

## What it detects

GEMM and convolution kernels whose names say fp32 on CUDA cores (`simt_sgemm`, `ampere_sgemm`, `f32f32_f32f32 … ffma`,
`scudnn`, fp32 variants of MAGMA and Triton), on a GPU whose tensor cores take TF32 or bf16.

## Why it costs time

An H200 does 67 TFLOP/s in fp32 and 495 in TF32; an A100 19.5 and 156. PyTorch computes fp32 matrix products in full
fp32 unless told otherwise (convolutions use TF32 by default).

## How safe

Changes numerics: TF32 keeps fp32's range and rounds inputs to 10 mantissa bits, about 3 decimal digits; sums stay in
fp32. Training of most networks converges the same; compare loss curves. bf16 autocast is faster still and rounds to 7
bits. Keep full fp32 for solvers, physics, and sums of widely different magnitudes.

## When it is a false alarm

- Small products: kernels under 10 µs are limited by latency, and are left out.
- Consumer GPUs (GeForce) have no faster TF32; the prediction knows their peaks, and then gains nothing.
- Triton kernels do not carry their precision in the name unless the author put it there; they are not judged.

## Thresholds

At least 5 % of the step's time in such kernels. The prediction multiplies each kernel's time by the ratio of the
GPU's peaks (NVIDIA's data sheets) and assumes that TF32 kernels reach three quarters of the share of their peak that
fp32 kernels reach of theirs (published cuBLAS figures: fp32 about 90 % of peak, TF32 55 to 80 %); bounds: half and
all of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from unstall.analyze.replay import Change
from unstall.diagnose import kernels
from unstall.diagnose.case import Case
from unstall.diagnose.events import some_of
from unstall.diagnose.hit import Hit
from unstall.diagnose.texts import Fix, Texts, line
from unstall.diagnose.traces import FP32_GEMM, GEMM, MS, US, Trace, steps

CODE = "fp32-matmul"
CATEGORY = "gpu_compute"
TABLES = ("kernels",)
STEPS = False
SIDE = "device"

SHARE = 0.05
LATENCY_NS = 10_000
"""Shorter GEMMs are limited by latency: an H200 starts a kernel and drains it in 2 to 5 µs whatever it computes."""
EFFICIENCY = 0.75
LOW_EFFICIENCY = 0.5

TEXTS = {
    "en": Texts(
        title="Matrix products run in fp32 without tensor cores",
        says={
            "share": "{value:ms} of a {step:ms} step ({share:pct}) are fp32 matrix products on CUDA cores",
            "top": "{kernel}: {value:ms} a step in {count:n} launches",
            "peaks": "{gpu}: {fp32:n} TFLOP/s in fp32, {tf32:n} in TF32 (data sheet); assumed gain of a product "
            "{value:times}",
            "guess": "{gpu} is not in the table of peaks: a cautious {value:times} is assumed for a product",
        },
        fix=Fix(
            title="Allow TF32, or train in bf16",
            pytorch="torch.set_float32_matmul_precision('high') allows TF32 for matrix products (for convolutions, "
            "torch.backends.cudnn.allow_tf32 is on by default). Or run forward and loss under torch.autocast('cuda', "
            "torch.bfloat16). Compare the loss curves.",
            jax="jax.config.update('jax_default_matmul_precision', 'tensorfloat32'), or compute in bfloat16.",
            cuda="cublasSetMathMode(handle, CUBLAS_TF32_TENSOR_OP_MATH), or CUBLAS_COMPUTE_32F_FAST_TF32 in "
            "cublasLt; bf16 "
            "inputs with fp32 accumulation are faster still.",
            cupy="Set CUPY_TF32=1 in the environment before the program starts, or multiply in float16.",
            safety="changes-numerics",
            trial="tf32",
            patch="tf32",
        ),
    )
}


def check(case: Case) -> Iterator[Hit]:
    """fp32 GEMMs that are worth tensor cores."""
    by = case.kernel_times().filter(pl.col("mean") >= LATENCY_NS)
    by = by.filter(pl.col("name").map_elements(kernels.is_fp32, return_dtype=pl.Boolean)) if by.height else by
    cost = float(by["ns"].sum())
    ratio = case.peaks.tf32 / case.peaks.fp32
    if case.share(cost) < SHARE or ratio * EFFICIENCY <= 1:
        return
    rows = case.ops.filter(some_of("op", by["op"].explode()))
    yield Hit(
        cost_ns=cost,
        lines=(
            line("share", cost, "ns", "kernels", step=case.step_ns, share=case.share(cost)),
            *(
                line("top", ns, "ns", "kernels", kernel=kernels.short(name), count=count)
                for name, ns, count in by.select("name", "ns", "count").head(3).iter_rows()
            ),
            line("peaks" if case.peaks.known else "guess", ratio * EFFICIENCY, "", "data sheet", gpu=case.gpu_name,
                 fp32=case.peaks.fp32, tf32=case.peaks.tf32),
        ),
        range=case.range_of_ops(rows),
        kernel=by["name"][0],
        change=Change(**_faster(by["op"].explode(), ratio)),
        gain_ns=cost * (1 - 1 / (ratio * EFFICIENCY)),
        ops=rows["op"].to_numpy(),
        confidence="medium" if case.peaks.known else "low",
    )  # fmt: skip


def _faster(ops: pl.Series, ratio: float) -> dict[str, Any]:
    """The new durations: no shorter than a kernel's latency, no longer than now."""
    mine, now = some_of("op", ops), pl.col("end") - pl.col("start")

    def at(times: float) -> pl.Expr:
        new = pl.max_horizontal((now / max(times, 1.0)).cast(pl.Int64), pl.lit(LATENCY_NS))
        return pl.when(mine).then(pl.min_horizontal(new, now))

    return {
        "op_ns": at(ratio * EFFICIENCY),
        "op_ns_low": at(ratio),
        "op_ns_high": at(ratio * LOW_EFFICIENCY),
    }


def fires(t: Trace) -> None:
    """Ten fp32 products of 1 ms."""
    _trace(t, FP32_GEMM)


def silent(t: Trace) -> None:
    """Ten bf16 products of 1 ms."""
    _trace(t, GEMM)


def _trace(t: Trace, name: str) -> None:
    def body(i: int, at: int) -> None:
        for k in range(10):
            t.launch(name, at + k * 20 * US, 10 * US, kernel_start=at + 20 * US + k * MS, kernel_dur=MS - 2 * US)
        t.sync("stream", at + 210 * US, at + 10 * MS + 20 * US)

    steps(t, 10 * MS + 40 * US, body)


KOREAN = """
fp32 행렬 곱이 CUDA 코어에서 돌고 텐서 코어는 놀고 있습니다.

## 탐지 대상

텐서 코어가 TF32나 bf16을 처리하는 GPU에서, 이름이 CUDA 코어의 fp32를 가리키는 GEMM과 합성곱 커널(`simt_sgemm`,
`ampere_sgemm`, `f32f32_f32f32 … ffma`, `scudnn`, MAGMA와 Triton의 fp32 변형)입니다.

## 시간이 걸리는 이유

H200은 fp32로 67 TFLOP/s, TF32로 495 TFLOP/s를 냅니다. A100은 19.5와 156입니다. PyTorch는 따로 지정하지 않으면 fp32
행렬 곱을 온전한 fp32로 계산합니다(합성곱은 기본으로 TF32를 씁니다).

## 안전성

수치가 바뀝니다. TF32는 fp32의 범위를 유지하면서 입력을 가수 10비트, 십진수로 약 3자리로 반올림하고, 합은 fp32로
둡니다. 대부분의 신경망은 학습이 똑같이 수렴합니다. 손실 곡선을 비교하십시오. bf16 autocast는 더 빠르고 7비트로
반올림합니다. 방정식 풀이, 물리 계산, 크기가 크게 다른 값의 합에는 온전한 fp32를 유지하십시오.

## 오탐인 경우

- 작은 행렬 곱: 10 µs 미만의 커널은 지연이 한계이므로 제외합니다.
- 소비자용 GPU(GeForce)는 TF32가 더 빠르지 않습니다. 예측은 이런 GPU의 최고 성능을 알고 있고, 그때는 이득이
  없습니다.
- Triton 커널은 작성자가 넣지 않는 한 이름에 정밀도가 없으므로 판정하지 않습니다.

## 판정 기준

이런 커널이 스텝 시간의 5 % 이상이어야 합니다. 예측은 각 커널의 시간에 GPU의 최고 성능 비율(NVIDIA 데이터시트)을
곱하되, TF32 커널은 fp32 커널이 최고 성능에 도달하는 비율의 4분의 3까지 도달한다고 가정합니다(발표된 cuBLAS 수치:
fp32는 최고 성능의 약 90 %, TF32는 55~80 %). 한계는 그 절반과 전부입니다.
"""

TEXTS["ko"] = Texts(
    title="행렬 곱이 텐서 코어 없이 fp32로 실행됩니다",
    says={
        "share": "{step:ms} 스텝 중 {value:ms}({share:pct})가 CUDA 코어의 fp32 행렬 곱입니다",
        "top": "{kernel}: 스텝마다 {value:ms}, 실행 {count:n}번",
        "peaks": "{gpu}: fp32 {fp32:n} TFLOP/s, TF32 {tf32:n} TFLOP/s(데이터시트). 행렬 곱 하나의 가정 이득은 "
        "{value:times}입니다",
        "guess": "{gpu}: 최고 성능 표에 없는 GPU입니다. 행렬 곱 하나에 조심스럽게 {value:times}를 가정합니다",
    },
    fix=Fix(
        title="TF32를 허용하거나 bf16으로 학습하기",
        pytorch="torch.set_float32_matmul_precision('high')는 행렬 곱에 TF32를 허용합니다(합성곱의 "
        "torch.backends.cudnn.allow_tf32는 기본으로 켜져 있습니다). 또는 순전파와 손실을 "
        "torch.autocast('cuda', torch.bfloat16) 아래에서 돌리십시오. 손실 곡선을 비교하십시오.",
        jax="jax.config.update('jax_default_matmul_precision', 'tensorfloat32')를 쓰거나 bfloat16으로 계산하십시오.",
        cuda="cublasSetMathMode(handle, CUBLAS_TF32_TENSOR_OP_MATH), cublasLt라면 CUBLAS_COMPUTE_32F_FAST_TF32를 "
        "쓰십시오. bf16 입력에 fp32 누산은 더 빠릅니다.",
        cupy="프로그램을 시작하기 전에 환경 변수 CUPY_TF32=1을 설정하거나 float16으로 곱하십시오.",
    ),
    explain=KOREAN,
)
