"""Checkpoints copied to host memory at once, and written to disk in a thread while training goes on."""

from __future__ import annotations

import functools
import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from unstall.fix import moving
from unstall.fix.remedy import Remedy


def switch(torch: Any) -> None:
    """``torch.save`` to a path returns once the data is copied; the next save and ``torch.load`` wait for it. Python
    waits for the thread at exit."""
    save, load = torch.save, torch.load
    pool, running = ThreadPoolExecutor(1, "unstall-checkpoint"), list[Future[Any]]()

    def wait() -> None:
        while running:
            running.pop().result()

    @functools.wraps(save)
    def save_behind(obj: Any, f: Any, *args: Any, **kwargs: Any) -> None:
        wait()
        if not isinstance(f, (str, os.PathLike)):
            save(obj, f, *args, **kwargs)
            return
        copied = moving.apply(obj, lambda t: t.detach().to("cpu", copy=True) if moving.is_tensor(t) else t)
        running.append(pool.submit(save, copied, f, *args, **kwargs))

    @functools.wraps(load)
    def load_after(*args: Any, **kwargs: Any) -> Any:
        wait()
        return load(*args, **kwargs)

    torch.save, torch.load = save_behind, load_after


def patch(script: Any) -> None:
    """How often to save is the user's to say: the place is named, nothing is changed."""
    for call in script.calls("torch.save"):
        if script.in_loop(call):
            script.leave(call, "saves inside a loop: save every N steps (if step % N == 0:), or in a thread")


REMEDY = Remedy(
    name="background-checkpoint",
    title="Write checkpoints in the background",
    write="torch.distributed.checkpoint.async_save(…), or torch.save of a CPU copy in a thread",
    codes=("host-io", "device-to-host-copy"),
    safety="manual",
    switch=switch,
    patch=patch,
)
