"""The demo: a real training run, recorded on an H200 and shipped with the package, through the whole pipeline.

In: nothing. Out: the recorded profile's path, for as long as it is needed, and what was measured beside it. The profile
is unpacked into a temporary folder and gone afterwards.
"""

from __future__ import annotations

import contextlib
import gzip
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

RECORDED = "slow_loader_window.sqlite"


@dataclass(frozen=True)
class Truth:
    """Step times measured without the profiler in the process of the recording, ms."""

    unprofiled_ms: float
    fixed_ms: float
    remedy: str


TRUTH = Truth(unprofiled_ms=26.99, fixed_ms=2.69, remedy="batches loaded by 8 worker processes into pinned memory")
"""Of the recording: PyTorch 2.11 on one H200, 25 steady steps under nsys 2025.3; medians of the same process."""


@contextlib.contextmanager
def recorded() -> Iterator[Path]:
    """The recorded profile as a file."""
    with tempfile.TemporaryDirectory(prefix="unstall-demo-") as folder:
        path = Path(folder) / RECORDED
        packed = files("unstall") / "data" / f"{RECORDED}.gz"
        with packed.open("rb") as raw, gzip.open(raw) as source, path.open("wb") as target:
            shutil.copyfileobj(source, target)
        yield path
