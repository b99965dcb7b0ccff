"""A step time without the profiler that does not go with the capture is told, and why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from unstall.analyze import analyze
from unstall.model import Profile
from unstall.testing import TraceBuilder, ms, us


def eight_ms() -> Profile:
    t = TraceBuilder()
    for i in range(12):
        t.range(f"step_{i}", i * ms(8), (i + 1) * ms(8) - us(1))
        t.launch("gemm", i * ms(8) + ms(6), kernel_dur=ms(1))
    return t.profile()


@pytest.mark.parametrize(
    ("given", "stored", "says"),
    [
        (ms(8), None, ""), (ms(15), None, ""),
        (ms(80), None, "unless threads contend"), (ms(0.1), None, "cannot be of this run"),
        (ms(80), ms(80), "waits less while it is traced"), (ms(80), ms(70), "unless threads contend"),
        (ms(0.1), ms(0.1), "cannot be of this run"),
    ],
)  # fmt: skip
def test_what_was_measured_in_the_same_run_is_believed(given: int, stored: int | None, says: str) -> None:
    profile = eight_ms()
    profile = replace(profile, meta=replace(profile.meta, unprofiled_ns=stored))
    told = [w.text for w in analyze(profile, unprofiled_ns=given).report.warnings if w.code == "unprofiled-doubtful"]
    assert len(told) == bool(says) and all(says in text for text in told)
