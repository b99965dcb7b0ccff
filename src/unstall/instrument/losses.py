"""The loss that each ``backward()`` starts from, kept without making the GPU wait.

Comes in: tensors on their way into ``backward``. Goes out, at the end: ``[step, value]`` pairs. Until then only the
scalar tensor itself is kept: no copy, no kernel, no synchronisation. When many have gathered every second one goes,
so a long run keeps an even sample; a tensor changed in place since (its version tells) is left out.
"""

from __future__ import annotations

import sys
from typing import Any

KEEP = 1024  # scalars; each holds a 512-byte block of GPU memory


class Losses:
    """Loss values by step, thinned evenly beyond :data:`KEEP`."""

    def __init__(self) -> None:
        self._kept: list[tuple[int, Any, int]] = []
        self._every = 1
        self._seen = 0

    def note(self, tensors: Any, step: int) -> None:
        """Keep the scalars among the tensors given to ``backward``."""
        for tensor in tensors if type(tensors) in (list, tuple) else (tensors,):
            self._seen += 1
            if self._seen % self._every == 0 and getattr(tensor, "numel", int)() == 1:
                self._kept.append((step, tensor.detach(), tensor._version))
        if len(self._kept) > KEEP:
            self._kept = self._kept[1::2]
            self._every *= 2

    def values(self) -> list[list[float]]:
        """``[step, value]`` pairs in order. Reads the GPU, so only when nobody measures any more."""
        good = [(step, tensor) for step, tensor, version in self._kept if tensor._version == version]
        return [[step, value] for (step, _), value in zip(good, _read([t for _, t in good]), strict=True)]


def _read(tensors: list[Any]) -> list[float]:
    """All values, one transfer a device instead of one a tensor."""
    if not tensors:
        return []
    torch: Any = sys.modules["torch"]  # where the tensors come from
    out: dict[int, float] = {}
    for device in {t.device for t in tensors}:
        mine = [i for i, t in enumerate(tensors) if t.device == device]
        stacked = torch.stack([tensors[i].reshape(()).double() for i in mine])
        out.update(zip(mine, stacked.tolist(), strict=True))
    return [out[i] for i in range(len(tensors))]
