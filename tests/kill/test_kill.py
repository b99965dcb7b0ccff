"""A few kills of each command (``tests.kill.run`` does hundreds), and what is in the way: disks, homes, others."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
from pathlib import Path

import pytest

from .run import known
from .trial import COMMANDS, RESULTS, UNSTALL, Stage, trial


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM], ids=lambda s: s.name)
@pytest.mark.parametrize("command", ["report", "run", "run-nsys"])
def test_killed_at_a_random_moment(stage: Stage, command: str, sign: signal.Signals) -> None:
    if command not in known():
        pytest.skip("no nsys with a working importer on this machine")
    trial(stage, command, sign, random.uniform(0.2, 1.0))


# ---- what is in the way ----------------------------------------------------------------------------------------------


def report(
    stage: Stage, place: Path, *words: str, limit: int = 0, **env: str | None
) -> subprocess.CompletedProcess[str]:
    """``unstall report`` on the padded capture; ``limit`` bytes a file, variables that are ``None`` are not set."""
    environ = os.environ | {"UNSTALL_CACHE_DIR": str(place / "cache"), "HOME": str(place), "POLARS_MAX_THREADS": "1"}
    environ = {k: v for k, v in {**environ, **env}.items() if v is not None}

    def limited() -> None:
        if limit:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.run(
        [*UNSTALL, "report", str(stage.inputs / "a.sqlite"), *words], cwd=place, env=environ, capture_output=True,
        text=True, check=False, preexec_fn=limited,
    )  # fmt: skip


def test_no_room_for_the_result_is_one_line(stage: Stage, tmp_path: Path) -> None:
    done = report(stage, tmp_path, "--json", "out.json", limit=4096)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "cannot be written" in done.stderr and "Traceback" not in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cache"], "neither half a file nor a temporary one"


def test_no_room_for_the_cache_costs_only_the_cache(stage: Stage, tmp_path: Path) -> None:
    done = report(stage, tmp_path, "--json", "-", limit=2048)
    assert done.returncode == 0 and json.loads(done.stdout) and done.stderr == ""
    assert not list((tmp_path / "cache" / "profiles").iterdir()), "no half entry"
    again = report(stage, tmp_path, "--json", "-")
    assert again.stdout == done.stdout
    assert len(list((tmp_path / "cache" / "profiles").iterdir())) == 1
    assert report(stage, tmp_path, "--json", "-").stdout == done.stdout, "from the cache it is the same"


def test_standard_output_is_full(stage: Stage, tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*UNSTALL, "report", str(stage.inputs / "a.sqlite")], stdout=full, stderr=subprocess.PIPE, text=True,
            check=False, env=os.environ | {"UNSTALL_CACHE": "off"}, cwd=tmp_path,
        )  # fmt: skip
    assert done.returncode == 2 and "standard output: cannot be written" in done.stderr


@pytest.mark.parametrize(
    "env",
    [
        {"HOME": None, "XDG_CACHE_HOME": "/proc/1/nowhere"},
        {"HOME": "/dev/null", "TMPDIR": "/no/such/folder"},
        {"HOME": "/proc", "TMPDIR": "/proc", "XDG_CACHE_HOME": "/proc"},
    ],
    ids=["no home", "home is a file and no TMPDIR", "all read-only"],
)
def test_homes_and_temporary_folders_that_are_not_there(
    stage: Stage, tmp_path: Path, env: dict[str, str | None]
) -> None:
    done = report(stage, tmp_path, "--json", "out.json", UNSTALL_CACHE_DIR=None, **env)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.json").read_bytes() == stage.of("report")


def test_several_at_once_on_one_profile_and_one_cache(stage: Stage, tmp_path: Path) -> None:
    wanted = ("report", "report", "compare", "ranks")
    places = [tmp_path / f"{number}-{command}" for number, command in enumerate(wanted)]
    env = os.environ | {"UNSTALL_CACHE_DIR": str(tmp_path / "cache"), "POLARS_MAX_THREADS": "1"}
    running = []
    for command, place in zip(wanted, places, strict=True):
        place.mkdir()
        words = [*UNSTALL, *COMMANDS[command](stage.inputs)]
        running.append(subprocess.Popen(words, cwd=place, env=env, stdout=subprocess.DEVNULL))
    assert [process.wait() for process in running] == [0] * len(wanted)
    assert [RESULTS[c](p) for c, p in zip(wanted, places, strict=True)] == [stage.of(c) for c in wanted]
    entries = list((tmp_path / "cache" / "profiles").iterdir())
    assert len(entries) == 2 and all((entry / "profile.json").exists() for entry in entries), "whole, one a capture"
    assert report(stage, tmp_path, "--json", "-").stdout.encode() == stage.of("report"), "from that cache"
