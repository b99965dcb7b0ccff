"""The language of gates: ``slower``, ``step_ms > 30``, ``ratio_high < 0.95 and steps >= 50``. Parsed, never evaluated
as code.

In: text. Out: an :class:`Expression`, and with figures at hand what it finds. Grammar::

    expression = all { "or" all }          all = term { "and" term }
    term       = WORD | NAME OPERATOR NUMBER
    WORD       = faster | slower | inconclusive | no-difference
    OPERATOR   = < | <= | > | >= | == | !=

A term whose figure is not known is neither true nor false; where the outcome hangs on it, it is unknown as well. So is
one whose figure is a count that may be higher (:class:`AtLeast`), unless it comes out the same whatever is added.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from unstall.errors import UsageError

WORDS = {"faster": "faster", "slower": "slower", "inconclusive": "inconclusive", "no-difference": "no difference"}
OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le, ">=": operator.ge, "==": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt,
}  # fmt: skip
HINT = "Write for instance slower, 'step_ms > 30' or 'ratio < 0.95 and steps >= 50'; docs/compare.md lists the names"

LONGEST_SHOWN = 120
_BLANKS = re.compile(r"\s+")
_TOKEN = re.compile(
    r"(?P<op><=|>=|==|!=|<|>)|(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)|(?P<name>[A-Za-z_][\w.-]*)"
)


class AtLeast(float):
    """A count of which not everything was counted."""


@dataclass(frozen=True)
class Term:
    """A word of a verdict, or a figure held against a limit."""

    name: str
    op: str = ""
    limit: float = 0.0

    def __str__(self) -> str:
        return f"{self.name} {self.op} {self.limit:g}" if self.op else self.name

    def holds(self, figures: Mapping[str, float | None], verdict: str | None) -> bool | None:
        if verdict is None and not self.op:
            return True if self.name == "inconclusive" else None
        if not self.op:
            return verdict == WORDS[self.name]
        value = figures[self.name]
        if value is None:
            return None
        possible = (value, max(value, self.limit), math.inf) if isinstance(value, AtLeast) else (value,)
        outcomes = {OPERATORS[self.op](x, self.limit) for x in possible}
        return outcomes.pop() if len(outcomes) == 1 else None


@dataclass(frozen=True)
class Expression:
    """Terms of which all of one group must hold."""

    text: str
    groups: tuple[tuple[Term, ...], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The figures that it asks for."""
        return tuple(dict.fromkeys(term.name for group in self.groups for term in group if term.op))

    def holds(self, figures: Mapping[str, float | None], verdict: str | None) -> tuple[bool | None, tuple[Term, ...]]:
        """True, false or unknown, and the terms that make it true or unknown; no verdict: nothing could be compared."""
        unknown: tuple[Term, ...] = ()
        for group in self.groups:
            found = {term: term.holds(figures, verdict) for term in group}
            if all(found.values()):
                return True, group
            if False not in found.values():
                unknown += tuple(term for term, value in found.items() if value is None)
        return (None if unknown else False), unknown


def parse(text: str) -> Expression:
    """Read an expression.

    Raises:
        UsageError: it is none; the line says where reading stopped.
    """
    tokens = _tokens(text)
    groups: list[tuple[Term, ...]] = []
    group: list[Term] = []
    while True:
        group.append(_term(text, tokens))
        joint = tokens.pop(0) if tokens else None
        if joint is None or joint[1] == "or":
            groups.append(tuple(group))
            group = []
        elif joint[1] != "and":
            raise UsageError(_shown(text), f"'and' or 'or' expected before {joint[1]!r}", HINT)
        if joint is None:
            return Expression(text, tuple(groups))


def _tokens(text: str) -> list[tuple[str, str]]:
    """One look at each letter, however many blanks there are."""
    tokens, at, end = [], 0, len(text.rstrip())
    while at < end:
        match = _BLANKS.match(text, at)
        at = match.end() if match else at
        match = _TOKEN.match(text, at)
        if match is None:
            raise UsageError(_shown(text), f"not understood from {text[at:end][:20]!r} on", HINT)
        tokens.append((str(match.lastgroup), match[str(match.lastgroup)]))
        at = match.end()
    return tokens


def _shown(text: str) -> str:
    """What was written, quoted; the reason that follows must stay in sight."""
    return repr(text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "…")


def _term(text: str, tokens: list[tuple[str, str]]) -> Term:
    if not tokens or tokens[0][0] != "name":
        where = f"before {tokens[0][1]!r}" if tokens else "at its end"
        raise UsageError(_shown(text), f"a name expected {where}", HINT)
    name = tokens.pop(0)[1]
    if not tokens or tokens[0][0] != "op":
        if name not in WORDS:
            raise UsageError(_shown(text), f"{name!r} is no verdict, and no limit follows it", HINT)
        return Term(name)
    op = tokens.pop(0)[1]
    if not tokens or tokens[0][0] != "number":
        raise UsageError(_shown(text), f"a number expected after {op!r}", HINT)
    number = tokens.pop(0)[1]
    if not math.isfinite(float(number)):  # 1e400: nothing reaches it, so the gate could not fail
        raise UsageError(_shown(text), f"{number} is too large a number", HINT)
    return Term(name, op, float(number))
