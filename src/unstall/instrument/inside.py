"""``--auto`` for a block of a process that goes on afterwards (a notebook's kernel): hooked, and unhooked again.

Comes in: :class:`~unstall.instrument.options.Options`. Goes out: torch as it was before the block. What the hooks
replace is remembered when torch is there, which may be in the middle of the block.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from unstall.instrument import phases
from unstall.instrument.hooks.saving import SAVERS
from unstall.instrument.importhook import for_now, guarded, when_imported
from unstall.instrument.options import Options

ABSENT = object()


@contextmanager
def automatic(options: Options) -> Iterator[None]:
    """What ``options.parts`` name becomes ranges inside the block."""
    before = _Before()
    with for_now():
        when_imported("torch", before.remember)
        mine = phases.start(options)
        try:
            yield
        finally:
            if mine.finder is not None:
                guarded(mine.finder.at_end)  # an iterator that the kernel keeps alive would leave the last step open
            mine.gate.switch(False)
            mine.watches.clear()  # what is restored stays restored
            guarded(before.restore)


class _Before:
    """Attributes as they were, and torch's own lists of hooks."""

    def __init__(self) -> None:
        self._attributes: list[tuple[Any, str, Any]] = []
        self._hooks: list[tuple[dict[int, Any], dict[int, Any]]] = []
        self._savers = [(module, path) for module, path in SAVERS if module not in sys.modules]

    def remember(self, torch: Any) -> None:
        """Before the hooks: this is called first."""
        for owner, names in _owners(torch):
            self._attributes += [(owner, name, vars(owner).get(name, ABSENT)) for name in names]
        optimizer = sys.modules["torch.optim.optimizer"]
        for name in ("_global_optimizer_pre_hooks", "_global_optimizer_post_hooks"):
            hooks = getattr(optimizer, name)
            self._hooks.append((hooks, dict(hooks)))

    def restore(self) -> None:
        """After the block."""
        for owner, name, value in self._attributes:
            if value is not ABSENT:
                setattr(owner, name, value)
            elif name in vars(owner):
                delattr(owner, name)
        for hooks, before in self._hooks:
            for key in [k for k in hooks if k not in before]:
                del hooks[key]
        for module, path in self._savers:  # a framework that the block imported
            if module in sys.modules:
                _unwrap(sys.modules[module], path)


def _owners(torch: Any) -> list[tuple[Any, tuple[str, ...]]]:
    """What :mod:`unstall.instrument.hooks` replaces, and where."""
    loader = torch.utils.data.dataloader
    here = [
        (torch.Tensor, ("to", "cuda", "copy_")),
        (torch.nn.Module, ("__call__",)),
        (torch.autograd, ("backward",)),
        (torch, ("save",)),
        (loader.DataLoader, ("__iter__",)),
        (loader._BaseDataLoaderIter, ("__next__",)),
        (torch.cuda.CUDAGraph, ("capture_begin", "capture_end", "replay")),
    ]
    for module, path in SAVERS:
        if module in sys.modules:
            *owners, name = path.split(".")
            here.append((functools.reduce(getattr, owners, sys.modules[module]), (name,)))
    return here


def _unwrap(module: Any, path: str) -> None:
    *owners, name = path.split(".")
    owner = functools.reduce(getattr, owners, module)
    setattr(owner, name, getattr(getattr(owner, name), "__wrapped__", getattr(owner, name)))
