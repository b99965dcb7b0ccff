"""A wrong command line, said as everything else that goes wrong: one line, what and why and where to look.

In: an exception of the command-line library (typer brings its own copy of click in some releases and takes click in
others, so it is known by its methods). Out: a line in our words, or the help where nothing was asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

EXIT_CODE = 2
OF = re.compile(r"^Invalid value for (?:'([^']+)'|([^:(]+))(?: \(env var: [^)]*\))?: (.*)$", re.DOTALL)
"""Older releases of typer name the variable of the environment too, even where there is none."""
OURS = (
    (re.compile(r"^(Value|Assertion) error, "), ""),
    (re.compile(r"^\S+ is not a valid integer.*"), "needs a whole number"),
    (re.compile(r"^\S+ is not a valid float.*"), "needs a number"),
    (re.compile(r"^\S+ is not in the range (\S+?)<=x<=(\S+?)\.?$"), r"needs \1 to \2"),
    (re.compile(r"^\S+ is not in the range x>=(\S+?)\.?$"), r"needs \1 or more"),
    (re.compile(r"^Input should be a valid integer.*"), "needs a whole number"),
    (re.compile(r"^Input should be a valid number.*"), "needs a number"),
    (re.compile(r"^Input should be greater than or equal to (\S+).*"), r"needs \1 or more"),
    (re.compile(r"^Input should be greater than (\S+).*"), r"needs more than \1"),
    (re.compile(r"^Input should be less than or equal to (\S+).*"), r"needs \1 or less"),
)
"""Words of the libraries underneath, and ours."""


def is_usage(error: Exception) -> bool:
    """Whether the command-line library refuses the arguments."""
    return callable(getattr(error, "format_message", None)) and hasattr(error, "exit_code")


def told(error: Any, fail: Callable[[str, int], Any]) -> int:
    """Say it and end (``fail``); the help where there were no arguments at all."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return EXIT_CODE
    context = getattr(error, "ctx", None)
    where = context.command_path if context else "unstall"
    fail(f"{_why(error.format_message())}. See {where} --help", EXIT_CODE)
    return EXIT_CODE


def _why(message: str) -> str:
    """``--by: 'foo' is not one of …``, without the prefixes of the libraries."""
    found = OF.match(message)
    named, why = (found[1] or found[2], found[3]) if found else ("", message)
    for pattern, ours in OURS:
        why = pattern.sub(ours, why)
    why = " ".join(why.split()).rstrip(".")
    return f"{named}: {why}" if named else why
