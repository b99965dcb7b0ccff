"""Find what stalls your GPU, fix it, prove it: the public API, one name a thing, imported when first used.

    profile = unstall.load("run.sqlite")          # tables as Polars frames
    analysis = unstall.analyze(profile)           # ranges, device work, steps
    report = unstall.diagnose(analysis)           # figures and findings; JSON through unstall.to_json
    report = unstall.report_of("run.sqlite")      # all three
    comparison = unstall.compare(report, other)   # which is faster, how sure that is, what moved
    merged = unstall.ranks(["runs/a"])             # a report a rank, merged: stragglers, imbalance

In a training script: ``annotate``, ``step``, ``prefetch``, ``resident``.

A stage is a package that can be called by its own name, so ``unstall.load(path)`` and ``unstall.load.stats`` both work.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from unstall import _version

_STAGES = ("load", "analyze", "diagnose", "collect", "compare", "ranks")
"""Packages whose function of the same name is public."""

_MODEL = (
    "Analysis", "BreakdownRow", "CallRow", "Category", "CategoryPart", "CollectiveRow", "Comparison", "CopyRow",
    "Evidence", "FailedRank", "Finding", "FixText", "Gpu", "GpuMetricsRow", "Imbalance", "Jump", "KernelRow",
    "MemsetRow", "Merged", "Meta", "Moved", "NotChecked", "Omitted", "Period", "Process", "Profile", "ProfileFacts",
    "RangeRow", "RangeShare", "RankClock", "RankFinding", "RankRow", "Ranks", "RanksClock", "Report", "SampleRow",
    "Stacks", "StepFigure", "StepGpu", "StepTable", "StepsRow", "Straggler", "Timeline", "TimelineGroup",
    "TimelineTrack", "Track", "Warning_", "Where",
)  # fmt: skip
_ERRORS = ("CollectionFailed", "GateFailed", "NotAProfile", "ProfileUnreadable", "UnstallError", "UsageError")

_PUBLIC = {
    **dict.fromkeys(_MODEL, "unstall.model"),
    **dict.fromkeys(_ERRORS, "unstall.errors"),
    "report_of": "unstall.pipeline",
    "Capture": "unstall.collect",
    "CollectOptions": "unstall.collect",
    "explain": "unstall.diagnose",
    "annotate": "unstall.instrument",
    "step": "unstall.instrument",
    "prefetch": "unstall.fix.prefetch",
    "resident": "unstall.fix.resident",
    "from_json": "unstall.report.json",
    "to_json": "unstall.report.json",
    "to_markdown": "unstall.report.markdown",
}
"""Name → the module that defines it."""

__version__ = _version.VERSION
__all__ = [*_PUBLIC, *_STAGES, "__version__"]  # noqa: PLE0604 (kept in one place: the table above)

if TYPE_CHECKING:
    from unstall.analyze import analyze as analyze
    from unstall.collect import Capture as Capture
    from unstall.collect import CollectOptions as CollectOptions
    from unstall.collect import collect as collect
    from unstall.compare import compare as compare
    from unstall.diagnose import diagnose as diagnose
    from unstall.diagnose import explain as explain
    from unstall.errors import *  # noqa: F403
    from unstall.fix.prefetch import prefetch as prefetch
    from unstall.fix.resident import resident as resident
    from unstall.instrument import annotate as annotate
    from unstall.instrument import step as step
    from unstall.load import load as load
    from unstall.model import *  # noqa: F403
    from unstall.pipeline import report_of as report_of
    from unstall.ranks import ranks as ranks
    from unstall.report.json import from_json as from_json
    from unstall.report.json import to_json as to_json
    from unstall.report.markdown import to_markdown as to_markdown


def __getattr__(name: str) -> Any:
    if name in _STAGES:
        return import_module(f"unstall.{name}")
    if name in _PUBLIC:
        value = getattr(import_module(_PUBLIC[name]), name)
        globals()[name] = value  # the next time it is an attribute: annotate() must cost next to nothing
        return value
    raise AttributeError(f"module 'unstall' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__


def _html(record: Any) -> str | None:
    from unstall.report import inline

    return inline.to_html(record)


def _text(record: Any) -> str | None:
    from unstall.report import inline

    return inline.to_text(record)


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext unstall``: the magics ``%unstall`` and ``%%unstall``."""
    from unstall.notebook import load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """``%unload_ext unstall``."""
    from unstall.notebook import unload

    unload(shell)


class _Stage(ModuleType):
    """A stage's package, called by its own name."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return getattr(self, self.__name__.rpartition(".")[2])(*args, **kwargs)


class _Package(ModuleType):
    """Importing a stage binds its package here, whoever imports it first: the moment at which it becomes callable."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _STAGES and type(value) is ModuleType:
            value.__class__ = _Stage
        if name == "model" and type(value) is ModuleType:
            value.views.update(html=_html, text=_text)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
