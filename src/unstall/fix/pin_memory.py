"""Batches in page-locked memory, copied to the GPU without the host waiting for it."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from unstall.fix.remedy import Remedy

LOADER = "torch.utils.data.DataLoader"
PIN_AT = 7  # position of pin_memory among DataLoader's arguments


def switch(torch: Any) -> None:
    """Every ``DataLoader`` pins, and copies of pinned tensors to a GPU do not block."""
    loader = torch.utils.data.DataLoader
    original = loader.__init__
    signature = inspect.signature(original)

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        given = {**signature.bind(self, *args, **kwargs).arguments, "pin_memory": True}
        original(self, **{k: v for k, v in given.items() if k not in ("self", "args", "kwargs")})

    loader.__init__ = __init__
    for name in ("to", "cuda"):
        setattr(torch.Tensor, name, _without_waiting(torch, getattr(torch.Tensor, name), name == "cuda"))


def _without_waiting(torch: Any, original: Any, always: bool) -> Any:
    @functools.wraps(original)
    def copy(self: Any, *args: Any, **kwargs: Any) -> Any:
        target = args[0] if args else kwargs.get("device")
        if type(self) is torch.Tensor and self.is_cpu and (always or _is_gpu(torch, target)) and self.is_pinned():
            return original(self, *args, **{"non_blocking": True, **kwargs} if len(args) < 2 else kwargs)
        return original(self, *args, **kwargs)

    return copy


def _is_gpu(torch: Any, target: Any) -> bool:
    if isinstance(target, str):
        return target.startswith("cuda")
    return target.type == "cuda" if isinstance(target, torch.device) else type(target) is int


def patch(script: Any) -> None:
    """``pin_memory=True`` of every ``DataLoader``; ``non_blocking=True`` where its batches are sent to a device."""
    for call in script.calls(LOADER):
        if script.unclear(call):
            script.leave(call, "DataLoader with *args or **kwargs: what it gets cannot be read from here")
        elif script.argument(call, "pin_memory", PIN_AT) in (None, "False"):
            script.set_argument(call, "pin_memory", "True", position=PIN_AT)
    for copy in script.batch_copies(LOADER):
        if script.argument(copy, "non_blocking") in (None, "False"):
            script.set_argument(copy, "non_blocking", "True")


REMEDY = Remedy(
    name="pin-memory",
    title="Pinned batches, copied without waiting",
    write="DataLoader(…, pin_memory=True); x = x.to(device, non_blocking=True)",
    codes=("pageable-copy", "host-data-loading", "exposed-copy"),
    needs="cuda",
    aliases=("pinned-copies",),
    switch=switch,
    patch=patch,
)
