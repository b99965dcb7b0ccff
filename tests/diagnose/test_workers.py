"""How many loader workers are advised, and how far those get: bounds by workers, by cores, by what loading does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from unstall.analyze import analyze
from unstall.diagnose import diagnose
from unstall.model import Finding
from unstall.testing import TraceBuilder, ms, us

Load = Callable[[TraceBuilder, int, int], None]


def computes(t: TraceBuilder, start: int, end: int) -> None:
    t.range("data_load", start, end, cpu_ns=end - start)


def waits(t: TraceBuilder, start: int, end: int) -> None:
    t.range("data_load", start, end, cpu_ns=0)


def sleeps(t: TraceBuilder, start: int, end: int) -> None:
    """As nsys shows it: no CPU clock in ranges, but the OS calls."""
    t.range("data_load", start, end)
    t.osrt("clock_nanosleep", start, end)


def untold(t: TraceBuilder, start: int, end: int) -> None:
    t.range("data_load", start, end)


def finding(load: Load, *, cores: int | None, loading: int = ms(40), gpu: bool = True) -> Finding:
    """Steps of ``loading`` and 4 ms of everything else."""
    t = TraceBuilder(trace=("cuda", "nvtx") if gpu else ("nvtx",), gpu="NVIDIA H200" if gpu else "")
    t.meta(cores=cores, unprofiled_ns=loading + ms(4))
    for i in range(12):
        at = i * (loading + ms(4))
        t.range(f"step_{i}", at, at + loading + ms(4))
        load(t, at, at + loading)
        if gpu:
            t.launch("gemm", at + loading, us(10), kernel_dur=ms(3.9))
            t.sync("stream", at + loading + us(20), at + loading + ms(3.95))
        else:
            t.range("forward", at + loading, at + loading + ms(4))
    found = diagnose(analyze(t.profile())).findings
    return next(f for f in found if f.code == "host-data-loading")


def evidence(found: Finding) -> str:
    return " / ".join(e.text for e in found.evidence)


def test_enough_workers_leave_the_rest_of_the_step() -> None:
    found = finding(waits, cores=16)
    assert found.fix.workers == 13  # 40 / 4 and a quarter more
    assert found.predicted_step_ns == pytest.approx(ms(4), rel=0.1)
    assert "num_workers=13" in found.fix.text and "13 workers can hide it" in evidence(found)


def test_one_worker_and_one_core_are_spoken_of_as_one() -> None:
    assert ": 1 worker can hide it" in evidence(finding(waits, cores=16, loading=ms(1)))
    assert "which 1 core can bring to" in (said := evidence(finding(computes, cores=1))) and "1 worker," in said


def test_no_step_is_shorter_than_its_loading_over_the_workers() -> None:
    found = finding(waits, cores=64, loading=ms(400))
    assert found.fix.workers == 16
    assert found.predicted_step_ns == pytest.approx(ms(25), rel=0.01)
    assert "would hide it; 16, the most that are advised, bring the step to 25.0 ms" in evidence(found)


def test_fewer_workers_than_asked_for_hide_it_where_the_step_is_none_the_longer() -> None:
    found = finding(waits, cores=64, loading=ms(60))  # 19 with the spare ones; 60 / 16 is less than the other 4 ms
    assert found.fix.workers == 16
    assert "16 workers can hide it" in evidence(found) and "would hide it" not in evidence(found)


def test_loading_that_computes_is_bounded_by_the_cores() -> None:
    found = finding(computes, cores=2)
    assert found.fix.workers == 2
    assert found.predicted_step_ns == pytest.approx(ms(22), rel=0.02)  # 44 ms of CPU work on two cores
    assert found.predicted_low_ns is not None and found.predicted_low_ns > ms(15)
    assert "100 % of it is CPU work, which 2 cores can bring to 22.0 ms" in evidence(found)


@pytest.mark.parametrize("load", [waits, sleeps])
def test_loading_that_waits_scales_beyond_the_cores(load: Load) -> None:
    found = finding(load, cores=2)
    assert found.fix.workers == 13
    assert found.predicted_step_ns == pytest.approx(ms(4), rel=0.1)


def test_where_waiting_and_computing_cannot_be_told_apart_the_interval_spans_both() -> None:
    found = finding(untold, cores=2)
    assert found.fix.workers == 4 and found.confidence == "low"
    assert found.predicted_low_ns is not None and found.predicted_low_ns < ms(10)
    assert found.predicted_high_ns is not None and found.predicted_high_ns > ms(22)
    assert "4 workers on 2 cores; more of them help only if loading waits" in evidence(found)


def test_cores_that_the_capture_does_not_tell_are_an_assumption_that_is_said() -> None:
    assert "assuming that there are cores for them" in evidence(finding(computes, cores=None))


def test_loading_that_computes_nearly_all_the_time_is_not_given_one_worker_more() -> None:
    def nearly(t: TraceBuilder, start: int, end: int) -> None:
        t.range("data_load", start, end, cpu_ns=(end - start) * 98 // 100)

    assert finding(nearly, cores=2).fix.workers == 2


def test_without_a_gpu_nothing_is_pinned() -> None:
    found = finding(waits, cores=4, gpu=False)
    assert "num_workers=13" in found.fix.text
    assert "pin" not in found.fix.text and "cuda" not in found.fix.text


def test_training_on_the_cpu_shares_its_cores_with_workers_that_compute() -> None:
    found = finding(computes, cores=2, gpu=False)
    assert found.predicted_step_ns == pytest.approx(ms(23), rel=0.05)  # between 44 / 2 and 4 + 40 / 2


RECV = ("_PollLikeSelector.select (selectors.py)", "wait (connection.py)", "Connection._poll (connection.py)")
OLD_TORCH = ("wait (threading.py)", "get (queue.py)", "_try_get_data (dataloader.py)", "__next__ (dataloader.py)")
NSYS = (
    ("select", "/lib/selectors.py"),
    ("_recv", "/lib/multiprocessing/connection.py"),
    ("<module>", "/home/train.py"),
)
DECODE = ("ImageFile.load (ImageFile.py)", "D.__getitem__ (train.py)", "_SingleProcessDataLoaderIter._next_data (d.py)")
READ = ("read (connection.py)", "Store.get (redis.py)", "D.__getitem__ (train.py)")
Stack = tuple[str | tuple[str, str], ...]


def sampled(stack: Stack) -> Load:
    """As the built-in collector shows it: no OS calls, the Python stack every few milliseconds."""

    def load(t: TraceBuilder, start: int, end: int) -> None:
        t.range("data_load", start, end)
        for at in range(start + ms(2), end, ms(10)):
            t.sample(at, stack)

    return load


@pytest.mark.parametrize("gpu", [True, False])
@pytest.mark.parametrize("stack", [RECV, OLD_TORCH, NSYS])
def test_samples_tell_that_workers_load(stack: Stack, gpu: bool) -> None:
    found = finding(sampled(stack), cores=8, gpu=gpu)
    assert found.title == "Batches come late: loading does not keep up"
    assert found.fix.workers is None and "Raise num_workers" in found.fix.text
    assert "100 % of the samples there are in" in evidence(found) and "hide it" not in evidence(found)


@pytest.mark.parametrize("stack", [DECODE, READ])
def test_samples_tell_that_the_main_thread_loads(stack: Stack) -> None:
    found = finding(sampled(stack), cores=8, gpu=False)
    assert found.title == "The step waits while the main thread loads each batch"
    assert "Pass num_workers" in found.fix.text


def kept_waiting(workers: int, *, cores: int | None, trainers: int = 1, named: bool = True) -> Finding:
    """Steps of 40 ms of waiting for workers and 4 ms of everything else."""
    t = TraceBuilder(trace=("cuda", "nvtx", "osrt"), gpu="NVIDIA H200")
    t.meta(cores=cores, unprofiled_ns=ms(44))
    for number in range(workers):
        t.process(900 + number, "pt_data_worker" if named else "train.py")
        if not named:
            t.sample(ms(50), ("D.__getitem__ (train.py)", "_worker_loop (worker.py)", "Process.run (process.py)"))
    for pid in range(100, 100 + trainers):
        t.process(pid)
        for i in range(12):
            at = i * ms(44)
            t.range(f"step_{i}", at, at + ms(44))
            t.range("next_batch", at, at + ms(40))
            t.osrt("poll", at, at + ms(40))
            t.launch("gemm", at + ms(40), us(10), kernel_dur=ms(3.9))
            t.sync("stream", at + ms(40.02), at + ms(43.95))
    found = diagnose(analyze(t.profile())).findings
    return next(f for f in found if f.code == "host-data-loading")


def test_workers_that_are_there_leave_room_for_more() -> None:
    found = kept_waiting(1, cores=16)
    assert found.predicted_step_ns == pytest.approx(ms(4), rel=0.1)
    assert found.predicted_high_ns is not None and found.predicted_high_ns < ms(6)
    assert "1 worker there already, and 16 cores: room for as many more" in evidence(found)


@pytest.mark.parametrize("named", [True, False])
def test_more_workers_help_as_far_as_there_are_cores(named: bool) -> None:
    found = kept_waiting(4, cores=8, named=named)
    assert found.predicted_step_ns == pytest.approx(ms(4), rel=0.1), "loading that keeps up"
    assert found.predicted_high_ns == ms(27.5), "half of the step of 44 ms, and a quarter for jitter"
    assert "4 workers there already: if loading is CPU work, 8 cores can bring the step to 22.0 ms" in evidence(found)
    assert found.confidence == "low" and found.main


@pytest.mark.parametrize("cores", [4, 2])
def test_where_workers_have_all_cores_more_of_them_may_help_nothing(cores: int) -> None:
    found = kept_waiting(4, cores=cores)
    assert found.predicted_high_ns == ms(44) and found.main
    assert f"4 workers there already on {cores} cores: more of them help only if loading waits" in evidence(found)


def test_cores_that_are_not_known_bound_nothing_and_that_is_said() -> None:
    found = kept_waiting(4, cores=None)
    assert found.predicted_high_ns is not None and found.predicted_high_ns < ms(6)
    assert "4 workers there already: more of them help as far as there are idle cores" in evidence(found)


def test_workers_and_cores_are_shared_by_those_who_train() -> None:
    assert "4 workers there already: if loading is CPU work, 8 cores" in evidence(kept_waiting(8, cores=16, trainers=2))


def test_workers_that_cannot_be_counted_are_not_spoken_of() -> None:
    assert "there already" not in evidence(kept_waiting(0, cores=2))
