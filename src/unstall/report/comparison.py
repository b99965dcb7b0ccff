"""A comparison as people read it: on a terminal, and as Markdown for a pull request.

In: a :class:`~unstall.model.Comparison`. Out: lines that fit a width, or Markdown in which names are code and nothing
else. Every figure is the comparison's; decided here are order, units and words only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import IO, TYPE_CHECKING

from unstall.report import text, words

if TYPE_CHECKING:
    from rich.text import Text

    from unstall.model import Comparison, Moved, StepFigure

STYLE = {"faster": "bold green", "slower": "bold red", "no difference": "bold", "inconclusive": "bold yellow"}
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

    yield from wrap(headline(comparison), width, STYLE[comparison.verdict])
    yield from wrap(_sentence(comparison.reason), width)
    yield from heading("STEPS", "median of the steady ones, ms", width)
    yield from _steps(comparison, width)
    shown = comparison.moved[: top or None]
    if shown:
        some = f"{len(shown)} of {text.count(len(comparison.moved))}, " if len(shown) < len(comparison.moved) else ""
        yield from heading("WHAT MOVED", some + OVERLAP, width)
        yield from _moved(shown, width)
    if comparison.warnings:
        yield from heading("WARNINGS", "", width)
        for warning in comparison.warnings:
            yield from wrap(warning.text, width, "yellow", first=f"  {warning.code}: ", indent=4)


def headline(comparison: Comparison) -> str:
    """The verdict with its figures: ``FASTER: 9.76×, 95 % interval 9.31× to 10.2×``."""
    verdict = comparison.verdict.upper()
    if comparison.ratio is None:
        return verdict
    interval = f"95 % interval {text.number(comparison.ratio_low)}× to {text.number(comparison.ratio_high)}×"
    return f"{verdict}: before / after is {text.number(comparison.ratio)}×, {interval}"


def _sentence(reason: str) -> str:
    return f"{reason[:1].upper()}{reason[1:]}."


def _sides(comparison: Comparison) -> list[tuple[str, StepFigure]]:
    return [("before", comparison.before), ("after", comparison.after)]


def _steps(comparison: Comparison, width: int) -> list[Text]:
    from unstall.report.layout import Column, table

    sides = _sides(comparison)
    columns = [
        Column("ms a step", [text.ms(figure.step_ns) for _, figure in sides], "bold"),
        Column("steps", [text.count(figure.count) for _, figure in sides]),
        Column("of", [figure.label for _, figure in sides], "dim", rank=1, left=True),
    ]
    return table(Column("side", [name for name, _ in sides]), columns, width)


def _moved(rows: list[Moved], width: int) -> list[Text]:
    from unstall.report.layout import Column, table

    columns = [
        Column("kind", [row.kind for row in rows], left=True, rank=1),
        Column("before", [_time(row.before_ns) for row in rows]),
        Column("after", [_time(row.after_ns) for row in rows]),
        Column("change", [signed(row.change_ns) for row in rows], "bold"),
    ]
    return table(Column("what", [name_of(row) for row in rows]), columns, width)


def name_of(row: Moved) -> str:
    if row.kind == "kernel":
        return text.kernel_name(row.name)
    return words.category(row.name) if row.kind == "category" else row.name


def _time(ns: int | None) -> str:
    """New and vanished things had no time, which is not a time of zero."""
    return ABSENT if ns is None else text.ms(ns)


def signed(ns: int) -> str:
    size = text.ms(abs(ns))
    return f"{'+' if ns > 0 else '−'}{size}"


def to_markdown(comparison: Comparison, *, top: int = 10) -> str:
    """The comparison as one Markdown section; what moved is folded away."""
    from unstall.report.markdown import code, prose

    parts = [f"### unstall: {prose(headline(comparison))}", prose(_sentence(comparison.reason))]
    head = ("side", "ms a step", "steady steps", "of")
    sides = [
        (name, text.ms(f.step_ns), text.count(f.count), code(f.label) if f.label else "")
        for name, f in _sides(comparison)
    ]
    parts.append(_table(head, sides))
    rows = comparison.moved[: top or None]
    cells = [(code(name_of(r)), r.kind, _time(r.before_ns), _time(r.after_ns), signed(r.change_ns)) for r in rows]
    if cells:
        table = _table(("what", "kind", "before", "after", "change"), cells)
        parts.append(f"<details><summary>What moved, {OVERLAP}</summary>\n\n{table}\n\n</details>")
    parts += ["\n".join(f"- {code(w.code)}: {prose(w.text)}" for w in comparison.warnings)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    rule = ["---"] * len(head)
    escaped = ([cell.replace("|", "\\|") for cell in row] for row in rows)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *escaped))
