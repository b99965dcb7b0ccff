"""Where --auto finds the steps of a loop, from what such loops do, in the order in which they do it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from unstall.instrument import steps
from unstall.instrument.finder import PATIENCE, StepFinder
from unstall.instrument.gate import Gate, Seen
from unstall.instrument.hooks import graphs

TRAIN, VALID, OTHER, ADAM, SGD = 1, 2, 3, 100, 200


class Clock:
    """Writes down when steps begin, when one ends with none after it, and when one was none after all."""

    def __init__(self) -> None:
        self.said: list[int | str] = []
        self.stamps: list[int] = []

    def tick(self, index: int) -> None:
        self.said.append(index)

    def pause(self, *, done: bool) -> None:
        self.said.append("end" if done else "none")


class Ranges:
    def __init__(self) -> None:
        self.open: list[str] = []
        self.all: list[str] = []

    def push(self, name: str) -> None: ...
    def pop(self) -> None: ...
    def mark(self, name: str) -> None: ...

    def start(self, name: str) -> str:
        assert not self.open, "steps do not overlap"
        self.open.append(name)
        self.all.append(name)
        return name

    def end(self, handle: str) -> None:
        self.open.remove(handle)


class Loop:
    """A training loop as its hooks see it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(steps, "by_hand", False)
        self.grad = True
        self.clock, self.ranges, self.seen = Clock(), Ranges(), Seen()
        gate = Gate()
        gate.connect(self.ranges)
        gate.switch(True)
        clock: Any = self.clock
        self.finder = StepFinder(clock, gate, self.seen, lambda: self.grad)

    def forward(self) -> None:
        if self.grad and self.finder.idle:
            self.finder.working()
        elif not self.grad:
            self.finder.without_grad()

    def update(self, optimizer: int = ADAM) -> None:
        self.forward()
        self.finder.stepped(optimizer)

    def train(self, count: int, source: int = TRAIN) -> None:
        for _ in range(count):
            self.finder.drawing(source)
            self.update()
        self.finder.at_end()
        self.finder.released(source)

    def validate(self, count: int, source: int = VALID, *, no_grad_draws: bool = True) -> None:
        for _ in range(count):
            self.grad = not no_grad_draws
            self.finder.drawing(source)
            self.grad = False
            self.forward()
        self.grad = True
        self.finder.at_end()
        self.finder.released(source)


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    return Loop(monkeypatch)


def numbers(loop: Loop) -> list[int]:
    return [s for s in loop.clock.said if isinstance(s, int)]


def test_epochs_with_validation_between(loop: Loop) -> None:
    for _ in range(2):
        loop.train(3)
        loop.validate(2)
    assert loop.clock.said == [0, 1, 2, "end", 3, 4, 5, "end"]
    assert loop.ranges.all == [f"step_{i}" for i in range(6)]
    assert not loop.ranges.open


@pytest.mark.parametrize("no_grad_draws", [True, False])
def test_sanity_check_before_training_is_no_step(loop: Loop, no_grad_draws: bool) -> None:
    loop.validate(2, no_grad_draws=no_grad_draws)
    loop.train(2)
    assert numbers(loop)[-2:] == [0, 1]
    assert loop.ranges.all[-2:] == ["step_0", "step_1"]


def test_validation_in_the_middle_of_an_epoch_belongs_to_no_step(loop: Loop) -> None:
    for i in range(4):
        loop.finder.drawing(TRAIN)
        loop.update()
        if i == 1:
            loop.validate(2)
    assert loop.clock.said == [0, 1, "end", 2, 3]


def test_gradient_accumulation_is_one_step(loop: Loop) -> None:
    for _ in range(2):
        for _ in range(3):
            loop.finder.drawing(TRAIN)
            loop.forward()
        loop.finder.stepped(ADAM)
    assert loop.clock.said == [0, 1]


def test_batches_drawn_one_ahead(loop: Loop) -> None:
    for _ in range(2):  # epochs of three batches: draw, then draw the next before each is used
        loop.finder.drawing(TRAIN)
        for left in (2, 1, 0):
            if left:
                loop.finder.drawing(TRAIN)
            else:
                loop.finder.at_end()
                loop.finder.exhausted(TRAIN)
            loop.update()
        loop.finder.released(TRAIN)
    assert numbers(loop) == [0, 1, 2, 3, 4, 5]


def test_end_of_data_without_a_length_begins_no_step(loop: Loop) -> None:
    for _ in range(2):
        loop.finder.drawing(TRAIN)
        loop.update()
    loop.finder.drawing(TRAIN)  # nobody knows that there is nothing
    loop.finder.exhausted(TRAIN)
    assert loop.clock.said == [0, 1, 2, "none"]
    loop.train(1)
    assert numbers(loop) == [0, 1, 2, 2], "the number is used again"


def test_loop_left_early(loop: Loop) -> None:
    for _ in range(2):
        loop.finder.drawing(TRAIN)
        loop.update()
    loop.finder.released(TRAIN)
    assert loop.clock.said == [0, 1, "end"]


def test_iterator_dropped_right_after_its_draw_ends_nothing(loop: Loop) -> None:
    for _ in range(3):  # x, y = next(iter(loader))
        loop.finder.drawing(TRAIN)
        loop.finder.released(TRAIN)
        loop.update()
    assert loop.clock.said == [0, 1, 2]


def test_two_optimizers_and_one_draw(loop: Loop) -> None:
    for _ in range(3):
        loop.finder.drawing(TRAIN)
        loop.update(ADAM)
        loop.update(SGD)
    assert loop.clock.said == [0, 1, 2]


def test_two_loaders_a_step(loop: Loop) -> None:
    for _ in range(3):
        loop.finder.drawing(TRAIN)
        loop.finder.drawing(OTHER)
        loop.update()
    assert loop.clock.said == [0, 1, 2]


def test_nothing_is_drawn(loop: Loop) -> None:
    for _ in range(4):
        loop.update(ADAM)
        loop.update(SGD)
    assert loop.clock.said == [0, 1, 2, 3, 4], "from forward to optimizer, then from optimizer to optimizer"


def test_one_batch_for_ever(loop: Loop) -> None:
    loop.finder.drawing(TRAIN)
    for _ in range(5):
        loop.update()
    assert numbers(loop)[0] == 0
    assert numbers(loop)[1:] == [3, 4, 5], "after two steps without a draw it is known to be such a loop"


def test_teacher_without_gradients(loop: Loop) -> None:
    for _ in range(3):
        loop.finder.drawing(TRAIN)
        loop.grad = False
        loop.forward()
        loop.grad = True
        loop.update()
    assert numbers(loop)[-2:] == [1, 2]
    assert loop.finder.index == 2


def test_no_optimizer_of_torchs(loop: Loop) -> None:
    for _ in range(PATIENCE + 3):
        loop.forward()
        assert loop.finder.no_optimizer
        loop.finder.went_backward()
    assert len(numbers(loop)) == 4


class FakeGraph:
    def capture_begin(self) -> str:
        return "begun"

    def capture_end(self) -> None: ...

    def replay(self) -> str:
        return "replayed"


def test_replayed_graph_counts_as_the_step_that_was_captured(loop: Loop) -> None:
    cuda = SimpleNamespace(CUDAGraph=type("Graph", (FakeGraph,), {}))
    torch = SimpleNamespace(cuda=cuda, backends=SimpleNamespace(cuda=SimpleNamespace(is_built=lambda: True)))
    phases: Any = SimpleNamespace(finder=loop.finder)
    graphs.hook(torch, phases, "")
    whole, part = cuda.CUDAGraph(), cuda.CUDAGraph()
    assert whole.capture_begin() == "begun"
    loop.update()
    whole.capture_end()
    part.capture_begin()
    part.capture_end()
    before = loop.finder.updates
    for _ in range(3):
        assert part.replay() == whole.replay() == "replayed"
    assert loop.finder.updates == before + 3, "a graph without an optimizer's step is no step"
    assert numbers(loop) == [0, 1, 2, 3, 4]


def test_script_that_numbers_its_steps_gets_no_second_ranges(loop: Loop) -> None:
    loop.seen.push("step_0")
    loop.train(2)
    assert loop.ranges.all == []
    assert numbers(loop) == [0, 1], "they are timed all the same"


def test_script_that_calls_step_is_believed(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "by_hand", True)
    loop.train(2)
    assert loop.clock.said == [] and loop.ranges.all == []


@pytest.mark.parametrize("name", ["step_3", "train step 12", "iteration_7", "Step 4", "iter-0", "training/step_5"])
def test_names_that_number_steps(name: str) -> None:
    seen = Seen()
    seen.push(name)
    assert seen.steps


@pytest.mark.parametrize("name", ["layer_3", "conv2d_12", "step", "forward", "stepper_1", "h2d_transfer_0"])
def test_names_that_do_not(name: str) -> None:
    seen = Seen()
    seen.push(name)
    assert not seen.steps
