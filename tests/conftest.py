"""What every test may use: real captures by name, and a cache folder that is nobody's."""

from __future__ import annotations

import lzma
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest

DATA = Path(__file__).parent / "data"
MORE = Path(__file__).parents[2] / "shared" / "profiles"
"""Captures too large to ship with the tests; a checkout may have them beside it."""


hypothesis.settings.register_profile("untimed", deadline=None)  # a busy machine is no failure
hypothesis.settings.load_profile("untimed")


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test reads what another run left, or leaves anything in the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNSTALL_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        patch.delenv("UNSTALL_CACHE", raising=False)
        patch.delenv("UNSTALL_LANG", raising=False)
        yield


@pytest.fixture(scope="session")
def profile_path(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """``profile_path("twoproc")`` → that capture, unpacked. Skips when it is not to be had.

    Tests share the file: one that changes it makes a copy first.
    """
    room = tmp_path_factory.mktemp("profiles")

    def unpacked(name: str) -> Path:
        target = room / f"{name}.sqlite"
        if not target.exists():
            packed = next((p for d in (DATA, MORE) if (p := d / f"{name}.sqlite.xz").exists()), None)
            if packed is None:
                pytest.skip(f"the capture {name}.sqlite.xz is not in tests/data, nor in {os.path.relpath(MORE)}")
            with lzma.open(packed) as source, target.open("wb") as file:
                shutil.copyfileobj(source, file)
        return target

    return unpacked
