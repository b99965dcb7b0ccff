"""Prefetching keeps order, applies back-pressure, passes exceptions on, and leaves nothing running."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from unstall.errors import UsageError
from unstall.fix import moving
from unstall.fix.prefetch import prefetch


def names() -> set[str]:
    return {t.name for t in threading.enumerate() if t.name.startswith("unstall")}


def test_order_and_end() -> None:
    assert list(prefetch(range(50), device="cpu")) == list(range(50))
    assert names() == set()


def test_it_draws_ahead_but_not_further_than_depth() -> None:
    drawn: list[int] = []

    def source() -> Iterator[int]:
        for i in range(20):
            drawn.append(i)
            yield i

    stream = prefetch(source(), device="cpu", depth=3)
    assert next(stream) == 0
    for _ in range(200):
        if len(drawn) == 5:
            break
        time.sleep(0.005)
    # One handed out, three waiting, one in the producer's hand.
    assert len(drawn) == 5
    stream.close()  # type: ignore[attr-defined]
    assert names() == set()


def test_an_exception_comes_at_its_place() -> None:
    def source() -> Iterator[int]:
        yield 1
        yield 2
        raise ValueError("broken file")

    got = []
    with pytest.raises(ValueError, match="broken file"):
        for item in prefetch(source(), device="cpu"):
            got.append(item)
    assert got == [1, 2]
    assert names() == set()


def test_leaving_early_closes_the_source() -> None:
    closed = []

    def source() -> Iterator[int]:
        try:
            yield from range(1000)
        finally:
            closed.append(True)

    for item in prefetch(source(), device="cpu"):
        if item == 3:
            break
    del item
    import gc

    gc.collect()
    assert closed == [True]
    assert names() == set()


class Squares:
    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> int:
        if index == 77:
            raise RuntimeError("item 77")
        time.sleep(0.001 * (index % 3))
        return index * index


@pytest.mark.parametrize("processes", [False, True])
def test_parallel_items_keep_order(processes: bool) -> None:
    got = list(prefetch(Squares(30), device="cpu", workers=2, processes=processes))
    assert got == [i * i for i in range(30)]
    assert names() == set()


def test_parallel_errors_too() -> None:
    got = []
    with pytest.raises(RuntimeError, match="item 77"):
        for item in prefetch(Squares(100), device="cpu", workers=3):
            got.append(item)
    assert got == [i * i for i in range(77)]


@pytest.mark.parametrize("arguments", [{"depth": 0}, {"workers": 2}])
def test_nonsense_is_said(arguments: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        prefetch(iter([1]), device="cpu", **arguments)  # type: ignore[arg-type]


class Pair(NamedTuple):
    x: Any
    y: Any


@dataclass
class Sample:
    x: Any
    label: str


class Box:
    def __init__(self, value: int) -> None:
        self.value = value

    def to(self, _device: str) -> Box:
        return Box(self.value + 1)


def test_nesting_is_kept() -> None:
    batch = {"a": [Box(1), (Box(2), "text")], "p": Pair(Box(3), None), "d": Sample(Box(4), "cat")}
    moved = moving.apply(batch, lambda leaf: leaf.to("x"))
    assert moved["a"][0].value == 2
    assert moved["a"][1][0].value == 3
    assert moved["a"][1][1] == "text"
    assert isinstance(moved["p"], Pair)
    assert moved["p"].x.value == 4
    assert moved["p"].y is None
    assert moved["d"].x.value == 5
    assert moved["d"].label == "cat"


def test_torch_tensors_and_resident() -> None:
    torch = pytest.importorskip("torch")
    from unstall.fix.resident import resident

    data = [(torch.full((2, 3), float(i)), torch.tensor([i])) for i in range(4)]
    for i, (x, y) in enumerate(prefetch(data, device="cuda" if torch.cuda.is_available() else "cpu")):
        assert float(x.sum()) == 6.0 * i
        assert int(y) == i
    kept = resident(data, device="cpu")
    assert len(kept) == 4
    assert kept.bytes == 4 * (6 * 4 + 8)
    assert [int(y) for _, y in kept] == [0, 1, 2, 3]
    shuffled = resident(data, device="cpu", shuffle=True, seed=3)
    assert sorted(int(y) for _, y in shuffled) == [0, 1, 2, 3]
    with pytest.raises(UsageError):
        resident([1, 2], device="cpu")


def test_a_script_may_end_with_an_iterator_alive() -> None:
    import subprocess
    import sys

    text = "import itertools, unstall\nit = unstall.prefetch(itertools.count(), device='cpu')\nprint(next(it))\n"
    text += "ring = [it]\nring.append(ring)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")
