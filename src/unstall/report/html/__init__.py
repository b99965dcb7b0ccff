"""The report as one page: a self-contained HTML file that opens from disk and asks no network for anything.

In: a :class:`~unstall.model.Report` and, where the capture has events, its timeline; or a comparison with both its
sides. Out: HTML. Every figure is the report's; decided here are order, units, words and where on the page things stand.

    page         the file: templates, styles and scripts by their hashes, embedded data, the bound on its size
    view         what stands above the tables: the capture, the verdict, steps, findings, notes
    charts       the bar of a step and the plot of step times, as places in percent
    tables       ranges, kernels, copies, calls … as columns of sortable cells
    comparison   the page of ``unstall compare``
    texts        every string of ours, in English and Korean

Names from a profile are anybody's text. They reach the page only through ``unstall.report.text.visible`` and a template
that escapes all it is given; in embedded data no ``<`` is left; and the page's own policy lets nothing run but the
scripts that it was written with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unstall.report import Output

if TYPE_CHECKING:
    from unstall.model import Comparison, Report
    from unstall.report.html.comparison import Side

__all__ = ["OUTPUT", "comparison_to_html", "to_html"]


def to_html(report: Report, timeline: Any = None, *, language: str | None = None) -> str:
    """The report as one HTML file, with a timeline where ``timeline`` is given."""
    from unstall.report.html import page

    return page.report(report, timeline, language)


def comparison_to_html(comparison: Comparison, before: Side, after: Side, *, language: str | None = None) -> str:
    """The comparison as one HTML file, both sides above each other."""
    from unstall.report.html import page

    return page.comparison(comparison, before, after, language)


OUTPUT = Output(
    "html", "the report as one page with a timeline", lambda rs, ts: "\n".join(map(to_html, rs, ts)), events=True
)
