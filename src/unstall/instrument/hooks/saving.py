"""Checkpoints: ``torch.save``, and what frameworks save with when that is not all of it.

Comes in: torch, and the frameworks' modules once they are imported. Goes out: the phase ``checkpoint``. Also holds
:func:`phase`, the plain way to make a function a phase, for those that are not called in every step.
"""

from __future__ import annotations

import functools
from _thread import get_ident
from collections.abc import Callable
from typing import Any

from unstall.instrument.importhook import when_imported
from unstall.instrument.phases import Phases

SAVERS = (
    ("safetensors.torch", "save_file"),
    ("torch.distributed.checkpoint.state_dict_saver", "save"),
    ("lightning.pytorch.trainer.trainer", "Trainer.save_checkpoint"),
    ("pytorch_lightning.trainer.trainer", "Trainer.save_checkpoint"),
)


def phase(name: str, original: Callable[..., Any], phases: Phases) -> Callable[..., Any]:
    """``original`` as a phase called ``name``."""

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        me = get_ident()
        if me in phases.inside:
            return original(*args, **kwargs)
        phases.inside.add(me)
        close = phases.open(me, name) if phases.gate.writes else None
        try:
            return original(*args, **kwargs)
        finally:
            if close is not None:
                close()
            phases.inside.discard(me)

    return call


def hook(torch: Any, phases: Phases, name: str) -> None:
    """Hook ``torch.save``, and the others when they come."""
    torch.save = phase(name, torch.save, phases)
    for module, path in SAVERS:
        when_imported(module, functools.partial(_hook_saver, phases, name, path))


def _hook_saver(phases: Phases, name: str, path: str, module: Any) -> None:
    *owners, attribute = path.split(".")
    owner = functools.reduce(getattr, owners, module)
    setattr(owner, attribute, phase(name, getattr(owner, attribute), phases))
