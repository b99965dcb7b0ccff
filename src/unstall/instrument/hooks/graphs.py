"""CUDA graphs: a training step that was captured once and is replayed calls no module and no optimizer.

Comes in: ``torch.cuda.CUDAGraph``. Goes out: a word to the step finder at every replay of a graph in whose capture an
optimizer stepped. Needed for steps alone; writes no range.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any

from unstall.instrument.importhook import guarded
from unstall.instrument.phases import Phases


def hook(torch: Any, phases: Phases, name: str) -> None:
    """Hook capture and replay, where this torch has CUDA graphs and steps are looked for."""
    graph, finder = torch.cuda.CUDAGraph, phases.finder
    if finder is None or not torch.backends.cuda.is_built():
        return
    begin, end, replay = graph.capture_begin, graph.capture_end, graph.replay
    before: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
    steps: weakref.WeakSet[Any] = weakref.WeakSet()

    @functools.wraps(begin)
    def capture_begin(self: Any, *args: Any, **kwargs: Any) -> Any:
        guarded(finder.follow)
        before[self] = finder.updates
        return begin(self, *args, **kwargs)

    @functools.wraps(end)
    def capture_end(self: Any, *args: Any, **kwargs: Any) -> Any:
        if finder.updates > before.pop(self, finder.updates):
            steps.add(self)
        return end(self, *args, **kwargs)

    @functools.wraps(replay)
    def replay_(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = replay(self, *args, **kwargs)
        if self in steps:
            guarded(finder.replayed)
        return result

    graph.capture_begin, graph.capture_end, graph.replay = capture_begin, capture_end, replay_
