"""The page in a real browser: every capture renders without complaint, and no name from a profile ever acts."""

from __future__ import annotations

import json
import re
import string
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import msgspec
import pytest
from driver import Browser, Page
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1] / "cli"))
import samples

from unstall import model
from unstall.commands.report import _timeline
from unstall.compare import compare
from unstall.pipeline import examine
from unstall.report.html import comparison_to_html, to_html
from unstall.report.html.comparison import Side
from unstall.report.html.page import LARGEST, embedded
from unstall.report.html.texts import TEXTS, TIMELINE

DATA = Path(__file__).parents[1] / "data"
CAPTURES = sorted(path.name.partition(".")[0] for path in DATA.glob("*.sqlite.xz"))
PHONE = 360
ProfilePath = Callable[[str], Path]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as running:
        yield running


@pytest.fixture(scope="module")
def made(profile_path: ProfilePath) -> Callable[[str], str]:
    """The page of a capture, made once."""

    @cache
    def page(name: str) -> str:
        report, analysis = examine(DATA / "lab" / name if name.endswith(".txt") else profile_path(name))
        return to_html(report, _timeline(report, analysis))

    return page


def opened(browser: Browser, html: str, *, width: int = 1280, dark: bool = False, mobile: bool = False) -> Page:
    """The page, ready; nothing in it moves by itself, so that what is clicked stays where it was."""
    page = browser.open(html, width=width, height=800, mobile=mobile, dark=dark)
    media = {"prefers-color-scheme": "dark" if dark else "light", "prefers-reduced-motion": "reduce"}
    page.send("Emulation.setEmulatedMedia", features=[{"name": k, "value": v} for k, v in media.items()])
    page.until("document.documentElement.dataset.ready === 'true'")
    return page


def text(page: Page, selector: str) -> str:
    return str(page.evaluate(f"document.querySelector({json.dumps(selector)}).textContent.trim()"))


def column(page: Page, number: int, table: str = "ranges") -> list[str]:
    """The cells that are shown in one column."""
    rows = f"[...document.querySelectorAll('table[data-table={table}] tbody tr')].filter(row => !row.hidden)"
    found: list[str] = page.evaluate(f"{rows}.map(row => row.cells[{number}].firstChild.textContent.trim())")
    return found


# -- every capture ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*CAPTURES, "stats_console_output.txt", "nvtx_sum_output.txt"])
def test_a_capture_renders_without_complaint(name: str, made: Callable[[str], str], browser: Browser) -> None:
    html = made(name)
    assert len(html.encode()) < LARGEST
    page = opened(browser, html, width=PHONE, mobile=True)
    assert page.console == []
    assert text(page, ".lead").endswith(".")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE, "the phone scrolls sideways"
    assert bool(page.evaluate("!!window.unstallTimeline")) == ('id="timeline-data"' in html)


def test_figures_are_those_of_the_report(made: Callable[[str], str], browser: Browser) -> None:
    page = opened(browser, made("slow_loader_window"))
    assert text(page, ".lead") == "The GPU idles 94 % of a 27.4 ms step: 23.5 ms of it data loading (data_load)."
    widths = page.evaluate(
        "[...document.querySelectorAll('.bar > svg')].map(part => parseFloat(part.getAttribute('width')))"
    )
    assert sum(widths) == pytest.approx(100, abs=0.1), "the parts add up to the step"
    cells = page.evaluate(
        "[...document.querySelector('.legend tr[data-cat=data_loading]').cells].map(c => c.textContent)"
    )
    assert cells == ["data loading", "23.5 ms", "85.6 %", "data_load"]
    assert text(page, ".gain .big") == "3.23 ms" and text(page, ".gain .times-x") == "8.4×"


# -- using it ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page(made: Callable[[str], str], browser: Browser) -> Page:
    return opened(browser, made("slow_loader_window"))


def test_columns_sort_both_ways_and_unknown_stays_last(page: Page) -> None:
    header = "table[data-table=ranges] thead th:nth-child(4)"
    for order, ends in (("descending", ("86.4", "–")), ("ascending", ("2.1", "–"))):
        page.click_on(f"{header} button")
        assert page.evaluate(f"document.querySelector('{header}').getAttribute('aria-sort')") == order
        cells = page.evaluate(
            "[...document.querySelectorAll('[data-table=ranges] tbody tr')].map(r => r.cells[3].textContent.trim())"
        )
        assert (cells[0], cells[-1]) == ends
    page.click_on("table[data-table=ranges] thead th:first-child button")
    assert column(page, 0) == sorted(column(page, 0))


def test_search_looks_into_every_table(page: Page) -> None:
    page.key("/")
    assert page.evaluate("document.activeElement.className") == "search"
    page.type("multi_tensor")
    assert page.evaluate("document.querySelector('[role=tab][aria-selected=true]').id") == "tab-kernels"
    shown = column(page, 0, "kernels")
    assert shown and all("multi_tensor" in name for name in shown)
    assert str(len(shown)) in text(page, "#panel-kernels .hits")
    page.key("Escape")
    assert len(column(page, 0, "kernels")) == 12, "a dozen rows, the rest behind a button"
    page.click_on("#panel-kernels .more")
    assert len(column(page, 0, "kernels")) == 20


def test_nothing_found_is_said(page: Page) -> None:
    page.evaluate("(s => { s.value = 'zzz'; s.dispatchEvent(new Event('input')) })(document.querySelector('.search'))")
    assert text(page, ".panel:not([hidden]) .hits") == TEXTS["en"]["no_match"]
    page.evaluate("(s => { s.value = ''; s.dispatchEvent(new Event('input')) })(document.querySelector('.search'))")


def test_tabs_and_plot_work_by_keyboard(page: Page) -> None:
    page.evaluate("document.querySelector('#tab-ranges').click(), document.querySelector('#tab-ranges').focus()")
    page.key("ArrowRight")
    assert page.evaluate("[document.activeElement.id, document.querySelector('#panel-kernels').hidden]") == [
        "tab-kernels",
        False,
    ]
    page.key("End")
    assert page.evaluate("document.activeElement.id") == "tab-osrt"
    page.evaluate("document.querySelector('[data-plot]').focus()")
    page.key("End")
    assert text(page, ".point") == "step 25: 27.7 ms"


def test_a_finding_leads_to_its_evidence_in_the_timeline(page: Page) -> None:
    jump = page.evaluate("JSON.parse(document.querySelector('#timeline-data').textContent).jumps[0]")
    before = page.evaluate("unstallTimeline.state()")
    page.evaluate("document.querySelector('.card[data-finding=\"0\"] .jump').click()")
    page.until(f"unstallTimeline.state().a !== {before['a']}")
    after = page.evaluate("unstallTimeline.state()")
    assert after["a"] <= jump["start_ns"] < jump["end_ns"] <= after["b"]
    assert jump["idle"], "the gap that is shaded"
    box = "document.querySelector('#timeline').getBoundingClientRect()"
    assert page.until(f"{box}.top >= 0 && {box}.top < innerHeight"), "it is in sight"


def test_the_timeline_speaks_the_page_s_language(page: Page) -> None:
    texts: dict[str, str] = page.evaluate("UnstallTimeline.TEXTS")
    korean = TIMELINE["ko"]
    assert set(korean) == set(texts)
    for key, english in texts.items():
        assert set(re.findall(r"\{\w+\}", english)) == set(re.findall(r"\{\w+\}", korean[key])), key


# -- how it looks -----------------------------------------------------------------------------------------------------


def test_dark_and_light_follow_the_system_and_the_switch(made: Callable[[str], str], browser: Browser) -> None:
    colour = "getComputedStyle(document.body).color"
    light = opened(browser, made("twoproc")).evaluate(colour)
    page = opened(browser, made("twoproc"), dark=True)
    dark = page.evaluate(colour)
    assert dark != light
    for expected in (light, dark):
        page.click_on(".theme")
        assert page.evaluate(colour) == expected
    assert page.console == []


def test_on_paper_every_table_is_there_and_light(made: Callable[[str], str], browser: Browser) -> None:
    page = opened(browser, made("twoproc"), dark=True)
    page.send("Emulation.setEmulatedMedia", media="print")
    assert page.evaluate("[...document.querySelectorAll('.panel')].every(p => p.offsetHeight > 0)")
    assert page.evaluate("getComputedStyle(document.querySelector('.card')).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("document.querySelector('.search').offsetHeight") == 0


def test_without_scripts_everything_is_still_there(made: Callable[[str], str], browser: Browser) -> None:
    html = made("stats_console_output.txt")
    page = browser.open("<p>", width=1280)
    page.send("Emulation.setScriptExecutionDisabled", value=True)
    file = Path(browser._room) / "plain.html"
    file.write_text(html, encoding="utf-8")
    page.navigate(file.as_uri())
    assert page.evaluate("[...document.querySelectorAll('.panel')].every(p => p.offsetHeight > 0)")
    assert page.evaluate("getComputedStyle(document.querySelector('.search')).display") == "none"


# -- names are anybody's text -----------------------------------------------------------------------------------------

ACT = "window.hacked=1"
NAMES = [
    f"<script>{ACT}</script>", f"</script><script>{ACT}</script>", f'"><img src=x onerror={ACT}>',
    f"'onmouseover='{ACT}", f"<!--<script>{ACT}//", f"]]>{ACT}", f"</style><svg onload={ACT}>", "{{ 7*7 }}${7*7}",
    "\u202eevil\u2066\u200b", "\u2028\u2029", "데이터 로드 👩‍👩‍👧", "x" * 5000,
    "a\x00b\x1b[31m\ud800", "__proto__", "&lt;b&gt;",
]  # fmt: skip


def hostile(name: str) -> model.Report:
    """A report in which every text that can come from a profile is ``name``."""
    row = samples.a_finding(
        where=model.Where(range=name, kernel=name, call=name, process=4242), title=f"Loading in {name}",
        evidence=[model.Evidence(text=f"{name} takes 22 ms", source=name, start_ns=1, end_ns=2)],
        next_limit=name, overlaps=[name],
    )  # fmt: skip
    report = samples.full_report(
        ranges=[samples.a_range(name, 5.0, 60.0, domain=name), samples.a_range("data_load", 4.0, 40.0)],
        kernels=[samples.a_kernel(name, 3.0)], findings=[row],
        steps=[samples.steps_row(source=name, warmup_steps=[name])],
        warnings=[model.Warning_(code="odd", text=f"The range `{name}` was left out.")],
        not_checked=[model.NotChecked(code="gil", reason=f"not traced: {name}")],
        api=[msgspec.structs.replace(samples.full_report().api[0], name=name, callers=[name])],
        samples=[model.SampleRow(symbol=name, samples=3, percent=100.0)],
    )  # fmt: skip
    facts = report.profile
    facts.path, facts.host, facts.producer_version = f"/tmp/{name}.sqlite", name, name
    facts.gpus[0].name = facts.processes[0].name = name
    for category in report.breakdown[0].categories:
        category.ranges = [model.RangeShare(name=name, ns=5)]
    return report


def elements(page: Page) -> dict[str, int]:
    """How many elements of each kind, the page's own optional ones (a title, a shortened name) aside."""
    code = "[...document.querySelectorAll('*')].reduce((n, e) => (n[e.localName] = (n[e.localName] || 0) + 1, n), {})"
    counted: dict[str, int] = page.evaluate(code)
    return counted


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_no_name_acts(name: str, browser: Browser) -> None:
    plain = elements(opened(browser, to_html(hostile("forward"))))
    page = opened(browser, to_html(hostile(name)), width=PHONE, mobile=True)
    assert page.console == [] and not page.evaluate("window.hacked || document.title.includes('49')")
    assert {k: v for k, v in elements(page).items() if k != "code"} == {k: v for k, v in plain.items() if k != "code"}
    assert page.evaluate(
        "[...document.querySelectorAll('*')].every(e => [...e.attributes].every(a => !/^on/.test(a.name)))"
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE
    shown = page.evaluate("document.body.innerText")
    assert not set(shown) & set("\u202e\u2066\u200b\u2028\x1b\x00"), "what reorders or hides text is shown as an escape"


def test_the_policy_stops_what_slips_through(browser: Browser) -> None:
    """Even if a name became an element, nothing of it would run or be fetched."""
    page = opened(browser, to_html(samples.full_report()))
    page.evaluate(f"document.body.insertAdjacentHTML('beforeend', '<img src=\"https://e.org/x\" onerror=\"{ACT}\">')")
    page.evaluate(f"document.body.append(Object.assign(document.createElement('script'), {{textContent: '{ACT}'}}))")
    page.until("true")
    assert not page.evaluate("window.hacked")
    said = " ".join(page.console)
    assert all(rule in said for rule in ("img-src", "script-src")), "both were refused, and the console says so"


@settings(max_examples=25, deadline=None)
@given(
    st.recursive(
        st.text() | st.integers(-(2**53), 2**53), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_embedded_data_ends_no_element_and_reads_back(data: object) -> None:
    raw = str(embedded(data))
    assert not set(raw) & set("<>&\u2028\u2029")
    assert json.loads(raw) == data


def test_a_page_never_outgrows_its_bound(browser: Browser) -> None:
    name = "<&\u202e데이터" * 800
    many = samples.full_report(
        ranges=[samples.a_range(f"{i}{name}", 5.0, 0.01) for i in range(3_000)],
        kernels=[samples.a_kernel(f"{name}{i}", 3.0) for i in range(3_000)],
        steps=[samples.steps_row(samples_ns=[25_000_000 + i % 7919 for i in range(100_000)], count=100_001)],
    )
    html = to_html(many)
    assert len(html.encode()) <= LARGEST
    page = opened(browser, html)
    assert page.console == []
    assert "of 3000 rows" in text(page, "#panel-ranges .rows")


# -- what there is not ------------------------------------------------------------------------------------------------


def test_no_steps_no_gpu_no_ranges(browser: Browser) -> None:
    report = samples.full_report(
        ranges=None, kernels=None, copies=None, api=None, steps=[], breakdown=[], findings=[], device_total_ns=None,
        warnings=[], not_checked=[model.NotChecked(code="findings", reason="a table of sums")],
    )  # fmt: skip
    page = opened(browser, to_html(report))
    assert page.console == []
    said = page.evaluate("[...document.querySelectorAll('.empty')].map(e => e.textContent)")
    assert said == [TEXTS["en"]["no_steps"], TEXTS["en"]["findings_unchecked"]]
    assert not page.evaluate("document.querySelector('.tables, .bar, .plot')")


def test_clean_is_only_what_was_checked(browser: Browser) -> None:
    page = opened(browser, to_html(samples.full_report(findings=[])))
    assert text(page, ".empty") == TEXTS["en"]["no_findings"]


# -- comparisons ------------------------------------------------------------------------------------------------------


def both_sides() -> str:
    before = samples.full_report()
    row = samples.steps_row(samples_ns=[2_531_200 + i % 5 for i in range(29)],
                            period_ns=model.Period(median=2_531_200, p10=2_500_000, p90=2_600_000))  # fmt: skip
    parts = [model.Category(name="gpu_compute", ns=2_531_200, percent=100.0)]
    after = samples.full_report(
        steps=[row], breakdown=[model.BreakdownRow(process=4242, step_ns=2_531_200, categories=parts)]
    )
    sides = (Side(r, r.steps[0], r.steps[0].samples_ns) for r in (before, after))
    return comparison_to_html(compare(before, after), *sides)


def test_both_sides_stand_on_one_scale(browser: Browser) -> None:
    page = opened(browser, both_sides(), width=PHONE, mobile=True)
    assert page.console == [] and page.evaluate("document.documentElement.scrollWidth") <= PHONE
    parts = "[...bar.children].reduce((sum, part) => sum + parseFloat(part.getAttribute('width')), 0)"
    sums = page.evaluate(f"[...document.querySelectorAll('.bar')].map(bar => {parts})")
    assert sums[0] == pytest.approx(100, abs=0.1) and sums[1] == pytest.approx(10, abs=0.1)
    assert text(page, ".word") == "faster" and "10.0×" in text(page, ".lead")
    assert len(page.evaluate("[...document.querySelectorAll('.spread')].map(s => s.textContent)")) == 2


@pytest.mark.parametrize("name", NAMES[:4], ids=range(4))
def test_no_name_acts_in_a_comparison(name: str, browser: Browser) -> None:
    before, after = hostile(name), hostile(name)
    sides = (Side(r, r.steps[0], r.steps[0].samples_ns) for r in (before, after))
    page = opened(browser, comparison_to_html(compare(before, after), *sides))
    assert page.console == [] and not page.evaluate("window.hacked")
    assert page.evaluate("document.querySelectorAll('img, body script:not([type])').length") == 1, "our own script"


# -- words ------------------------------------------------------------------------------------------------------------


def test_every_text_is_there_in_both_languages_with_the_same_figures() -> None:
    english, korean = TEXTS["en"], TEXTS["ko"]
    assert list(english) == list(korean)
    for key, template in english.items():
        fields = [{field for _, field, _, _ in string.Formatter().parse(t) if field} for t in (template, korean[key])]
        assert fields[0] == fields[1], key
    same = {key for key in english if english[key] == korean[key]}
    assert all(not any(ch.isalpha() for ch in english[k].replace("GPU", "")) or k in SAME for k in same), same - SAME


SAME = {
    "title", "compare_title", "process", "spread", "gpu", "pid", "c_pid", "c_rate", "c_gpu", "c_stddev", "c_stddev_us",
    "pace_gpu", "ranges_note", "memsets_note", "warmup_of",
}  # fmt: skip
"""Names, units and figures alone read the same in Korean."""
