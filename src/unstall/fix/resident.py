"""``unstall.resident``: the lab's other fix, data kept on the GPU.

In: an iterable of batches (or items) that fits. Out: a sequence of the same batches on the device, made once.
A loader that shuffles or augments is frozen as its first pass came out: ``shuffle=True`` reorders the batches each
pass,
which is not the same as drawing new ones. The safety is therefore *changes numerics*.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Any

from unstall.errors import UsageError
from unstall.fix import moving

__all__ = ["Resident", "resident"]

ROOM = 0.8
"""Share of the free device memory that the data may take: activations and the allocator need the rest."""


class Resident:
    """Batches on a device: ``len``, indexing, iteration as often as wanted."""

    def __init__(self, batches: list[Any], *, shuffle: bool = False, seed: int = 0) -> None:
        self._batches, self._shuffle, self._random = batches, shuffle, random.Random(seed)

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> Any:
        return self._batches[index]

    def __iter__(self) -> Iterator[Any]:
        order = list(range(len(self._batches)))
        if self._shuffle:
            self._random.shuffle(order)
        return (self._batches[i] for i in order)

    @property
    def bytes(self) -> int:
        """Device memory that the batches take."""
        return moving.size_bytes(self._batches)


def resident(dataset: Iterable[Any], *, device: Any = "cuda", shuffle: bool = False, seed: int = 0) -> Resident:
    """Copies every batch to ``device`` once, and checks while doing so that it fits.

    Args:
        dataset: batches or items of any nesting; drawn from once.
        device: where they go; without CUDA they stay on the CPU.
        shuffle: hand the batches out in a new order each pass.
        seed: of that order.

    Raises:
        UsageError: the data does not fit in :data:`ROOM` of the free memory, or holds no tensor.
    """
    import torch

    target = torch.device(device if torch.device(device).type != "cuda" or torch.cuda.is_available() else "cpu")
    room = _room_bytes(torch, target)
    batches, taken = [], 0
    for batch in dataset:
        taken += moving.size_bytes(batch)
        if room is not None and taken > room:
            raise UsageError(
                "resident",
                f"the data needs more than {room / 1e9:.1f} GB, {ROOM:.0%} of what {target} has free",
                "Use unstall.prefetch instead, which needs two batches at a time.",
            )
        batches.append(moving.apply(batch, lambda t: t.to(target, non_blocking=True)))
    if batches and not taken:
        raise UsageError("resident", "the data holds no tensors", "Convert it with torch.as_tensor first.")
    if target.type == "cuda":
        torch.cuda.synchronize(target)
    return Resident(batches, shuffle=shuffle, seed=seed)


def _room_bytes(torch: Any, target: Any) -> int | None:
    if target.type != "cuda":
        return None
    free, _ = torch.cuda.mem_get_info(target)
    return int(free * ROOM)
