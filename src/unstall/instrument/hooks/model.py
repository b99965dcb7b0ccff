"""Forward and backward passes.

Comes in: ``nn.Module`` and ``torch.autograd``. Goes out: the phases ``forward`` (outermost modules only, whatever their
number) and ``backward``; losses are noted, and the step finder told.
"""

from __future__ import annotations

import functools
from _thread import get_ident
from typing import Any

from unstall.instrument.importhook import guarded, told
from unstall.instrument.phases import Phases, put_aside

PLAIN_CALL = ("_compiled_call_impl", "_call_impl")
"""What torch's own ``Module.__call__`` refers to, if it is the one we know: call the compiled one, else the plain one.
A model has many modules, so each must cost next to nothing: for them we do the same, one frame for another."""


def hook_forward(torch: Any, phases: Phases, name: str) -> None:
    """Hook ``nn.Module.__call__``."""
    module = torch.nn.Module
    original, inside, gate, finder = module.__call__, phases.inside, phases.gate, phases.finder
    grad_enabled, worker = torch.is_grad_enabled, torch.utils.data.get_worker_info
    plain = getattr(getattr(original, "__code__", None), "co_names", None) == PLAIN_CALL
    without_grad = name and f"{name}_no_grad"
    aside = False

    def watch(on: bool) -> None:  # a class that changes costs every module what the interpreter has learnt of it
        nonlocal aside
        aside = not on

    @functools.wraps(original)
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        if aside or (me := get_ident()) in inside:
            if plain and self._compiled_call_impl is None:  # what the original does next, without its frame
                return self._call_impl(*args, **kwargs)
            return original(self, *args, **kwargs)
        if phases.in_worker is None:
            phases.in_worker = worker() is not None
        if phases.in_backward or phases.in_worker:
            return original(self, *args, **kwargs)
        grad = grad_enabled()
        if finder is not None and (finder.idle or not grad):
            guarded(finder.working if grad else finder.without_grad)
        inside.add(me)
        close = phases.open(me, name if grad else without_grad) if gate.writes else None
        try:
            if plain and self._compiled_call_impl is None:
                return self._call_impl(*args, **kwargs)
            return original(self, *args, **kwargs)
        finally:
            if close is not None:
                close()
            inside.discard(me)

    module.__call__ = __call__
    phases.watches.append(watch)


def hook_backward(torch: Any, phases: Phases, name: str) -> None:
    """Hook ``torch.autograd.backward``, which ``Tensor.backward`` calls."""
    original, inside, gate, finder = torch.autograd.backward, phases.inside, phases.gate, phases.finder
    clock = finder.clock if finder is not None and phases.losses else None
    capturing = getattr(torch._C, "_cuda_isCurrentStreamCapturing", bool) if torch.backends.cuda.is_built() else bool

    @functools.wraps(original)
    def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        me = get_ident()
        if phases.in_backward or me in inside:
            return original(tensors, *args, **kwargs)
        if clock is not None and not capturing():  # every replay would write the captured loss anew
            try:
                clock.losses.note(tensors, clock.index)
            except Exception as error:
                told(clock.losses.note, error)
        phases.in_backward += 1
        close = None
        if gate.writes:
            inside.add(me)
            close = phases.open(me, name)
        try:
            return original(tensors, *args, **kwargs)
        finally:
            phases.in_backward -= 1
            if close is not None:
                close()
            inside.discard(me)
            if finder is not None and finder.no_optimizer:
                guarded(finder.went_backward)

    torch.autograd.backward = backward
    phases.watches.append(put_aside(torch.autograd, "backward", original))
