"""The list of remedies holds together: names, codes, and every trial and patch that a finding speaks of."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import unstall
from unstall.diagnose.registry import rules
from unstall.fix.remedy import Remedy, named, remedies

SOURCE = Path(unstall.__file__).parent


def test_names_and_aliases_are_unique() -> None:
    names = [n for r in remedies() for n in r.names]
    assert len(names) == len(set(names)) >= 15


def test_everything_that_findings_name_is_there() -> None:
    texts = "\n".join(p.read_text(encoding="utf-8") for p in (SOURCE / "diagnose").glob("*.py"))
    spoken = set(re.findall(r"\b(?:trial|patch)=\"([\w-]+)\"", texts))
    assert len(spoken) >= 8
    assert not spoken - {n for r in remedies() for n in r.names}


def test_codes_are_codes_of_findings() -> None:
    codes = {rule.code for rule in rules()}
    assert not {c for r in remedies() for c in r.codes} - codes


@pytest.mark.parametrize("remedy", remedies(), ids=lambda r: r.name)
def test_each_can_be_tried_and_says_what_to_write(remedy: Remedy) -> None:
    assert remedy.switch or remedy.environ or remedy.by_patch
    assert remedy.write and remedy.title and remedy.codes
    assert 0 < remedy.tolerance <= 0.05
    assert remedy.safety != "safe" or remedy.tolerance <= 1e-3
    assert named([remedy.name]) == [remedy]
