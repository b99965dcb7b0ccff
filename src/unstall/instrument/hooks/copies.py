"""Copies from host to device: ``Tensor.to``, ``Tensor.cuda``, ``Tensor.copy_``.

Comes in: ``torch.Tensor``. Goes out: the range ``h2d_transfer``, which may lie inside another phase. Before the
captured window nothing is hooked, after it nothing is looked at. Subclasses of ``Tensor`` are left alone: asking them
where they are may run code of their own.
"""

from __future__ import annotations

import functools
from _thread import get_ident
from collections.abc import Callable
from typing import Any

from unstall.instrument.importhook import guarded
from unstall.instrument.phases import Phases

Test = Callable[[Any, Any, Any], bool]


def hook(torch: Any, phases: Phases, name: str) -> None:
    """Hook the three methods once ranges are written, where this torch knows a device to copy to."""
    if phases.anywhere or torch.backends.cuda.is_built() or torch.version.hip:
        phases.gate.when_writing(lambda: guarded(_hook, torch, phases, name))


def _hook(torch: Any, phases: Phases, name: str) -> None:
    tensor, plain = torch.Tensor, (torch.Tensor, torch.nn.Parameter)

    def goes_out(self: Any, args: Any, kwargs: Any) -> bool:
        target = args[0] if args else kwargs.get("device", kwargs.get("other"))
        return _is_device(target, torch) and type(self) in plain and self.is_cpu

    def comes_in(self: Any, args: Any, kwargs: Any) -> bool:
        source = args[0] if args else kwargs.get("src")
        return type(source) in plain and type(self) in plain and source.is_cpu and not self.is_cpu

    def leaves(self: Any, args: Any, kwargs: Any) -> bool:
        return type(self) in plain and self.is_cpu

    for method, test in (("to", goes_out), ("cuda", leaves), ("copy_", comes_in)):
        setattr(tensor, method, _copy(getattr(tensor, method), test, name, phases))


def _is_device(target: Any, torch: Any) -> bool:
    """Whether a tensor sent ``to`` this leaves the host."""
    kind = type(target)
    if kind is str:
        return not target.startswith(("cpu", "meta"))
    if kind is torch.device:
        return target.type not in ("cpu", "meta")
    if kind is torch.Tensor:
        return not target.is_cpu
    return kind is int


def _copy(original: Any, test: Test, name: str, phases: Phases) -> Any:
    copying, gate = phases.copying, phases.gate

    @functools.wraps(original)
    def copy(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not gate.writes or not test(self, args, kwargs) or (me := get_ident()) in copying:
            return original(self, *args, **kwargs)
        copying.add(me)
        close = phases.open(me, name)
        try:
            return original(self, *args, **kwargs)
        finally:
            if close is not None:
                close()
            copying.discard(me)

    return copy
