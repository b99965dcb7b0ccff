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
TABLES = ("kernels",)
STEPS = False
SIDE = "device"

SHARE = 0.02

FASTER_KERNELS = 0.75
"""Of the gain, what may come on top: in channels-last the convolutions themselves run kernels that need no transpose
and
use tensor cores better (NVIDIA's convolution guide shows up to twice the rate), which the capture cannot show."""

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
