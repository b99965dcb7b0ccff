"""Raw streams and reports turned into SQLite by tools that fail in all the ways that were seen."""

from __future__ import annotations

import hashlib
from pathlib import Path

import fake_nsys
import pytest

from unstall.errors import ProfileUnreadable
from unstall.nsys.convert import UNFINISHED, is_report, is_stream, is_unfinished, is_whole, to_sqlite
from unstall.nsys.discover import Nsys


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    path = tmp_path / "in" / "x.qdstrm"
    path.parent.mkdir()
    path.write_text(f"{fake_nsys.STREAM_HEAD} 2024.5.1 and data")
    return path


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "in" / "x.nsys-rep"
    path.parent.mkdir()
    path.write_text(fake_nsys.REPORT_HEAD)
    return path


def test_stream_is_imported_and_exported_and_itself_untouched(stream: Path, tmp_path: Path) -> None:
    before = hashlib.sha256(stream.read_bytes()).hexdigest()
    said: list[str] = []
    to_sqlite(stream, tmp_path / "out.sqlite", [fake_nsys.tool(tmp_path / "nsys")], say=said.append)
    assert is_whole(tmp_path / "out.sqlite") and [s.split()[0] for s in said] == ["importing", "exporting"]
    assert hashlib.sha256(stream.read_bytes()).hexdigest() == before
    assert [p.name for p in stream.parent.iterdir()] == ["x.qdstrm"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in", "nsys", "out.sqlite"]


def test_unfinished_stream_is_refused_without_trying(stream: Path, tmp_path: Path) -> None:
    stream.write_bytes(UNFINISHED + b"NVIDIA Nsight Systems Stream 2024.5.1")
    assert is_unfinished(stream)
    with pytest.raises(ProfileUnreadable, match="did not finish"):
        to_sqlite(stream, tmp_path / "out.sqlite", [fake_nsys.tool(tmp_path / "nsys")])


def test_no_importer_says_where_to_go(stream: Path, tmp_path: Path) -> None:
    tool = Nsys(fake_nsys.nsys(tmp_path / "nsys"), (2024, 5, 1))
    with pytest.raises(ProfileUnreadable, match="No QdstrmImporter was found"):
        to_sqlite(stream, tmp_path / "out.sqlite", [tool])


def test_importer_that_lacks_libraries_names_them_and_what_brings_them(stream: Path, tmp_path: Path) -> None:
    broken = fake_nsys.executable(
        tmp_path / "nsys/linux-desktop-glibc_2_11_3-x64/QdstrmImporter",
        "#!/bin/sh\necho 'x: error while loading shared libraries: libdw.so.1: cannot open' >&2; exit 127\n",
    )
    tool = Nsys(fake_nsys.nsys(tmp_path / "nsys"), (2025, 3, 1), "", broken, ("libdw.so.1", "libpfm.so.4"))
    with pytest.raises(ProfileUnreadable, match=r"lacks libdw.so.1, libpfm.so.4: .*UNSTALL_LIBS"):
        to_sqlite(stream, tmp_path / "out.sqlite", [tool])
    other = fake_nsys.tool(tmp_path / "other", "2025.3.1")
    to_sqlite(stream, tmp_path / "out.sqlite", [tool, other])
    assert is_whole(tmp_path / "out.sqlite")


def test_importer_sees_its_own_folder_and_libraries_brought_along(
    stream: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNSTALL_LIBS", "/brought/along")
    tool = fake_nsys.tool(tmp_path / "nsys")
    assert tool.importer is not None
    text = tool.importer.read_text().replace("#!/bin/sh\n", f'#!/bin/sh\necho "$LD_LIBRARY_PATH" > {tmp_path}/seen\n')
    tool.importer.write_text(text)
    to_sqlite(stream, tmp_path / "out.sqlite", [tool])
    assert (tmp_path / "seen").read_text().strip().split(":")[:2] == [str(tool.importer.parent), "/brought/along"]


@pytest.mark.parametrize("wrong", ["no-export", "half-export"])
def test_export_that_fails_or_is_half_falls_to_the_next_tool(report: Path, tmp_path: Path, wrong: str) -> None:
    bad, good = fake_nsys.tool(tmp_path / "a", wrong=wrong), fake_nsys.tool(tmp_path / "b")
    to_sqlite(report, tmp_path / "out.sqlite", [bad, good])
    assert is_whole(tmp_path / "out.sqlite")
    with pytest.raises(ProfileUnreadable, match="no nsys here could export it"):
        to_sqlite(report, tmp_path / "other.sqlite", [bad])
    assert not (tmp_path / "other.sqlite").exists()


def test_exporter_beside_the_importer_is_tried_too(report: Path, tmp_path: Path) -> None:
    tool = fake_nsys.tool(tmp_path / "a", wrong="no-export")
    assert tool.importer is not None
    fake_nsys.nsys(tool.importer.parent)
    to_sqlite(report, tmp_path / "out.sqlite", [tool])
    assert is_whole(tmp_path / "out.sqlite")


def test_report_of_a_newer_nsys_is_explained(report: Path, tmp_path: Path) -> None:
    path = fake_nsys.executable(tmp_path / "nsys", "#!/bin/sh\necho 'Version number is invalid' >&2; exit 1\n")
    with pytest.raises(ProfileUnreadable, match=r"A newer nsys than 2022\.4\.2"):
        to_sqlite(report, tmp_path / "out.sqlite", [Nsys(path, (2022, 4, 2))])


def test_without_any_tool(report: Path, tmp_path: Path) -> None:
    with pytest.raises(ProfileUnreadable, match=r"No nsys was found here: .*unstall doctor"):
        to_sqlite(report, tmp_path / "out.sqlite", [])


def test_files_are_told_by_their_heads(tmp_path: Path) -> None:
    assert is_stream(b"U3w[END]NVIDIA Nsight Systems Stream 2022.4.2.1-df9881f!")
    assert is_report(b"NVIDIA Tegra Profiler Report 1.") and not is_report(b"NVIDIA Nsight Systems Stream")
    whole = fake_nsys.small_export(tmp_path / "x.sqlite")
    assert is_whole(whole)
    (tmp_path / "cut").write_bytes(whole.read_bytes()[:-4096])
    (tmp_path / "zero").write_bytes(b"\0" * 9000)
    assert not any(map(is_whole, [tmp_path / "cut", tmp_path / "zero", tmp_path / "nothing"]))
