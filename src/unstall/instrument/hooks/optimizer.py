"""``Optimizer.step``, through the hooks that torch offers for all optimizers.

Comes in: ``torch.optim``. Goes out: the phase ``optimizer``, and a word to the step finder. A closure is called outside
the phase: forward and backward passes are phases of their own, not the optimizer's time.
"""

from __future__ import annotations

import functools
import sys
from _thread import get_ident
from time import perf_counter_ns
from typing import Any

from unstall.instrument.importhook import told
from unstall.instrument.phases import Phases


def hook(torch: Any, phases: Phases, name: str) -> None:
    """Register a hook before and one after every step, both from the start: a step that is compiled has looked at the
    list of hooks, and would be compiled anew in the middle of the captured window. The one before is put aside while we
    coast: no step that ends a training step is a compiled one then, for those tell nobody that they end."""
    optim = sys.modules["torch.optim.optimizer"]  # torch.optim hides the submodule's name
    # a compiled step must compile to what it was: Dynamo takes the answer for a constant
    compiling = getattr(torch.compiler, "is_dynamo_compiling", torch.compiler.is_compiling)
    inside, gate, stepping, finder = phases.inside, phases.gate, phases.stepping, phases.finder
    coast = finder.coast if finder is not None else None

    def before(optimizer: Any, args: Any, kwargs: Any) -> Any:
        if compiling() or not gate.writes:
            return None
        me = get_ident()
        if me in inside or phases.in_backward:
            return None  # stepped by another optimizer, or by a hook in the middle of backward
        inside.add(me)
        stepping[me] = optimizer, phases.open(me, name)
        if len(args) > 1 or "closure" in kwargs:
            return _outside(phases, name, me, args, kwargs)
        return None

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        if compiling():
            return
        if coast is not None and coast.on and id(optimizer) == coast.first and len(coast.stamps) + 1 < coast.until:
            coast.stamps.append(perf_counter_ns())
            return
        if stepping and (begun := stepping.get(get_ident())) is not None and begun[0] is optimizer:
            phases.end_stepping(get_ident())
        elif phases.in_backward:
            return
        if finder is not None:
            try:
                finder.stepped(id(optimizer))
            except Exception as error:
                told(finder.stepped, error)

    key = optim.register_optimizer_step_pre_hook(before).id
    optim.register_optimizer_step_post_hook(after)

    def watch(on: bool) -> None:
        table = optim._global_optimizer_pre_hooks
        if on:
            table[key] = before
        else:
            table.pop(key, None)

    phases.watches.append(watch)


def _outside(phases: Phases, name: str, me: int, args: Any, kwargs: Any) -> Any:
    """The step's arguments with a closure that leaves the phase while it runs."""
    closure = args[1] if len(args) > 1 else kwargs["closure"]
    if closure is None:
        return None

    @functools.wraps(closure)
    def outside(*a: Any, **k: Any) -> Any:
        optimizer, close = phases.stepping.pop(me)
        if close is not None:
            close()
        phases.inside.discard(me)
        try:
            return closure(*a, **k)
        finally:
            phases.inside.add(me)
            phases.stepping[me] = optimizer, phases.open(me, name) if phases.gate.writes else None

    if len(args) > 1:
        return (args[0], outside, *args[2:]), kwargs
    return args, {**kwargs, "closure": outside}
