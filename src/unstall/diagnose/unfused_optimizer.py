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
