"""Two sides made by hand for the tests of ``compare``: reports with the sections that it reads, and step times."""

from __future__ import annotations

import numpy as np

from unstall.model import (
    BreakdownRow,
    CallRow,
    Category,
    CopyRow,
    Gpu,
    KernelRow,
    Period,
    ProfileFacts,
    RangeRow,
    Report,
    StepsRow,
)

MS = 1_000_000


def noisy(n: int = 100, ms: float = 20.0, noise: float = 0.02, seed: int = 0) -> list[float]:
    """Step times in ms with independent noise."""
    return list(ms * np.exp(np.random.default_rng(seed).normal(0, noise, n)))


def steps(samples_ms: list[float], **other: object) -> StepsRow:
    ns = [round(ms * MS) for ms in samples_ms]
    low, median, high = (int(q) for q in np.quantile(ns, (0.1, 0.5, 0.9))) if ns else (0, 0, 0)
    values: dict[str, object] = {
        "process": 7, "source": "range:step_*", "count": len(ns) + 1, "warmup": 1,
        "period_ns": Period(median=median, p10=low, p90=high), "samples_ns": ns, "unprofiled_ns": None,
        "host_ns": median, "gpu_busy_ns": median // 2, "kernels_per_step": 40.0,
    }  # fmt: skip
    return StepsRow(**{**values, **other})


def facts(**other: object) -> ProfileFacts:
    values: dict[str, object] = {
        "path": "runs/a.sqlite", "producer": "nsys", "producer_version": "2025.3", "schema_version": "3.20",
        "duration_ns": 10**9, "gpus": [Gpu(device=0, name="NVIDIA H200")], "tables": {"kernels": 1, "osrt": 1},
    }  # fmt: skip
    return ProfileFacts(**{**values, **other})


def profile(samples_ms: list[float], *, row: dict[str, object] | None = None, **other: object) -> Report:
    """A capture with one process; ``row`` changes its steps, other names change facts (``gpus`` …) or sections."""
    sections = {k: other.pop(k) for k in list(other) if k in Report.__struct_fields__}
    made: dict[str, object] = {"profile": facts(**other), "steps": [steps(samples_ms, **(row or {}))]}
    return Report(**{**made, **sections})


def a_range(name: str, ms_a_step: float, count: int, **other: object) -> RangeRow:
    total = round(ms_a_step * MS * count)
    values: dict[str, object] = {
        "name": name, "members": 1, "domain": "", "style": "push_pop", "process": 7, "instances": count,
        "total_ns": total, "steady_total_ns": total, "self_ns": total, "avg_ns": total / count, "median_ns": None,
        "min_ns": None, "max_ns": None, "stddev_ns": None, "gpu_ns": None, "percent_of_wall": None, "share": None,
        "wrapper": False,
    }  # fmt: skip
    return RangeRow(**{**values, **other})


def a_kernel(name: str, us: float, instances: int) -> KernelRow:
    ns = round(us * 1000)
    return KernelRow(
        name=name, instances=instances, total_ns=ns * instances, avg_ns=float(ns), median_ns=float(ns), min_ns=ns,
        max_ns=ns, stddev_ns=0.0, percent=1.0,
    )  # fmt: skip


def a_call(name: str, us: float, calls: int) -> CallRow:
    ns = round(us * 1000)
    return CallRow(
        name=name, calls=calls, total_ns=ns * calls, avg_ns=float(ns), median_ns=float(ns), min_ns=ns, max_ns=ns,
        stddev_ns=0.0, percent=1.0,
    )  # fmt: skip


def a_copy(
    ms: float, instances: int, mb: float | None = 1.0, source: str = "pageable", steady: int | None = 100
) -> CopyRow:
    """``steady`` of the instances are launched in steady steps; none is known of the steps where it is ``None``."""
    return CopyRow(
        kind="HtoD", source=source, destination="device", instances=instances, total_ns=round(ms * MS * instances),
        bytes=None if mb is None else round(mb * 1e6 * instances), gb_per_s=None, exposed_ns=None,
        steady_total_ns=None if steady is None else round(ms * MS * steady),
        steady_bytes=None if steady is None or mb is None else round(mb * 1e6 * steady),
    )  # fmt: skip


def a_breakdown(**ms: float) -> BreakdownRow:
    parts = [Category(name=n, ns=round(v * MS), percent=0.0) for n, v in ms.items()]
    return BreakdownRow(process=7, step_ns=sum(c.ns for c in parts), categories=parts)
