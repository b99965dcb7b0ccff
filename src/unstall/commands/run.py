"""``unstall run``: capture a program, report on the capture, and end as the program ended.

In: the program's command, options as typed, where outputs go. Out: the program's own output as it comes, then the
report, also as a page beside the capture; on standard error what happened meanwhile, and as the last line whose exit
code this is.
"""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from unstall.commands.files import STDOUT
from unstall.commands.progress import Tell, teller
from unstall.errors import UnstallError, UsageError

if TYPE_CHECKING:
    from unstall.collect import Capture, CollectOptions
    from unstall.commands.report import Seen

NSYS_ARGS = "--nsys-args"
PAGE = "report.html"


def run(
    command: Sequence[str],
    targets: dict[str, str],
    *,
    options: CollectOptions,
    top: int = 10,
    by: Literal["total", "self", "gpu"] = "total",
    step: str | None = None,
    page: bool = True,
    language: str = "en",
) -> int:
    """Run, capture, report. Returns the program's exit code.

    ``page`` leaves the report as a page beside the capture, unless one is asked for elsewhere.
    """
    from unstall.collect import Interrupted, collect
    from unstall.collect.ranks import rank_of

    rank = rank_of()
    tell = teller(language, f"rank {rank.number}" if rank else "")
    if rank:
        targets = {kind: _of_rank(target, rank.number) for kind, target in targets.items()}
    with _program_output(aside=STDOUT in targets.values()):
        try:
            capture = collect(command, options, say=tell)
        except Interrupted as interrupted:
            tell("interrupted before the capture was complete: nothing was kept")
            return interrupted.code
    _where(capture, tell)
    if capture.sqlite is not None:
        page = page and not targets.get("html")
        _report(
            capture.sqlite, targets, page, tell, () if rank else command, top=top, by=by, step=step, language=language
        )
    _together(capture, tell)
    program = Path(command[0]).name
    if capture.exit_code_lost:
        tell(f"exit code {capture.exit_code}: {program} ended, and its own code went with the nsys that hung")
    else:
        tell(f"exit code {capture.exit_code} is the program's own ({_ended(program, capture.exit_code)})")
    return capture.exit_code


def _of_rank(target: str, rank: int) -> str:
    """A file of this rank's own: all ranks are given the same name."""
    return target if not target or target == STDOUT else str(Path(target).with_stem(f"{Path(target).stem}-rank-{rank}"))


def _ended(program: str, code: int) -> str:
    """Exit codes from 129 on are a shell's way to say which signal."""
    return f"{program}: {signal.Signals(code - 128).name}" if code - 128 in set(signal.Signals) else program


def asked(**typed: Any) -> CollectOptions:
    """Options as typed on the command line → :class:`~unstall.collect.CollectOptions`."""
    from unstall.collect import CollectOptions
    from unstall.instrument import parse_steps

    steps, trace, output = typed.pop("steps"), typed.pop("trace"), typed.pop("output")
    try:
        return CollectOptions(
            steps=parse_steps(steps) if steps else None,
            trace=tuple(t.strip() for t in (trace or "").split(",") if t.strip()),
            output=Path(output) if output else None,
            nsys_args=tuple(shlex.split(typed.pop("nsys_args") or "")),
            **typed,
        )
    except ValueError as error:
        raise UsageError("--steps" if steps else NSYS_ARGS, str(error), "See unstall run --help") from error


def join_nsys_args(words: Sequence[str]) -> list[str]:
    """All words from ``--nsys-args`` up to ``--`` as the one value of that option."""
    if NSYS_ARGS not in words or "--" not in words[words.index(NSYS_ARGS) :]:
        return list(words)
    first = words.index(NSYS_ARGS) + 1
    end = words.index("--", first)
    some = words[first:end]
    value = some[0] if len(some) == 1 else shlex.join(some)
    return [*words[:first], *([value] if some else [""]), *words[end:]]


def _report(sqlite: Path, targets: dict[str, str], page: bool, tell: Tell, command: Sequence[str], **how: Any) -> None:
    """The program has run: whatever goes wrong from here is a line, and the exit code stays the program's."""
    from unstall.collect import Interrupts
    from unstall.commands import report

    try:
        with Interrupts(tell).handled():
            seen = report.run([str(sqlite)], targets, events=page, **how)
            if page:
                _leave_page(seen, sqlite.parent / PAGE, tell)
        _next(seen, sqlite, command, tell)
    except UnstallError as error:
        tell(str(error))
    except KeyboardInterrupt:
        tell(f"the report was given up; the capture is kept: {sqlite}")
    except Exception as error:
        tell(f"internal error while reporting: {type(error).__name__}: {error}. The capture is kept: {sqlite}")


def _leave_page(seen: list[Seen], file: Path, tell: Tell) -> None:
    """The report as a page that nobody asked for: it may fail, and nothing else does for that."""
    try:
        from unstall.commands.files import write
        from unstall.commands.report import rendered
        from unstall.report.html import OUTPUT

        write(str(file), rendered(OUTPUT, seen))
    except Exception as error:
        tell(f"no {PAGE} was left: {error}")
        return
    tell(f"the report as a page: {os.path.relpath(file)}")


def _next(seen: list[Seen], sqlite: Path, command: Sequence[str], tell: Tell) -> None:
    """The command that measures the fixes, where a finding has one that can be tried; not one a rank."""
    if command and any(f.fix.trial for s in seen for f in s.report.findings):
        words = ["unstall", "try", "--profile", os.path.relpath(sqlite), "--", *command]
        tell(f"next, what the fixes gain: {shlex.join(words)}")


def _together(capture: Capture, tell: Tell) -> None:
    """How to see all ranks: where they are in this capture, or told by the first of those that have one each."""
    if capture.directory is None or capture.rank:
        return
    folder = capture.directory if capture.rank is None else capture.directory.parent
    shown = shlex.quote(os.path.relpath(folder))
    if capture.rank == 0:
        tell(f"when all ranks have ended, side by side: unstall ranks {shown}")
    elif capture.ranks:
        tell(f"{len(capture.ranks)} ranks are in it, side by side: unstall ranks {shown}")


def _where(capture: Capture, tell: Tell) -> None:
    if capture.directory is None:
        tell("no capture was kept")
        return
    kept = [path.name for path in (capture.sqlite, capture.report) if path is not None]
    folder, size = os.path.relpath(capture.directory), f"{capture.size_bytes / 1e6:,.1f} MB"
    tell(f"captured by {capture.collector} {capture.version} in {folder} ({size}): {', '.join(kept)}")


@contextmanager
def _program_output(*, aside: bool) -> Iterator[None]:
    """Where an output of ours goes to standard output, the program's goes to standard error: they must not mix."""
    if not aside:
        yield
        return
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
