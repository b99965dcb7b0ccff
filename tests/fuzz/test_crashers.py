"""What once made a reader fall over, as small as it goes; those of one module alone are among its own tests."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

from unstall.analyze import analyze
from unstall.collect.redact import redact
from unstall.compare import gate, steplog
from unstall.diagnose import diagnose
from unstall.errors import NotAProfile, ProfileUnreadable, UnstallError, UsageError
from unstall.load import load, stats_csv
from unstall.model import Profile
from unstall.report.json import from_json, to_json
from unstall.testing import TraceBuilder, ms


def edited(folder: Path, table: str, change: str) -> Profile:
    """A loop of four steps with a kernel each, after a change to ``table`` made free of types."""
    t = TraceBuilder()
    t.steps(4, ms(10), lambda b, i, start: b.range(f"step_{i}", start, start + ms(9)))
    t.steps(4, ms(10), lambda b, i, start: b.launch("gemm", at=start + ms(1)) and None)
    path = t.write(folder / "run.sqlite")
    with closing(sqlite3.connect(path)) as db:
        db.execute(f'CREATE TABLE loose AS SELECT * FROM "{table}"')
        db.execute(f'DROP TABLE "{table}"')
        db.execute(f'ALTER TABLE loose RENAME TO "{table}"')
        db.execute(f'UPDATE "{table}" SET {change}')
        db.commit()
    return load(path, cache=False)


@pytest.mark.parametrize("column", ["streamId", "demangledName", "graphNodeId", "gridX"])
def test_bytes_that_are_no_text_where_a_number_belongs(column: str, tmp_path: Path) -> None:
    profile = edited(tmp_path, "CUPTI_ACTIVITY_KIND_KERNEL", f"{column} = x'80ff' WHERE rowid = 1")
    assert profile.kernels is not None and len(profile.kernels) == 4
    assert "bad-values" in {note.code for note in profile.notes}
    diagnose(analyze(profile))


@pytest.mark.parametrize("value", ["x'80ff'", "'seven'", "NULL", "1e300", "-3"])
def test_string_ids_that_are_none(value: str, tmp_path: Path) -> None:
    profile = edited(tmp_path, "StringIds", f"id = {value}")
    assert profile.kernels is not None
    assert profile.kernels["name"].cast(pl.String).to_list() == ["[unknown]"] * 4


def test_a_word_in_a_report_that_no_page_knows() -> None:
    t = TraceBuilder()
    t.steps(8, ms(10), lambda b, i, start: b.range(f"step_{i}", start, start + ms(9)))
    report = to_json(diagnose(analyze(t.profile())))
    with pytest.raises(NotAProfile, match="confidence"):
        from_json(report.replace(b'"confidence":"high"', b'"confidence":"ns"'))


@pytest.mark.parametrize(
    "limit", ["fail_if = 4", "step_ms = nan", "step_ms = inf", "step_ms = 1" + "0" * 400, "[" * 5000]
)
def test_budget_that_holds_no_limit(limit: str) -> None:
    with pytest.raises(UsageError):
        gate.budget(limit, "budget.toml")


@pytest.mark.parametrize("text", ["[" * 100_000, "[1" + "0" * 400 + "]", "[25.0, 1" + "0" * 400 + "]"])
def test_lists_of_step_times_that_are_none(text: str) -> None:
    with pytest.raises(UnstallError):
        steplog.read(text, "log")


def test_table_with_both_kinds_of_total() -> None:
    """Two tables run into each other: the second one's column is none of the first."""
    head = "Range,Style,Total Proj Time (ns),Total Range Time (ns),Range Instances,Proj Avg (ns),Total Time (ns)"
    report = stats_csv.read(f"{head}\n:step,PushPop,5,7,1,5.0,9\n")
    assert [row.total_ns for row in report.ranges or []] == [7]


def test_redacting_a_schema_that_is_no_text(tmp_path: Path) -> None:
    path = TraceBuilder().write(tmp_path / "run.sqlite")
    damaged = path.read_bytes().replace(b"CREATE TABLE", b"CREATE T\xdcBLE", 1)
    path.write_bytes(damaged)
    with pytest.raises(ProfileUnreadable, match=r"run\.sqlite: damaged"):
        redact(path, tmp_path / "clean.sqlite")
    assert [p.name for p in tmp_path.iterdir()] == ["run.sqlite"]
