"""Convolutions transpose their tensors back and forth.

## What it detects

Layout conversions around convolutions: `nchwToNhwc`, `nhwcToNchw`, cuDNN's tensor transforms and XLA's transposes.

## Why it costs time

Tensor-core convolutions want channels last (NHWC). Given channels first (NCHW), cuDNN converts input, weights and
output of each convolution: kernels that compute nothing and move every byte twice.

## How safe

Safe: the same values in another order of memory. Code that reads strides or calls `view` on such tensors may need
`reshape` or `contiguous()`.

## When it is a false alarm

- A single conversion at the model's entrance: it stays with channels last as well.
- Layers that have no channels-last kernel convert back and forth; then only part of the time is gained.

## Thresholds

At least 2 % of the step in such kernels. The prediction takes the kernels and their launches out, and leaves the
convolutions as they are.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from unstall.analyze.replay import Change
from unstall.diagnose import kernels
from unstall.diagnose.case import Case
from unstall.diagnose.events import lead_ins, some_of
from unstall.diagnose.hit import Hit
from unstall.diagnose.texts import Fix, Texts, line
from unstall.diagnose.traces import US, Trace, steps

CODE = "layout-transpose"
CATEGORY = "gpu_compute"
TABLES = ("kernels",)
STEPS = False
SIDE = "device"

SHARE = 0.02

FASTER_KERNELS = 0.75
"""Of the gain, what may come on top: in channels-last the convolutions themselves run kernels that need no transpose
and
use tensor cores better (NVIDIA's convolution guide shows up to twice the rate), which the capture cannot show."""
LESS = 0.45
"""… and what may not come: of eight plain convolutions in bf16 on an H200 the kernels named took 4.1 of 14.0 ms a step,
and the whole script in channels-last gained 2.4 (58 %)."""

TEXTS = {
    "en": Texts(
        title="Layout transposes around convolutions",
        says={
            "share": "{value:ms} of a {step:ms} step ({share:pct}) are layout conversions, in {count:n} launches",
            "top": "{kernel}: {value:ms} a step in {count:n} launches",
            "convs": "Convolutions themselves take {value:ms} a step",
        },
        fix=Fix(
            title="Use channels last from end to end",
            pytorch="model = model.to(memory_format=torch.channels_last), and the same for each input batch; keep "
            "bf16 or fp16 "
            "autocast on, as fp32 convolutions gain less.",
            jax="Use NHWC dimension numbers in lax.conv_general_dilated (Flax's default), and avoid transposes "
            "between layers.",
            cuda="Allocate tensors as NHWC and describe them so to cuDNN (CUDNN_TENSOR_NHWC), filters as KRSC.",
            trial="channels-last",
            patch="channels-last",
        ),
    )
}


def check(case: Case) -> Iterator[Hit]:
    """Layout conversions, where there are convolutions."""
    by = case.kernel_times()
    convs = by.filter(pl.col("family") == kernels.CONV)
    by = by.filter((pl.col("family") == kernels.LAYOUT) & ~pl.col("name").str.contains("cublas"))
    cost = float(by["ns"].sum())
    if case.share(cost) < SHARE or not convs.height:
        return
    rows = case.ops.filter(some_of("op", by["op"].explode()))
    calls = case.calls_of(rows).filter(pl.col("kind") != "graph")
    yield Hit(
        cost_ns=cost,
        lines=(
            line("share", cost, "ns", "kernels", step=case.step_ns, share=case.share(cost), count=by["count"].sum()),
            *(
                line("top", ns, "ns", "kernels", kernel=kernels.short(name), count=count)
                for name, ns, count in by.select("name", "ns", "count").head(3).iter_rows()
            ),
            line("convs", float(convs["ns"].sum()), "ns", "kernels"),
        ),
        range=case.range_of_ops(rows),
        kernel=by["name"][0],
        change=Change(
            cut=lead_ins(calls),
            drop_calls=some_of("correlation", calls["correlation"]),
            drop_ops=some_of("op", rows["op"]),
        ),
        gain_ns=cost,
        ops=rows["op"].to_numpy(),
        confidence="medium",
        doubtful=LESS,
        more=FASTER_KERNELS,
    )


_TO = "void cudnn::engines_precompiled::nchwToNhwcKernel<__half, __half, float, (bool)0, (bool)1>(…)"
_CONV = "sm90_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x64_kernel"


def fires(t: Trace) -> None:
    """Each of ten convolutions of 0.6 ms is framed by two conversions of 0.2 ms."""
    _trace(t, 200 * US)


def silent(t: Trace) -> None:
    """The convolutions alone."""
    _trace(t, 0)


def _trace(t: Trace, convert: int) -> None:
    def body(i: int, at: int) -> None:
        free = at + 20 * US
        for k in range(10):
            for j, (name, dur) in enumerate(((_TO, convert), (_CONV, 600 * US), (_TO, convert))):
                if dur:
                    t.launch(name, at + (3 * k + j) * 20 * US, 10 * US, kernel_start=free, kernel_dur=dur - US)
                    free += dur
        t.sync("stream", at + 650 * US, free + 5 * US)

    steps(t, 10 * (600 * US + 2 * convert) + 50 * US, body)


KOREAN = """
합성곱이 텐서를 이리저리 전치합니다.

## 탐지 대상

합성곱 주변의 레이아웃 변환입니다. `nchwToNhwc`, `nhwcToNchw`, cuDNN의 텐서 변환, XLA의 전치가 여기에 듭니다.

## 시간이 걸리는 이유

텐서 코어 합성곱은 채널이 마지막인 배치(NHWC)를 원합니다. 채널이 먼저인 배치(NCHW)를 받으면 cuDNN은 합성곱마다 입력,
가중치, 출력을 변환합니다. 아무것도 계산하지 않으면서 모든 바이트를 두 번 옮기는 커널입니다.

## 안전성

안전합니다. 같은 값이 메모리에 다른 순서로 놓일 뿐입니다. 이런 텐서의 스트라이드를 읽거나 `view`를 호출하는 코드는
`reshape`나 `contiguous()`가 필요할 수 있습니다.

## 오탐인 경우

- 모델 입구의 변환 하나는 channels last에서도 남습니다.
- channels last 커널이 없는 층은 변환을 되풀이합니다. 그때는 시간의 일부만 얻습니다.

## 판정 기준

이런 커널이 스텝의 2 % 이상이어야 합니다. 예측은 그 커널과 실행을 없애고 합성곱은 그대로 둡니다.
"""

TEXTS["ko"] = Texts(
    title="합성곱 주변에서 레이아웃을 전치합니다",
    says={
        "share": "{step:ms} 스텝 중 {value:ms}({share:pct})가 레이아웃 변환이고, 실행은 {count:n}번입니다",
        "top": "{kernel}: 스텝마다 {value:ms}, 실행 {count:n}번",
        "convs": "합성곱 자체는 스텝마다 {value:ms} 걸립니다",
    },
    fix=Fix(
        title="처음부터 끝까지 channels last 쓰기",
        pytorch="model = model.to(memory_format=torch.channels_last)로 바꾸고 입력 배치도 똑같이 바꾸십시오. fp32 "
        "합성곱은 이득이 적으므로 bf16이나 fp16 autocast를 켜 두십시오.",
        jax="lax.conv_general_dilated에 NHWC 차원 번호(Flax의 기본값)를 쓰고, 층 사이의 전치를 피하십시오.",
        cuda="텐서를 NHWC로 할당해 cuDNN에 그렇게 알리고(CUDNN_TENSOR_NHWC), 필터는 KRSC로 두십시오.",
    ),
    explain=KOREAN,
)
