"""Batches as nested structures of tensors: pin them, move them, measure them.

In: any nesting of dicts, lists, tuples, named tuples, dataclasses and objects with a ``to`` method. Out: the same
nesting.
Torch is imported by the caller; nothing here needs it at import.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any


def apply(batch: Any, change: Callable[[Any], Any]) -> Any:
    """The same nesting with ``change`` applied to every leaf that can be moved; other leaves pass through."""
    if is_tensor(batch):
        return change(batch)
    if isinstance(batch, Mapping):
        return _rebuild(batch, {k: apply(v, change) for k, v in batch.items()})
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(apply(v, change) for v in batch))
    if isinstance(batch, (list, tuple)):
        return type(batch)(apply(v, change) for v in batch)
    if dataclasses.is_dataclass(batch) and not isinstance(batch, type):
        values = {f.name: apply(getattr(batch, f.name), change) for f in dataclasses.fields(batch) if f.init}
        return dataclasses.replace(batch, **values)
    return change(batch) if callable(getattr(batch, "to", None)) else batch


def _rebuild(old: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    """A mapping of the same type where its constructor takes a mapping, else a plain dict."""
    if type(old) is dict:
        return items
    try:
        return type(old)(items)  # type: ignore[call-arg]
    except TypeError:
        return items


def is_tensor(value: Any) -> bool:
    """A torch tensor, told without importing torch."""
    return any(c.__name__ == "Tensor" and c.__module__.split(".")[0] == "torch" for c in type(value).__mro__)


def tensors(batch: Any) -> list[Any]:
    """Every tensor in the nesting."""
    found: list[Any] = []

    def note(leaf: Any) -> Any:
        if is_tensor(leaf):
            found.append(leaf)
        return leaf

    apply(batch, note)
    return found


def size_bytes(batch: Any) -> int:
    """Bytes of every tensor in the nesting."""
    return sum(t.numel() * t.element_size() for t in tensors(batch))
