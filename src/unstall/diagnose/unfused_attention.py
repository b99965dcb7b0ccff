"""Attention written out as matrix product, softmax, matrix product.

## What it detects

Softmax kernels between two matrix products, with nothing but elementwise kernels (scale, mask, dropout) in between,
forward and backward: attention that is computed step by step.

## Why it costs time

The scores are a matrix of (sequence × sequence) for each head. Written out, it goes to memory and back after each of
the four or five kernels; a fused kernel (FlashAttention) keeps it on the chip. For long sequences this traffic is
most of attention's time (Dao et al., NeurIPS 2022), and it takes quadratic memory besides.

## How safe

The same formula, summed in another order: results differ in the last bits. Dropout draws other random numbers.

## When it is a false alarm

- Softmax between products that is no attention (a gating network, a mixture of experts with few experts): the kernels
  are small there, and so is the gain.
- You need the attention weights themselves.

## Thresholds

At least 2 % of the step in the kernels between the products, and two such blocks a step (a classifier has one softmax
of its own between its last product and backward's first). The prediction takes those kernels and their launches out
and leaves the products as they are: a lower bound of the gain, since a fused kernel spares the products' own traffic
as well.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import polars as pl

from unstall.analyze import intervals
from unstall.analyze.intervals import Ints
from unstall.analyze.replay import Change
from unstall.diagnose import kernels
from unstall.diagnose.case import Case
from unstall.diagnose.events import lead_ins, some_of
from unstall.diagnose.hit import Hit
from unstall.diagnose.texts import Fix, Texts, line
from unstall.diagnose.traces import ADD, GEMM, US, Trace, steps

Bools = npt.NDArray[np.bool_]

CODE = "unfused-attention"
CATEGORY = "gpu_compute"
TABLES = ("kernels",)
STEPS = False
SIDE = "device"

SHARE = 0.02
REACH = 5
"""Kernels looked at on either side of a softmax: scale, mask, cast, dropout and a copy fit in between."""

BLOCKS = 2
"""Blocks a step: one alone is a classifier's own softmax, from its last product through the loss to the first of
backward."""

FASTER_PRODUCTS = 0.25
"""Of the gain, what may come on top: a fused kernel also keeps the products' own results out of memory, and with a
causal mask leaves half of them out."""

TEXTS = {
    "en": Texts(
        title="Attention is computed step by step, through memory",
        says={
            "share": "{value:ms} of a {step:ms} step ({share:pct}) are softmax, scaling, masking and dropout between "
            "the "
            "matrix products of attention",
            "blocks": "{value:n} times a step: product, softmax, product, one kernel each",
            "products": "The products themselves take {value:ms} a step",
        },
        fix=Fix(
            title="Use fused attention",
            pytorch="torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask, dropout_p, is_causal) "
            "instead of "
            "softmax(q @ k.T) @ v; in transformers models attn_implementation='sdpa'. bf16 or fp16 inputs get the "
            "fastest "
            "kernels; pass is_causal=True instead of a mask where it is one.",
            jax="jax.nn.dot_product_attention(..., implementation='cudnn').",
            cuda="Use FlashAttention or cuDNN's fused attention graph.",
            safety="changes-numerics",
            trial="sdpa",
        ),
    )
}


def check(case: Case) -> Iterator[Hit]:
    """Softmax and its neighbours between two GEMMs."""
    rows = case.ops.filter((pl.col("table") == "kernels") & (pl.col("kind") == "kernel"))
    if not rows.filter(pl.col("family") == kernels.SOFTMAX).height:
        return
    rows = rows.sort("device", "context", "stream", "step", "start")
    between, products, blocks = _blocks(rows)
    if blocks < BLOCKS * case.count:
        return
    found, around = pl.concat([rows[between], _copies(case, rows, between)]), rows[products]
    cost = float(found["dur"].sum()) / case.count
    if case.share(cost) < SHARE:
        return
    calls = case.calls_of(found).filter(pl.col("kind") != "graph")
    yield Hit(
        cost_ns=cost,
        lines=(
            line("share", cost, "ns", "kernels", step=case.step_ns, share=case.share(cost)),
            line("blocks", blocks / case.count, "blocks", "kernels"),
            line("products", float(around["dur"].sum()) / case.count, "ns", "kernels"),
        ),
        range=case.range_of_ops(found),
        kernel=str(found.filter(pl.col("family") == kernels.SOFTMAX)["name"][0]),
        change=Change(
            cut=lead_ins(calls),
            drop_calls=some_of("correlation", calls["correlation"]),
            drop_ops=some_of("op", found["op"]),
        ),
        gain_ns=cost,
        ops=found["op"].to_numpy(),
        confidence="medium",
        more=FASTER_PRODUCTS,
    )


def _copies(case: Case, rows: pl.DataFrame, between: Ints) -> pl.DataFrame:
    """Copies within the device that run in the same stream right before one of these kernels (a masked copy)."""
    copies = case.ops.filter((pl.col("kind") == "copy") & (pl.col("copy_kind") == "DtoD"))
    ahead = rows.with_columns(since=pl.col("end").shift(1).over("device", "context", "stream", "step"))[between]
    gaps = intervals.union(ahead["since"].fill_null(ahead["start"]), ahead["start"])
    inside = intervals.covered(gaps, copies["start"], copies["end"]) == (copies["end"] - copies["start"]).to_numpy()
    return copies.filter(pl.Series(inside, dtype=pl.Boolean)).select(rows.columns)


def _blocks(rows: pl.DataFrame) -> tuple[Ints, Ints, int]:
    """Positions of kernels between the products of attention, of those products, and how many such blocks there are.

    ``rows`` are kernels in order of stream and start. From each softmax, walk outwards over elementwise kernels to a
    GEMM on either side; without one on both sides it is no attention.
    """
    family = rows["family"].to_numpy()
    lane = rows.select(pl.struct("device", "context", "stream", "step").rank("dense")).to_series().to_numpy()
    at = np.flatnonzero(family == kernels.SOFTMAX)
    gemm = np.isin(family, kernels.GEMMS)
    passed = np.isin(family, (kernels.ELEMENTWISE, kernels.SOFTMAX, kernels.REDUCTION))
    left, right = (_walk(at, way, gemm, passed, lane) for way in (-1, 1))
    both = (left >= 0) & (right >= 0)
    pairs = np.unique(np.stack((left[both], right[both])), axis=1)
    inside = [np.arange(a + 1, b) for a, b in pairs.T.tolist()]
    positions = np.unique(np.concatenate(inside)) if inside else np.empty(0, np.int64)
    return positions, np.unique(pairs), pairs.shape[1]


def _walk(at: Ints, way: int, gemm: Bools, passed: Bools, lane: Ints) -> Ints:
    """For each start the position of the first GEMM in a direction within reach, over passable kernels; -1 for none."""
    out, here = np.full(len(at), -1, np.int64), at.copy()
    for _ in range(REACH):
        here = here + way
        inside = (here >= 0) & (here < len(gemm))
        safe = np.clip(here, 0, len(gemm) - 1)
        inside &= lane[safe] == lane[at]
        open_ = (out == -1) & inside
        out = np.where(open_ & gemm[safe], safe, np.where(open_ & ~passed[safe] | (~inside & (out == -1)), -2, out))
    return np.where(out < 0, -1, out)


_SOFTMAX = "void <unnamed>::softmax_warp_forward<float, float, float, (int)10, (bool)0, (bool)0>(T2 *, const T1 *, int)"


def fires(t: Trace) -> None:
    """Four layers: product, scale, softmax, product."""
    _trace(t, (GEMM, ADD, _SOFTMAX, GEMM))


def silent(t: Trace) -> None:
    """Four layers of fused attention, and one softmax at the end, with a loss behind it."""
    _trace(t, (GEMM, "flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>", ADD), last=(GEMM, _SOFTMAX, ADD))


def _trace(t: Trace, layer: tuple[str, ...], last: tuple[str, ...] = ()) -> None:
    names = layer * 4 + last

    def body(i: int, at: int) -> None:
        for k, name in enumerate(names):
            t.launch(name, at + k * 15 * US, 8 * US, kernel_start=at + 20 * US + k * 200 * US, kernel_dur=198 * US)
        end = len(names) * 200 * US + 20 * US
        t.sync("stream", at + len(names) * 15 * US + 20 * US, at + end)

    steps(t, len(names) * 200 * US + 40 * US, body)


KOREAN = """
어텐션이 행렬 곱, softmax, 행렬 곱으로 풀어 쓰여 있습니다.

## 탐지 대상

두 행렬 곱 사이에 있고 그 사이에 요소별 커널(스케일, 마스크, 드롭아웃)만 있는 softmax 커널입니다. 순전파와 역전파
모두에서 찾습니다. 단계별로 계산하는 어텐션입니다.

## 시간이 걸리는 이유

점수는 헤드마다 (시퀀스 × 시퀀스) 행렬입니다. 풀어 쓰면 네댓 개의 커널마다 이 행렬이 메모리에 갔다 옵니다. 융합
커널(FlashAttention)은 칩 안에 둡니다. 시퀀스가 길면 이 트래픽이 어텐션 시간의 대부분이고(Dao 외, NeurIPS 2022),
메모리도 제곱으로 듭니다.

## 안전성

같은 식을 다른 순서로 더하므로 결과의 마지막 자리가 다릅니다. 드롭아웃은 다른 난수를 뽑습니다.

## 오탐인 경우

- 행렬 곱 사이의 softmax라도 어텐션이 아닌 경우(게이팅 신경망, 전문가가 적은 전문가 혼합)입니다. 커널이 작고 이득도
  작습니다.
- 어텐션 가중치 자체가 필요한 경우입니다.

## 판정 기준

행렬 곱 사이의 커널이 스텝의 2 % 이상이고, 스텝마다 이런 블록이 둘 이상이어야 합니다(분류기는 마지막 행렬 곱과
역전파의 첫 행렬 곱 사이에 자체 softmax가 하나 있습니다). 예측은 그 커널과 실행만 없애고 행렬 곱은 그대로 둡니다. 융합
커널은 행렬 곱 자체의 트래픽도 줄이므로, 이 값은 이득의 하한입니다.
"""

TEXTS["ko"] = Texts(
    title="어텐션을 메모리를 거쳐 단계별로 계산합니다",
    says={
        "share": "{step:ms} 스텝 중 {value:ms}({share:pct})가 어텐션의 행렬 곱 사이에 있는 softmax, 스케일, 마스크, "
        "드롭아웃입니다",
        "blocks": "스텝마다 {value:n}번: 행렬 곱, softmax, 행렬 곱이 각각 커널 하나입니다",
        "products": "행렬 곱 자체는 스텝마다 {value:ms} 걸립니다",
    },
    fix=Fix(
        title="융합 어텐션 쓰기",
        pytorch="softmax(q @ k.T) @ v 대신 torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask, "
        "dropout_p, is_causal)을 쓰고, transformers 모델에서는 attn_implementation='sdpa'를 쓰십시오. "
        "bf16이나 fp16 입력이면 가장 빠른 커널을 쓰게 됩니다. 인과 마스크라면 마스크 대신 is_causal=True를 "
        "주십시오.",
        jax="jax.nn.dot_product_attention(..., implementation='cudnn')을 쓰십시오.",
        cuda="FlashAttention이나 cuDNN의 융합 어텐션 그래프를 쓰십시오.",
    ),
    explain=KOREAN,
)
