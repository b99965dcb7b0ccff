"""``unstall.step(i)``: marks one training step in a script.

Comes in: the step's number. Goes out: a ``step_N`` range, a tick of the step clock (times before the captured window,
the window itself), or nothing when nobody listens. A script that calls it tells ``--auto`` where its steps are.
"""

from __future__ import annotations

from unstall.instrument import sink, steps


class _Step:
    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index

    def __enter__(self) -> _Step:
        if steps.timed:
            steps.clock().tick(self.index)
        if sink.out is not None:
            sink.out.push(f"step_{self.index}")
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if sink.out is not None:
            sink.out.pop()


class _Nothing:
    __slots__ = ()

    def __enter__(self) -> _Nothing:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        return None


_NOTHING = _Nothing()


def step(index: int) -> _Step | _Nothing:
    """``with unstall.step(i): …`` around the body of the training loop; ``i`` counts from 0."""
    if sink.out is None and not steps.timed:
        return _NOTHING
    if not steps.by_hand:
        steps.by_hand_now()
    return _Step(index)
