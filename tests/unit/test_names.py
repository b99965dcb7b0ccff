"""Families of range names: what folds, what keeps its number, and that nothing else changes."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstall.analyze.names import families, family


def fold(*names: str | None) -> list[str | None]:
    return families(pl.Series("name", list(names), dtype=pl.String)).to_list()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("step_12", "step_*"),
        ("iteration 7", "iteration *"),
        ("batch-3", "batch-*"),
        ("epoch1/step2", "epoch*/step*"),
        ("train step 12", "train step *"),
        ("aten::mm, op_id = 3179", "aten::mm, op_id = *"),
        ("ProfilerStep#5", "ProfilerStep#*"),
        ("trainstep12", "trainstep*"),
        ("학습스텝 3", "학습스텝 *"),
        ("스텝12", "스텝*"),
    ],
)
def test_counting_numbers_become_a_star(name: str, expected: str) -> None:
    assert family(name) == expected


@pytest.mark.parametrize(
    "name",
    [
        "conv2d",
        "bf16",
        "sm80",
        "sm_80",
        "float32",
        "resnet50",
        "h2d",
        "h2d_transfer",
        "layer1",
        "3x3",
        "v2",
        "rank_3",
        "gpu 1",
        "upsample_2",
        "writer_3",
        "step",
        "",
        "data_load",
        "12ms",
        "step_2x",
    ],
)
def test_numbers_that_are_part_of_the_name_stay(name: str) -> None:
    assert family(name) == name
    assert fold(name, "other") == [name, "other"]


def test_a_counting_number_folds_only_where_members_differ_in_it() -> None:
    assert fold("step_0", "data_load") == ["step_0", "data_load"]
    assert fold("step_0", "step_1", "step_0") == ["step_*"] * 3
    assert fold("epoch1/step2", "epoch1/step3") == ["epoch1/step*"] * 2
    assert fold("epoch1/step2", "epoch2/step3") == ["epoch*/step*"] * 2


def test_other_numbers_fold_where_they_are_many_and_dense() -> None:
    assert set(fold(*[f"block_{i}" for i in range(48)])) == {"block_*"}
    assert set(fold(*[f"layers.{i}.mlp" for i in range(8)])) == {"layers.*.mlp"}
    stages = ["layer1", "layer2", "layer3", "layer4"]
    assert fold(*stages) == stages
    sizes = [f"matmul_{2**i}" for i in range(6, 14)]
    assert fold(*sizes) == sizes
    mixed = [f"mm_{n}_step_{i}" for n in (128, 4096) for i in range(3)]
    assert set(fold(*mixed)) == {"mm_128_step_*", "mm_4096_step_*"}


def test_identity_numbers_never_fold() -> None:
    ranks = [f"rank_{i}" for i in range(16)]
    assert fold(*ranks) == ranks
    types = ["bf16", "bf17", "bf18", "bf19", "bf20", "bf21"]
    assert fold(*types) == types


def test_nulls_order_name_and_dictionary_types_survive() -> None:
    assert fold("step_1", None, "step_2", "x") == ["step_*", None, "step_*", "x"]
    coded = pl.Series("n", ["step_1", "x", "step_2", "step_1"], dtype=pl.Categorical)
    folded = families(coded)
    assert folded.to_list() == ["step_*", "x", "step_*", "step_*"]
    assert (folded.name, folded.dtype) == ("n", pl.String)
    assert families(pl.Series("n", [], dtype=pl.String)).len() == 0
    assert fold("a\x001", "a\x002") == ["a\x001", "a\x002"]  # a NUL cannot be told from our own marker: left alone


_NAME = st.text(st.sampled_from("step_ 019.#x스배*\0é"), max_size=12)


@given(st.lists(_NAME, max_size=12))
def test_folding_replaces_digits_by_stars_and_nothing_else(names: list[str]) -> None:
    digits = str.maketrans("", "", "0123456789.x*")  # x: of a hexadecimal number
    for old, new in zip(names, fold(*names), strict=True):
        assert new is not None
        assert new.translate(digits) == old.translate(digits)
        assert new == old or new.count("*") > old.count("*")


@given(st.lists(_NAME, max_size=12))
def test_only_the_set_matters(names: list[str]) -> None:
    once = fold(*names)
    assert fold(*names, *names) == once * 2
    assert fold(*names[::-1]) == once[::-1]
