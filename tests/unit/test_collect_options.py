"""What each version of nsys is asked, and what becomes of an option that it refuses."""

from __future__ import annotations

import pytest

from unstall.analyze.collecting import SAMPLES, in_terms_of
from unstall.collect.options import TRUSTED_SAMPLING, CollectOptions, profile_arguments, without_refused
from unstall.model import Meta, Profile


def asked(version: tuple[int, ...], *, sampling: bool = True, window: str = "", **options: object) -> list[str]:
    return profile_arguments(version, CollectOptions(**options), sampling=sampling, window=window)[0]  # type: ignore[arg-type]


BY_VERSION = [
    ((2022, 4, 2, 1), ["--trace=cuda,nvtx,osrt", "--sample=none", "--cpuctxsw=none", "--wait=primary"]),
    (
        (2023, 4, 4),
        ["--trace=cuda,nvtx,osrt,python-gil", "--sample=process-tree", "--cpuctxsw=process-tree",
         "--backtrace=fp", "--python-sampling=true", "--wait=primary"],
    ),
    (
        (2025, 3, 1, 90),
        ["--trace=cuda,nvtx,osrt,python-gil", "--sample=process-tree", "--cpuctxsw=process-tree",
         "--backtrace=fp", "--python-sampling=true", "--wait=primary"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("version", "expected"), BY_VERSION)
def test_what_is_advised_of_samples_is_what_a_version_is_asked(version: tuple[int, ...], expected: list[str]) -> None:
    text = ".".join(map(str, version))
    advice = in_terms_of(Profile(Meta(producer_version=text)), "samples", SAMPLES)
    sampled = [a for a in expected if a.startswith("--sample=process")]
    assert all(argument in advice for argument in sampled)
    assert ("--collector builtin" in advice) is (not sampled) is (version < TRUSTED_SAMPLING)


def test_an_nsys_of_no_known_version_is_not_asked_for_samples() -> None:
    assert in_terms_of(Profile(), "samples", SAMPLES) == "collect with `unstall run --collector builtin`"


@pytest.mark.parametrize(("version", "expected"), BY_VERSION)
def test_defaults_by_version(version: tuple[int, ...], expected: list[str]) -> None:
    assert asked(version) == expected


def test_where_sampling_is_not_allowed_nothing_that_needs_it_is_asked_for() -> None:
    arguments, notes = profile_arguments((2025, 3), CollectOptions(), sampling=False, window="")
    assert "--sample=none" in arguments and "--cpuctxsw=none" in arguments
    assert not any("python-sampling" in a for a in arguments)
    assert [n.code for n in notes] == ["no-sampling"]


def test_explicit_sampling_is_the_users_word() -> None:
    assert "--sample=system-wide" in asked((2022, 4), sampling=False, sample="system-wide")


@pytest.mark.parametrize(
    ("version", "option"), [((2024, 2), "--gpu-metrics-device=all"), ((2025, 3), "--gpu-metrics-devices=all")]
)
def test_gpu_metrics_are_spelled_as_the_version_does(version: tuple[int, ...], option: str) -> None:
    assert option in asked(version, gpu_metrics="all")


def test_everything_else_is_passed_on_the_users_own_last() -> None:
    arguments = asked((2025, 3), graph_nodes=True, delay=2, duration=10, nsys_args=("--cuda-memory-usage=true",))
    assert {"--cuda-graph-trace=node", "--delay=2", "--duration=10"} <= set(arguments)
    assert arguments[-1] == "--cuda-memory-usage=true"


def test_seconds_are_whole_for_nsys_and_that_is_said() -> None:
    arguments, notes = profile_arguments((2025, 3), CollectOptions(delay=1.9, duration=0.5), sampling=True, window="")
    assert {"--delay=2", "--duration=1"} <= set(arguments)
    assert [n.text.partition(": ")[2] for n in notes] == ["--delay 1.9 became 2.", "--duration 0.5 became 1."]


def test_duration_of_chosen_steps_is_not_for_nsys_to_count() -> None:
    arguments = asked((2025, 3), duration=10, window="cuda")
    assert "--capture-range=cudaProfilerApi" in arguments and "--capture-range-end=stop" in arguments
    assert not any("duration" in a for a in arguments)


def test_trace_that_the_version_does_not_know_is_left_out_and_said() -> None:
    options = CollectOptions(trace=("nvtx", "python-gil"))
    arguments, notes = profile_arguments((2022, 4), options, sampling=False, window="")
    assert "--trace=nvtx" in arguments and any("python-gil" in n.text for n in notes)


def test_refused_option_is_left_out() -> None:
    arguments = ["--trace=cuda,nvtx", "--backtrace=fp", "--python-sampling=true", "--wait=primary"]
    better = without_refused(arguments, "unrecognised option '--python-sampling=true'\nusage: nsys --trace", [])
    assert better is not None and better[0] == ["--trace=cuda,nvtx", "--backtrace=fp", "--wait=primary"]


def test_refused_trace_value_leaves_the_others() -> None:
    better = without_refused(["--trace=cuda,python-gil,nvtx"], "Illegal --trace argument 'python-gil'", [])
    assert better is not None and better[0] == ["--trace=cuda,nvtx"] and "python-gil" in better[1].text


@pytest.mark.parametrize("said", ["unrecognised option '--mine=1'", "No such file or directory: /x", ""])
def test_what_is_not_ours_is_never_dropped(said: str) -> None:
    assert without_refused(["--trace=cuda", "--mine=1"], said, ["--mine=1"]) is None
