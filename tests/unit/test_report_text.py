"""Figures and names at the edge: every rounding border, and every character that a terminal would act on."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstall.report import text

CONTROLS = {"Cc", "Cs", "Zl", "Zp"}
OVERRIDES = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


@pytest.mark.parametrize(
    ("ns", "shown"),
    [
        (1_135_904_229, "1135.9"), (694_057_698, "694.1"), (22_604_000, "22.6"), (9_996_000, "10.0"),
        (9_994_000, "9.99"), (999_400, "0.999"),
        (2_690_000, "2.69"), (999_600, "1.00"), (812_000, "0.812"), (34_000, "0.034"), (400, "<0.001"), (0, "0"),
        (None, "–"), (-2_690_000, "-2.69"),
    ],
)  # fmt: skip
def test_ms(ns: int | None, shown: str) -> None:
    assert text.ms(ns) == shown


@pytest.mark.parametrize(
    ("ns", "shown"),
    [
        (0, "0 ns"), (0.4, "<1 ns"), (850, "850 ns"), (999.4, "999 ns"), (999.7, "1.00 µs"), (9_994, "9.99 µs"),
        (9_996, "10.0 µs"), (99_960, "100 µs"), (12_340, "12.3 µs"), (9_994_000_000, "9.99 s"),
        (999_499, "999 µs"), (999_500, "1.00 ms"),
        (25_312_000, "25.3 ms"), (292_448_509, "292 ms"), (999_600_000, "1.00 s"), (2_130_000_000, "2.13 s"),
        (59_990_000_000, "60.0 s"), (179_600_000_000, "3 min 0 s"), (200_000_000_000, "3 min 20 s"), (None, "–"),
    ],
)  # fmt: skip
def test_duration(ns: float | None, shown: str) -> None:
    assert text.duration(ns) == shown


@pytest.mark.parametrize(
    ("ns", "printed"),
    [
        (0, 0),
        (850.4, 850),
        (12_345, 12_300),
        (25_312_000, 25_300_000),
        (2_134_000_000, 2.13e9),
        (200_200_000_000, 2e11),
    ],
)
def test_a_duration_as_a_reader_takes_it(ns: float, printed: float) -> None:
    assert text.as_printed(ns) == pytest.approx(printed, rel=1e-12)


@given(st.floats(min_value=0.01, max_value=119e9))
def test_a_duration_shows_three_figures_of_its_unit(ns: float) -> None:
    """Never 1000 of a unit that has a next one, and never 0 of what is there."""
    value, unit = text.duration(ns).split()
    assert value == "<1" or 0.999 <= float(value) < (120 if unit == "s" else 999.5)
    assert text.as_printed(ns) == pytest.approx(ns, rel=0.006, abs=1)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (38.54, "38.5 %"),
        (100.0, "100 %"),
        (99.94, "99.9 %"),
        (99.96, ">99.9 %"),
        (0.0, "0 %"),
        (0.01, "<0.1 %"),
        (None, "–"),
    ],
)
def test_percent(value: float | None, shown: str) -> None:
    assert text.percent(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (94.2, "94 %"),
        (99.7, "99.7 %"),
        (99.96, ">99.9 %"),
        (100.0, "100 %"),
        (0.3, "0.3 %"),
        (0.5, "0.5 %"),
        (0.0, "0 %"),
    ],
)
def test_a_sentence_never_rounds_to_all_or_nothing(value: float, shown: str) -> None:
    assert text.rough_percent(value) == shown


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 B"), (64, "64 B"), (999_600, "1.00 MB"), (201_326_592, "201 MB"), (1.25e9, "1.25 GB"), (None, "–")],
)
def test_size(count: float | None, shown: str) -> None:
    assert text.size(count) == shown


def test_counts_and_plurals() -> None:
    assert (text.count(12345), text.count(74.5), text.count(None)) == ("12,345", "74.5", "–")
    assert (text.plural(1, "copy"), text.plural(2, "copy"), text.plural(0, "step")) == ("1 copy", "2 copies", "0 steps")
    assert (text.speedup(9.37), text.speedup(1.996), text.speedup(1.04)) == ("9.4×", "2.0×", "1.04×")
    assert text.speedup(None) == "–"


@given(st.text())
def test_visible_leaves_nothing_that_a_terminal_acts_on(name: str) -> None:
    shown = text.visible(name)
    assert not [c for c in shown if unicodedata.category(c) in CONTROLS or unicodedata.bidirectional(c) in OVERRIDES]
    assert text.visible(shown) == shown
    if not any(unicodedata.category(c) in {*CONTROLS, "Cf", "Cn", "Co"} for c in name):
        assert shown == name


def test_visible_shows_what_was_there() -> None:
    assert text.visible("a\x1b[31mb\n\r\t\x00\x9b\u202e한국어") == r"a\x1b[31mb\n\r\t\x00\x9b\u202e한국어"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("sgemm_128x64", "sgemm_128x64"),
        ("void at::native::fill<at::native::Fill<float>>(int, at::native::Fill<float>)", "fill<Fill<float>>"),
        ("void at::native::(anonymous namespace)::foo<int>(float (*)(int), int)", "foo<int>"),
        (
            "void at::native::vectorized_elementwise_kernel<(int)4, at::native::launch_clamp_scalar(at::Base &)::"
            "[lambda() (instance 1)]::operator ()() const::[lambda(float) (instance 1)], "
            "std::array<char *, (unsigned long)2>>(int, T2, T3)",
            "vectorized_elementwise_kernel<4, launch_clamp_scalar>",
        ),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_tn>(T1::Params)", "cutlass_80_simt_sgemm_tn"),
        ("sm80_gemm_tn_tilesize64x64x8_stage3_execute_kernel__5x_cublas", "sm80_gemm_tn_tilesize64x64x8"),
        ("", ""),
        ("(", "("),
        ("()", "()"),
        ("void ", "void "),
    ],
)  # fmt: skip
def test_kernel_name(name: str, shown: str) -> None:
    assert text.kernel_name(name) == shown


@given(st.text())
def test_kernel_name_never_loses_a_name(name: str) -> None:
    assert text.kernel_name(name) or not name


def test_decimal_points_stand_in_one_column() -> None:
    cells = text.align_decimals(["1135.9", "22.6", "2.69", "0", "–"])
    assert len({len(cell) - (cell.find(".") if "." in cell else len(cell.rstrip())) for cell in cells}) == 1
