"""A second look comes from the cache, and never from the wrong entry, a broken one, or anywhere it was told not to."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from polars.testing import assert_frame_equal

from unstall.load import cache, load, sqlite
from unstall.model import Profile
from unstall.testing import TraceBuilder, ms

Reads = list[Path]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of this test's own, used for small files as well."""
    monkeypatch.setenv("UNSTALL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "SMALL_FILE", 0)
    return tmp_path / "cache"


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    """Files that were really read."""
    seen: Reads = []
    original = sqlite._read_all

    def counted(db: sqlite.Database) -> list[sqlite.Part]:
        seen.append(db.path)
        return original(db)

    monkeypatch.setattr(sqlite, "_read_all", counted)
    return seen


@pytest.fixture
def export(tmp_path: Path) -> Path:
    t = TraceBuilder()
    t.steps(3, ms(10), lambda b, i, start: b.range(f"step_{i}", start, start + ms(9)))
    t.range("hung", ms(40), None)
    t.launch("gemm", at=ms(1))
    return t.meta(rank=1, utc_epoch_ns=7).write(tmp_path / "run.sqlite")


def entries(home: Path) -> list[Path]:
    return sorted((home / "profiles").iterdir()) if (home / "profiles").exists() else []


def assert_same(one: Profile, other: Profile) -> None:
    assert (one.meta, one.notes, one.present()) == (other.meta, other.notes, other.present())
    for table in one.present():
        assert_frame_equal(one.table(table), other.table(table))


def test_second_look_does_not_read_the_file(home: Path, export: Path, reads: Reads) -> None:
    first, second = load(export), load(export)
    assert reads == [export]
    assert_same(first, second)
    assert first.notes, "and what had to be said is said again"


@pytest.mark.parametrize("capture", ["nsys2024_gpu", "twoproc", "nvtx_lost_nsys2024", "nsys2022_nvtx_cpu"])
def test_second_look_is_the_same(
    home: Path, capture: str, reads: Reads, profile_path: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unstall.memory.SMALL", 100)  # so that columns of one value are stored as such
    path = profile_path(capture)
    assert_same(load(path), load(path))
    assert len(reads) == 1
    assert_same(load(path), load(path, cache=False))


def test_path_is_the_one_asked_for(home: Path, export: Path, reads: Reads) -> None:
    load(export)
    link = export.parent / "link.sqlite"
    os.link(export, link)
    assert load(link).meta.path == str(link) and reads == [export]


def test_changed_file_is_read_again(home: Path, export: Path, reads: Reads) -> None:
    load(export)
    size = export.stat().st_size
    t = TraceBuilder()
    t.range("another", 0, 5)
    t.write(export)
    profile = load(export)
    assert profile.ranges is not None and profile.ranges["name"].to_list() == ["another"]
    assert len(reads) == 2 and size


def test_same_size_and_time_but_other_content(home: Path, export: Path, reads: Reads) -> None:
    load(export)
    stat = export.stat()
    content = bytearray(export.read_bytes())
    content[24:28] = (int.from_bytes(content[24:28], "big") + 1).to_bytes(4, "big")  # SQLite counts its changes there
    with export.open("r+b") as file:
        file.write(content)
    os.utime(export, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    load(export)
    assert len(reads) == 2


def test_other_code_does_not_meet_old_entries(
    home: Path, export: Path, reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(export)
    monkeypatch.setattr(cache, "_code", lambda: "another version")
    load(export)
    assert len(reads) == 2


@pytest.mark.parametrize("damage", ["truncate", "garbage", "missing", "swapped", "json"])
def test_broken_entry_is_thrown_away(home: Path, export: Path, reads: Reads, damage: str) -> None:
    first = load(export)
    (entry,) = entries(home)
    table = entry / "ranges.arrow"
    match damage:
        case "truncate":
            os.truncate(table, table.stat().st_size // 2)
        case "garbage":
            table.write_bytes(b"\x07" * 999)
        case "missing":
            table.unlink()
        case "swapped":
            shutil.copy(entry / "kernels.arrow", table)
        case "json":
            (entry / "profile.json").write_text('{"meta": ')
    assert_same(load(export), first)
    assert len(reads) == 2
    assert_same(load(export), first)
    assert len(reads) == 2, "and the entry is whole again"


@pytest.mark.parametrize("word", ["off", "0", "NO"])
def test_switched_off(home: Path, export: Path, reads: Reads, word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSTALL_CACHE", word)
    load(export)
    load(export)
    assert len(reads) == 2 and not home.exists()


def test_not_wanted_by_the_caller(home: Path, export: Path, reads: Reads) -> None:
    load(export, cache=False)
    assert len(reads) == 1 and not home.exists()


def test_small_files_are_not_kept(home: Path, export: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "SMALL_FILE", export.stat().st_size + 1)
    load(export)
    assert not home.exists()


@pytest.mark.parametrize("where", ["/dev/null/cache", "/proc/no-such-place"])
def test_folder_that_cannot_be_had_means_no_cache(
    home: Path, export: Path, reads: Reads, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNSTALL_CACHE_DIR", where)
    assert load(export).kernels is not None
    assert load(export).kernels is not None
    assert len(reads) == 2


def test_no_home_means_no_cache(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNSTALL_CACHE_DIR")
    monkeypatch.setenv("HOME", "/dev/null")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache.folder() is None


def test_full_disk_costs_nothing_but_the_entry(
    home: Path, export: Path, reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("polars.DataFrame.write_ipc", full)
    assert load(export).kernels is not None
    assert entries(home) == []


def test_interrupted_write_leaves_no_entry(home: Path, export: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("polars.DataFrame.write_ipc", interrupted)
    with pytest.raises(KeyboardInterrupt):
        load(export)
    assert entries(home) == []


def test_least_recently_used_goes_first(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = []
    for number in range(3):
        t = TraceBuilder()
        t.range(f"r{number}", 0, 5)
        paths.append(t.write(tmp_path / f"{number}.sqlite"))
        load(paths[-1])
        (home / "profiles" / cache.identity(paths[-1])).touch()
        os.utime(home / "profiles" / cache.identity(paths[-1]), (number + 1e9, number + 1e9))
    load(paths[0])  # used again: now the newest
    size = sum(f.stat().st_size for f in entries(home)[0].iterdir())
    monkeypatch.setenv("UNSTALL_CACHE_MB", str(2.5 * size / 2**20))
    cache.prune(home)
    kept = {e.name for e in entries(home)}
    assert kept == {cache.identity(paths[0]), cache.identity(paths[2])}


def test_what_died_unfinished_is_cleared_away_in_time(home: Path, export: Path) -> None:
    load(export)
    old, fresh = (home / "profiles" / f"x.tmp{age}" for age in ("old", "fresh"))
    for entry in (old, fresh):
        entry.mkdir()
        (entry / "api.arrow").write_bytes(b"x")
    long_ago = time.time() - 2 * cache.ABANDONED_S
    os.utime(old, (long_ago, long_ago))
    cache.prune(home)
    assert not old.exists() and fresh.exists() and len(entries(home)) == 2


def test_entries_are_nobody_elses_to_read(home: Path, export: Path) -> None:
    """A profile holds command lines and paths."""
    load(export)
    assert home.stat().st_mode & 0o077 == 0
