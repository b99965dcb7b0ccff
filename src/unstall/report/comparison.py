"""A comparison as people read it: on a terminal, and as Markdown for a pull request.

In: a :class:`~unstall.model.Comparison`. Out: lines that fit a width, or Markdown in which names are code and nothing
else. Every figure is the comparison's; decided here are order, units and words only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import IO, TYPE_CHECKING

from unstall.lang import Speaker, speaker
from unstall.report import text, words

if TYPE_CHECKING:
    from rich.text import Text

    from unstall.model import Comparison, Moved, StepFigure

STYLE = {"faster": "bold green", "slower": "bold red", "no difference": "bold", "inconclusive": "bold yellow"}
OF_STEPS = {"median": "median of the steady ones, ms", "mean": "mean of the steady ones, ms"}
ABSENT = "none"
OVERLAP = "ms a step; kinds overlap and do not add up"


def show(comparison: Comparison, file: IO[str] | None = None, *, top: int = 10) -> None:
    """Write the comparison to ``file`` (standard output by default). ``top`` rows of what moved, 0 for all of them."""
    from unstall.report.terminal import WIDEST, make_console

    console = make_console(file)
    for line in lines(comparison, min(console.width, WIDEST), top=top):
        console.print(line, soft_wrap=True, highlight=False, markup=False, emoji=False)


def lines(comparison: Comparison, width: int, *, top: int = 10) -> Iterator[Text]:
    """The comparison, line by line, none longer than ``width`` cells."""
    from unstall.report.layout import heading, wrap

    say = speaker(comparison.language)
    yield from wrap(headline(comparison), width, STYLE[comparison.verdict])
    yield from wrap(_sentence(comparison.reason), width)
    yield from heading(say("STEPS"), say(OF_STEPS[comparison.level]), width)
    yield from _steps(comparison, width, say)
    shown = comparison.moved[: top or None]
    if shown:
        yield from heading(say("WHAT MOVED"), _of_moved(len(shown), len(comparison.moved), say), width)
        yield from _moved(shown, width, say)
    if comparison.warnings:
        yield from heading(say("WARNINGS"), "", width)
        for warning in comparison.warnings:
            yield from wrap(warning.text, width, "yellow", first=f"  {warning.code}: ", indent=4)


def _of_moved(shown: int, every: int, say: Speaker) -> str:
    some = say("{n} of {all}, ", n=shown, all=text.count(every)) if shown < every else ""
    return some + say(OVERLAP)


def headline(comparison: Comparison) -> str:
    """The verdict with its figures: ``FASTER: before / after is 9.76×, 95 % interval 9.31× to 10.2×``."""
    say = speaker(comparison.language)
    verdict = say(comparison.verdict).upper()
    if comparison.ratio is None:
        return verdict
    ratio, low, high = map(text.number, (comparison.ratio, comparison.ratio_low, comparison.ratio_high))
    if comparison.ratio_low is None:
        return f"{verdict}: {say('before / after is {ratio}×, its interval is not known', ratio=ratio)}"
    figures = say("before / after is {ratio}×, 95 % interval {low}× to {high}×", ratio=ratio, low=low, high=high)
    return f"{verdict}: {figures}"


def _sentence(reason: str) -> str:
    return f"{reason[:1].upper()}{reason[1:]}."


def _sides(comparison: Comparison, say: Speaker) -> list[tuple[str, StepFigure]]:
    return [(say("before"), comparison.before), (say("after"), comparison.after)]


def _steps(comparison: Comparison, width: int, say: Speaker) -> list[Text]:
    from unstall.report.layout import Column, table

    sides = _sides(comparison, say)
    columns = [
        Column(say("ms a step"), [text.ms(figure.step_ns) for _, figure in sides], "bold"),
        Column(say("steps"), [text.count(figure.count) for _, figure in sides]),
        Column(say("of"), [figure.label for _, figure in sides], "dim", rank=1, left=True),
    ]
    return table(Column(say("side"), [name for name, _ in sides]), columns, width)


def _moved(rows: list[Moved], width: int, say: Speaker) -> list[Text]:
    from unstall.report.layout import Column, table

    columns = [
        Column(say("kind"), [say(row.kind) for row in rows], left=True, rank=1),
        Column(say("before"), [_time(row.before_ns, say) for row in rows]),
        Column(say("after"), [_time(row.after_ns, say) for row in rows]),
        Column(say("change"), [signed(row.change_ns) for row in rows], "bold"),
    ]
    return table(Column(say("what"), [name_of(row, say.language) for row in rows]), columns, width)


def name_of(row: Moved, language: str = "en") -> str:
    if row.kind == "kernel":
        return text.kernel_name(row.name)
    return words.category(row.name, language) if row.kind == "category" else row.name


def _time(ns: int | None, say: Speaker) -> str:
    """New and vanished things had no time, which is not a time of zero."""
    return say(ABSENT) if ns is None else text.ms(ns)


def signed(ns: int) -> str:
    size = text.ms(abs(ns))
    return f"{'+' if ns > 0 else '−'}{size}"


def to_markdown(comparison: Comparison, *, top: int = 10) -> str:
    """The comparison as one Markdown section; what moved is folded away."""
    from unstall.report.markdown import code, prose

    say = speaker(comparison.language)
    parts = [f"### unstall: {prose(headline(comparison))}", prose(_sentence(comparison.reason))]
    head = (say("side"), say("ms a step"), say("steady steps"), say("of"))
    sides = [
        (name, text.ms(f.step_ns), text.count(f.count), code(f.label) if f.label else "")
        for name, f in _sides(comparison, say)
    ]
    parts.append(_table(head, sides))
    rows = comparison.moved[: top or None]
    cells = [
        (
            code(name_of(r, say.language)),
            say(r.kind),
            _time(r.before_ns, say),
            _time(r.after_ns, say),
            signed(r.change_ns),
        )
        for r in rows
    ]
    if cells:
        table = _table((say("what"), say("kind"), say("before"), say("after"), say("change")), cells)
        title = say("What moved, {how}", how=say(OVERLAP))
        parts.append(f"<details><summary>{title}</summary>\n\n{table}\n\n</details>")
    parts += ["\n".join(f"- {code(w.code)}: {prose(w.text)}" for w in comparison.warnings)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    rule = ["---"] * len(head)
    escaped = ([cell.replace("|", "\\|") for cell in row] for row in rows)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *escaped))
