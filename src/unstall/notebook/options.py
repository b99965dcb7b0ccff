"""The line behind ``%%unstall`` and ``%unstall``.

In: text as typed. Out: :class:`Asked`, or :class:`~unstall.errors.UsageError` in one line. Names are those of
``unstall run`` and ``unstall report``.
"""

from __future__ import annotations

import argparse
import keyword
import shlex
from dataclasses import dataclass
from typing import NoReturn

from unstall.errors import UsageError

HELP = {
    "cell": "Collects this cell and reports on it.",
    "line": "Reports on a profile: an export, a capture, a report as JSON, nsys stats text.",
}


@dataclass(frozen=True)
class Asked:
    """What was typed.

    Attributes:
        path: of a profile (line magic).
        auto: ranges for PyTorch training without an edit.
        steps: first training step to capture and the one after the last.
        name: what the capture is called; the cell's own number without it.
        lang: language of the report.
        variable: where the report goes in the user's namespace.
        save: file for the capture itself; kept nowhere without it.
        step: regular expression for the step ranges.
        unprofiled_ms: step time without the profiler, where known.
        quiet: show nothing.
    """

    path: str = ""
    auto: bool = False
    steps: tuple[int, int] | None = None
    name: str = ""
    lang: str = "en"
    variable: str = ""
    save: str = ""
    step: str | None = None
    unprofiled_ms: float | None = None
    quiet: bool = False


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(self.prog, message, f"{self.prog} --help lists the options")


def parser(kind: str) -> argparse.ArgumentParser:
    """The options of the ``cell`` or the ``line`` magic."""
    made = _Parser(prog="%%unstall" if kind == "cell" else "%unstall", description=HELP[kind])
    if kind == "cell":
        made.add_argument("--auto", action="store_true", help="ranges for PyTorch training without an edit")
        made.add_argument("--steps", metavar="A:B", help="capture training steps A to B-1 only")
        made.add_argument("--name", default="", help="what the capture is called")
        made.add_argument("--save", default="", metavar="FILE", help="keep the capture, for unstall report FILE")
        made.add_argument("--quiet", action="store_true", help="show no report; for use with -o")
    else:
        made.add_argument("path", help="the profile")
        made.add_argument("--unprofiled-ms", type=float, metavar="X", help="step time without the profiler")
    made.add_argument("--step", metavar="REGEX", help="ranges that are the training steps")
    made.add_argument("--lang", choices=["en", "ko"], default="en", help="language of the report")
    made.add_argument("-o", "--output", default="", metavar="VAR", dest="variable", help="keep the report in VAR")
    return made


def parse(line: str, kind: str) -> Asked:
    """What was typed behind the magic.

    Raises:
        UsageError: it cannot be understood.
    """
    from unstall.instrument import parse_steps

    name = "%%unstall" if kind == "cell" else "%unstall"
    try:
        typed = vars(parser(kind).parse_args(shlex.split(line)))
        if typed.get("steps"):
            typed["steps"] = parse_steps(typed["steps"])
    except ValueError as error:  # a quotation without its end, too
        raise UsageError(name, str(error), f"{name} --help lists the options") from error
    asked = Asked(**typed)
    if asked.variable and (not asked.variable.isidentifier() or keyword.iskeyword(asked.variable)):
        raise UsageError(f"-o {asked.variable}", "no name of a variable", f"{name} -o report")
    return asked
