"""The pull-request comment through a Markdown parser: whatever a name holds, the page has the same structure."""

from __future__ import annotations

import re
from collections import Counter

import pytest
import samples
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from unstall import model
from unstall.report import text
from unstall.report.markdown import LONGEST_NAME, prose, to_markdown

PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])  # GitHub's, but for bare links: tested apart
OURS = {"<details>", "</details>", "<summary>", "</summary>"}

NAMES = [
    "a|b", "a\\|b", "`", "``x`", "a`|`b", "</details>", "<img src=x onerror=alert(1)>", "[x](http://e)", "![i](j)",
    "| x | y |", "\n# head", "\n\n- item", "a\r\nb", "**b**", "<!--", "]]>", "&amp;", "\\", "\\`", "$x$", "~~~",
    "  ", "데이터 로드", "x" * 5000, "\x1b[31m", "[^1]", "- [ ] task", "---", "1. x", "2)", "+", "===", "    code", "http://e.org",
]  # fmt: skip
"""Names that would be markup anywhere else."""


def hostile_report(name: str) -> model.Report:
    """A report in which every text that can come from a profile is ``name``."""
    report = samples.full_report(
        ranges=[samples.a_range(name, 5.0, 60.0), samples.a_range("data_load", 4.0, 40.0)],
        kernels=[samples.a_kernel(name, 3.0)],
        warnings=[model.Warning_(code="odd", text=f"The range {name} was left out.")],
        not_checked=[model.NotChecked(code="gil", reason=f"not traced: {name}")],
    )
    report.profile.path = f"/tmp/{name}.sqlite"
    report.findings[0].title = f"Loading in {name}"
    report.findings[0].where = model.Where(range=name)
    report.findings[0].evidence = [model.Evidence(text=f"{name} takes 22 ms")]
    return report


def tokens(report: model.Report) -> list[Token]:
    """All tokens of the page, those inside paragraphs and cells included."""
    return [t for block in PARSER.parse(to_markdown(report)) for t in [block, *(block.children or [])]]


def structure(report: model.Report) -> Counter[str]:
    """How many of each kind of token; text and the line ends between lines of a list are not structure."""
    loose = ("text", "inline", "text_special", "entity", "softbreak")
    return Counter(f"{t.type} {t.tag}" for t in tokens(report) if t.type not in loose)


PLAIN = structure(hostile_report("forward"))


def test_the_page_has_its_parts() -> None:
    page = to_markdown(hostile_report("forward"))
    assert PLAIN["table_open table"] == 3  # breakdown, ranges, kernels
    for part in ("**Step ", "**Warnings**", "**Not checked**", "| `forward` |", "Fix (safe)"):
        assert part in page


@pytest.mark.parametrize("name", NAMES)
def test_no_name_changes_the_structure(name: str) -> None:
    assert structure(hostile_report(name)) == PLAIN


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from("`|\\<>[]()!*_~#&@-+=:/$ \n\r\tabw.1é\u200b\u202e\x1b"), min_size=1, max_size=30))
def test_nor_does_any_other(name: str) -> None:
    """But for the empty one, which names no place in a finding."""
    assert structure(hostile_report(name)) == PLAIN


@pytest.mark.parametrize("name", NAMES)
def test_html_is_only_our_own(name: str) -> None:
    html = " ".join(t.content for t in tokens(hostile_report(name)) if t.type.startswith("html"))
    assert set(re.findall(r"<[^>]*>", html)) <= OURS


@pytest.mark.parametrize("name", [n for n in NAMES if n.strip() and len(n) <= LONGEST_NAME])
def test_a_name_is_shown_as_it_is(name: str) -> None:
    """In the cell of its row: the code that a reader sees is the name, control characters made visible."""
    shown = [t.content for t in tokens(hostile_report(name)) if t.type == "code_inline"]
    assert text.visible(name).strip() in [content.strip() for content in shown]


def test_bare_links_mentions_and_references_are_broken() -> None:
    """GitHub finds them in the rendered page, so that escapes do not help: an invisible space does."""
    shown = prose("see http://e.org www.e.org @team #12 a@b.org HTTPS://e.org")
    assert not re.search(r"(?i)://|www\.|@\w|#\d", shown.replace("&#64;", "@").replace("&#35;", "#"))


def test_a_table_of_sums_is_shown_with_dashes_for_what_it_cannot_know() -> None:
    row = samples.a_range("data_load", 5.0, 100.0, process=None, gpu_ns=None, self_ns=None, median_ns=None)
    page = to_markdown(samples.full_report(ranges=[row], steps=[], breakdown=[], findings=[]))
    [line] = [line for line in page.splitlines() if "`data_load`" in line]
    assert line.rstrip("| ").endswith("–")
    assert "None" not in page


def test_long_lists_are_cut_and_said() -> None:
    rows = [samples.a_range(f"phase {i}", 30.0 - i, 5.0) for i in range(25)]
    page = to_markdown(samples.full_report(ranges=rows))
    assert "(10 of 25)" in page
    assert "`phase 9`" in page
    assert "`phase 10`" not in page


def test_commands_that_our_texts_quote_are_code() -> None:
    report = hostile_report("forward")
    report.not_checked = [
        model.NotChecked(code="gil, osrt", reason="not traced; `unstall run` does, with `--trace=gil`")
    ]
    assert "- `gil`, `osrt`: not traced; `unstall run` does, with `--trace=gil`" in to_markdown(report)
