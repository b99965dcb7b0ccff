"""The torch calls that ``--auto`` turns into ranges; one module a kind. Nothing here imports torch: the script does,
and then it is handed in.

Comes in: the torch module. Goes out: ranges called as in the lab, on the thread that makes the call.

=============  =====================================================================================================
data_load      a draw from a ``DataLoader``'s iterator, and making that iterator (workers start there)
h2d_transfer   ``Tensor.to``, ``cuda`` and ``copy_`` from host to device; may lie inside another phase
forward        a call of an outermost ``nn.Module`` (``forward_no_grad`` where gradients are off)
backward       ``Tensor.backward``, ``torch.autograd.backward``
optimizer      ``Optimizer.step``, through torch's own global hooks; what a closure does is not part of it
checkpoint     ``torch.save`` and what frameworks save with
=============  =====================================================================================================

Values are never touched: every wrapper calls the original with the same arguments and returns what it returned. A
phase inside another phase of the same thread is left out, ``h2d_transfer`` apart.

These run several times a step, between kernels, with caches that hold other things: a Python frame costs about a
microsecond there. So the wrappers do inline what would read better as calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unstall.instrument import compiled
from unstall.instrument.hooks import copies, data, graphs, model, optimizer, saving
from unstall.instrument.importhook import guarded, when_imported
from unstall.instrument.phases import Phases

HOOKS: dict[str, Callable[[Any, Phases, str], None]] = {
    "data_load": data.hook,
    "h2d_transfer": copies.hook,
    "forward": model.hook_forward,
    "backward": model.hook_backward,
    "optimizer": optimizer.hook,
    "checkpoint": saving.hook,
    "steps": graphs.hook,
}
FOR_STEPS = ("data_load", "forward", "backward", "optimizer", "steps")
"""Steps and losses are found through these, which then write no range."""


def install(torch: Any, phases: Phases, parts: tuple[str, ...]) -> None:
    """Hook what ``parts`` name; a part that this torch does not offer is told on stderr and left out."""
    when_imported("torch._dynamo.decorators", compiled.hide)
    follow = {"steps", "losses"} & set(parts)
    for part, hook in HOOKS.items():
        if part in parts or (follow and part in FOR_STEPS):
            guarded(hook, torch, phases, part if part in parts else "")
