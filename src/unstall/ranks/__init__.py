"""Many ranks, one answer: a report a rank through the same pipeline, reduced to what tells ranks apart, merged.

In: folders, patterns or addresses of captures. Out: a :class:`~unstall.model.Report` whose ``ranks`` holds them all.

    places      what was named → the files to read; remote ones through fsspec
    summary     one file → what is kept of it (with anatomy: its steps, and collectives: its meetings)
    worker      the process that does so; pool: several of them here; cluster: on Dask
    numbers     which rank each is
    relation    which of them are of one job
    clocks      one time for all of them
    matching    the same step and the same collective, across ranks
    waits       who waited for whom
    judge       why, and what it costs
    merge       all of that in order
    terminal, markdown, html    what people see of it

No process ever holds more than one capture; the merging one holds their summaries, tens of kilobytes each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unstall.model import Report

__all__ = ["ranks"]


def ranks(
    places: Sequence[str],
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    step: str | None = None,
    cache: bool = True,
    patience: float = 600.0,
    language: str = "en",
    say: Callable[[str], None] | None = None,
) -> Report:
    """Read every rank's capture and merge them.

    Args:
        places: files, folders (searched below), patterns (``runs/rank*.sqlite``), or addresses that fsspec opens.
        workers: processes on this machine; as many as cores and memory allow by default.
        scheduler: address of a Dask scheduler, whose workers do the reading instead.
        step: regular expression that names the step ranges; found automatically without it.
        cache: keep and use what was read of a file before.
        patience: seconds after which the reading of one file is given up.
        language: of what the outputs show; ``en`` or ``ko``.
        say: told of progress, one line at a time.

    Raises:
        UsageError: nothing was named that could be read, or the scheduler cannot be reached.
        ProfileUnreadable: not one rank could be read.
    """
    from unstall.ranks.flow import run

    return run(
        list(places), workers=workers, scheduler=scheduler, step=step, cache=cache, patience=patience,
        language=language, say=say,
    )  # fmt: skip
