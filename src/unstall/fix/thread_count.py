"""As many CPU threads as this process has cores for: more than that stand in each other's way."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from unstall.fix.remedy import Remedy

QUOTA = Path("/sys/fs/cgroup/cpu.max")


def cores() -> int:
    """Cores that this process may use: affinity, the container's quota, and other ranks on this host."""
    count = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    try:
        quota, period = QUOTA.read_text().split()
        count = min(count, int(quota) / int(period))
    except (OSError, ValueError):  # no quota
        pass
    ranks = os.environ.get("LOCAL_WORLD_SIZE", "1")
    return max(1, int(count) // (int(ranks) if ranks.isdigit() and int(ranks) else 1))


def switch(torch: Any) -> None:
    """The number of cores; half of them where that is what torch uses already."""
    now, fitting = torch.get_num_threads(), cores()
    torch.set_num_threads(fitting if fitting != now else max(1, now // 2))


REMEDY = Remedy(
    name="threads",
    title="CPU threads as there are cores",
    write=f"torch.set_num_threads({cores()})  # or half of it, where that is the default already",
    codes=("host-lock-contention", "host-python-work"),
    tolerance=1e-3,  # sums are split over other threads
    switch=switch,
)
