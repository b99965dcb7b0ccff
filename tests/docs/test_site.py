"""The site builds without a warning, holds every page, and loads nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="the extra docs is not installed")
pytest.importorskip("material", reason="the extra docs is not installed")
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(target)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return target


def test_every_page_is_there(site: Path) -> None:
    pages = {p.relative_to(ROOT / "docs").with_suffix(".html") for p in (ROOT / "docs").rglob("*.md")}
    assert [str(p) for p in pages if not (site / p).exists()] == []
    for name in (
        "architecture",
        "contributing",
        "security",
        "benchmarks/planted",
        "benchmarks/compare",
        "examples/index",
    ):
        assert (site / f"{name}.html").exists()


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    loads = re.compile(
        r"""<(?:script|img|iframe|source|link(?![^>]*rel="canonical"))[^>]*(?:src|href)=["']?(?:https?:)?//"""
    )
    assert [p.name for p in site.rglob("*.html") if loads.search(p.read_text(encoding="utf-8"))] == []
    styles = "".join(p.read_text(encoding="utf-8") for p in site.rglob("*.css"))
    assert not re.search(r"url\(['\"]?(https?:)?//|@import", styles)


def test_included_files_are_shown_and_links_follow(site: Path) -> None:
    rule = (site / "add-a-rule.html").read_text(encoding="utf-8")
    assert "metrics-in-step" in rule and "<!-- include" not in rule and "entry-points" in rule
    assert "unstall baseline check" in re.sub(r"<[^>]+>", "", (site / "ci.html").read_text(encoding="utf-8"))
    assert 'href="examples/index.html"' in (site / "index.html").read_text(encoding="utf-8")
    assert (site / "examples/05_what_if.py").exists()


def test_every_public_name_is_described(site: Path) -> None:
    import unstall

    text = re.sub(r"<[^>]+>", "", (site / "python.html").read_text(encoding="utf-8"))
    missing = [n for n in unstall.__all__ if not n.startswith("_") and f"unstall.{n}" not in text]
    assert missing == [] and ":class:" not in text and "``" not in text


def test_bars_in_tables_have_no_backslash(site: Path) -> None:
    text = (site / "commands/report.html").read_text(encoding="utf-8")
    assert "total|self|gpu" in text.replace("&#124;", "|")


def test_findings_are_explained_in_korean_as_well(site: Path) -> None:
    english = {p.name for p in (site / "findings").glob("*.html")}
    assert english == {p.name for p in (site / "findings/ko").glob("*.html")} and len(english) > 15
    text = (site / "findings/ko/host-data-loading.html").read_text(encoding="utf-8")
    assert "다음 배치를 기다립니다" in text
