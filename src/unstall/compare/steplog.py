"""Plain step times: one number a line, in milliseconds, as a training script prints them.

In: text, or numbers. Out: a :class:`~unstall.model.Report` that has steps and nothing else; what it cannot know of the
GPU stays unknown. Empty lines and what follows a ``#`` are passed over, a unit may follow the number, a heading may
stand above; a few lines of something else are left out and said.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import numpy as np

from unstall.compare.settled import Settled, settled
from unstall.errors import NotAProfile, UsageError
from unstall.model import LONGEST_STEP_NS, Period, ProfileFacts, Report, StepsRow, Warning_
from unstall.pace import bursty, pace

PRODUCER = "step log"
MS = {"": 1.0, "ms": 1.0, "s": 1e3, "sec": 1e3, "us": 1e-3, "µs": 1e-3, "μs": 1e-3, "ns": 1e-6}
LONGEST_MS = LONGEST_STEP_NS / 1e6
STRAY = 0.1  # share of lines that may be something else: more, and the file is not a list of step times
LONGEST_QUOTE = 40

_LINE = re.compile(r"\+?(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(?P<unit>[^\W\d_]*)[,;]?\Z")
WANTED = "Write one step time in milliseconds a line, in the order of the steps"


def looks_like(head: str) -> bool:
    """Whether the beginning of a file is that of a list of step times."""
    if head.lstrip("\ufeff \t\r\n").startswith("["):
        return bool(re.match(r"[\ufeff\s]*\[\s*[-+.\d]", head))
    lines = [line for _, line in _lines(head)][:20]
    numbers = sum(_LINE.match(line) is not None for line in lines)
    return bool(lines) and 2 * numbers >= len(lines) and numbers > 0


def read(text: str, name: str) -> Report:
    """The report of a step log.

    Raises:
        NotAProfile: it holds no step times, or something else beside them; the first such line is quoted.
    """
    if text.lstrip("\ufeff \t\r\n").startswith("["):
        return _told(_from_json(text, name), name)
    good, bad = _parsed(text)
    if not good and not bad:
        raise NotAProfile(name, "no step times in it", WANTED)
    stray = bad[1:] if bad and bad[0][0] == _first(text) else bad  # a heading is none
    if not good or len(stray) > STRAY * (len(good) + len(stray)):
        number, line = (stray if good else bad)[0]
        raise NotAProfile(name, f"line {number} is not a step time ({_quoted(line)})", WANTED)
    made = report(good, name)
    if stray:
        many = f"{len(stray)} {'lines are' if len(stray) > 1 else 'line is'} not a step time and left out"
        made.warnings.append(Warning_(code="stray-lines", text=f"{many}, the first: line {stray[0][0]}"))
    return made


def report(samples_ms: Sequence[float], name: str = "") -> Report:
    """Step times in milliseconds as a report.

    Raises:
        UsageError: there are none, or one is not a number above zero.
    """
    for i, value in enumerate(samples_ms, 1):
        if not 0 < value <= LONGEST_MS:
            raise UsageError(name or "step times", f"step {i} of {len(samples_ms)} took {value} ms", WANTED)
    ns = np.maximum(np.rint(np.asarray(samples_ms, dtype=np.float64) * 1e6), 1).astype(np.int64)
    facts = ProfileFacts(
        path=name, producer=PRODUCER, producer_version="", schema_version="", duration_ns=int(ns.sum())
    )
    start = settled(ns)
    return Report(
        profile=facts, steps=[_row(ns.tolist(), start)] if ns.size else [], warnings=start.words(ns.size, "the log")
    )


def _told(samples_ms: list[float], name: str) -> Report:
    try:
        return report(samples_ms, name)
    except UsageError as error:  # what a file holds is no matter of how the command was called
        raise NotAProfile(error.what, error.why, error.hint) from error


def is_log(report: Report) -> bool:
    """Whether a report was made of plain step times."""
    return report.profile.producer == PRODUCER


def _row(ns: list[int], start: Settled) -> StepsRow:
    steady = ns[start.first :]
    low, median, high = (int(q) for q in np.quantile(steady, (0.1, 0.5, 0.9)))
    step_ns = round(pace(steady))
    return StepsRow(
        process=None,
        source="log",
        count=len(ns),
        warmup=start.first,
        period_ns=Period(median=median, p10=low, p90=high, mean=round(sum(steady) / len(steady))),
        samples_ns=steady,
        bursty=bursty(steady),
        unprofiled_ns=step_ns,
        host_ns=step_ns,
        gpu_busy_ns=None,
        kernels_per_step=None,
        warmup_ns=sum(ns[: start.first]),
        warmup_samples_ns=ns[: start.first],
    )


def _lines(text: str) -> list[tuple[int, str]]:
    """Lines with their numbers, without comments, signs of byte order and empty ones."""
    bare = ((i, line.partition("#")[0].strip("\ufeff \t\r")) for i, line in enumerate(text.splitlines(), 1))
    return [(i, line) for i, line in bare if line]


def _first(text: str) -> int:
    return _lines(text)[0][0]


def _parsed(text: str) -> tuple[list[float], list[tuple[int, str]]]:
    good: list[float] = []
    bad: list[tuple[int, str]] = []
    for i, line in _lines(text):
        match = _LINE.match(line)
        scale = MS.get(match["unit"].lower()) if match else None
        value = float(match["number"]) * scale if match and scale else 0.0
        if 0 < value <= LONGEST_MS:
            good.append(value)
        else:
            bad.append((i, line))
    return good, bad


def _from_json(text: str, name: str) -> list[float]:
    try:
        values = json.loads(text.lstrip("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise NotAProfile(name, f"begins like a JSON list and is none ({error})", WANTED) from error
    if not values or not all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
        raise NotAProfile(name, "a JSON list, but not of step times", WANTED)
    return list(values)


def _quoted(line: str) -> str:
    return repr(line if len(line) <= LONGEST_QUOTE else line[:LONGEST_QUOTE] + "…")
