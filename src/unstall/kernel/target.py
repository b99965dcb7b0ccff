"""Which kernel to measure, and which of its launches.

In: a name or regular expression from the user, or the report of a profile. Out: :class:`Target`.

The kernel that matters is the one that the report's verdict names, else the one that takes most of the kernels' time;
communication is left out, because a collective measured alone waits for ranks that never come. Launches of the first
steps are skipped: they find a cold cache, a GPU that has not raised its clocks, and libraries still choosing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from unstall.diagnose import kernels
from unstall.errors import UsageError
from unstall.model import Finding, KernelRow, Report

COUNT = 3
"""Launches measured; figures are medians. Each is replayed some twenty times, once a group of counters."""
WARM_STEPS = 5
SKIP = 20
"""Launches skipped where no profile says how many a step has."""
ANY_SKIP, ANY_COUNT = 300, 40
"""Where nothing says which kernel matters: past initialisation, then enough launches to see the longest one."""
UNSTABLE = re.compile(
    r"<unnamed>|\(anonymous namespace\)|\((?:unsigned )?(?:int|long|bool|char|short)\)|\b\d+u?l?\b|\s"
)
WORD = re.compile(r"[A-Za-z_]\w{3,}")
COMMON = frozenset({"void", "float", "double", "unsigned", "const", "native", "anonymous", "namespace", "unnamed",
                    "array", "char", "long", "bool", "cutlass", "type"})  # fmt: skip
TOKENS = 3


@dataclass(frozen=True)
class Target:
    """What ncu is asked for.

    Attributes:
        pattern: regular expression over demangled names; empty for every kernel.
        skip, count: launches that match: how many to leave out, how many to measure.
        name: the kernel's full name where a profile told it.
        why: why this kernel, in words.
        share: of all kernel time in the profile, percent.
    """

    pattern: str = ""
    skip: int = SKIP
    count: int = COUNT
    name: str = ""
    why: str = ""
    share: float | None = None

    def fits(self, kernel: str) -> bool:
        """Whether a launch's name is this kernel's; profilers print the same name differently."""
        if self.name:
            return plain(kernel) == plain(self.name)
        return bool(re.search(self.pattern, kernel))


def named(name: str, report: Report | None = None) -> Target:
    """The kernel that the user names: a whole name, a part of one, or a regular expression.

    Raises:
        UsageError: no regular expression.
    """
    try:
        wanted = re.compile(name)
    except re.error as error:
        raise UsageError(name, f"no regular expression ({error})", "Put a backslash before ( ) [ ] * + ?") from error
    rows = [r for r in (report.kernels or [] if report else []) if wanted.search(r.name)]
    if not rows:
        return Target(pattern=name, why="named by you")
    return _of(rows[0], report, "named by you")


def from_report(report: Report) -> Target | None:
    """The kernel that the report says matters; ``None`` where it has no kernels."""
    rows = [r for r in report.kernels or [] if kernels.family(r.name) != kernels.COMMUNICATION]
    if not rows:
        return None
    said = next(_named_by(report.findings, rows), None)
    if said is not None:
        return _of(said[1], report, f"named by the finding {said[0].code}")
    return _of(rows[0], report, "takes the most kernel time")


def _named_by(findings: list[Finding], rows: list[KernelRow]) -> Iterator[tuple[Finding, KernelRow]]:
    for finding in findings:
        row = next((r for r in rows if r.name == finding.where.kernel), None)
        if finding.main and row is not None:
            yield finding, row


def anything() -> Target:
    """Whatever runs after initialisation; the kernel with the most time among it is judged."""
    return Target(skip=ANY_SKIP, count=ANY_COUNT, why="takes the most time of the launches that were measured")


def _of(row: KernelRow, report: Report | None, why: str) -> Target:
    steps = report.steps[0] if report is not None and report.steps else None
    each = row.instances / steps.count if steps else 0.0
    skip = round(each * (WARM_STEPS + (steps.warmup if steps else 0))) if each >= 1 else min(SKIP, row.instances // 2)
    return Target(pattern_of(row.name), skip, COUNT, row.name, why, row.percent)


def pattern_of(name: str) -> str:
    """A regular expression that finds this kernel however ncu prints its name: its own name and a few telling words."""
    head = re.split(r"[<(]", re.sub(r"<unnamed>|\(anonymous namespace\)", "", name), maxsplit=1)[0]
    own = head.rpartition("::")[2].split()[-1] if head.split() else name[:40]
    rest = name[name.find(own) + len(own):] if own in name else ""  # fmt: skip
    words = [w for w in dict.fromkeys(WORD.findall(rest)) if w not in COMMON]
    telling = sorted(sorted(words, key=len, reverse=True)[:TOKENS], key=rest.find)
    return ".*".join(re.escape(w) for w in [own, *telling])


def plain(name: str) -> str:
    """A name without what profilers print differently: spaces, casts, numbers, anonymous namespaces."""
    return UNSTABLE.sub("", name).replace("true", "").replace("false", "").removeprefix("void")
