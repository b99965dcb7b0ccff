"""The optimizer launches a few small kernels for every parameter.

## What it detects

Optimizer steps (a range named after it, or the kernels that only optimizers use: `addcdiv`, `lerp`, `addcmul`) of at
least 30 small elementwise launches that are neither multi-tensor (`foreach`) nor fused.

## Why it costs time

A loop over parameters launches 2 to 12 kernels for each; a network of 200 tensors makes 2,000 launches of a few µs of
work and 10 µs of host time. A fused optimizer updates all of them in a handful of kernels, and reads each tensor
once.

## How safe

The same update, possibly rounded differently in the last bit. `fused=True` needs parameters on one device, in
floating point.

## When it is a false alarm

- Few, large parameters: the kernels are limited by memory and the launches hidden; the gain is then predicted small.
- Gradient clipping or averaging written by hand inside the optimizer's range is counted as part of it.

## Thresholds

30 launches a step: a multi-tensor optimizer needs fewer than that for hundreds of parameters. At least 2 % of the
step. In the prediction one launch is left; it takes the kernels' time less 1.5 µs each for starting up, scaled by 7
tensor accesses (read weight, gradient and two moments, write three) over 3 accesses for each kernel of an update, at
most 1. Host time between the launches goes, but 150 µs stay for the fused step's own Python.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from unstall.analyze import intervals
from unstall.analyze.replay import Change
from unstall.diagnose import kernels
from unstall.diagnose.case import Case
from unstall.diagnose.events import some_of
from unstall.diagnose.hit import Hit
from unstall.diagnose.texts import Fix, Texts, line
from unstall.diagnose.traces import ADD, GEMM, MS, US, Trace, launches, steps

CODE = "unfused-optimizer"
CATEGORY = "launch"
TABLES = ("kernels", "api")

LAUNCHES = 30
SHARE = 0.02
RANGE = (
    r"(?i)optim|(^|[^a-z])opt($|[^a-z])|(^|[^a-z])(sgd|adam\w*|update_params|apply_grad\w*|param_update)($|[^a-z])|"
    r"옵티마이저|최적화"
)
SIGNATURE = r"(?i)addcdiv|addcmul|lerp"
START_NS = 1_500
ACCESSES = 7
KEEP_NS = 150_000
"""Python of a fused optimizer step: PyTorch's fused AdamW took 0.1 to 0.2 ms a step for a few dozen parameters."""

TEXTS = {
    "en": Texts(
        title="The optimizer launches {count:n} small kernels a step",
        says={
            "idle": "The optimizer takes {value:ms} of a {step:ms} step ({share:pct}), GPU work and idle time together",
            "count": "{value:n} launches of {each:us} each, none of them multi-tensor or fused",
        },
        fix=Fix(
            title="Use a fused optimizer",
            pytorch="Pass fused=True to torch.optim.AdamW, Adam or SGD (or foreach=True where parameters are not all "
            "on one "
            "device); replace a loop over parameters by torch._foreach_ functions or the built-in optimizer; "
            "clip_grad_norm_(foreach=True).",
            jax="Apply the update inside jax.jit, with optax.flatten around the transformation for many small "
            "parameters.",
            cuda="Update all tensors in one launch: pack them into one buffer, or pass a table of pointers "
            "(multi-tensor apply).",
            trial="fused-optimizer",
            patch="fused-optimizer",
        ),
    )
}


def check(case: Case) -> Iterator[Hit]:
    """Optimizer kernels by the dozen."""
    rows = _optimizer(case)
    small = rows.filter(~pl.col("family").is_in([kernels.OPTIMIZER, *kernels.GEMMS]))
    count = small.height / case.count
    if count < LAUNCHES or rows.filter(pl.col("family") == kernels.OPTIMIZER).height > small.height / 10:
        return
    region = _region(case, small)
    when = case.idle(region)
    cost = case.per_step(when) + float(small["dur"].sum()) / case.count
    if case.share(cost) < SHARE:
        return
    yield Hit(
        cost_ns=cost,
        lines=(
            line("idle", cost, "ns", "breakdown, kernels", step=case.step_ns, share=case.share(cost)),
            line("count", count, "launches", "kernels", each=small["dur"].mean()),
        ),
        range=case.range_of_ops(small),
        kernel=str(small["name"].mode().sort()[0]),
        change=_fused(case, small, region),
        when=when,
        ops=small["op"].to_numpy(),
        facts={"count": count},
        confidence="medium",
    )


def _optimizer(case: Case) -> pl.DataFrame:
    """Kernels launched in the optimizer's range; without one, those between a step's first and last telling kernel.

    A range that holds matrix products is a closure's (forward and backward run inside ``optimizer.step``): it says
    nothing.
    """
    ops = case.ops.filter((pl.col("kind") == "kernel") & pl.col("api_start").is_not_null())
    ops = ops.filter(pl.col("graph_node").is_null())
    named = case.ops_in(ops, RANGE)
    if named.height and not named.filter(pl.col("family").is_in(kernels.GEMMS)).height:
        return named
    telling = ops.filter(pl.col("name").str.contains(SIGNATURE) & (pl.col("family") == kernels.ELEMENTWISE))
    bounds = telling.group_by("step").agg(first=pl.col("api_start").min(), last=pl.col("api_start").max())
    inside = ops.join(bounds, on="step", how="inner")
    return inside.filter(pl.col("api_start").is_between(pl.col("first"), pl.col("last"))).drop("first", "last")


def _region(case: Case, rows: pl.DataFrame) -> intervals.Union:
    """Host time from a step's first launch of the optimizer to its last."""
    bounds = rows.group_by("step").agg(pl.col("api_start").min(), pl.col("api_end").max())
    return intervals.union(bounds["api_start"], bounds["api_end"])


def _fused(case: Case, rows: pl.DataFrame, region: intervals.Union) -> Change:
    """One launch a step is left, with the work of all."""
    ratio = min(ACCESSES / (3.0 * max(rows["name"].n_unique(), 1)), 1.0)
    work = np.maximum(rows["dur"].to_numpy() - START_NS, 0).sum() / max(rows["step"].n_unique(), 1)
    firsts = rows.filter(pl.col("api_start") == pl.col("api_start").min().over("step"))
    others = rows.filter(pl.col("api_start") > pl.col("api_start").min().over("step"))

    def at(scale: float) -> pl.Expr:
        return pl.when(some_of("op", firsts["op"])).then(pl.lit(round(work * scale) + 2 * START_NS))

    return Change(
        cut=region,
        keep_ns=KEEP_NS,
        drop_calls=some_of("correlation", others["correlation"]),
        op_ns=at(ratio),
        op_ns_low=at(ratio / 2),
        op_ns_high=at(1.0),
    )


def fires(t: Trace) -> None:
    """200 kernels of 3 µs in the optimizer, after 3 ms of work."""
    _trace(t, 200, ADD)


def silent(t: Trace) -> None:
    """Ten multi-tensor kernels of 60 µs."""
    _trace(
        t, 10, "void at::native::<unnamed>::multi_tensor_apply_kernel<TensorListMetadata<(int)4>, FusedAdamMathFunctor>"
    )


def _trace(t: Trace, count: int, name: str) -> None:
    every = 12 * US

    def body(i: int, at: int) -> None:
        t.launch(GEMM, at + US, 8 * US, kernel_dur=3 * MS)
        t.sync("stream", at + 20 * US, at + 3 * MS + 20 * US)
        begin = at + 3 * MS + 30 * US
        t.range("optimizer", begin, begin + count * every)
        launches(t, begin + US, count, every=every, dur=3 * US if count > 100 else 60 * US, name=name)

    steps(t, 4 * MS + count * every, body)


KOREAN = """
옵티마이저가 파라미터마다 작은 커널을 몇 개씩 실행합니다.

## 탐지 대상

작은 요소별 커널을 30번 이상 실행하면서 다중 텐서(`foreach`)도 융합도 아닌 옵티마이저 스텝입니다. 옵티마이저를 뜻하는
이름의 구간이나, 옵티마이저만 쓰는 커널(`addcdiv`, `lerp`, `addcmul`)로 찾습니다.

## 시간이 걸리는 이유

파라미터를 도는 반복문은 하나에 커널 2~12개를 실행합니다. 텐서가 200개인 신경망이라면 작업 몇 µs와 호스트 시간 10
µs짜리 실행이 2,000번입니다. 융합 옵티마이저는 커널 몇 개로 전부를 갱신하고 텐서를 한 번씩만 읽습니다.

## 안전성

같은 갱신이며, 마지막 자리의 반올림이 다를 수 있습니다. `fused=True`는 파라미터가 한 디바이스에 있고 부동소수점이어야
합니다.

## 오탐인 경우

- 파라미터가 적고 큰 경우입니다. 커널은 메모리가 한계이고 실행은 가려지므로, 예측되는 이득이 작습니다.
- 옵티마이저 구간 안에 직접 쓴 기울기 클리핑이나 평균은 옵티마이저의 일부로 셉니다.

## 판정 기준

스텝마다 실행 30번입니다. 다중 텐서 옵티마이저는 파라미터가 수백 개여도 그보다 적게 실행합니다. 스텝의 2 % 이상이어야
합니다. 예측에서는 실행 하나가 남습니다. 그 시간은 커널들의 시간에서 시작 비용을 하나에 1.5 µs씩 뺀 것에, 텐서 접근
7번(가중치, 기울기, 모멘트 둘을 읽고 셋을 씀)을 갱신 커널마다의 접근 3번으로 나눈 비율(최대 1)을 곱한 값입니다. 실행
사이의 호스트 시간은 없어지지만, 융합 스텝 자체의 Python 몫으로 150 µs를 남깁니다.
"""

TEXTS["ko"] = Texts(
    title="옵티마이저가 스텝마다 작은 커널 {count:n}개를 실행합니다",
    says={
        "idle": "GPU 작업과 유휴 시간을 합쳐 옵티마이저가 {step:ms} 스텝 중 {value:ms}({share:pct})를 차지합니다",
        "count": "실행 {value:n}번, 한 번에 {each:us}. 다중 텐서이거나 융합된 것은 없습니다",
    },
    fix=Fix(
        title="융합 옵티마이저 쓰기",
        pytorch="torch.optim.AdamW, Adam, SGD에 fused=True를 주십시오(파라미터가 모두 한 디바이스에 있지 않다면 "
        "foreach=True). 파라미터를 도는 반복문은 torch._foreach_ 함수나 내장 옵티마이저로 바꾸고, "
        "clip_grad_norm_(foreach=True)를 쓰십시오.",
        jax="갱신을 jax.jit 안에서 적용하고, 작은 파라미터가 많다면 변환을 optax.flatten으로 감싸십시오.",
        cuda="모든 텐서를 한 번의 실행으로 갱신하십시오. 버퍼 하나에 담거나 포인터 표를 넘깁니다(multi-tensor apply).",
    ),
    explain=KOREAN,
)
