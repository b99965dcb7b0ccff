"""The demo: a training run that makes its GPU wait, through the whole pipeline.

In: nothing. Out: a profile's path, for as long as it is needed: of the run recorded on an H200 that ships with the
package, with what was measured beside it, or of one made now, on this machine. Both live in a temporary folder and are
gone afterwards.
"""

from __future__ import annotations

import contextlib
import gzip
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unstall.collect import CollectOptions

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


LIVE_STEPS = (20, 45)
"""Steps captured of a live run; the ones before are timed without the profiler."""


@contextlib.contextmanager
def live() -> Iterator[tuple[list[str], CollectOptions]]:
    """The same fault to be run here: a command and how to capture it, in PyTorch (GPU or CPU) or in NumPy."""
    from unstall.collect import CollectOptions

    with tempfile.TemporaryDirectory(prefix="unstall-demo-") as folder:
        script = Path(folder) / "slow_training.py"
        script.write_bytes((files("unstall") / "examples" / script.name).read_bytes())
        yield (
            [sys.executable, str(script)],
            CollectOptions(steps=LIVE_STEPS, output=Path(folder) / "capture", keep_report=False, auto=True),
        )
