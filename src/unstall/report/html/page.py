"""The file: templates filled in, styles and scripts that the page's own policy knows by their hashes, data embedded.

In: what a page shows. Out: HTML that needs nothing else, never larger than :data:`LARGEST`: rows of tables go first,
then the timeline, and the page says so. Everything that a template is given is escaped; what is embedded as JSON holds
no ``<``; what is marked as safe here is our own style and script, read from the package.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from unstall.report import text
from unstall.report.html import comparison as comparing
from unstall.report.html.embed import asset, embedded, policy
from unstall.report.html.tables import tables
from unstall.report.html.texts import TIMELINE, Say, speaker
from unstall.report.html.view import file_name, view

if TYPE_CHECKING:
    from unstall.model import Comparison, Report

LARGEST = 8_000_000
ROWS = (1000, 200, 40)
"""Rows of a table: as many as anybody scrolls through, then what a page of hostile names leaves room for."""
VIEWER = ("timeline.css", "timeline.js")
HERE = "unstall.report.html"


def report(shown: Report, timeline: Any, language: str | None = None) -> str:
    """One report as a page."""
    language = language or shown.language
    say = speaker(language)
    above = view(shown, say)
    title = say("title", name=above.name)
    events = None if timeline is None else embedded(timeline)
    jumps = [] if timeline is None else [j is not None for j in getattr(timeline, "jumps", [])]
    for kept, rows in [(events, n) for n in ROWS] + ([(None, ROWS[-1])] if events else []):
        made = _page(
            "report.html", language, title, shown.unstall_version, v=above, tables=tables(shown, say, rows),
            timeline=kept, left_out=events is not None and kept is None, jumps=jumps if kept else [],
            samples=embedded(above.samples), largest=text.size(LARGEST),
        )  # fmt: skip
        if len(made.encode()) <= LARGEST:
            break
    return made


def comparison(shown: Comparison, before: comparing.Side, after: comparing.Side, language: str | None = None) -> str:
    """A comparison as a page."""
    language = language or shown.language
    say = speaker(language)
    sides = [file_name(side.report) for side in (before, after)]
    title = say("compare_title", before=sides[0], after=sides[1])
    version = after.report.unstall_version
    for rows in ROWS:
        made = _page("compare.html", language, title, version, c=comparing.view(shown, before, after, say, rows))
        if len(made.encode()) <= LARGEST:
            break
    return made


def _page(template: str, language: str, title: str, version: str, **context: Any) -> str:
    with_timeline = bool(context.get("timeline"))
    style = asset(HERE, "page.css") + (asset("unstall.report", VIEWER[0]) if with_timeline else "")
    scripts = [asset("unstall.report", VIEWER[1])] if with_timeline else []
    scripts = [asset(HERE, "early.js"), *scripts, asset(HERE, "page.js")]
    return _environment().get_template(template).render(
        say=speaker(language), language=language, title=title, version=version, policy=policy([style], scripts),
        style=Markup(style), early=Markup(scripts[0]), scripts=[Markup(s) for s in scripts[1:]],
        words=embedded(_script_words(speaker(language))), **context,
    )  # fmt: skip


def _script_words(say: Say) -> dict[str, Any]:
    """What the script and the timeline say themselves; ``{…}`` in it are filled in there."""
    wanted = ("show_all", "show_less", "matches", "no_match", "plot_step")
    return {**{key: say.texts[key] for key in wanted}, "timeline": TIMELINE.get(say.language, {})}


@cache
def _environment() -> Environment:
    loader = PackageLoader(HERE, "templates")
    made = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, optimized=True
    )
    made.filters["ticks"] = _ticks
    return made


def _ticks(sentence: str) -> Markup:
    """A sentence in which what stands between backticks is shown as code."""
    parts = sentence.split("`")
    if len(parts) % 2 == 0:  # one is left over: somebody's name, not ours
        return escape(sentence)
    return Markup("").join(Markup("<code>{}</code>").format(p) if i % 2 else p for i, p in enumerate(parts))
