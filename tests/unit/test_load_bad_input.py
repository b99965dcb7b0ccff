"""Files that are no profile, or half of one: one clear line, exit code 4, or a profile that says what is left out."""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

from unstall.errors import NotAProfile, ProfileUnreadable, UsageError
from unstall.load import load, open_any
from unstall.load.sqlite import LONGEST_NAME
from unstall.model import Profile, Report
from unstall.testing import TraceBuilder, ms

Edit = Callable[[str], Profile]


def trace() -> TraceBuilder:
    """Two steps with a kernel each."""
    t = TraceBuilder()
    t.steps(2, ms(10), lambda b, i, start: b.range(f"step_{i}", start, start + ms(9)))
    t.launch("gemm", at=ms(1))
    t.launch("gemm", at=ms(11))
    return t


@pytest.fixture
def export(tmp_path: Path) -> Path:
    return trace().write(tmp_path / "run.sqlite")


@pytest.fixture
def edited(export: Path) -> Edit:
    """``edited(SQL)`` → the profile after that change to the file."""

    def edit(sql: str) -> Profile:
        with closing(sqlite3.connect(export)) as db:
            db.executescript(sql)
        return load(export)

    return edit


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def codes(profile: Profile) -> dict[str, str]:
    return {note.code: note.text for note in profile.notes}


def refused(path: Path, kind: type[ProfileUnreadable] = ProfileUnreadable) -> str:
    """The one line with which ``path`` is refused; the file stays as it was."""
    before = digest(path) if path.is_file() else None
    with pytest.raises(ProfileUnreadable) as failure:
        load(path)
    line = str(failure.value)
    assert type(failure.value) is kind
    assert failure.value.exit_code == 4
    assert "\n" not in line and str(path) in line and failure.value.why and failure.value.hint
    assert before is None or before == digest(path)
    return line


# ---- files that cannot be read ---------------------------------------------------------------------------------------


def test_missing_file(tmp_path: Path) -> None:
    assert "no such file" in refused(tmp_path / "nothing.sqlite")


def test_directory(tmp_path: Path) -> None:
    assert "directory" in refused(tmp_path)


def test_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "empty.sqlite"
    path.touch()
    assert "0 bytes" in refused(path)


def test_zero_filled_file(tmp_path: Path) -> None:
    path = tmp_path / "zero.sqlite"
    path.write_bytes(bytes(1 << 20))
    assert "zeros" in refused(path)


@pytest.mark.parametrize("text", ["hello, this is a note to myself\n" * 50, "\x7fELF" + "\x01" * 500, "{not json"])
def test_something_else(tmp_path: Path, text: str) -> None:
    path = tmp_path / "note.sqlite"
    path.write_text(text)
    assert "Known:" in refused(path, NotAProfile)


def test_compressed_file_says_how_to_unpack(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite.gz"
    path.write_bytes(b"\x1f\x8b" + bytes(range(200)))
    assert "gunzip" in refused(path, NotAProfile)


@pytest.mark.parametrize("size", [60, 4096, 0.5, 0.99])
def test_cut_off_file(export: Path, size: float) -> None:
    whole = export.stat().st_size
    os.truncate(export, int(size * whole) if size < 1 else int(size))
    assert "cut off" in refused(export)


def test_damaged_pages(export: Path) -> None:
    content = bytearray(export.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    export.write_bytes(content)
    assert "damaged" in refused(export)


def test_sqlite_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "browser.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.executescript("CREATE TABLE bookmarks(url TEXT); INSERT INTO bookmarks VALUES ('x')")
    assert "bookmarks" in refused(path, NotAProfile)


def test_sqlite_with_names_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "odd.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.executescript('CREATE TABLE "one\ntwo"("a\nb" INTEGER); CREATE TABLE zebra(x)')
    path.write_bytes(path.read_bytes().replace(b"zebra", b"z\xffbra"))
    assert "one two" in refused(path, NotAProfile)


def test_sqlite_without_tables(tmp_path: Path) -> None:
    path = tmp_path / "none.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.executescript("CREATE TABLE t(x); DROP TABLE t")
    assert "without any table" in refused(path, NotAProfile)


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_file_that_another_process_is_writing(export: Path, journal: str) -> None:
    """A real second process, with a transaction open."""
    code = (
        "import sqlite3, sys\n"
        "db = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "db.execute(f'PRAGMA journal_mode = {sys.argv[2]}'); db.execute('PRAGMA cache_size = 1')\n"
        "db.execute('BEGIN'); db.executemany('INSERT INTO StringIds VALUES (?, ?)',\n"
        "    ((i, 'x' * 3000) for i in range(10**6, 10**6 + 100)))\n"
        "print('writing', flush=True); sys.stdin.read()"
    )
    writer = subprocess.Popen(
        [sys.executable, "-c", code, str(export), journal], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with writer:
        assert writer.stdout is not None and writer.stdout.readline().strip() == b"writing"
        beside = sorted(p.name for p in export.parent.iterdir())
        assert "another process is writing it" in refused(export)
        assert sorted(p.name for p in export.parent.iterdir()) == beside
        writer.kill()


def test_file_that_changes_while_it_is_read(export: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from unstall.load import sqlite

    def then_written(*args: object) -> object:
        found = original(*args)  # type: ignore[arg-type]
        with export.open("ab") as file:
            file.write(bytes(4096))
        return found

    original = sqlite._read_all
    monkeypatch.setattr(sqlite, "_read_all", then_written)
    with pytest.raises(ProfileUnreadable, match="another process is writing it"):
        load(export)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_file_that_may_not_be_read(export: Path) -> None:
    export.chmod(0)
    with pytest.raises(ProfileUnreadable, match="permission"):
        load(export)


def test_the_folder_of_a_run_is_its_capture(export: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    with pytest.raises(ProfileUnreadable, match="without a capture"):
        load(folder)
    shutil.copy(export, folder / "profile.sqlite")
    (folder / "profile.nsys-rep").write_bytes(b"its report")
    found = load(folder)
    assert found.meta.path.endswith("out/profile.sqlite") and found.kernels is not None
    shutil.copy(export, folder / "other.sqlite")
    with pytest.raises(
        ProfileUnreadable, match=r"2 captures. Name one of other.sqlite … profile.sqlite.*unstall ranks"
    ):
        load(folder)


def test_stats_text_is_no_profile_but_can_be_opened(tmp_path: Path) -> None:
    path = tmp_path / "stats.csv"
    path.write_text(
        "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Style,Range\n"
        "100.0,1000,10,100.0,100.0,100,100,0.0,PushPop,:data_load\n"
    )
    with pytest.raises(UsageError, match="stats"):
        load(path)
    assert isinstance(open_any(path), Report)


# ---- files of which a part can be trusted ----------------------------------------------------------------------------


def test_good_file_has_nothing_to_say(export: Path) -> None:
    before, beside = digest(export), sorted(export.parent.iterdir())
    profile = load(export)
    assert profile.notes == ()
    assert digest(export) == before and sorted(export.parent.iterdir()) == beside


def test_names_that_need_care_in_a_path(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/a b?mode=rw#100% \xff ") + "학습")
    folder.mkdir()
    assert load(trace().write(folder / "run's.sqlite")).kernels is not None


def test_read_only_folder(tmp_path: Path) -> None:
    folder = tmp_path / "locked"
    folder.mkdir()
    path = trace().write(folder / "run.sqlite")
    path.chmod(0o444)
    folder.chmod(0o555)
    try:
        assert len(load(path).present()) > 5
        assert [p.name for p in folder.iterdir()] == ["run.sqlite"]
    finally:
        folder.chmod(0o755)


def test_symlink_and_relative_path(export: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = export.parent / "link"
    link.symlink_to(export)
    monkeypatch.chdir(export.parent)
    assert load("link").meta.path == "link"


@pytest.mark.parametrize(
    ("change", "reason", "left"),
    [
        ("'end' = NULL", "rows-without-time", 1),
        ("start = NULL", "rows-without-time", 1),
        ("start = -5", "negative-time", 1),
        ("start = 0, 'end' = 0", "rows-without-time", 1),
        ("'end' = start - 1", "end-before-start", 1),
        ("start = 'soon'", "bad-values", 1),
        ("streamId = 'seven'", "bad-values", 2),
        ("demangledName = 99999, shortName = NULL", "unnamed-rows", 2),
    ],
)
def test_rows_that_cannot_be_right(edited: Edit, change: str, reason: str, left: int) -> None:
    loose = "CREATE TABLE loose AS SELECT * FROM CUPTI_ACTIVITY_KIND_KERNEL; DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL;"
    rename = "ALTER TABLE loose RENAME TO CUPTI_ACTIVITY_KIND_KERNEL;"
    profile = edited(f"{loose}{rename} UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET {change} WHERE rowid = 1;")
    assert profile.kernels is not None and len(profile.kernels) == left
    assert profile.kernels["name"].cast(pl.String).to_list().count("gemm") >= 1
    assert "1 in kernels" in codes(profile)[reason]


def test_unknown_event_types_are_counted(edited: Edit) -> None:
    profile = edited("INSERT INTO NVTX_EVENTS(start, eventType) VALUES (5, 999), (6, 998)")
    assert "2 in NVTX_EVENTS" in codes(profile)["nvtx-unknown-events"]
    assert profile.ranges is not None and len(profile.ranges) == 2


def test_untrusted_ranges_are_named(edited: Edit) -> None:
    profile = edited(
        "UPDATE NVTX_EVENTS SET 'end' = NULL WHERE text = 'step_0';"
        "UPDATE NVTX_EVENTS SET endGlobalTid = globalTid + 1 WHERE text = 'step_1'"
    )
    assert "'step_0'" in codes(profile)["unclosed-ranges"]
    assert "'step_1'" in codes(profile)["cross-thread-ranges"]
    assert profile.ranges is not None and profile.ranges["end"].null_count() == 1, "kept, its end unknown"


def test_empty_tables_and_no_events(tmp_path: Path) -> None:
    profile = load(TraceBuilder(gpu="").write(tmp_path / "none.sqlite"))
    assert profile.kernels is not None and profile.ranges is not None
    assert len(profile.kernels) == len(profile.ranges) == 0
    assert profile.meta.duration_ns == 0
    assert list(codes(profile)) == ["no-events"]


def test_export_of_facts_alone(tmp_path: Path) -> None:
    """No strings, no events, no list of processes: nothing is invented."""
    path = tmp_path / "facts.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.executescript("CREATE TABLE META_DATA_EXPORT(name TEXT, value TEXT)")
    profile = load(path)
    assert profile.kernels is None and profile.ranges is None and list(codes(profile)) == ["no-events"]


def test_no_nvtx_table_is_absent(edited: Edit) -> None:
    profile = edited("DROP TABLE NVTX_EVENTS")
    assert profile.ranges is None and profile.marks is None
    assert profile.kernels is not None and len(profile.kernels) == 2


def test_no_cuda_tables_are_absent(tmp_path: Path) -> None:
    t = TraceBuilder(trace=["nvtx"])
    t.range("step", 0, ms(1))
    profile = load(t.write(tmp_path / "cpu.sqlite"))
    assert {"kernels", "copies", "memsets", "graphs", "api", "syncs", "osrt"}.isdisjoint(profile.present())


def test_export_with_the_names_alone(tmp_path: Path) -> None:
    """Only what a table cannot do without: every other column is unknown, not zero."""
    path = tmp_path / "bare.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.executescript(
            "CREATE TABLE StringIds(id INTEGER, value TEXT); INSERT INTO StringIds VALUES (3, 'gemm');"
            "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER, 'end' INTEGER, shortName INTEGER);"
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (5, 9, 3)"
        )
    kernels = load(path).kernels
    assert kernels is not None
    row = kernels.row(0, named=True)
    assert (row.pop("start"), row.pop("end"), row.pop("name"), row.pop("short_name")) == (5, 9, "gemm", "gemm")
    assert set(row.values()) == {None}


def test_ranges_with_times_and_kinds_alone(tmp_path: Path) -> None:
    path = tmp_path / "bare.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.executescript(
            "CREATE TABLE META_DATA_EXPORT(name TEXT, value TEXT);"
            "CREATE TABLE NVTX_EVENTS(start INTEGER, 'end' INTEGER, eventType INTEGER);"
            "INSERT INTO NVTX_EVENTS VALUES (5, 9, 59), (6, 7, NULL)"
        )
    profile = load(path)
    assert profile.ranges is not None and len(profile.ranges) == 1, "one of no known kind is none"
    assert profile.ranges.row(0, named=True) == {
        "start": 5, "end": 9, "name": None, "domain": "", "style": "push_pop", "process": None, "thread": None,
        "end_thread": None, "cpu_ns": None,
    }  # fmt: skip
    assert "1 in NVTX_EVENTS" in codes(profile)["nvtx-unknown-events"]


def test_processes_that_the_export_does_not_list(edited: Edit) -> None:
    processes = edited("DROP TABLE PROCESSES").processes
    assert processes is not None and processes["pid"].to_list() == [100]


@pytest.mark.parametrize("pid", ["'many'", "-1", "x'00ff'", "''"])
def test_device_list_that_makes_no_sense(edited: Edit, pid: str) -> None:
    kernels = edited(f"UPDATE TARGET_INFO_CUDA_DEVICE SET gpuId = 5, pid = {pid}").kernels
    assert kernels is not None and kernels["device"].to_list() == [0, 0]


@pytest.mark.parametrize(
    "name",
    ["x" * 5000, 'a,"b"\nc', "<script>alert('x')</script>", "", "학습 단계 🚀", "tab\tnul\0end", "'; DROP TABLE x; --"],
    ids=["long", "quotes", "html", "empty", "korean", "nul", "sql"],
)
def test_any_name_comes_through(tmp_path: Path, name: str) -> None:
    t = TraceBuilder()
    t.range(name, 0, ms(1), domain="d")
    t.range(name + "2", ms(1), ms(2), registered=True)
    t.launch(name + "k", at=0)
    profile = load(t.write(tmp_path / "names.sqlite"))
    assert profile.ranges is not None and profile.kernels is not None
    assert profile.ranges["name"].to_list() == [name, name + "2"]
    assert profile.kernels["name"].to_list() == [name + "k"]


def test_a_name_of_a_million_characters_is_cut(edited: Edit) -> None:
    """On every kernel of a capture it would be stored again and again."""
    kernels = edited("UPDATE StringIds SET value = printf('%.*c', 1000000, 'x')").kernels
    assert kernels is not None
    assert kernels["name"].cast(pl.String).str.len_chars().max() == LONGEST_NAME


def test_name_cut_inside_a_character(edited: Edit) -> None:
    """Tools that cut names by bytes leave broken UTF-8, which must neither crash nor vanish."""
    profile = edited(
        "UPDATE NVTX_EVENTS SET text = CAST(x'ED9599EC' AS TEXT) WHERE text = 'step_0';"
        "UPDATE StringIds SET value = CAST(x'67FF' AS TEXT) WHERE value = 'gemm'"
    )
    assert profile.ranges is not None and profile.kernels is not None
    assert profile.ranges["name"][0] == "학�"
    assert profile.kernels["name"].unique().to_list() == ["g�"]


@pytest.fixture
def copied(profile_path: Callable[[str], Path], tmp_path: Path) -> Iterator[Path]:
    yield Path(shutil.copy(profile_path("nsys2024_gpu"), tmp_path / "copy.sqlite"))


def test_one_damaged_table_refuses_the_file(copied: Path) -> None:
    """A part of the rows would pass for all of them."""
    with closing(sqlite3.connect(copied)) as db:
        page, size = (
            db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'CUPTI_ACTIVITY_KIND_KERNEL'").fetchone()[0],
            db.execute("PRAGMA page_size").fetchone()[0],
        )
    content = bytearray(copied.read_bytes())
    content[(page - 1) * size : (page - 1) * size + 64] = b"\xff" * 64
    copied.write_bytes(content)
    assert "damaged" in refused(copied)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = 9223372036854775807 WHERE rowid = 77", "impossible-time"),
        (
            "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 9223372036854775800, end = 9223372036854775807",
            "impossible-time",
        ),
        ("UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET bytes = 9223372036854775807 WHERE rowid < 5", "bad-values"),
        ("UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET bytes = -1", "bad-values"),
    ],
)
def test_times_and_sizes_that_cannot_be_are_left_out_and_said(
    change: str, code: str, tmp_path: Path, profile_path: Callable[[str], Path]
) -> None:
    damaged = tmp_path / "damaged.sqlite"
    shutil.copyfile(profile_path("slow_loader_window"), damaged)
    with closing(sqlite3.connect(damaged)) as db:
        db.execute(change)
        db.commit()
    profile = load(damaged, cache=False)
    assert code in {note.code for note in profile.notes}
    assert profile.kernels is not None and profile.copies is not None
    assert (profile.kernels["end"] - profile.kernels["start"] < 1 << 52).all()
    assert profile.copies["bytes"].drop_nulls().is_between(0, 1 << 50).all()


@pytest.mark.parametrize("column", ["id", "value"])
def test_strings_of_an_unknown_schema_are_not_called_damaged(export: Path, column: str) -> None:
    with closing(sqlite3.connect(export)) as db:
        db.execute(f'ALTER TABLE StringIds RENAME COLUMN "{column}" TO "other"')
        db.commit()
    line = refused(export, NotAProfile)
    assert f"StringIds has no column {column}" in line and "damaged" not in line
