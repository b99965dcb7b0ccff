"""Coasting: a loop that is known is followed by its optimizer alone, and the window opens where it would have."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unstall.instrument import Options, steplog, steps
from unstall.instrument.coast import LEAD
from unstall.instrument.finder import StepFinder
from unstall.instrument.gate import Gate, Seen
from unstall.instrument.hooks import graphs
from unstall.instrument.hooks import optimizer as optimizer_hook
from unstall.instrument.phases import Phases, put_aside

TRAIN, VALID = 1, 2


@dataclass
class Script:
    """What a training script does, in epochs of batches."""

    epochs: int = 3
    batches: int = 30
    accumulate: int = 1
    validation: int = 0
    ahead: bool = False  # batches are drawn one ahead, as accelerate does
    keeps: bool = False  # the iterator outlives its epoch
    optimizers: int = 1
    draws: bool = True  # from loaders, at all

    def __post_init__(self) -> None:
        self.validation *= self.draws


@dataclass
class World:
    """Hooks, clock and finder as in a program; the script calls what torch would."""

    clock: steps.StepClock
    phases: Phases
    finder: StepFinder
    after: Any
    before: dict[int, Any]  # torch's table of hooks before a step
    watching: bool = True
    updates: int = 0
    opened_at: list[int] = field(default_factory=list)
    seen: int = 0  # calls that a hook was told of
    adams: list[object] = field(default_factory=list)

    def draw(self, source: int) -> None:
        if self.watching:
            self.seen += 1
            self.finder.drawing(source)

    def at_end(self) -> None:
        if self.watching:
            self.finder.at_end()

    def forward(self, *, grad: bool = True) -> None:
        if self.watching and (self.finder.idle or not grad):
            self.finder.working() if grad else self.finder.without_grad()

    def step(self, optimizer: object) -> None:
        self.after(optimizer, (), {})


def world(monkeypatch: pytest.MonkeyPatch, clock: steps.StepClock, *, coasting: bool = True) -> World:
    before: dict[int, Any] = {}
    after: list[Any] = []

    def register(function: Any) -> SimpleNamespace:
        before[7] = function
        return SimpleNamespace(id=7)

    fake = SimpleNamespace(
        _global_optimizer_pre_hooks=before, register_optimizer_step_pre_hook=register,
        register_optimizer_step_post_hook=after.append,
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "torch.optim.optimizer", fake)  # type: ignore[arg-type]
    phases = Phases(Gate(), Seen())
    grad: Any = lambda: True  # noqa: E731
    phases.finder = finder = StepFinder(clock, phases.gate, phases.seen, grad, phases.watch if coasting else None)
    clock.on_window.append(lambda _: finder.follow())
    clock.on_hand.append(finder.follow)
    optimizer_hook.hook(SimpleNamespace(compiler=SimpleNamespace(is_compiling=bool)), phases, "optimizer")
    made = World(clock, phases, finder, after[0], before)
    phases.watches.append(lambda on: setattr(made, "watching", on))
    clock.on_window.append(lambda on: made.opened_at.append(made.updates if on else -made.updates))
    return made


def run(script: Script, w: World) -> None:
    adams = [object() for _ in range(script.optimizers)]
    w.adams += adams  # they live on: another must not get the id of one
    for _ in range(script.epochs):
        train(script, w, adams)
        for _ in range(script.validation):
            w.draw(VALID)
            w.forward(grad=False)
        if script.validation:
            w.at_end()


def train(script: Script, w: World, adams: list[object]) -> None:
    batches = script.batches * script.accumulate
    draws = batches if script.draws else 0
    if script.ahead and draws:
        w.draw(TRAIN)
    for batch in range(batches):
        drawn = batch + script.ahead
        if drawn < draws:
            w.draw(TRAIN)
        elif draws:
            w.at_end()
        w.forward()
        if (batch + 1) % script.accumulate == 0:
            for adam in adams:
                w.step(adam)
            w.updates += 1
    if draws and not script.ahead:
        w.at_end()
    if draws and not script.keeps:
        w.finder.released(TRAIN)


def logged(script: Script, window: tuple[int, int] | None, folder: Path, *, coasting: bool) -> tuple[World, Any]:
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        with steps.clocked(Options(steps=window, step_log=str(folder / "log-{pid}.json"))) as clock:
            w = world(patch, clock, coasting=coasting)
            run(script, w)
        (log,) = steplog.read(str(folder / "log-{pid}.json")) or (None,)
    return w, log


SCRIPTS = st.builds(
    Script,
    epochs=st.integers(1, 4), batches=st.integers(1, 40), accumulate=st.integers(1, 3), validation=st.integers(0, 2),
    ahead=st.booleans(), keeps=st.booleans(), optimizers=st.integers(1, 2), draws=st.booleans(),
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(script=SCRIPTS, first=st.one_of(st.none(), st.integers(0, 120)), length=st.integers(1, 30))
def test_the_window_opens_where_it_would_have(
    tmp_path_factory: pytest.TempPathFactory, script: Script, first: int | None, length: int
) -> None:
    window = None if first is None else (first, first + length)
    folder = tmp_path_factory.mktemp("coast")
    followed, log = logged(script, window, folder / "followed", coasting=False)
    coasted, own = logged(script, window, folder / "coasted", coasting=True)
    assert coasted.opened_at == followed.opened_at
    assert (own is None) == (log is None)
    if own is not None:
        assert (own.opened, own.closed) == (log.opened, log.closed)
        assert own.taken in (log.taken, coasted.updates), "a loop that draws nothing is thought to go on when followed"
        lost = len(log.samples_ns) - len(own.samples_ns)
        assert lost <= script.epochs + 1, "a step is not timed where an epoch begins; no more is lost"
        assert len(own.samples_ns) <= coasted.updates + 1 - script.draws


def test_hooks_rest_between_warm_up_and_window(tmp_path: Path) -> None:
    script = Script(epochs=1, batches=100)
    w, log = logged(script, (80, 90), tmp_path, coasting=True)
    assert w.opened_at == [80, -90]
    assert w.seen <= 8 + LEAD + 12, "draws are seen in warm-up, shortly before the window and in it"
    assert len(log.samples_ns) == 80 and log.taken == 100


def test_without_a_window_blocks_go_on(tmp_path: Path) -> None:
    w, log = logged(Script(epochs=1, batches=400), None, tmp_path, coasting=True)
    assert w.seen < 12 and len(log.samples_ns) == 399 + 1
    assert sum(count for _, count, _ in log.blocks) >= 390 and len(log.blocks) >= 3


def test_an_optimizer_that_was_not_there_before_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with steps.clocked(Options(step_log=str(tmp_path / "log-{pid}.json"))) as clock:
        w = world(monkeypatch, clock)
        run(Script(epochs=1, batches=20), w)
        assert not w.watching and not w.before
        w.step(object())
        assert w.watching and w.before, "the loop is another one: it is followed again"
        run(Script(epochs=1, batches=20), w)
        assert w.watching


def test_steps_by_hand_need_no_hooks_before_the_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import unstall

    with steps.clocked(Options(steps=(30, 40), step_log=str(tmp_path / "log-{pid}.json"))) as clock:
        w = world(monkeypatch, clock)
        adam, watched = object(), []
        for i in range(50):
            with unstall.step(i):
                watched.append(w.watching)
                w.draw(TRAIN)
                w.forward()
                w.step(adam)
        assert watched[:5] == [True] * 5 and watched[15:30] == [False] * 15 and watched[30:40] == [True] * 10
    (log,) = steplog.read(str(tmp_path / "log-{pid}.json"))
    assert len(log.samples_ns) == 30 and log.taken == 50 and log.closed


def test_a_script_that_begins_to_tell_of_its_steps_is_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import unstall

    with steps.clocked(Options(step_log=str(tmp_path / "log-{pid}.json"))) as clock:
        w = world(monkeypatch, clock)
        run(Script(epochs=1, batches=20, keeps=True), w)
        assert not w.watching
        adam = object()
        for i in range(20):
            with unstall.step(i):
                w.step(adam)
    (log,) = steplog.read(str(tmp_path / "log-{pid}.json"))
    assert 38 <= len(log.samples_ns) <= 40, "one sample a step, not one of each kind"


def test_what_somebody_else_put_there_stays() -> None:
    class Owner:
        def method(self) -> str:
            return "original"

    original = Owner.method
    hook: Any = lambda self: "hook"  # noqa: E731
    Owner.method = hook  # type: ignore[method-assign]
    watch = put_aside(Owner, "method", original)
    watch(False)
    assert Owner.method is original
    watch(True)
    assert Owner.method is hook
    theirs: Any = lambda self: "theirs"  # noqa: E731
    Owner.method = theirs  # type: ignore[method-assign]
    watch(False)
    watch(True)
    assert Owner.method is theirs


def test_a_step_that_becomes_a_graph_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eager steps first, as many as make us coast; then the step is captured, and replays are the steps."""

    class CUDAGraph:
        def capture_begin(self) -> None: ...
        def capture_end(self) -> None: ...
        def replay(self) -> None: ...

    torch: Any = SimpleNamespace(cuda=SimpleNamespace(CUDAGraph=CUDAGraph))
    torch.backends = SimpleNamespace(cuda=SimpleNamespace(is_built=lambda: True))
    with steps.clocked(Options(steps=(50, 60), step_log=str(tmp_path / "log-{pid}.json"))) as clock:
        w = world(monkeypatch, clock)
        graphs.hook(torch, w.phases, "steps")
        adam, graph = object(), CUDAGraph()
        for _ in range(15):
            w.step(adam)
        assert not w.watching
        graph.capture_begin()
        w.step(adam)
        graph.capture_end()
        for _ in range(60):
            graph.replay()
            w.updates += 1
    assert len(w.opened_at) == 2 and w.opened_at[0] + w.opened_at[1] == -10, "ten replays"


def test_a_block_that_ends_while_coasting_leaves_no_piece_of_a_step(tmp_path: Path) -> None:
    with (
        steps.clocked(Options(step_log=str(tmp_path / "log-{pid}.json"))) as clock,
        pytest.MonkeyPatch.context() as patch,
    ):
        w = world(patch, clock)
        run(Script(epochs=1, batches=20, keeps=True), w)
        assert not w.watching
        w.finder.at_end()
    (log,) = steplog.read(str(tmp_path / "log-{pid}.json"))
    assert len(log.samples_ns) == 20 and log.taken == 20
