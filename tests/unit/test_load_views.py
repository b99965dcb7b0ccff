"""Exports in which somebody put views in the place of tables."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from polars.testing import assert_frame_equal

from unstall.collect.redact import redact
from unstall.errors import ProfileUnreadable
from unstall.load import load
from unstall.load.database import Database
from unstall.model import Profile
from unstall.testing import TraceBuilder, ms

KERNELS, RANGES = "CUPTI_ACTIVITY_KIND_KERNEL", "NVTX_EVENTS"
ENDLESS = "WITH c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x AS start, x AS end FROM c"
Edit = Callable[[str], Profile]


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """Four steps with a kernel each."""
    t = TraceBuilder()
    t.steps(4, ms(10), lambda b, i, start: b.range(f"step_{i}", start, start + ms(9)))
    for i in range(4):
        t.launch("gemm", at=ms(1 + 10 * i))
    return t.write(tmp_path / "run.sqlite")


@pytest.fixture
def edited(export: Path) -> Edit:
    """``edited(SQL)`` → the profile after that change to the file."""

    def edit(sql: str) -> Profile:
        with closing(sqlite3.connect(export)) as db:
            db.executescript(sql)
        return load(export, cache=False)

    return edit


def view(table: str, query: str) -> str:
    """SQL that puts a view over the raw rows in the place of a table."""
    return f"ALTER TABLE {table} RENAME TO raw_{table}; CREATE VIEW {table} AS {query};"


def test_a_view_is_read_as_the_table_that_it_stands_for(export: Path, edited: Edit) -> None:
    before = load(export, cache=False)
    after = edited("".join(view(t, f"SELECT * FROM raw_{t}") for t in (KERNELS, RANGES, "StringIds", "PROCESSES")))
    assert after.present() == before.present()
    for table in before.present():
        assert_frame_equal(before.table(table), after.table(table))


def test_a_cleaned_copy_has_the_rows_that_it_shows(edited: Edit) -> None:
    profile = edited(view(KERNELS, f"SELECT * FROM raw_{KERNELS} WHERE start > {ms(15)}"))
    assert profile.kernels is not None and len(profile.kernels) == 2


def test_a_view_over_a_missing_table_is_one_clear_line(edited: Edit) -> None:
    with pytest.raises(ProfileUnreadable, match=rf"its view {KERNELS} cannot be read \(no such table: .*raw") as error:
        edited(view(KERNELS, f"SELECT * FROM raw_{KERNELS}") + f"DROP TABLE raw_{KERNELS};")
    assert "\n" not in str(error.value) and "Drop it or mend it" in str(error.value)


@pytest.mark.parametrize("table", ["StringIds", "DIAGNOSTIC_EVENT", "META_DATA_EXPORT"])
def test_so_are_small_tables(table: str, edited: Edit) -> None:
    with pytest.raises(ProfileUnreadable, match=f"its view {table} cannot be read"):
        edited(f"DROP TABLE IF EXISTS {table}; CREATE VIEW {table} AS SELECT * FROM gone;")


def test_a_broken_view_that_nobody_asks_for_is_none_of_our_business(edited: Edit) -> None:
    profile = edited("CREATE VIEW kernels_by_name AS SELECT * FROM gone;")
    assert profile.kernels is not None and len(profile.kernels) == 4


def test_a_view_without_end_is_not_run(edited: Edit) -> None:
    with pytest.raises(ProfileUnreadable, match="it calls itself"):
        edited(view(KERNELS, ENDLESS))


def test_a_view_larger_than_its_file_is_refused(edited: Edit) -> None:
    many = ", ".join(f"raw_{KERNELS} AS t{i}" for i in range(9))  # 4 to the 9th
    with pytest.raises(ProfileUnreadable, match="more than 16 times what the file holds"):
        edited(view(KERNELS, f"SELECT t0.* FROM {many}"))


LONG = "WITH m AS MATERIALIZED (SELECT count(*) AS n FROM {0}) SELECT m.n AS start, o.n AS end FROM m JOIN m AS o"
"""One row, of four rows to the power of as many tables as are named."""


def test_a_view_that_takes_too_long_is_not_waited_for(edited: Edit) -> None:
    with pytest.raises(ProfileUnreadable, match=rf"its view {KERNELS} cannot be read \(it takes too long\)"):
        edited(view(KERNELS, LONG.format(", ".join(f"raw_{KERNELS} AS t{i}" for i in range(60)))))


def test_a_view_that_was_weighed_is_not_read_for_longer(export: Path, edited: Edit) -> None:
    edited(view(KERNELS, f"SELECT * FROM raw_{KERNELS}"))
    many = ", ".join(f"{KERNELS} AS t{i}" for i in range(60))
    with pytest.raises(ProfileUnreadable, match=rf"its view {KERNELS} cannot be read \(it takes too long\)"):
        Database(export).read(KERNELS, f"SELECT count(*) FROM {many}")


def test_a_view_that_nobody_asks_for_is_not_run(edited: Edit) -> None:
    long = LONG.format(", ".join(f"{KERNELS} AS t{i}" for i in range(60)))  # longer than anybody waits
    profile = edited(f"CREATE VIEW more AS {long};")
    assert profile.kernels is not None and len(profile.kernels) == 4


def test_a_view_with_texts_larger_than_its_file_is_refused(edited: Edit) -> None:
    many = "m" * 3000
    value = f"replace(replace(value, 'm', '{many}'), 'm', '{many}')"  # of each letter nine million
    with pytest.raises(ProfileUnreadable, match="more than 16 times"):
        edited(view("StringIds", f"SELECT id, {value} AS value FROM raw_StringIds"))


@pytest.mark.parametrize("call", ["load_extension('/tmp/evil.so')", "zeroblob(1000000000)", "random()"])
def test_a_view_that_calls_more_than_plain_functions_is_not_run(call: str, edited: Edit) -> None:
    with pytest.raises(ProfileUnreadable, match=f"cannot be read .*{call.partition('(')[0]}"):
        edited(view(KERNELS, f"SELECT *, {call} AS more FROM raw_{KERNELS}"))


def test_plain_functions_may_clean(edited: Edit) -> None:
    profile = edited(view("StringIds", "SELECT id, replace(trim(value), 'gemm', 'GEMM') AS value FROM raw_StringIds"))
    assert profile.kernels is not None and set(profile.kernels["name"]) == {"GEMM"}


def test_a_host_that_only_a_view_names_is_taken_out(export: Path, tmp_path: Path, edited: Edit) -> None:
    edited(
        "ALTER TABLE TARGET_INFO_SYSTEM_ENV RENAME TO raw;"
        "INSERT INTO raw SELECT 1, 'Local', 'Hostname', 619, 'lab-node-17';"
        "CREATE VIEW TARGET_INFO_SYSTEM_ENV AS SELECT name, value FROM raw;"
    )
    redact(export, tmp_path / "clean.sqlite")
    assert b"lab-node-17" not in (tmp_path / "clean.sqlite").read_bytes()
