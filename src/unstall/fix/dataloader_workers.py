"""Batches made in worker processes, which stay for all epochs."""

from __future__ import annotations

import functools
import inspect
import os
from dataclasses import replace
from typing import Any

from unstall.fix.remedy import Remedy

ADVISED = "UNSTALL_WORKERS"
"""Environment variable by which a trial tells its program how many workers the profile advises."""
FEWEST, MOST = 4, 16
"""Loading often waits (files, network), so few cores are no reason for fewer than 4 workers; each worker costs memory
and start-up time, so more than 16 must be asked for."""
PREFETCH = 2  # batches a worker makes ahead: torch's own default, so it need not be written
LOADER = "torch.utils.data.DataLoader"
WORKERS_AT = 5  # position of num_workers among DataLoader's arguments
NONE = ("0",)
ITERABLE = "an IterableDataset: 1, unless it shards itself"


def workers() -> int:
    """How many where no profile advises a number: this machine's cores but two, which the training itself needs."""
    if os.environ.get(ADVISED, "").isdigit():
        return int(os.environ[ADVISED])
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(FEWEST, min(cores - 2, MOST))


def switch(torch: Any) -> None:
    """Every ``DataLoader`` that loads in the main process gets workers; an iterable data set gets one, because each
    worker would read all of it."""
    loader, iterable = torch.utils.data.DataLoader, torch.utils.data.IterableDataset
    original = loader.__init__
    signature = inspect.signature(original)

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        given = signature.bind(self, *args, **kwargs).arguments
        if not given.get("num_workers", 0):
            given["num_workers"] = 1 if isinstance(given.get("dataset"), iterable) else workers()
            given["persistent_workers"] = True
        named = {k: v for k, v in given.items() if k not in ("self", "args", "kwargs")}
        original(self, **named, **given.get("kwargs", {}))

    loader.__init__ = __init__


def patch(script: Any) -> None:
    """Arguments of every ``DataLoader`` whose number of workers is 0 or not given."""
    for call in script.calls(LOADER):
        if script.unclear(call):
            script.leave(call, "DataLoader with *args or **kwargs: what it gets cannot be read from here")
            continue
        given = script.argument(call, "num_workers", WORKERS_AT)
        if given not in (None, *NONE):
            if not given.isdigit():
                script.leave(call, f"num_workers is {given}: give it {script.workers} where it is made, if it is 0")
            continue
        if not script.simple_data(call):
            script.leave(call, "an iterable data set: every worker would read all of it unless it shards itself")
            continue
        script.set_argument(call, "num_workers", str(script.workers), position=WORKERS_AT)
        script.set_argument(call, "persistent_workers", "True")


def tuned(remedy: Remedy, count: int | None) -> Remedy:
    """This remedy for a number of workers that a profile advises; any other as it is."""
    if count is None or remedy.name != REMEDY.name:
        return remedy
    return replace(remedy, write=_written(count), lead=count * PREFETCH)


def _written(count: int) -> str:
    return f"DataLoader(…, num_workers={count}, persistent_workers=True)  # {ITERABLE}"


REMEDY = Remedy(
    name="dataloader-workers",
    title="Load in worker processes",
    write=_written(workers()),
    codes=("host-data-loading", "host-python-work", "gil-contention"),
    redraws=True,
    lead=workers() * PREFETCH,
    aliases=("loader-workers", "dataloader"),
    switch=switch,
    patch=patch,
)
