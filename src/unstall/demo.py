"""The demo: a training run that makes its GPU wait, through the whole loop, its remedy measured.

In: nothing. Out: of the run recorded on an H200 that ships with the package, the profile's path for as long as it is
needed, and the step times with and without the remedy; of one made on this machine now, the command, how to capture it,
and a trial of the remedy. Files live in a temporary folder and are gone afterwards.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import importlib.util
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unstall.collect import CollectOptions
    from unstall.model import Comparison, Report
    from unstall.trial import Outcome

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


def recorded_verdict(language: str = "en") -> Comparison:
    """Before against after, by the step times that were recorded in the same process without a profiler."""
    from unstall.compare import compare, steplog

    folder = files("unstall") / "data"
    sides = [folder / f"slow_loader_{side}.txt" for side in ("before", "after")]
    before, after = (steplog.read(side.read_text(encoding="utf-8"), side.name) for side in sides)
    return compare(before, after, language=language)


LIVE_STEPS = (20, 45)
"""Steps captured of a live run; the ones before are timed without the profiler."""


@contextlib.contextmanager
def live() -> Iterator[tuple[list[str], CollectOptions]]:
    """The same fault to be run here: a command and how to capture it, in PyTorch (GPU or CPU) or in NumPy."""
    from unstall.collect import CollectOptions

    with tempfile.TemporaryDirectory(prefix="unstall-demo-") as folder:
        script = Path(folder) / "slow_training.py"
        script.write_bytes((files("unstall") / "examples" / script.name).read_bytes())
        backend = [] if has_torch() else ["--backend", "numpy"]
        yield (
            [sys.executable, str(script), *backend],
            CollectOptions(steps=LIVE_STEPS, output=Path(folder) / "capture", keep_report=False, auto=True),
        )


TRIED_STEPS = 45  # a run: 5 of warm-up and 40 to measure, one second of them
SHORTEST_TRIAL_S = 10.0  # two short runs with PyTorch's import: less time than that shows nothing
NUMPY_REMEDY = "prefetch"
"""Without PyTorch there is no DataLoader to switch: the script itself draws ahead, through ``unstall.prefetch``."""


def tried(command: Sequence[str], report: Report | None, *, seconds: float, say: Callable[[str], None]) -> Outcome:
    """The loop as it is and with its batches made by worker processes, in turns, without a profiler.

    Args:
        command: of :func:`live`.
        report: of its profile, for what was predicted.
        seconds: that all runs together may take.
        say: shows progress.

    Raises:
        CollectionFailed: the loop cannot be run here.
    """
    from unstall.fix.dataloader_workers import REMEDY
    from unstall.trial import Plan, attempt, choose, runs

    predicted = choose.from_findings(report)[1].get(REMEDY.name) if report else None
    torch = has_torch()
    name = REMEDY.name if torch else NUMPY_REMEDY
    once: Callable[..., Any] = runs.once if torch else functools.partial(_once_in_numpy, runs.once)
    plan = Plan(
        [*command, "--steps", "1000"], [name], {name: predicted} if predicted else {}, budget=seconds, steps=TRIED_STEPS
    )
    return attempt(plan, say=say, once=once)


def _once_in_numpy(once: Callable[..., Any], command: Sequence[str], names: Sequence[str], **limits: Any) -> Any:
    """One run of the NumPy loop; the remedy is an option of the script."""
    from unstall.fix.dataloader_workers import workers

    return once([*command, "--ahead", str(workers())] if names else command, [], **limits)


def has_torch() -> bool:
    """Whether the loop runs in PyTorch; nothing is imported."""
    return importlib.util.find_spec("torch") is not None
