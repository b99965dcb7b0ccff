"""``.nsys-rep`` and ``.qdstrm``: exported into our own folder, once, and never taken half-done.

The tools are stand-ins (shell scripts that copy an export made by hand); ``tests/live`` has the real ones.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from unstall.errors import ProfileUnreadable
from unstall.load import load, nsys_rep
from unstall.nsys.discover import Nsys
from unstall.testing import TraceBuilder, ms


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNSTALL_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def report(tmp_path: Path) -> Path:
    folder = tmp_path / "input"
    folder.mkdir()
    path = folder / "run.nsys-rep"
    path.write_bytes(b"NVIDIA Tegra Profiler Report 1.\n" + bytes(range(256)) * 8)
    return path


class Tool:
    """A stand-in for nsys that exports ``good``, and notes how often it was called."""

    def __init__(self, room: Path) -> None:
        t = TraceBuilder()
        t.range("step_0", 0, ms(1))
        self.good = t.write(room / "good.sqlite")
        self.calls = room / "calls"
        self.path = room / "nsys"
        self.does('cp "$good" "$target"')

    def does(self, action: str) -> None:
        self.path.write_text(
            f'#!/bin/sh\necho "$@" >> "{self.calls}"\ngood="{self.good}"\n'
            'for a in "$@"; do case "$a" in --output=*) target="${a#--output=}";; esac; done\n' + action + "\n"
        )
        self.path.chmod(0o755)

    @property
    def tools(self) -> list[Nsys]:
        return [Nsys(self.path, (2025, 3, 1, 90), "PATH")]

    @property
    def count(self) -> int:
        return len(self.calls.read_text().splitlines()) if self.calls.exists() else 0


@pytest.fixture
def tool(tmp_path: Path) -> Tool:
    (tmp_path / "tools").mkdir()
    return Tool(tmp_path / "tools")


def exports(home: Path) -> list[Path]:
    return sorted((home / "exports").iterdir())


def test_exported_once_into_our_folder(home: Path, report: Path, tool: Tool) -> None:
    before = hashlib.sha256(report.read_bytes()).digest()
    first, second = nsys_rep.read(report, tool.tools), nsys_rep.read(report, tool.tools)
    assert first.meta == second.meta and first.meta.path == str(report)
    assert first.ranges is not None and first.ranges["name"].to_list() == ["step_0"]
    assert tool.count == 1 and len(exports(home)) == 1
    assert hashlib.sha256(report.read_bytes()).digest() == before
    assert [p.name for p in report.parent.iterdir()] == [report.name]


@pytest.mark.parametrize("damage", [b"", bytes(8192), None], ids=["empty", "zeros", "cut"])
def test_half_written_export_is_made_again(home: Path, report: Path, tool: Tool, damage: bytes | None) -> None:
    nsys_rep.read(report, tool.tools)
    (kept,) = exports(home)
    if damage is None:
        os.truncate(kept, kept.stat().st_size - 4096)
    else:
        kept.write_bytes(damage)
    assert nsys_rep.read(report, tool.tools).ranges is not None
    assert tool.count == 2


def test_stale_export_is_made_again(home: Path, report: Path, tool: Tool) -> None:
    nsys_rep.read(report, tool.tools)
    report.write_bytes(report.read_bytes() + b"more")
    nsys_rep.read(report, tool.tools)
    assert tool.count == 2


def test_export_beside_the_report_is_never_taken_for_it(home: Path, report: Path, tool: Tool) -> None:
    """It may be of an older run with the same name."""
    t = TraceBuilder()
    t.range("old", 0, ms(1))
    t.write(report.with_suffix(".sqlite"))
    ranges = nsys_rep.read(report, tool.tools).ranges
    assert ranges is not None and ranges["name"].to_list() == ["step_0"]


@pytest.mark.parametrize(
    "action",
    [
        "exit 0",
        ': > "$target"',
        'head -c 5000 "$good" > "$target"',
        "echo 'Version number is invalid'; exit 0",
        "exit 9",
    ],
)
def test_tool_that_leaves_no_whole_export(home: Path, report: Path, tool: Tool, action: str) -> None:
    """The exit code of nsys is 0 for most of these."""
    tool.does(action)
    with pytest.raises(ProfileUnreadable) as failure:
        nsys_rep.read(report, tool.tools)
    assert str(report) in str(failure.value) and "\n" not in str(failure.value)
    assert exports(home) == [], "nothing half-made stays"


def test_no_nsys_at_all(home: Path, report: Path) -> None:
    with pytest.raises(ProfileUnreadable, match="nsys"):
        nsys_rep.read(report, [])


def test_without_a_cache_the_export_is_gone_afterwards(
    report: Path, tool: Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNSTALL_CACHE", "off")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", None)
    assert nsys_rep.read(report, tool.tools).ranges is not None
    assert list((tmp_path / "tmp").iterdir()) == []


def test_load_knows_a_report_by_its_content(
    home: Path, report: Path, tool: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unstall.nsys.convert.find_nsys", lambda: tool.tools)
    renamed = report.rename(report.with_suffix(".bin"))
    assert load(renamed).ranges is not None and tool.count == 1
