"""Names by id, slices of large tables, columns of one value: the same frame whichever way it came about."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from unstall import memory
from unstall.load import load, sqlite
from unstall.load.database import text_of
from unstall.load.names import Names
from unstall.load.schema import SOURCES
from unstall.model import TABLES
from unstall.testing import TraceBuilder, us

INTEGER = st.one_of(st.none(), st.integers(-3, 60), st.integers(2**40, 2**40 + 3), st.just(-(2**63)))


@settings(deadline=None)
@given(strings=st.dictionaries(st.one_of(st.integers(-2, 50), st.integers(2**40, 2**40 + 3)), st.text(max_size=3)),
       ids=st.lists(INTEGER))  # fmt: skip
def test_names_are_those_of_a_dictionary(strings: dict[int, str], ids: list[int | None]) -> None:
    """Numbered densely as nsys does, or with holes of any size; unknown ids have no name."""
    names = Names(pl.Series(list(strings), dtype=pl.Int64), pl.Series(list(strings.values()), dtype=pl.String))
    known = {i: s for i, s in strings.items() if i >= 0}
    got = names(pl.Series("x", ids, dtype=pl.Int64))
    assert got.name == "x" and got.dtype == pl.Categorical
    assert got.to_list() == [None if i is None else known.get(i) for i in ids]


@given(st.lists(st.one_of(st.none(), st.binary(max_size=6))))
def test_bytes_become_text_whatever_they_are(values: list[bytes | None]) -> None:
    expected = [None if v is None else v.decode("utf-8", "replace") for v in values]
    assert text_of(pl.Series(values, dtype=pl.Binary)).to_list() == expected


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """A thousand launches, not in time order."""
    t = TraceBuilder()
    for i in range(1000):
        t.launch(f"kernel_{i % 7}", at=us(20) * ((i * 373) % 1000), stream=7 + i % 2)
    return t.write(tmp_path / "run.sqlite")


@pytest.mark.parametrize("rows", [1, 7, 100, 999, 10_000])
def test_slices_give_the_whole_table(export: Path, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = load(export, cache=False)
    monkeypatch.setattr(sqlite, "SLICE_ROWS", rows)
    sliced = load(export, cache=False)
    for table in whole.present():
        assert_frame_equal(whole.table(table), sliced.table(table))
    assert sliced.kernels is not None and sliced.kernels["start"].is_sorted() and len(sliced.kernels) == 1000


def test_row_ids_far_apart_make_few_slices(export: Path) -> None:
    database = sqlite.Database(export)
    kernels = SOURCES[0]
    limits = pl.DataFrame({"low": [1], "high": [2**60]})
    database.query = lambda _: limits  # type: ignore[method-assign]
    slices = list(sqlite._slices(database, kernels))
    assert len(slices) == sqlite.MAX_SLICES and slices[0] is not None and slices[-1] is not None
    assert slices[0][0] == 1 and slices[-1][1] == 2**60


@pytest.mark.parametrize("value", [0, 5, -1, None])
def test_columns_of_one_value_read_as_any_other(value: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "SMALL", 10)
    frame = pl.DataFrame({"x": pl.int_range(20, eager=True), "y": pl.Series([value] * 20, dtype=pl.Int64)})
    squeezed = memory.squeeze(frame)
    assert_frame_equal(squeezed, frame)
    assert_frame_equal(squeezed.filter(pl.col("x") > 17), frame.filter(pl.col("x") > 17))
    assert squeezed["y"].to_numpy().shape == (20,)
    assert memory.constants(frame) == {"y": value}


def test_every_column_of_every_source_is_one_of_ours() -> None:
    helpers = {"nvtx": None, "gpu_metrics": {"type", "metric"}}
    for source in SOURCES:
        if source.table != "nvtx":
            extra = helpers.get(source.table) or set()
            assert set(source.columns) | set(source.constant) <= set(TABLES[source.table]) | extra, source.origin


def test_loaded_frames_have_the_promised_columns_and_types(export: Path) -> None:
    profile = load(export)
    for table in profile.present():
        frame = profile.table(table)
        assert frame is not None
        assert list(frame.columns) == list(TABLES[table])
        for column, dtype in TABLES[table].items():
            assert frame.schema[column] == (pl.Categorical if dtype == pl.String else dtype)
