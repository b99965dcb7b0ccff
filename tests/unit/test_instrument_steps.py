"""The step clock, its window and its log, with a clock and a GPU that the test moves."""

from __future__ import annotations

import json
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from unstall.instrument import losses, sink, steplog, steps, window
from unstall.instrument.options import OPENED_NAME, Options
from unstall.instrument.steplog import StepLog
from unstall.instrument.steps import BLOCK, WARMUP, StepClock

MS = 1_000_000


class World:
    """Host time, and a GPU that is behind by ``lag``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000 * MS
        self.lag = 0
        self.said: list[str] = []
        monkeypatch.setattr(steps, "perf_counter_ns", lambda: self.now)
        monkeypatch.setattr(steps, "synchronize", self.synchronize)
        monkeypatch.setattr(steps, "at_end", lambda function: None)
        monkeypatch.setattr(steps, "on_sigterm", lambda function: None)
        monkeypatch.setattr(steps, "by_hand", False)
        monkeypatch.setattr(sink, "out", None)
        for verb in ("open", "close"):
            monkeypatch.setattr(window.Window, verb, self._note(verb, getattr(window.Window, verb)))

    def _note(self, verb: str, original: Any) -> Any:
        def call(target: window.Window) -> None:
            self.said.append(verb)
            target.how = ""
            original(target)

        return call

    def synchronize(self) -> bool:
        self.said.append("sync")
        self.now += self.lag
        self.lag = 0
        return True


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def clock(tmp_path: Path, window_steps: tuple[int, int] | None = None) -> StepClock:
    how = "cuda" if window_steps else ""
    return StepClock(Options(steps=window_steps, window=how, step_log=str(tmp_path / "steps-{rank}-{pid}.json")))


def log_of(tmp_path: Path) -> StepLog:
    (log,) = steplog.read(str(tmp_path / "steps-{rank}-{pid}.json"))
    return log


def run(made: StepClock, world: World, count: int, *, host: int = 2 * MS, lag: int = 0, first: int = 0) -> None:
    for i in range(first, first + count):
        made.tick(i)
        world.now += host
        world.lag += lag


def test_window_opens_at_a_and_closes_at_b(tmp_path: Path, world: World) -> None:
    made = clock(tmp_path, (10, 12))
    seen: list[tuple[int, bool]] = []
    made.on_window.append(lambda on: seen.append((made.index, on)))
    run(made, world, 15)
    assert [s for s in world.said if s != "sync"] == ["open", "close"]
    assert seen == [(10, True), (12, False)]
    made.finish()
    log = log_of(tmp_path)
    assert (log.window, log.opened, log.closed, log.profiled) == ([10, 12], True, True, False)
    assert log.samples_ns == [2 * MS] * 10, "only the steps before the window"


def test_the_gpu_is_waited_for_at_the_borders_only(tmp_path: Path, world: World) -> None:
    made = clock(tmp_path, (20, 30))
    run(made, world, 20)
    assert world.said.count("sync") == 1
    run(made, world, 1, first=20)
    assert world.said == ["sync", "sync", "sync", "open"], "end of the block, then before the capture"


def test_step_of_a_host_that_runs_ahead(tmp_path: Path, world: World) -> None:
    made = clock(tmp_path, (25, 30))
    run(made, world, 31, host=2 * MS, lag=44 * MS)
    made.finish()
    log = log_of(tmp_path)
    assert log.samples_ns[-1] == 2 * MS, "the host's own times say nothing of the GPU"
    assert log.step_ns() == 46 * MS
    assert log.blocks == [[WARMUP, 25 - WARMUP, (25 - WARMUP) * 46 * MS]] and log.warmup == WARMUP


def test_step_of_a_gpu_whose_queue_is_full(tmp_path: Path, world: World) -> None:
    """The first steps after a wait cost the host next to nothing; then each blocks until the GPU has done one."""
    made = clock(tmp_path, (20, 30))
    run(made, world, WARMUP)
    run(made, world, 4, lag=50 * MS, first=WARMUP)
    run(made, world, 12, host=52 * MS, first=WARMUP + 4)
    made.finish()
    log = log_of(tmp_path)
    assert log.step_ns() == 52 * MS and set(log.steady()) == {52 * MS}


@pytest.mark.parametrize(
    ("samples", "total", "found"),
    [
        ([2, 2, 9, 9], 22, [2, 2, 9, 9]),
        ([2, 2, 9, 9], 20, [2, 2, 9, 9]),  # the clock's own error
        ([2, 4, 9, 9], 25, [3, 4, 9, 9]),
        ([9, 2, 4, 9], 30, [9, 6, 6, 9]),
        ([2, 2, 9, 9], 40, [10, 10, 10, 10]),
        ([], 5, []),
    ],
)
def test_what_the_gpu_was_behind_is_the_time_of_the_shortest(
    samples: list[float], total: float, found: list[float]
) -> None:
    assert steplog.caught_up(samples, total) == found


def test_step_of_a_host_that_limits_is_its_median(tmp_path: Path, world: World) -> None:
    made = clock(tmp_path, (20, 30))
    run(made, world, 10)
    run(made, world, 1, host=500 * MS, first=10)  # a checkpoint
    run(made, world, 12, first=11)
    made.finish()
    assert log_of(tmp_path).step_ns() == 2 * MS


def test_run_without_a_window_waits_ever_more_rarely(tmp_path: Path, world: World) -> None:
    made = clock(tmp_path)
    run(made, world, WARMUP + 7 * BLOCK + 1)
    assert world.said.count("sync") == 1 + 2 * 3, "blocks of 50, 100 and 200 steps"
    made.finish()
    starts = [WARMUP, WARMUP + BLOCK, WARMUP + 3 * BLOCK]
    assert [b[:2] for b in log_of(tmp_path).blocks] == [[s, n * BLOCK] for s, n in zip(starts, (1, 2, 4), strict=True)]


def test_time_between_epochs_is_no_step(tmp_path: Path, world: World) -> None:
    made = clock(tmp_path)
    run(made, world, 10)
    made.pause(done=True)
    world.now += 5_000 * MS
    run(made, world, 60, first=10)
    made.tick(70)
    world.now += 900 * MS  # workers shut down: the draw found nothing
    made.pause(done=False)
    made.finish()
    log = log_of(tmp_path)
    assert log.samples_ns == [2 * MS] * 70
    assert [(count, total) for _, count, total in log.blocks] == [(5, 10 * MS), (45, 90 * MS), (15, 30 * MS)]


def test_window_never_reached(tmp_path: Path, world: World) -> None:
    made = clock(tmp_path, (100, 110))
    run(made, world, 8)
    made.finish()
    log = log_of(tmp_path)
    assert not log.opened and len(log.samples_ns) == 7
    assert "open" not in world.said


def test_program_that_ends_inside_the_window_closes_it(tmp_path: Path, world: World) -> None:
    made = clock(tmp_path, (2, 100))
    run(made, world, 8)
    made.finish()
    made.finish()
    assert world.said.count("close") == 1
    assert log_of(tmp_path).opened and not log_of(tmp_path).closed, "it has not reached the window's end"


def test_program_that_ends_with_the_last_chosen_step_has_taken_all(tmp_path: Path, world: World) -> None:
    made = clock(tmp_path, (2, 8))
    run(made, world, 8)
    made.finish()
    assert log_of(tmp_path).closed


def test_program_that_is_killed_inside_the_window_has_opened_it(tmp_path: Path, world: World) -> None:
    made = clock(tmp_path, (2, 100))
    run(made, world, 2)
    assert not list(tmp_path.glob(f"{OPENED_NAME}*"))
    run(made, world, 3, first=2)
    assert log_of(tmp_path).opened and [p.name for p in tmp_path.glob(f"{OPENED_NAME}*")] == [
        f"window-opened-{os.getpid()}"
    ]
    made.finish()


def test_times_under_a_profiler_are_not_unprofiled(
    tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink, "out", object())
    made = clock(tmp_path)
    run(made, world, 8)
    made.finish()
    log = log_of(tmp_path)
    assert log.step_ns() == 2 * MS and log.unprofiled_ns() is None


def test_without_a_step_there_is_no_log(tmp_path: Path, world: World) -> None:
    clock(tmp_path).finish()
    assert list(tmp_path.iterdir()) == []


def test_forked_child_starts_with_nothing(tmp_path: Path, world: World) -> None:
    made = clock(tmp_path)
    run(made, world, 8)
    pid = os.fork()
    if not pid:
        made.finish()
        os._exit(0)
    os.waitpid(pid, 0)
    assert list(tmp_path.iterdir()) == [], "the child does not write its parent's steps as its own"
    made.finish()
    assert len(log_of(tmp_path).samples_ns) == 7


def test_error_at_a_border_does_not_reach_the_program(
    tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_: object) -> None:
        raise RuntimeError("no CUDA runtime")

    monkeypatch.setattr(window.Window, "open", broken)
    made = clock(tmp_path, (3, 4))
    run(made, world, 6)
    assert capsys.readouterr().err.count("no CUDA runtime") <= 1


# ---- logs ---------------------------------------------------------------------------------------------------------


def test_logs_of_many_ranks_come_back_in_order(tmp_path: Path) -> None:
    template = str(tmp_path / "a [b]" / "steps-{rank}-{pid}.json")
    for rank, pid in ((1, 7), (0, 9), (0, 8)):
        steplog.write(StepLog(rank=rank, pid=pid, samples_ns=[1] * pid), template)
    (tmp_path / "a [b]" / "steps-3-3.json").write_text("{not json")
    (tmp_path / "a [b]" / "steps-4-4.json").write_text(json.dumps({"version": 99}))
    logs = steplog.read(template)
    assert [(log.rank, log.pid) for log in logs] == [(0, 8), (0, 9), (1, 7)]
    main = steplog.main_log(logs)
    assert main is not None and main.pid == 9, "the lowest rank, and of its processes the one with most steps"
    assert steplog.main_log([]) is None


def test_unknown_is_not_zero() -> None:
    assert StepLog().step_ns() is None
    assert StepLog(samples_ns=[5, 5], warmup=2).step_ns() is None


# ---- losses -------------------------------------------------------------------------------------------------------


class Scalar:
    def __init__(self, value: float) -> None:
        self.value, self._version = value, 0

    def numel(self) -> int:
        return 1

    def detach(self) -> Scalar:
        return self


def test_losses_are_thinned_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "_read", lambda tensors: [t.value for t in tensors])
    kept = losses.Losses()
    total = 3 * losses.KEEP
    for i in range(total):
        kept.note(Scalar(float(i)), i)
    found = kept.values()
    assert losses.KEEP // 2 <= len(found) <= losses.KEEP + 1
    assert all(step == value for step, value in found)
    gaps = {b[0] - a[0] for a, b in pairwise(found)}
    assert len(gaps) == 1, "an even sample of the whole run"


def test_loss_overwritten_since_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "_read", lambda tensors: [t.value for t in tensors])
    kept = losses.Losses()
    first, second = Scalar(1.0), Scalar(2.0)
    kept.note([first, second], 0)
    first._version += 1
    assert kept.values() == [[0, 2.0]]


def test_what_is_no_scalar_is_no_loss() -> None:
    kept = losses.Losses()
    kept.note([object(), None], 0)
    assert kept.values() == []


def test_profiler_is_flushed_before_sigterm_kills(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """nsys keeps what it knows of the GPU in buffers, and Python runs no exit functions when a signal kills."""
    at_sigterm: list[Any] = []
    monkeypatch.setattr(steps, "on_sigterm", at_sigterm.append)
    clock(tmp_path)
    assert at_sigterm == []  # nobody listens
    monkeypatch.setattr(sink, "listening", lambda: True)
    monkeypatch.setattr(window, "synchronize", world.synchronize)
    runtime = type("Runtime", (), {"cudaProfilerStop": lambda _: world.said.append("flush")})
    monkeypatch.setattr(window, "_cudart", runtime)
    mine = clock(tmp_path)
    mine.tick(0)
    world.said.clear()
    for function in at_sigterm:
        function()
    assert world.said == ["sync", "flush"]
