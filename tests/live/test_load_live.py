"""Reports made by the nsys of this machine, read without anybody exporting them."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from unstall.load import load
from unstall.nsys.discover import find_nsys

pytestmark = pytest.mark.live

SCRIPT = """
import time, nvtx
for i in range(4):
    with nvtx.annotate(f"step_{i}"):
        time.sleep(0.002)
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture of four annotated steps: a ``.nsys-rep``, or a ``.qdstrm`` where nsys does not find its importer."""
    tool = next((t for t in find_nsys() if t.complete), None)
    if tool is None:
        pytest.skip("no nsys with a working importer on this machine")
    room = tmp_path_factory.mktemp("capture")
    command = [str(tool.path), "profile", "--trace=nvtx", "--sample=none", "--cpuctxsw=none", "-o", str(room / "run")]
    done = subprocess.run([*command, sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    made = [p for p in room.iterdir() if p.suffix in (".nsys-rep", ".qdstrm")]
    if not made:
        pytest.skip(f"nsys {tool.text} could not record here: {done.stderr.strip()[:200]}")
    return made[0]


def test_report_is_read_and_stays_as_it_was(report: Path) -> None:
    before = hashlib.sha256(report.read_bytes()).digest()
    profile = load(report)
    if [note.code for note in profile.notes] == ["nvtx-lost"]:
        pytest.skip("this nsys loses every range of the nvtx package installed here, and the loader says so")
    assert profile.ranges is not None
    names = profile.ranges["name"].cast(pl.String).to_list()
    assert names == [f"step_{i}" for i in range(4)]
    assert (profile.ranges["end"] - profile.ranges["start"]).min() >= 2_000_000  # type: ignore[operator]
    assert hashlib.sha256(report.read_bytes()).digest() == before
    assert [p.name for p in report.parent.iterdir()] == [report.name]
