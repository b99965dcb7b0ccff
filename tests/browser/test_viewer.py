"""The timeline viewer in a real browser: it draws, moves, finds, jumps, and takes no name for anything but text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import msgspec
import pytest
from driver import Browser, Page

import unstall
from unstall.analyze.timeline import timeline
from unstall.model import Timeline
from unstall.report import perfetto
from unstall.testing import TraceBuilder, ms, us

ASSETS = Path(perfetto.__file__).parent / "assets"
EVIL = '</script><img src=x onerror="window.pwned=1"><script>window.pwned=1</script>{n}'


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as running:
        yield running


def html(made: Timeline, **options: Any) -> str:
    """A page as a report embeds it."""
    data = msgspec.json.encode(made).replace(b"<", rb"\u003c").decode()
    css, js = ((ASSETS / f"timeline.{kind}").read_text("utf-8") for kind in ("css", "js"))
    chosen = json.dumps(options, ensure_ascii=True).replace("<", r"\u003c")
    return f"""<!doctype html><html><head><meta charset="utf-8"><style>{css}</style></head><body>
<div id="tl"></div><script type="application/json" id="unstall-timeline">{data}</script><script>{js}</script><script>
const data = JSON.parse(document.getElementById("unstall-timeline").textContent);
window.chosen = null;
window.view = UnstallTimeline.mount(document.getElementById("tl"), data,
  {{...{chosen}, onselect: e => {{ window.chosen = e; }}}});
</script></body></html>"""


def trace() -> TraceBuilder:
    t = TraceBuilder()
    t.thread(100, name="main")

    def body(t: TraceBuilder, i: int, at: int) -> None:
        t.range(f"step_{i}", at, at + ms(9.9))
        t.range("data_load", at + us(10), at + ms(6))
        t.range("forward", at + ms(6), at + ms(9))
        t.launch("gemm<float>", at=at + ms(6.2), kernel_start=at + ms(6.4), kernel_dur=us(400), grid=(7, 8, 9))
        t.launch(EVIL, at=at + ms(7.2), kernel_dur=us(500))

    t.steps(10, ms(10), body)
    t.sample(ms(51), [EVIL, "outer"])
    return t


@pytest.fixture(scope="module")
def made() -> Timeline:
    analysis = unstall.analyze(trace().profile())
    found = timeline(analysis, unstall.diagnose(analysis))
    assert found is not None
    return found


@pytest.fixture
def page(browser: Browser, made: Timeline) -> Iterator[Page]:
    shown = browser.open(html(made, theme="light"), 1200, 800)
    shown.until("view.state().frames > 0")
    yield shown
    assert shown.console == [] and not shown.evaluate("window.pwned")
    shown.close()


def state(page: Page) -> dict[str, Any]:
    found: dict[str, Any] = page.evaluate("view.state()")
    return found


def track(made: Timeline, kind: str) -> int:
    return next(i for i, t in enumerate(made.tracks) if t.kind == kind)


def settled(page: Page) -> dict[str, Any]:
    """The state once nothing moves any more."""
    page.evaluate("""new Promise(done => { let last = "", same = 0; const look = () => {
        const now = [view.state().a, view.state().b].join(); same = now === last ? same + 1 : 0; last = now;
        if (same > 8) done(); else requestAnimationFrame(look); }; look(); })""")
    return state(page)


PIXELS = """(() => { const c = document.querySelector(".ut-canvas"), copy = document.createElement("canvas");
    copy.width = c.width; copy.height = c.height;
    const to = copy.getContext("2d", {willReadFrequently: true}); to.drawImage(c, 0, 0);
    return to.getImageData(%s); })()"""


def colours(page: Page) -> int:
    """How many different colours the canvas shows: something is drawn."""
    return int(page.evaluate(f"new Set(new Uint32Array({PIXELS % '0, 0, c.width, c.height'}.data.buffer)).size"))


def colour_at(page: Page, x: float) -> str:
    """The colour at the lower edge of the canvas."""
    return str(page.evaluate(f"[...{PIXELS % f'{x} * c.width / c.clientWidth, c.height - 1, 1, 1'}.data].join()"))


def middle(page: Page) -> tuple[float, float]:
    left, top, width, height = page.box(".ut-canvas")
    return left + width / 2, top + height / 2


def test_it_opens_on_the_typical_step(page: Page, made: Timeline) -> None:
    now = state(page)
    assert now["a"] < made.home[0] < made.home[1] < now["b"] and now["b"] - now["a"] < 1.2 * made.home[1]
    assert now["events"] == sum(len(t.start) for t in made.tracks) and colours(page) > 12
    labels = page.evaluate("[...document.querySelectorAll('.ut-gutter button')].map(b => b.textContent)")
    assert {"NVTX", "CUDA API", "Stream 7", "Steps"} <= set(labels) and any("main 100" in x for x in labels)


def test_wheel_and_keys_zoom_around_the_place_they_mean(page: Page) -> None:
    x, y = middle(page)
    before = state(page)
    page.wheel(x, y, -300, ctrl=True)
    page.until(f"view.state().b - view.state().a < {0.7 * (before['b'] - before['a'])}")
    near = state(page)
    centre = (before["a"] + before["b"]) / 2
    assert abs((near["a"] + near["b"]) / 2 - centre) < 0.01 * (before["b"] - before["a"])
    page.evaluate("document.querySelector('.ut-canvas').focus()")
    page.key("w")
    closer = settled(page)
    assert closer["b"] - closer["a"] < 0.7 * (near["b"] - near["a"])
    page.key("Home")
    assert settled(page)["a"] == pytest.approx(before["a"])
    page.key("0")
    assert settled(page)["b"] - settled(page)["a"] > 9 * ms(10)


def test_drag_and_keys_move_without_zooming(page: Page) -> None:
    x, y = middle(page)
    before = state(page)
    page.drag(x, y, x - 200, y)
    after = settled(page)
    assert after["a"] > before["a"] and after["b"] - after["a"] == pytest.approx(before["b"] - before["a"])
    page.key("ArrowLeft")
    assert settled(page)["a"] < after["a"]
    assert state(page)["selected"] is None, "a drag is no click"


def test_a_click_tells_all_of_an_event_and_leads_to_what_it_launched(page: Page, made: Timeline) -> None:
    api, stream = track(made, "api"), track(made, "stream")
    starts = list(accumulate(made.tracks[api].start))
    row = next(i for i, at in enumerate(starts) if at > 0)
    page.evaluate(f"view.zoomTo({starts[row] - us(200)}, {starts[row] + ms(2)}, true)")
    page.click(*page.evaluate(f"view.where({api}, {row})"))
    page.until("view.state().selected")
    assert page.evaluate("window.chosen.kind") == "api"
    text = page.evaluate("document.querySelector('.ut-panel').textContent")
    assert "cudaLaunchKernel" in text and "main 100" in text
    page.click_on(".ut-panel .ut-link")
    page.until(f"view.state().selected.track === {stream}")
    assert page.evaluate("view.state().selected.link === window.chosen.link")
    page.evaluate("document.querySelector('.ut-canvas').focus()")
    page.key("j")
    page.until(f"view.state().selected.track === {api} && view.state().selected.row === {row}")
    page.key("Escape")
    page.until("view.state().selected === null")
    assert page.evaluate("document.querySelector('.ut-panel').hidden")


def test_search_counts_and_goes_round(page: Page) -> None:
    page.click_on(".ut-search")
    page.type("GEMM")
    page.until("view.state().hits === 10")
    starts = []
    for _ in range(11):
        page.key("Enter")
        starts.append(settled(page)["selected"]["start_ns"])
    assert len(set(starts)) == 10 and starts[0] == starts[10], "all of them, then from the front"
    assert page.evaluate("document.querySelector('.ut-hits').textContent").endswith("of 10")
    assert {s - starts[0] for s in starts} <= {ms(10) * i for i in range(-9, 10)}
    page.key("Enter", shift=True)
    assert settled(page)["selected"]["start_ns"] == starts[9]
    page.evaluate("view.search('no such thing')")
    assert state(page)["hits"] == 0


def test_a_finding_jumps_to_its_range_and_shades_the_gap(page: Page, made: Timeline) -> None:
    number = next(i for i, j in enumerate(made.jumps) if j is not None and j.label == "data_load")
    jump = made.jumps[number]
    assert jump is not None
    page.evaluate("view.whole(true)")
    page.evaluate(f"view.jump(data.jumps[{number}])")
    now = settled(page)
    assert now["a"] < jump.start_ns < jump.end_ns < now["b"] < 2 * ms(10)
    assert "GPU idle" in page.evaluate("document.querySelector('.ut-status').textContent")
    at = page.evaluate("(() => { const s = view.state(), w = document.querySelector('.ut-canvas').clientWidth;"
                       f"return ({(jump.start_ns + jump.end_ns) / 2} - s.a) / (s.b - s.a) * w; }})()")  # fmt: skip
    shaded = colour_at(page, at)
    page.evaluate("view.clearJump()")
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert colour_at(page, at) != shaded


def test_names_are_text_wherever_they_appear(page: Page, made: Timeline) -> None:
    samples, stream = track(made, "samples"), track(made, "stream")
    page.evaluate("view.zoomTo(-1e6, 1.2e7, true)")
    page.evaluate(f"view.search({json.dumps('onerror')})")
    page.evaluate("view.next()")
    settled(page)
    assert page.evaluate("document.querySelector('.ut-panel b').textContent") == EVIL
    selected = state(page)["selected"]
    page.move(*page.evaluate(f"view.where({selected['track']}, {selected['row']})"))
    page.until("!document.querySelector('.ut-tip').hidden")
    assert EVIL in page.evaluate("document.querySelector('.ut-tip').textContent")
    assert {samples, stream} and page.evaluate("document.querySelectorAll('.ut img, .ut script').length") == 0


def test_headings_fold_by_mouse_and_keyboard(page: Page) -> None:
    rows = state(page)["rows"]
    page.click_on(".ut-head")
    page.until(f"view.state().rows < {rows}")
    assert page.evaluate("document.querySelector('.ut-head').getAttribute('aria-expanded')") == "false"
    page.evaluate("document.querySelector('.ut-head').focus()")
    page.key("Enter")
    page.until(f"view.state().rows === {rows}")
    assert page.evaluate("document.activeElement.className") == "ut-head", "the focus stays"


def test_themes_and_words_are_the_pages_own(browser: Browser, made: Timeline) -> None:
    shown = browser.open(html(made, texts={"home": "한 단계", "nvtx": "범위"}), 1200, 800, dark=True)
    shown.until("view.state().frames > 0")
    assert shown.evaluate("document.querySelector('.ut').dataset.theme") == "dark"
    assert shown.evaluate("[...document.querySelectorAll('.ut-button')].some(b => b.textContent === '한 단계')")
    dark = shown.evaluate("getComputedStyle(document.querySelector('.ut')).backgroundColor")
    shown.evaluate("view.setTheme('light')")
    assert shown.evaluate("getComputedStyle(document.querySelector('.ut')).backgroundColor") != dark
    shown.evaluate("view.destroy()")
    assert shown.evaluate("document.querySelectorAll('.ut').length") == 0 and shown.console == []
    shown.close()


def test_two_fingers_zoom_on_a_phone(browser: Browser, made: Timeline) -> None:
    shown = browser.open(html(made), 390, 780, mobile=True)
    shown.until("view.state().frames > 0")
    assert shown.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing sticks out"
    before = state(shown)
    x, y = middle(shown)
    shown.touch("touchStart", (x - 30, y), (x + 30, y))
    for i in range(1, 6):
        shown.touch("touchMove", (x - 30 - 12 * i, y), (x + 30 + 12 * i, y))
    shown.touch("touchEnd")
    after = settled(shown)
    assert after["b"] - after["a"] < 0.6 * (before["b"] - before["a"]) and shown.console == []
    shown.close()


def test_a_real_capture_is_drawn_without_a_complaint(browser: Browser, profile_path: Callable[[str], Path]) -> None:
    analysis = unstall.analyze(unstall.load(profile_path("twoproc")))
    found = timeline(analysis, unstall.diagnose(analysis))
    assert found is not None
    shown = browser.open(html(found), 1300, 900)
    shown.until("view.state().frames > 0")
    for number, jump in enumerate(found.jumps):
        if jump is not None:
            shown.evaluate(f"view.jump(data.jumps[{number}])")
            now = settled(shown)
            assert now["a"] <= jump.start_ns and jump.end_ns <= now["b"]
    shown.evaluate("view.whole(true)")
    assert settled(shown)["events"] > 10_000 and colours(shown) > 12 and shown.console == []
    shown.close()
