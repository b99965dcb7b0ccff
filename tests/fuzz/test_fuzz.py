"""Some hundred damaged inputs a run, half of them new each time; ``python -m tests.fuzz.run`` does thousands."""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path

import pytest

from . import seeds as good
from .run import answers

COUNT = 250
LIMIT_S = 18.0
"""Inputs are given out no longer than this; on two busy cores fewer than ``COUNT`` may come."""


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    room = tmp_path_factory.mktemp("seeds")
    good.make(room)
    return room


@pytest.mark.parametrize("seed", [1, random.SystemRandom().randrange(2**31)], ids=["fixed", "fresh"])
def test_a_report_or_one_clear_line(seed: int, seeds: Path) -> None:
    workers = min(2, os.cpu_count() or 1)
    found = list(answers(seed, range(COUNT), seeds, workers=workers, limit_s=LIMIT_S))
    faults = [f"{seed} {a['number']} {a['how']}: {a['fault']}" for a in found if a["fault"]]
    assert faults == [], "run again: python -m tests.fuzz.run --seed SEED --keep DIR"
    came = Counter(a["came"] for a in found)
    assert came["report"] > 10 and came["ProfileUnreadable"] + came["NotAProfile"] > 10, came
