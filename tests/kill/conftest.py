"""What the tests of this folder share: captures, and what undisturbed commands make of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .run import prepared
from .trial import Stage


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    yield prepared(tmp_path_factory.mktemp("kill"))
