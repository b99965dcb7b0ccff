"""What ncu 2025.3 printed on an H200 of kernels with one planted fault each (``benchmarks/gpu/kernel_faults.py``): each
fault is named, and no other."""

from __future__ import annotations

import importlib.util
import lzma
import tarfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from unstall import kernel

ROOT = Path(__file__).parents[2]


def _expected() -> Any:
    found = importlib.util.spec_from_file_location("kernel_check", ROOT / "benchmarks/gpu/kernel_check.py")
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


CHECK = _expected()


def printed(case: str) -> str:
    with lzma.open(ROOT / "tests/data/ncu_h200.tar.xz") as packed, tarfile.open(fileobj=packed) as files:
        file = files.extractfile(f"{case}.csv")
        assert file is not None
        return file.read().decode()


@pytest.mark.parametrize("case", CHECK.WANT)
def test_fault_is_named_and_no_other(case: str) -> None:
    report = msgspec.to_builtins(kernel.read(printed(case)))
    assert CHECK.wrong(case, report) == []
    assert (report["device"], report["launches"]) == ("NVIDIA H200", 2)


def test_the_check_can_fail() -> None:
    report = msgspec.to_builtins(kernel.read(printed("healthy_add")))
    assert CHECK.wrong("few_blocks", report)
