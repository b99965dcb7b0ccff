"""What a notebook shows: complete, in one element, and nothing in a name is ever markup."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest

import unstall
from unstall import demo
from unstall.model import FixText, Report, Where
from unstall.report import inline

HOSTILE = "</details><script>alert(1)</script><img src=x onerror=alert(2)>\"'&\u202e\x1b[31m"
VOID = ("img", "br", "hr", "input", "meta", "link")


class Elements(HTMLParser):
    """Names of all elements and attributes; open ones must be closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def report() -> Report:
    with demo.recorded() as path:
        return unstall.report_of(path, unprofiled_ns=26_990_000)


def test_a_report_shows_what_people_look_at_first(report: Report) -> None:
    seen = Elements(report._repr_html_() or "")
    assert not seen.open
    for words in ("The GPU idles 94 %", "data loading", "host-data-loading", "data_load", "591.5", "8.9×", "KERNELS"):
        assert words in seen.text, words
    assert seen.tags <= {"div", "style", "p", "b", "span", "i", "table", "tr", "th", "td", "details", "summary", "ul",
                         "li", "code"}  # fmt: skip
    assert seen.attributes <= {"class", "lang", "style", "open"}, "no script, no link, nothing to load"


def test_the_bar_is_the_whole_step(report: Report) -> None:
    html = report._repr_html_() or ""
    bar = html[html.index('<div class="u-bar">') :]
    widths = [float(w) for w in re.findall(r"width:([\d.]+)%", bar[: bar.index("</div>")])]
    assert len(widths) == len(report.breakdown[0].categories)
    assert sum(widths) == pytest.approx(100, abs=len(widths) * inline.THINNEST)


def test_no_name_is_markup(report: Report) -> None:
    import msgspec

    finding = msgspec.structs.replace(
        report.findings[0],
        title=HOSTILE,
        where=Where(range=HOSTILE),
        fix=FixText(title=HOSTILE, safety="safe", text=HOSTILE),
    )
    hostile = msgspec.structs.replace(
        report,
        profile=msgspec.structs.replace(report.profile, path=f"/tmp/{HOSTILE.replace('/', '')}", producer=HOSTILE),
        findings=[finding],
        ranges=[msgspec.structs.replace(r, name=HOSTILE, domain=HOSTILE) for r in report.ranges or []],
        kernels=[msgspec.structs.replace(k, name=HOSTILE) for k in report.kernels or []],
        copies=[msgspec.structs.replace(c, source=HOSTILE) for c in report.copies or []],
        steps=[msgspec.structs.replace(s, source=HOSTILE) for s in report.steps],
    )
    compared = unstall.compare(report, hostile)
    compared = msgspec.structs.replace(compared, reason=HOSTILE)
    for record in (hostile, compared):
        html = record._repr_html_() or ""
        seen = Elements(html)
        assert not {"script", "img"} & seen.tags and not seen.open
        assert "\u202e" not in html and "\x1b" not in html
        assert "<script>alert(1)" in seen.text, "it is shown, as text"


def test_a_comparison_shows_the_verdict() -> None:
    seen = Elements(demo.recorded_verdict()._repr_html_() or "")
    for words in ("FASTER", "10.1×", "26.9", "2.66", "slow_loader_before.txt", "correlated"):
        assert words in seen.text, words


def test_korean(report: Report) -> None:
    with demo.recorded() as path:
        html = unstall.report_of(path, language="ko")._repr_html_() or ""
    assert 'lang="ko"' in html and re.search("[가-힣]", html)


def test_in_a_terminal_it_is_the_terminals_report(report: Report) -> None:
    class Printer:
        said = ""

        def text(self, words: str) -> None:
            self.said += words

    printer = Printer()
    report._repr_pretty_(printer, False)
    assert "WHERE IT GOES" in printer.said and max(map(len, printer.said.splitlines())) <= 100
    printer = Printer()
    report.findings[0]._repr_pretty_(printer, False)
    assert printer.said.startswith("Finding("), "other records have no view"
    assert report.findings[0]._repr_html_() is None


def test_it_shows_itself_without_the_extension() -> None:
    code = (
        "from unstall.model import Report, ProfileFacts\n"
        "facts = ProfileFacts(path='a', producer='p', producer_version='', schema_version='', duration_ns=None)\n"
        "assert 'No repeating step' in Report(profile=facts)._repr_html_()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_tables_are_frames(report: Report) -> None:
    ranges = report.table("ranges")
    assert ranges is not None and ranges.height == len(report.ranges or [])
    assert ranges.filter(name="data_load")["total_ns"].item() == next(
        r.total_ns for r in report.ranges or [] if r.name == "data_load"
    )
    breakdown = report.table("breakdown")
    assert breakdown is not None and breakdown["ns"].sum() == report.breakdown[0].step_ns
    findings = report.table("findings")
    assert findings is not None and findings["where_range"][0] == "data_load"
    assert isinstance(findings["evidence"][0][0], str)
    assert report.table("samples") is None, "absent is not empty"
    steps = report.table("steps")
    assert steps is not None and steps["period_ns_median"][0] == report.steps[0].period_ns.median
    with pytest.raises(AttributeError):
        report.table("nonsense")


def test_frames_as_pandas(report: Report) -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    ranges = report.table("ranges")
    assert ranges is not None and next(iter(ranges.to_pandas()["name"])) == ranges["name"][0]
