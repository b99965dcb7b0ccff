"""Hand-made reports: one of every section, so that outputs are tested on figures that no analysis can move."""

from __future__ import annotations

from unstall.model import (
    BreakdownRow,
    CallRow,
    Category,
    CopyRow,
    Evidence,
    Finding,
    FixText,
    Gpu,
    KernelRow,
    NotChecked,
    Period,
    Process,
    ProfileFacts,
    RangeRow,
    RangeShare,
    Report,
    StepsRow,
    Warning_,
    Where,
)

MS = 1_000_000


def a_range(name: str, total_ms: float, share: float | None = None, **other: object) -> RangeRow:
    total = round(total_ms * MS)
    values: dict[str, object] = {
        "name": name, "members": 1, "domain": "", "style": "push_pop", "process": 4242, "instances": 30,
        "total_ns": total,
        "steady_total_ns": total * 29 // 30, "self_ns": total, "avg_ns": total / 30, "median_ns": total / 30,
        "min_ns": total // 31, "max_ns": total // 20, "stddev_ns": 1000.0, "gpu_ns": 0, "percent_of_wall": None,
        "share": share, "wrapper": False,
    }  # fmt: skip
    return RangeRow(**{**values, **other})


def a_kernel(name: str, total_ms: float, instances: int = 30, percent: float = 50.0) -> KernelRow:
    total = round(total_ms * MS)
    avg = total / instances
    return KernelRow(
        name=name, instances=instances, total_ns=total, avg_ns=avg, median_ns=avg, min_ns=int(avg), max_ns=int(avg) + 1,
        stddev_ns=0.0, percent=percent,
    )  # fmt: skip


def a_finding(**other: object) -> Finding:
    values: dict[str, object] = {
        "code": "host-data-loading", "title": "The main thread loads each batch while the GPU waits",
        "where": Where(range="data_load", process=4242), "cost_ns_per_step": 22_604_000, "predicted_step_ns": 2_700_000,
        "predicted_low_ns": 2_400_000, "predicted_high_ns": 3_300_000, "predicted_speedup": 9.37, "confidence": "high",
        "evidence": [Evidence(text="data_load takes 22.6 ms of a 25.3 ms step, and the GPU is idle in all of it")],
        "fix": FixText(title="Load in worker processes", safety="safe",
                       text="Pass num_workers=8, pin_memory=True to the DataLoader and copy with non_blocking=True."),
        "next_limit": "launching limits", "overlaps": ["pageable-copy"], "category": "data_loading",
    }  # fmt: skip
    return Finding(**{**values, **other})


def steps_row(**other: object) -> StepsRow:
    values: dict[str, object] = {
        "process": 4242, "source": "range:step_*", "count": 30, "warmup": 1,
        "period_ns": Period(median=25_312_000, p10=24_900_000, p90=26_100_000),
        "samples_ns": [25_312_000] * 20 + [31_000_000] + [25_312_000] * 8, "unprofiled_ns": None, "host_ns": 25_290_000,
        "gpu_busy_ns": 1_522_000, "kernels_per_step": 74.0, "warmup_steps": ["step_0"], "warmup_ns": 292_448_509,
    }  # fmt: skip
    return StepsRow(**{**values, **other})


def breakdown_row() -> BreakdownRow:
    parts = [("gpu_compute", 1_422_000, ""), ("exposed_copy", 100_000, ""), ("launch", 1_186_000, "forward"),
             ("data_loading", 22_604_000, "data_load")]  # fmt: skip
    step = sum(ns for _, ns, _ in parts)
    return BreakdownRow(process=4242, step_ns=step, categories=[
        Category(name=n, ns=ns, percent=100 * ns / step, ranges=[RangeShare(name=r, ns=ns)] if r else [])
        for n, ns, r in parts
    ])  # fmt: skip


def full_report(**other: object) -> Report:
    """A report with a row in every section that the terminal shows."""
    facts = ProfileFacts(
        path="runs/slow_loader.sqlite", producer="nsys", producer_version="2025.3.1.90", schema_version="3.20.0",
        duration_ns=2_130_000_000, gpus=[Gpu(device=0, name="NVIDIA H200")],
        processes=[Process(process=4242, name="/usr/bin/python3", has_steps=True, kernels=2220)],
        tables={"ranges": 180, "kernels": 2220, "copies": 60, "api": 9120},
    )  # fmt: skip
    values: dict[str, object] = {
        "unstall_version": "0.1.0", "profile": facts,
        "ranges": [
            a_range("data_load", 679.1, 65.2), a_range("forward", 160.9, 15.5, gpu_ns=9 * MS),
            a_range("backward", 106.0, 10.2, gpu_ns=20 * MS), a_range("h2d_transfer", 0.034, 0.003),
            a_range("step_*", 1041.6, None, members=30, wrapper=True),
        ],
        "kernels": [a_kernel("void at::native::fill<at::native::Fill<float>>(int, float)", 30.0),
                    a_kernel("sgemm", 3.0, percent=9.1)],
        "copies": [CopyRow(kind="HtoD", source="pageable", destination="device", instances=60, total_ns=3 * MS,
                           bytes=393_216_000, gb_per_s=13.1, exposed_ns=3 * MS)],
        "api": [CallRow(name="cudaLaunchKernel", calls=2220, total_ns=20 * MS, avg_ns=9009.0, median_ns=8000.0,
                        min_ns=2000, max_ns=900_000, stddev_ns=1.0, percent=80.1)],
        "steps": [steps_row()], "breakdown": [breakdown_row()],
        "findings": [a_finding(),
                     a_finding(code="blocking-sync", title="A sync that only waits for the GPU", main=False)],
        "not_checked": [NotChecked(code="gil", reason="GIL waits: not traced; collect with `--trace=python-gil`")],
        "warnings": [Warning_(code="short-capture", text="Only 29 steady steps: figures are less sure than from 100.")],
        "device_total_ns": 33 * MS, "device_attributed_ns": 33 * MS,
    }  # fmt: skip
    return Report(**{**values, **other})
