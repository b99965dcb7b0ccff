"""Names of CUDA calls."""

from __future__ import annotations

import polars as pl
import pytest

from unstall import calls


@pytest.mark.parametrize(
    ("captured", "plain"),
    [
        ("cudaLaunchKernel_v7000", "cudaLaunchKernel"),
        ("cudaGraphLaunch_v10000", "cudaGraphLaunch"),
        ("cudaMemcpyAsync", "cudaMemcpyAsync"),
        ("cudaLaunchKernel_ptsz_v7000", "cudaLaunchKernel"),
        ("cuMemcpyHtoD_v2_ptds", "cuMemcpyHtoD"),
        ("cuLaunchKernel_ptsz", "cuLaunchKernel"),
        ("cuLaunch_view", "cuLaunch_view"),
    ],
)
def test_a_call_goes_by_its_name_without_version(captured: str, plain: str) -> None:
    assert calls.plain(captured) == plain
    assert pl.Series([captured]).str.replace(calls.VERSION, "").item() == plain, "Polars reads the pattern alike"
