"""Lines that fit, whatever the names are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from unstall.report.layout import Column, bar, fit, spark, sticky, table, wrap

NAMES = st.lists(st.text(max_size=60) | st.text("한국어데이터로딩👍", max_size=60), min_size=1, max_size=5)


@given(NAMES, st.integers(30, 160))
def test_no_line_of_a_table_is_longer_than_the_width(names: list[str], width: int) -> None:
    figures = [f"{i * 1234.5:.1f}" for i in range(len(names))]
    columns = [Column("total ms", figures), Column("count", figures, rank=1), Column("a long heading", figures, rank=2)]
    lines = table(Column("range", names), columns, width)
    assert len(lines) == len(names) + 1
    assert all(line.cell_len <= width for line in lines)


@given(NAMES)
def test_figures_of_a_column_end_in_one_place(names: list[str]) -> None:
    lines = table(Column("range", names), [Column("total ms", ["1.5"] * len(names))], 60)
    assert len({line.cell_len for line in lines}) == 1


@given(st.text(), st.integers(20, 120), st.sampled_from(["  label ", "  a long label of a warning: "]))
def test_no_wrapped_line_is_longer_than_the_width(sentence: str, width: int, label: str) -> None:
    assert all(line.cell_len <= width for line in wrap(sentence, width, first=label, indent=4))


@given(st.integers(20, 60))
def test_a_figure_and_its_unit_stay_together(width: int) -> None:
    lines = wrap(f"the step takes {sticky('25.3 ms')} or {sticky('24.9 ms')} of {sticky('1135.9 ms')} in all", width)
    assert sum(line.plain.count(" ms") for line in lines) == 3
    assert not [line.plain for line in lines if line.plain.startswith("ms")]


@given(st.text(max_size=300), st.integers(1, 40))
def test_fit_fits(name: str, width: int) -> None:
    assert cell_len(fit(name, width)) <= width


def test_fit_keeps_both_ends() -> None:
    assert fit("layer.0.attention.self.query", 16) == "layer.0…lf.query"
    assert fit("데이터로딩데이터로딩데이터로딩", 12) == "데이…터로딩"
    assert fit("short", 16) == "short"
    assert fit("x" * 5000 + "end", 20).endswith("end")


def test_least_wanted_columns_go_first() -> None:
    columns = [Column("keep", ["1"]), Column("drop second", ["2"], rank=1), Column("drop first", ["3"], rank=2)]
    heads = [table(Column("name", ["n" * 16]), columns, width)[0].plain for width in (80, 40, 25)]
    assert [("first" in h, "second" in h, "keep" in h) for h in heads] == [(1, 1, 1), (0, 1, 1), (0, 0, 1)]


def test_what_the_figures_are_about_stays_however_narrow() -> None:
    columns = [Column("count", ["123,456"]), Column("total ms", ["1234.5"], "bold"), Column("avg ms", ["1.5"])]
    lines = table(Column("kernel", ["volta_sgemm_128x64_nn"]), columns, 30)
    assert [line.plain for line in lines] == ["  kernel              total ms", "  volta_sg…128x64_nn    1234.5"]


def test_bars() -> None:
    assert (bar(0, 10), bar(0.5, 10), bar(1, 10), bar(2, 10)) == ("", "█████", "██████████", "██████████")
    assert bar(0.0001, 10) == "▏", "what is there shows"
    assert bar(0.5, 10, unicode=False) == "#####"
    assert spark([1, 1, 2], 10) == "▅▅█"
    assert spark([0, 0], 10) == "▁▁"
    assert len(spark(range(1000), 50)) == 50
    assert "█" in spark([*[1] * 999, 50], 20), "one long step among many shows"
