"""The sentences that every output of ``unstall ranks`` shares, in the report's language.

In: the merged record. Out: plain strings, names in them as they came (outputs escape what they show). English stands
here; translations in ``unstall.lang``. Every figure is the record's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from unstall.lang import Speaker
from unstall.report import text

if TYPE_CHECKING:
    from unstall.model import RankRow, Ranks, RanksClock, Report, Straggler

CAUSES = {
    "compute": "its own compute takes longer for the same work (a slower or throttled GPU, or larger inputs)",
    "more-work": "it has more compute to do: more operations a step than the others",
    "data-loading": "its data loading",
    "saving": "its saving or logging",
    "file-io": "its file I/O",
    "copies": "its copies between host and GPU",
    "host": "its host: Python, launching or waiting on the CPU",
    "allocation": "its memory allocation",
    "other-process": "another process on its GPU",
    "garbage-collection": "garbage collection in its Python",
    "network": "the network between the ranks: even the rank that came last needs longer than usual",
    "unknown": "the captures do not tell",
}
LONGEST_NAME = 60
SHOWN_STEPS = 6


def verdict(report: Report, say: Speaker) -> str:
    """What holds the job back, in a sentence or two."""
    merged = report.ranks
    assert merged is not None
    if any(w.code == "ranks-unrelated" for w in report.warnings):
        doubt = say("The captures do not all look like ranks of one job: see the warnings.")
        return f"{doubt} {_held_back(merged, say) if merged.matched_steps else _spread(merged, say)}".strip()
    return _held_back(merged, say)


def _held_back(merged: Ranks, say: Speaker) -> str:
    if merged.meeting == "none":
        unknown = say("Where the ranks wait for each other cannot be told from these captures.")
        return f"{unknown} {_spread(merged, say)}".strip()
    first = next(iter(merged.stragglers), None)
    if first is not None:
        return f"{late(first, merged, say)} {reason(first, say)}"
    return f"{say('No rank makes the others wait.')} {_shares(merged, say)}"


def late(found: Straggler, merged: Ranks, say: Speaker) -> str:
    """Who makes the others wait, and what it costs."""
    lost = text.percent(found.lost_percent)
    cost, step = text.duration(found.cost_ns_per_step), text.duration(merged.step_ns)
    steps = say("{count} of {all} matched steps", count=len(found.steps), all=merged.matched_steps)
    if found.rank is None:
        return say(
            "The network costs {cost} a step in {steps}{who}: {lost} of the time of all ranks.", cost=cost, steps=steps,
            who=_who(found, say), lost=lost,
        )  # fmt: skip
    if found.always:
        return say(
            "Rank {rank} is late: the others wait {cost} of a {step} step for it, {lost} of the time of all ranks.",
            rank=found.rank, cost=cost, step=step, lost=lost,
        )  # fmt: skip
    return say(
        "Rank {rank} is late in {steps} ({some}): the others wait {cost} each time, {lost} of the time of all ranks.",
        rank=found.rank, steps=steps, some=_some(found.steps), cost=cost, lost=lost,
    )  # fmt: skip


def reason(found: Straggler, say: Speaker) -> str:
    """Why."""
    cause = say(CAUSES.get(found.cause, CAUSES["unknown"]))
    if found.excess_ns is None or found.rank is None:
        return say("Why: {cause}.", cause=cause)
    excess = text.duration(found.excess_ns)
    if found.range:
        name = text.shorten(found.range, LONGEST_NAME)
        return say(
            "Why: {cause}, {excess} more than the median rank, mostly in {name}.", cause=cause, excess=excess, name=name
        )
    return say("Why: {cause}, {excess} more than the median rank.", cause=cause, excess=excess)


def _who(found: Straggler, say: Speaker) -> str:
    return say(" between ranks {some}", some=numbers(found.ranks)) if found.ranks else ""


def _some(steps: Sequence[str]) -> str:
    return ", ".join(steps[:SHOWN_STEPS]) + (", …" if len(steps) > SHOWN_STEPS else "")


def _spread(merged: Ranks, say: Speaker) -> str:
    timed = [r for r in merged.ranks if r.step_ns is not None]
    if len(timed) < 2:
        return ""
    low, high = (f(timed, key=lambda r: r.step_ns or 0) for f in (min, max))
    if low is high:
        return ""
    return say(
        "Steps take {low} on rank {fast} and {high} on rank {slow}.", low=text.duration(low.step_ns), fast=low.rank,
        high=text.duration(high.step_ns), slow=high.rank,
    )  # fmt: skip


def _shares(merged: Ranks, say: Speaker) -> str:
    """Of a step without a straggler: waiting by turns, and moving data."""
    even = merged.imbalance
    moved = [r.transfer_ns for r in merged.ranks if r.transfer_ns is not None]
    parts = []
    if even is not None:
        parts.append(
            say(
                "Waiting by turns takes {wait} of a {step} step ({lost}).", wait=text.duration(even.wait_ns),
                step=text.duration(merged.step_ns), lost=text.percent(even.lost_percent),
            )
        )  # fmt: skip
    if moved:
        parts.append(say("Exposed communication: {moved} a step.", moved=text.duration(sum(moved) / len(moved))))
    return " ".join(parts)


def about(report: Report, say: Speaker) -> list[str]:
    """The job in facts."""
    merged = report.ranks
    assert merged is not None
    read = len({r.file for r in merged.ranks})
    facts = [say("{count} ranks", count=len(merged.ranks)) if len(merged.ranks) != 1 else say("1 rank")]
    clock = merged.clock
    if clock is not None and clock.hosts:
        facts.append(say("{count} hosts", count=clock.hosts) if clock.hosts > 1 else say("1 host"))
    facts.append(" ".join(p for p in (report.profile.producer, report.profile.producer_version) if p))
    facts.append(say("{read} of {files} files read", read=read, files=merged.files))
    if merged.matched_steps:
        facts.append(say("{count} matched steps", count=merged.matched_steps))
    return [f for f in facts if f]


def clock(found: RanksClock | None, say: Speaker) -> str:
    """How the ranks came onto one clock."""
    if found is None:
        return ""
    if found.by == "collectives":
        good = say("Clocks aligned by the ends of common collectives, which then agree to {residual}.",
                   residual=text.duration(found.residual_ns))  # fmt: skip
        if found.skew_ns is None:
            return good
        return f"{good} " + say(
            "The captures' own wall clocks are up to {skew} apart.", skew=text.duration(found.skew_ns)
        )
    if found.by == "utc":
        return say("Times are put side by side by the wall clock that each capture stores; its error is not known.")
    if found.by == "mixed":
        return say(
            "Only some captures share collectives that align their clocks; the others have a stored wall clock or none."
        )
    return say("The captures have no common clock: only durations are compared.")


def cause_of(rank: RankRow, merged: Ranks, say: Speaker) -> str:
    """One short word on a rank: late and why, or its first finding."""
    found = next((s for s in merged.stragglers if s.rank == rank.rank), None)
    if found is not None:
        return say("late: {cause}", cause=say(found.cause.replace("-", " ")))
    return rank.findings[0].code if rank.findings else ""


def numbers(ranks: Sequence[int], most: int = 12) -> str:
    """``0–3, 7``."""
    runs: list[tuple[int, int]] = []
    for value in sorted(ranks):
        runs[-1:] = [(runs[-1][0], value)] if runs and runs[-1][1] == value - 1 else [*runs[-1:], (value, value)]
    shown = [f"{a}–{b}" if b > a else f"{a}" for a, b in runs[:most]]
    return ", ".join([*shown, "…"] if len(runs) > most else shown)


def by_lateness(merged: Ranks) -> list[RankRow]:
    """Ranks, those that cost the others most first; then the slowest."""
    return sorted(merged.ranks, key=lambda r: (-(r.caused_ns or 0), -(r.own_ns or r.step_ns or 0), r.rank))


def own_steps(rank: RankRow) -> list[int | None]:
    """Each matched step without waiting; where waiting is not known, the whole step."""
    return [p if p is None or w is None else p - w for p, w in zip(rank.periods_ns, rank.waits_ns, strict=True)]
