"""The magics in IPython's terms: how a cell is run, where its error goes, what is shown.

In: a shell of IPython (duck-typed: nothing of IPython is imported before it is needed). Out: the cell's own output as
ever, then the report. An error of the cell is shown as usual, where it happened; what was captured until then is
reported below it, and the cell still counts as failed, so that "run all" stops there as ever.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NoReturn

from unstall.errors import UnstallError, UsageError
from unstall.notebook.options import parse

if TYPE_CHECKING:
    from unstall.model import Report
    from unstall.notebook.cell import Seen
    from unstall.notebook.options import Asked

AWAITS = "a cell with await outside of a function cannot be collected"


class Magics:
    """``%unstall`` and ``%%unstall`` of one shell."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self._count = 0

    def line(self, line: str) -> Report | None:
        """%unstall PATH [--step REGEX] [--unprofiled-ms X] [--lang ko] [-o VAR]: the report of a profile."""
        from unstall.commands.compare import read_side
        from unstall.pipeline import report_of

        try:
            asked = parse(line, "line")
            if asked.path.endswith(".json") and asked.step is None and asked.unprofiled_ms is None:
                report = read_side(asked.path)
            else:
                unprofiled = None if asked.unprofiled_ms is None else round(asked.unprofiled_ms * 1e6)
                report = report_of(asked.path, step=asked.step, unprofiled_ns=unprofiled, language=asked.lang)
        except SystemExit:  # --help has said it all
            return None
        except UnstallError as error:
            _refuse(error)
        if not asked.variable:
            return report
        self.shell.user_ns[asked.variable] = report
        return None

    def cell(self, line: str, cell: str) -> None:
        """%%unstall [--auto] [--steps A:B] [--name NAME] [--lang ko] [-o VAR] [--save FILE]: collect this cell."""
        from unstall.notebook.cell import collect

        try:
            asked = parse(line, "cell")
            self._check(cell)
            self._count += 1
            seen = collect(lambda: self.shell.run_cell(cell), asked, asked.name or f"cell-{self._count}")
        except SystemExit:
            return
        except UnstallError as error:
            _refuse(error)
        if seen.result.error_before_exec is not None:  # it is not Python: nothing has run
            raise _failed(seen.result.error_before_exec)
        self._report(seen, asked)
        if seen.result.error_in_exec is not None:
            raise _failed(seen.result.error_in_exec)

    def _report(self, seen: Seen, asked: Asked) -> None:
        if asked.variable:
            self.shell.user_ns[asked.variable] = seen.report
        for note in seen.notes:
            print(f"unstall: {note}", file=sys.stderr)
        if seen.report is not None and not asked.quiet:
            getattr(self.shell, "display", _show)(seen.report)

    def _check(self, cell: str) -> None:
        """An awaiting cell would need the very loop that waits for this one."""
        awaits = getattr(self.shell, "should_run_async", None)
        if awaits is not None and awaits(cell, transformed_cell=self.shell.transform_cell(cell)):
            raise UsageError("%%unstall", AWAITS, "Put it into a function and run that with asyncio in a thread")


def _show(report: Report) -> None:
    from IPython import display

    show: Any = display.display
    show(report)


def _refuse(error: UnstallError) -> NoReturn:
    """One line, as IPython shows a magic that was misused."""
    from IPython.core.error import UsageError as Misused

    raise Misused(str(error)) from None


def _failed(error: BaseException) -> Exception:
    """An error that says that the cell failed; the traceback stands where it happened and is not shown again."""

    def _render_traceback_(self: Exception) -> list[str]:
        return []

    kind: type[Exception] = type(type(error).__name__, (Exception,), {"_render_traceback_": _render_traceback_})
    return kind(str(error)).with_traceback(error.__traceback__)
