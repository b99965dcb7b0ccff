"""The way from what was named to the merged report.

In: places and how to read them. Out: :class:`~unstall.model.Report` with ``ranks``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath

from unstall._version import VERSION
from unstall.errors import ProfileUnreadable, UsageError
from unstall.model import Gpu, ProfileFacts, Ranks, Report, Warning_
from unstall.ranks import places
from unstall.ranks.summary import FileSummary

TELL_EVERY_S = 5.0


def run(
    named: list[str],
    *,
    workers: int | None,
    scheduler: str | None,
    step: str | None,
    cache: bool,
    patience: float,
    language: str,
    say: Callable[[str], None] | None,
) -> Report:
    """See :func:`unstall.ranks.ranks`."""
    if workers is not None and workers < 1:
        raise UsageError(f"--workers {workers}", "at least one must read", "Leave it out to have as many as fit")
    there = places.find(named)
    files = [p.name for p in there]
    asked: dict[str, object] = {"step": step, "cache": cache}
    found = list(_told(_read(files, workers, scheduler, patience, asked), len(files), say))
    from unstall.ranks.merge import merge

    merged, warnings = merge(found)
    if not merged.ranks:
        raise ProfileUnreadable(*_none(named, found))
    return _report(named, found, merged, [*places.repeated(there), *warnings], language)


def _read(
    files: Sequence[str], workers: int | None, scheduler: str | None, patience: float, asked: dict[str, object]
) -> Iterator[FileSummary]:
    if scheduler:
        from unstall.ranks import cluster

        yield from cluster.read(files, scheduler, patience=patience, **asked)
        return
    from unstall.ranks.pool import Pool, default_workers

    with Pool(min(workers or default_workers(files), len(files)), patience=patience, **asked) as pool:
        yield from pool.read(files)


def _told(found: Iterator[FileSummary], count: int, say: Callable[[str], None] | None) -> Iterator[FileSummary]:
    """The same, telling of progress now and then."""
    last = time.monotonic()
    for number, summary in enumerate(found, 1):
        yield summary
        if say and time.monotonic() - last > TELL_EVERY_S:
            last = time.monotonic()
            say(f"{number} of {count} captures read")


def _none(named: Sequence[str], found: Sequence[FileSummary]) -> tuple[str, str, str]:
    """Why not one rank could be read."""
    shown = named[0] if len(named) == 1 else f"{len(named)} places"
    first = next(f for f in found if f.error)
    return (
        shown,
        f"not one of {len(found)} captures could be read; the first: {first.error}",
        f"Try it alone: unstall report {first.file}",
    )


def _report(
    named: Sequence[str], found: Sequence[FileSummary], merged: Ranks, warnings: list[Warning_], language: str
) -> Report:
    from unstall.lang import told

    good = [f for f in found if not f.error]
    facts = ProfileFacts(
        path=named[0] if len(named) == 1 else f"{PurePath(named[0]).name} …",
        producer=", ".join(sorted({f.producer for f in good})),
        producer_version=", ".join(sorted({f.version for f in good if f.version})),
        schema_version="",
        duration_ns=max((f.duration_ns for f in good if f.duration_ns), default=None),
        gpus=[Gpu(device=r.device, name=r.gpu) for r in merged.ranks if r.device is not None],
    )
    facts.path = places.plain(facts.path)
    return told(Report(unstall_version=VERSION, profile=facts, ranks=merged, warnings=warnings), language)
