"""Real disks in the way, full or read-only: small ones in memory, in a mount namespace that ends with the command.

``tests.kill.test_kill`` has what needs no rights: limits on a file's size, folders that are not there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from .run import known
from .trial import COMMANDS, OLD, UNSTALL, Stage

READERS = ("report", "compare", "ranks")
MOUNT = """
set -e
disk=$1 how=$2 out=$3; shift 3
mount -t tmpfs -o size=1m none "$disk"
cp "$out" "$disk/out.json"
[ "$how" != full ] || ! cat /dev/zero >"$disk/full" 2>/dev/null
[ "$how" != ro ] || mount -o remount,ro none "$disk"
set +e
"$@"; code=$?
cp "$disk/out.json" "$out"
cd "$disk"; find . -mindepth 1 | sort
exit $code
"""
NAMESPACE = ("unshare", "--mount", "--map-root-user", "bash", "-c")


@dataclass(frozen=True)
class Left:
    """How a command ended: its code, what it said, its result, what else lies on the disk."""

    code: int
    said: str
    result: str
    others: list[str]


@pytest.fixture(scope="module", autouse=True)
def _mounts() -> None:
    if not shutil.which("unshare") or subprocess.run([*NAMESPACE, "mount -t tmpfs none /mnt"], check=False).returncode:
        pytest.skip("no disk can be mounted here, not even in a namespace of our own")


@pytest.fixture
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="unstall-disk-") as room:
        for name in ("disk", "work"):
            Path(room, name).mkdir()
        Path(room, "out.json").write_text(OLD)
        yield Path(room)


def on_disk(place: Path, how: str, words: list[str], folder: str, **env: str | None) -> Left:
    """Run ``unstall`` in ``folder`` of ``place``, where ``disk`` is full or read-only."""
    environ = {**os.environ, "UNSTALL_CACHE_DIR": str(place / "cache"), "HOME": str(place), "POLARS_MAX_THREADS": "1"}
    environ = {k: v for k, v in {**environ, **env}.items() if v is not None}
    line = [*NAMESPACE, MOUNT, "bash", str(place / "disk"), how, str(place / "out.json")]
    there = ["env", "-C", str(place / folder), *UNSTALL, *words]
    done = subprocess.run([*line, *there], env=environ, capture_output=True, text=True, check=False, cwd=place)
    found = [name for name in done.stdout.splitlines() if name.startswith("./")]
    others = [name for name in found if name not in ("./out.json", "./full")]
    return Left(done.returncode, done.stderr, (place / "out.json").read_text(), others)


@pytest.mark.parametrize("command", READERS)
def test_full_disk_keeps_the_old_result(stage: Stage, place: Path, command: str) -> None:
    left = on_disk(place, "full", COMMANDS[command](stage.inputs), "disk")
    assert left.code == 2 and left.said.count("\n") == 1, left.said
    assert "No space left on device" in left.said and left.result == OLD and left.others == []


@pytest.mark.parametrize("command", ["report", "ranks"])
def test_full_disk_of_cache_and_temporary_files_costs_no_result(stage: Stage, place: Path, command: str) -> None:
    disk = str(place / "disk")
    words = [str(place / "work" / w) if w == "out.json" else w for w in COMMANDS[command](stage.inputs)]
    left = on_disk(place, "full", words, "work", UNSTALL_CACHE_DIR=disk, TMPDIR=disk)
    assert left.code == 0 and left.said == "", left.said
    assert (place / "work/out.json").read_bytes() == stage.of(command)
    assert [name for name in left.others if name.count("/") > 1] == [], "an entry that is not whole"


@pytest.mark.parametrize("command", ["report", "ranks"])
def test_read_only_home_costs_no_result(stage: Stage, place: Path, command: str) -> None:
    disk = str(place / "disk")
    words = [str(place / "work" / w) if w == "out.json" else w for w in COMMANDS[command](stage.inputs)]
    left = on_disk(place, "ro", words, "disk", UNSTALL_CACHE_DIR=None, XDG_CACHE_HOME=None, HOME=disk)
    assert left.code == 0 and left.said == "", left.said
    assert (place / "work/out.json").read_bytes() == stage.of(command) and left.others == []


@pytest.mark.parametrize(("command", "where"), [("run", "output"), ("run", "temporary files"), ("run-nsys", "output")])
def test_full_disk_costs_a_run_its_capture_and_not_its_code(
    stage: Stage, place: Path, command: str, where: str
) -> None:
    if command not in known():
        pytest.skip("no nsys with a working importer on this machine")
    (place / "train.py").write_text("import unstall\nwith unstall.step(1): pass\nraise SystemExit(7)")
    here, env = ("disk", {}) if where == "output" else ("work", {"TMPDIR": str(place / "disk")})
    left = on_disk(place, "full", COMMANDS[command](place), here, **env)
    assert left.code == 7 and "Traceback" not in left.said, left.said
    assert "exit code 7 is the program's own" in left.said and left.others == [], left
    assert ("no capture was kept" in left.said) == (where == "output")
    assert (place / "work/capture/run.json").exists() == (where != "output")
