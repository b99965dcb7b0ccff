"""An nsys whose importer lies elsewhere becomes whole in a folder of ours; the installation is not touched."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from unstall.nsys.discover import Nsys
from unstall.nsys.whole import made_whole


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def split(tmp_path: Path) -> Nsys:
    """The layout inside Nsight Compute: the importer's folder has a name that nsys does not look for."""
    binary = script(
        tmp_path / "ncu/host/target-linux-x64/nsys", 'ls "$(dirname "$0")/../host-linux-x64/QdstrmImporter"'
    )
    (tmp_path / "ncu/host/target-linux-x64/libInjection.so").write_text("")
    importer = script(tmp_path / "ncu/host/linux-desktop-glibc_2_11_3-x64/QdstrmImporter", "true")
    return Nsys(binary, (2025, 3, 1), "test", importer, ())


def test_it_finds_its_importer(split: Nsys, tmp_path: Path) -> None:
    assert not split.whole
    before = sorted(p for p in (tmp_path / "ncu").rglob("*"))
    whole = made_whole(split, tmp_path / "ours")
    assert whole.whole
    assert subprocess.run([str(whole.path)], capture_output=True, check=False).returncode == 0
    assert (whole.path.parent / "libInjection.so").exists()
    assert sorted(p for p in (tmp_path / "ncu").rglob("*")) == before


def test_libraries_come_beside_the_importer(split: Nsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "libs").mkdir()
    (tmp_path / "libs/libdw.so.1").write_text("elf")
    monkeypatch.setenv("UNSTALL_LIBS", str(tmp_path / "libs"))
    whole = made_whole(split, tmp_path / "ours")
    assert whole.importer is not None
    assert (whole.importer.parent / "libdw.so.1").read_text() == "elf"


def test_nothing_to_mend(split: Nsys, tmp_path: Path) -> None:
    assert made_whole(Nsys(split.path), tmp_path / "a") == Nsys(split.path)
    lacking = Nsys(split.path, (2025, 3), "test", split.importer, ("libdw.so.1",))
    assert made_whole(lacking, tmp_path / "b") is lacking
    whole = made_whole(split, tmp_path / "c")
    assert made_whole(whole, tmp_path / "d") is whole
