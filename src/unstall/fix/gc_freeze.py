"""Python's garbage collector does not look at the objects that stay for the whole run."""

from __future__ import annotations

import gc
import sys
from typing import Any

from unstall.fix.remedy import Remedy

AFTER = 3  # optimizer steps: by then model, optimizer state and caches exist


def switch(torch: Any) -> None:
    """Collect once and freeze, after the third step of an optimizer."""
    optim, done = sys.modules["torch.optim.optimizer"], [0]

    def after_step(*_: Any) -> None:
        done[0] += 1
        if done[0] == AFTER:
            gc.collect()
            gc.freeze()

    optim.register_optimizer_step_post_hook(after_step)


REMEDY = Remedy(
    name="gc-freeze",
    title="Garbage collector passes over what stays",
    write="gc.collect(); gc.freeze()  # once, after the first steps",
    codes=("host-python-work", "launch-bound"),
    switch=switch,
)
