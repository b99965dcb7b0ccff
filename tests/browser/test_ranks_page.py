"""The page of ``unstall ranks`` in a real browser: the map is drawn and moved through by keys; nothing is fetched."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from driver import Browser

sys.path.insert(0, str(Path(__file__).parents[1] / "cli"))
from test_ranks_cli import report

from unstall.ranks.html import to_html


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as made:
        yield made


def test_the_map_is_drawn_and_moved_through_by_keys(browser: Browser) -> None:
    page = browser.open(to_html(report(hostile=True)))
    inked = (
        "(() => { const c = document.getElementById('heat'); const d = c.getContext('2d').getImageData(0, 0, c.width, "
        "c.height).data; return new Set(Array.from({length: 400}, (_, i) => d[i * 4 * 97])).size })()"
    )
    assert page.evaluate(inked) > 2, "more than one shade is drawn"
    page.evaluate("document.getElementById('heat').focus()")
    page.key("ArrowRight")
    assert page.evaluate("document.getElementById('cell').textContent") == "rank 2, step 1: not captured"
    page.key("ArrowRight")
    said = page.evaluate("document.getElementById('cell').textContent")
    assert said == "rank 2, step 2: 15.0 ms, of which 4.00 ms waiting"
    page.evaluate("document.querySelector('input[value=wait]').click()")
    assert page.evaluate("document.getElementById('high').textContent") == "4.00 ms"
    assert page.console == []


def test_the_theme_turns_and_the_table_sorts(browser: Browser) -> None:
    page = browser.open(to_html(report()))
    before = page.evaluate("document.documentElement.dataset.theme")
    page.evaluate("document.querySelector('.theme').click()")
    assert page.evaluate("document.documentElement.dataset.theme") != before
    page.evaluate("document.querySelector('table.sortable thead button').click()")
    order = page.evaluate("[...document.querySelectorAll('table.sortable tbody th')].map(e => e.dataset.v).join()")
    assert order == ",".join(str(r) for r in range(11, -1, -1))
    assert page.console == []
