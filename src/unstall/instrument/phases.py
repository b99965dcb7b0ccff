"""``--auto``: which phase is open on which thread of this process.

Comes in: entries and exits from :mod:`unstall.instrument.hooks`. Goes out: ranges through the gate. One instance a
process, made by :func:`start` before the script runs; torch's hooks follow when the script imports torch.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from types import ModuleType
from typing import Any

from unstall.instrument import sink
from unstall.instrument.finder import StepFinder
from unstall.instrument.gate import Gate, Observed, Seen
from unstall.instrument.importhook import when_imported
from unstall.instrument.options import Options

Close = Callable[[], Any]


class Phases:
    """Open phases. Hooks read :attr:`inside` on their hot path: the threads that are in a phase.

    Attributes:
        inside: threads (``get_ident``) with a phase open.
        copying: threads inside a host-to-device copy, which may lie inside a phase.
        stepping: thread → the optimizer whose step is open there, and what closes its range.
        in_backward: how many backward passes run; autograd's own threads work for them.
        in_worker: whether this process is a loader's worker; ``None`` until somebody asks.
        losses: whether the loss of every backward pass is kept.
        watches: what puts hooks aside (``False``) while the loop coasts, and back (``True``).
        anywhere: hook copies even where torch knows no device (for tests).
    """

    anywhere = False

    def __init__(self, gate: Gate, seen: Seen) -> None:
        self.gate, self.seen = gate, seen
        self.inside: set[int] = set()
        self.copying: set[int] = set()
        self.stepping: dict[int, tuple[Any, Close | None]] = {}
        self.in_backward = 0
        self.in_worker: bool | None = None
        self.finder: StepFinder | None = None
        self.losses = False
        self.watches: list[Callable[[bool], None]] = []
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        """A forked child begins outside: its one thread was inside ``data_load`` when it was made."""
        self.inside.clear()
        self.copying.clear()
        self.stepping.clear()
        self.in_backward, self.in_worker = 0, None

    def open(self, me: int, name: str) -> Close | None:
        """Open a range on this thread; what closes it. None without a name, or inside the script's own of that name."""
        if not name or self.seen.holds(me, name):
            return None
        self.gate.push(name)
        return self.gate.pop  # as it is now: a gate that shuts meanwhile must not leave the range open

    def watch(self, on: bool) -> None:
        """Put the hooks aside that follow the loop, or back."""
        for function in self.watches:
            function(on)

    def end_stepping(self, me: int) -> bool:
        """Close the optimizer's step that is open on this thread: it is over, or it raised and never said so."""
        begun = self.stepping.pop(me, None)
        if begun is None:
            return False
        if begun[1] is not None:
            begun[1]()
        self.inside.discard(me)
        return True


def put_aside(owner: Any, name: str, original: Any) -> Callable[[bool], None]:
    """What puts the hook that has just been set aside and back, unless somebody else has put something there since."""
    hook = owner.__dict__[name]

    def watch(on: bool) -> None:
        if owner.__dict__[name] is (original if on else hook):
            setattr(owner, name, hook if on else original)

    return watch


def start(options: Options) -> Phases:
    """Make ready for the script's import of torch."""
    gate, seen = Gate(), Seen()
    phases = Phases(gate, seen)
    when_imported("torch", lambda torch: _torch_is_here(torch, phases, options))
    return phases


def _torch_is_here(torch: ModuleType, phases: Phases, options: Options) -> None:
    from unstall.instrument import hooks, steps

    phases.gate.connect(sink.out)
    _watch_script(phases.seen, record=bool(options.record))
    if {"steps", "losses"} & set(options.parts):
        _follow_steps(torch, phases, options)
    if options.steps:
        steps.clock().on_window.append(phases.gate.switch)
    else:
        phases.gate.switch(True)
    hooks.install(torch, phases, options.parts)


def _watch_script(seen: Seen, *, record: bool) -> None:
    if sink.out is None:
        return
    sink.set_out(Observed(sink.out, seen))
    if not record:  # the built-in collector sends the script's ranges to the sink already
        from unstall.instrument import userranges

        userranges.install(userranges.Watch(seen), record=False)


def _follow_steps(torch: Any, phases: Phases, options: Options) -> None:
    from unstall.instrument import steps

    clock = steps.clock()
    phases.losses = "losses" in options.parts and bool(options.step_log)
    watch = None if phases.losses else phases.watch  # losses are seen in every backward pass
    phases.finder = finder = StepFinder(clock, phases.gate, phases.seen, torch.is_grad_enabled, watch)
    clock.on_window.append(lambda _: finder.follow())
    clock.on_hand.append(finder.follow)
