"""One exception tree. Each error carries its exit code and the next step for the person who meets it.

    UnstallError                 1   anything we refuse to guess about
    ├── GateFailed               1   a gate of ``compare``, ``baseline`` or a budget did not hold
    ├── UsageError               2   the request itself cannot be met (bad option, bad expression)
    ├── CollectionFailed         3   a profiler could not be run, or left nothing behind
    └── ProfileUnreadable        4   a file cannot be read as a profile
        └── NotAProfile          4   readable, but something else

``cli.main`` is the one place that catches them: it prints one line, ``what: why. next step``, and exits with
``exit_code``. Everything in: strings. Out: exceptions. Imports nothing of ours.
"""

from __future__ import annotations

__all__ = [
    "CollectionFailed",
    "GateFailed",
    "NotAProfile",
    "ProfileUnreadable",
    "UnstallError",
    "UsageError",
]


class UnstallError(Exception):
    """What went wrong, why, and what to do next, in one line.

    Args:
        what: the thing that failed, for instance a path.
        why: the reason, in a few words.
        hint: the next step for the reader; may be empty.
    """

    exit_code = 1

    def __init__(self, what: str, why: str = "", hint: str = "") -> None:
        self.what, self.why, self.hint = what, why, hint
        super().__init__(str(self))

    def __str__(self) -> str:
        line = f"{self.what}: {self.why}" if self.why else self.what
        return f"{line}. {self.hint}" if self.hint else line


class GateFailed(UnstallError):
    """A gate did not hold (exit code 1)."""

    exit_code = 1


class UsageError(UnstallError):
    """The request cannot be met as it stands (exit code 2)."""

    exit_code = 2


class CollectionFailed(UnstallError):
    """A profiler could not be run, or left nothing behind (exit code 3)."""

    exit_code = 3


class ProfileUnreadable(UnstallError):
    """A file cannot be read as a profile (exit code 4)."""

    exit_code = 4


class NotAProfile(ProfileUnreadable):
    """The file is readable, but holds something else (exit code 4)."""
