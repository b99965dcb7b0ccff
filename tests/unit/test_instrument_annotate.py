"""annotate and step: what they write, to whom, and that they leave the annotated code what it was."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Generator, Iterator
from itertools import count
from typing import Any

import pytest

import unstall
from unstall.instrument import annotate as annotate_function
from unstall.instrument import sink, steps
from unstall.instrument.annotate import KEEP, _ready


class Notes:
    """A sink that writes down what it is told; push and pop must match on each thread."""

    def __init__(self) -> None:
        self.said: list[Any] = []
        self._stacks: dict[int, list[str]] = {}
        self._handles = count(1)

    def push(self, name: str) -> None:
        self._stacks.setdefault(threading.get_ident(), []).append(name)
        self.said.append(("push", name))

    def pop(self) -> None:
        self.said.append(("pop", self._stacks[threading.get_ident()].pop()))

    def start(self, name: str) -> int:
        handle = next(self._handles)
        self.said.append(("start", name, handle))
        return handle

    def end(self, handle: int) -> None:
        self.said.append(("end", handle))

    def mark(self, name: str) -> None:
        self.said.append(("mark", name))


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Notes]:
    made = Notes()
    monkeypatch.setattr(sink, "out", made)
    yield made
    assert not any(made._stacks.values()), "every push is popped"


def test_block_nested_in_itself(notes: Notes) -> None:
    outer = unstall.annotate("load")
    with outer, outer, unstall.annotate("other"):
        pass
    names = [name for _, name in notes.said]
    assert names == ["load", "load", "other", "other", "load", "load"]


def test_block_is_closed_when_it_raises(notes: Notes) -> None:
    with pytest.raises(KeyError), unstall.annotate("load"):
        raise KeyError
    assert notes.said == [("push", "load"), ("pop", "load")]


def test_function_keeps_its_name_arguments_and_result(notes: Notes) -> None:
    @unstall.annotate("loading")
    def load(a: int, *, b: int = 2) -> tuple[int, int]:
        """Loads."""
        return a, b

    assert load(1, b=3) == (1, 3)
    assert (load.__name__, load.__doc__) == ("load", "Loads.")
    assert list(inspect.signature(load).parameters) == ["a", "b"]
    assert notes.said == [("push", "loading"), ("pop", "loading")]


def test_bare_decorator_takes_the_functions_name(notes: Notes) -> None:
    @unstall.annotate
    def load() -> None: ...

    load()
    assert notes.said[0][1].endswith("load")


def test_decorated_before_anybody_listens_is_heard_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink, "out", None)

    @unstall.annotate("late")
    def load() -> int:
        return 1

    assert load() == 1
    heard = Notes()
    monkeypatch.setattr(sink, "out", heard)
    assert load() == 1
    assert heard.said == [("push", "late"), ("pop", "late")]


def test_two_tasks_of_one_thread_do_not_close_each_others_ranges(notes: Notes) -> None:
    @unstall.annotate("fetch")
    async def fetch(turns: int) -> int:
        async with unstall.annotate("wait"):
            for _ in range(turns):
                await asyncio.sleep(0)
        return turns

    async def main() -> list[int]:
        return list(await asyncio.gather(fetch(3), fetch(1)))

    assert asyncio.run(main()) == [3, 1]
    started = {said[2]: said[1] for said in notes.said if said[0] == "start"}
    ended = [said[1] for said in notes.said if said[0] == "end"]
    assert sorted(started) == sorted(ended) == [1, 2, 3, 4]
    assert [started[h] for h in ended] == ["wait", "fetch", "wait", "fetch"], "the short task ends inside the long one"
    assert {started[ended[0]], started[ended[2]]} == {"wait"}
    assert ended[0] > ended[2], "the second task's range ended first"


def test_generator_is_annotated_turn_by_turn(notes: Notes) -> None:
    @unstall.annotate("turn")
    def numbers() -> Generator[int, int, str]:
        got = yield 1
        try:
            yield got * 2
        except ValueError:
            yield -1
        return "done"

    made = numbers()
    assert next(made) == 1
    assert notes.said == [("push", "turn"), ("pop", "turn")], "closed while the loop has the item"
    assert made.send(21) == 42
    assert made.throw(ValueError()) == -1
    with pytest.raises(StopIteration) as stop:
        next(made)
    assert stop.value.value == "done"
    assert notes.said == [("push", "turn"), ("pop", "turn")] * 4


def test_generator_that_is_closed_runs_its_finally(notes: Notes) -> None:
    closed = []

    @unstall.annotate("turn")
    def numbers() -> Iterator[int]:
        try:
            yield 1
        finally:
            closed.append(True)

    made = numbers()
    next(made)
    made.close()  # type: ignore[attr-defined]
    assert closed == [True]


def test_asynchronous_generator(notes: Notes) -> None:
    @unstall.annotate("turn")
    async def numbers() -> AsyncIterator[int]:
        yield 1
        await asyncio.sleep(0)
        yield 2

    async def main() -> list[int]:
        return [n async for n in numbers()]

    assert asyncio.run(main()) == [1, 2]
    assert [said[0] for said in notes.said] == ["start", "end"] * 3


def test_threads_keep_their_own_nesting(notes: Notes) -> None:
    inside = threading.Barrier(2)

    def work(name: str) -> None:
        with unstall.annotate(name):
            inside.wait(10)
            with unstall.annotate("both"):
                inside.wait(10)

    threads = [threading.Thread(target=work, args=(f"t{i}",)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(name for _, name in notes.said) == ["both"] * 4 + ["t0", "t0", "t1", "t1"]


def test_made_up_names_do_not_fill_memory() -> None:
    for i in range(KEEP + 100):
        unstall.annotate(f"made up {i}")
    assert len(_ready) <= KEEP
    assert annotate_function("made up beyond") is not annotate_function("made up beyond")


def test_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink, "out", None)
    first = unstall.step(0)
    assert unstall.step(1) is first, "not even an object is made"
    with unstall.step(0), unstall.annotate("load"):
        pass


def test_step_is_a_numbered_range(notes: Notes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "by_hand", False)
    for i in range(2):
        with unstall.step(i), unstall.annotate("forward"):
            pass
    assert [name for what, name in notes.said if what == "push"] == ["step_0", "forward", "step_1", "forward"]
    assert steps.by_hand, "--auto stands back"
