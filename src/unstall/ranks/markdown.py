"""``unstall ranks`` as Markdown: short, names as code that nothing in them can end, the long table folded.

In: a report with ``ranks``. Out: GitHub-flavoured Markdown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from unstall.lang import Speaker, speaker
from unstall.ranks import words
from unstall.report import text
from unstall.report.markdown import code, prose

if TYPE_CHECKING:
    from unstall.model import Ranks, Report

ROWS = 32


def to_markdown(report: Report) -> str:
    """One section."""
    merged, say = report.ranks, speaker(report.language)
    assert merged is not None
    parts = [
        f"### unstall: {prose(say('{count} ranks', count=len(merged.ranks)))}",
        prose(" · ".join(words.about(report, say))),
        f"**{prose(words.verdict(report, say))}**",
        _also(merged, say),
        _ranks(merged, say),
        prose(words.clock(merged.clock, say)) if len(merged.ranks) > 1 else "",
        _list(say("Not read"), [(f.file, f.reason) for f in merged.failed]),
        _list(say("Warnings"), [(w.code, w.text) for w in report.warnings]),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _also(merged: Ranks, say: Speaker) -> str:
    rows = merged.stragglers[1:]
    return "\n".join(f"- {prose(words.late(s, merged, say))} {prose(words.reason(s, say))}" for s in rows)


def _ranks(merged: Ranks, say: Speaker) -> str:
    every = words.by_lateness(merged)
    head = [say(h) for h in ("rank", "step", "own", "waits", "costs", "network", "first to look at")]
    rows = [
        (
            str(r.rank), text.ms(r.step_ns), text.ms(r.own_ns), text.ms(r.wait_ns), text.ms(r.caused_ns),
            text.ms(r.transfer_ns), prose(words.cause_of(r, merged, say)),
        )
        for r in every[:ROWS]
    ]  # fmt: skip
    shown = f" ({ROWS} / {len(every)})" if len(every) > ROWS else ""
    title = prose(say("Ranks, ms a step")) + shown
    return f"<details><summary>{title}</summary>\n\n{_table(head, rows)}\n\n</details>"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = ["---", *["---:"] * (len(head) - 2), "---"]
    return "\n".join(f"| {' | '.join(c.replace('|', '&#124;') for c in cells)} |" for cells in (head, rule, *rows))


def _list(title: str, notes: Sequence[tuple[str, str]]) -> str:
    return f"**{prose(title)}**\n\n" + "\n".join(f"- {code(n)}: {prose(t)}" for n, t in notes) if notes else ""
