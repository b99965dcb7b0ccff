"""``--lang ko`` from outside: whole reports in Korean, aligned, the same figures, chosen by option or environment.

After an intended change: ``UNSTALL_UPDATE_GOLDEN=1 pytest tests/cli/test_korean.py``, then read the difference.
"""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import samples
from rich.cells import cell_len

from unstall import compare, demo
from unstall.model import Report
from unstall.pipeline import report_of
from unstall.report import comparison, terminal
from unstall.report.json import to_json
from unstall.report.markdown import to_markdown

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
GOLDEN = Path(__file__).parent / "golden"
PROFILES = sorted(path.name.partition(".")[0] for path in DATA.glob("*.sqlite.xz"))
HANGUL = re.compile("[가-힣]")
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def read(profile_path: Callable[[str], Path]) -> Callable[[str, str], Report]:
    return cache(lambda name, language: report_of(profile_path(name), cache=False, language=language))


def shown(report: Report, monkeypatch: pytest.MonkeyPatch, columns: int, **options: Any) -> str:
    monkeypatch.setenv("COLUMNS", str(columns))
    out = io.StringIO()
    terminal.show(report, out, **options)
    return out.getvalue()


# -- the words -----------------------------------------------------------------------------------------------------


def words_only(text: str) -> str:
    """A report without its figures, bars and columns: what another analysis may move is not the language's."""
    plain = re.sub("[█▏▎▍▌▋▊▉▁▂▃▄▅▆▇]+", "", text)
    plain = re.sub(r"(?<![A-Za-z_\d])<?\d+(?:[.,]\d+)*", "#", plain)
    return re.sub(r"[ \t]+", " ", re.sub(r"\n(?:\s*\n)+", "\n\n", plain))


@pytest.mark.parametrize("name", ["pageable_h2d_window", "twoproc"])
def test_golden(name: str, read: Callable[[str, str], Report], monkeypatch: pytest.MonkeyPatch) -> None:
    out = words_only(shown(read(name, "ko"), monkeypatch, 160, top=3))
    path = GOLDEN / f"ko_{name}.txt"
    if os.environ.get("UNSTALL_UPDATE_GOLDEN"):
        path.write_text(out, encoding="utf-8")
    assert out == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PROFILES)
def test_nothing_is_left_in_english(
    name: str, read: Callable[[str, str], Report], monkeypatch: pytest.MonkeyPatch
) -> None:
    report = read(name, "ko")
    said = [w.text for w in report.warnings] + [n.reason for n in report.not_checked]
    for finding in report.findings:
        said += [finding.title, finding.fix.title, finding.fix.text, *(e.text for e in finding.evidence)]
        said += [finding.next_limit] if finding.next_limit else []
    assert [text for text in said if not HANGUL.search(text)] == []
    for text in (shown(report, monkeypatch, 160), to_markdown(report)):
        quoted = re.sub(r"`[^`]*`|<[^>]*>|for batch in", "", text)
        assert re.findall(r"\b(?:[a-z]{2,} ){3,}[a-z]{2,}", quoted) == [], "a sentence in English"


@pytest.mark.parametrize("name", ["slow_loader_window", "twoproc"])
def test_the_language_changes_texts_only(name: str, read: Callable[[str, str], Report]) -> None:
    english, korean = (json.loads(to_json(read(name, language))) for language in ("en", "ko"))
    assert (english.pop("language"), korean.pop("language")) == ("en", "ko")
    assert mute(english) == mute(korean)
    assert english != korean


TEXTS = {"text", "title", "reason", "next_limit"}


def mute(part: Any) -> Any:
    """JSON without its texts for people."""
    if isinstance(part, dict):
        return {key: mute(value) for key, value in part.items() if key not in TEXTS}
    return [mute(value) for value in part] if isinstance(part, list) else part


def test_a_comparison_speaks_korean(monkeypatch: pytest.MonkeyPatch) -> None:
    made = demo.recorded_verdict("ko")
    assert made.verdict == "faster", "a code stays a code"
    monkeypatch.setenv("COLUMNS", "80")
    out = io.StringIO()
    comparison.show(made, out)
    for text in (out.getvalue(), comparison.to_markdown(made)):
        assert "빨라짐: 변경 전 / 변경 후 = 10.1×, 95 % 신뢰 구간" in text
        assert "스텝당 ms" in text and not re.search(r"\b(before|after|median|interval|side)\b", text.replace("_", ""))


def test_inconclusive_is_never_faster_in_korean() -> None:
    few = compare.compare([3.0, 3.1], [1.0, 1.1], language="ko")
    assert comparison.headline(few).startswith("판정 불가")
    assert HANGUL.search(few.reason) and all(HANGUL.search(w.text) for w in few.warnings)


# -- the columns ---------------------------------------------------------------------------------------------------


def korean_names() -> Report:
    names = ["데이터로딩", "순전파", "backward", "역전파와 옵티마이저 그리고 아주 긴 이름의 구간입니다 정말로 깁니다"]
    return samples.full_report(
        language="ko", ranges=[samples.a_range(name, 600.0 / (i + 1), 25.0) for i, name in enumerate(names)]
    )


@pytest.mark.parametrize("columns", [40, 60, 80, 100, 160])
def test_lines_fit(columns: int, read: Callable[[str, str], Report], monkeypatch: pytest.MonkeyPatch) -> None:
    for report in (korean_names(), read("slow_loader_window", "ko"), read("twoproc", "ko")):
        for text in shown(report, monkeypatch, columns).splitlines():
            assert cell_len(text) <= columns, text


@pytest.mark.parametrize("columns", [80, 160])
def test_columns_stand_below_their_headings(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    out = shown(korean_names(), monkeypatch, columns)
    heading, *rows = out.split("\n구간 ·")[1].split("\n\n")[0].splitlines()[-5:]
    edge = cell_len(heading[: heading.index("합계 ms") + len("합계 ms")])
    figures = [re.search(r"\d+\.\d+ *", row[row.index("30 ") + 2 :]) for row in rows]
    assert all(figures) and len(rows) == 4
    ends = {cell_len(row.partition(".")[0]) for row in rows}
    assert len(ends) == 1, "decimal points stand in one cell"
    assert all(cell_len(row) <= columns for row in rows) and ends.pop() <= edge


def test_breakdown_bars_begin_in_one_cell(read: Callable[[str, str], Report], monkeypatch: pytest.MonkeyPatch) -> None:
    block = shown(read("slow_loader_window", "ko"), monkeypatch, 80).split("시간 내역")[1].split("\n\n")[0]
    starts = {cell_len(row[: re.search("[█▏▎▍▌▋▊▉]", row).start()]) for row in block.splitlines()[1:]}  # type: ignore[union-attr]
    assert len(starts) == 1


# -- the choice ----------------------------------------------------------------------------------------------------


def test_option_environment_or_english(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    english = run("explain", "launch-bound")[1]
    korean = run("explain", "launch-bound", "--lang", "ko")[1]
    assert HANGUL.search(korean) and not HANGUL.search(english)
    monkeypatch.setenv("UNSTALL_LANG", "ko")
    assert run("explain", "launch-bound")[1] == korean
    assert run("explain", "launch-bound", "--lang", "en")[1] == english
    monkeypatch.setenv("UNSTALL_LANG", "")
    assert run("explain", "launch-bound")[1] == english


def test_a_language_that_there_is_not_is_a_usage_error(run: Run) -> None:
    code, out, err = run("explain", "--lang", "tlh")
    assert (code, out) == (2, "") and "'en', 'ko'" in err


def test_list_of_findings_is_in_korean(run: Run) -> None:
    rows = run("explain", "--lang", "ko")[1].splitlines()
    assert len(rows) >= 18 and all(HANGUL.search(row) for row in rows)


def test_report_json_carries_its_language(run: Run, profile_path: Callable[[str], Path]) -> None:
    code, out, _ = run("report", profile_path("slow_loader_window"), "--lang", "ko", "--json", "-")
    raw = json.loads(out)
    assert code == 0 and raw["language"] == "ko"
    assert raw["findings"][0]["code"] == "host-data-loading" and HANGUL.search(raw["findings"][0]["title"])


def test_what_the_cache_kept_in_english_is_said_in_korean(run: Run, profile_path: Callable[[str], Path]) -> None:
    for language in ("en", "ko"):
        raw = json.loads(run("report", profile_path("nvtx_lost_nsys2024"), "--lang", language, "--json", "-")[1])
        (lost,) = [w["text"] for w in raw["warnings"] if w["code"] == "nvtx-lost"]
        assert bool(HANGUL.search(lost)) == (language == "ko"), lost


def test_text_of_nsys_stats_in_korean(run: Run) -> None:
    text = ROOT / "tests" / "data" / "lab" / "stats_console_output.txt"
    code, out, _ = run("report", text, "--lang", "ko", "--json", "-")
    raw = json.loads(out)
    assert code == 0 and raw["language"] == "ko" and raw["warnings"] and raw["not_checked"]
    said = [w["text"] for w in raw["warnings"]] + [n["reason"] for n in raw["not_checked"]]
    assert [text for text in said if not HANGUL.search(text)] == []


def test_compare_and_doctor(run: Run) -> None:
    data = Path(demo.__file__).parent / "data"
    sides = (data / "slow_loader_before.txt", data / "slow_loader_after.txt")
    code, out, _ = run("compare", *sides, "--lang", "ko")
    assert code == 0 and "빨라짐" in out
    code, out, _ = run("doctor", "--lang", "ko")
    assert code == 0 and "여기서 기록하는 것" in out and "Lost without it" not in out


# -- the page beside README.md -------------------------------------------------------------------------------------


def blocks(name: str) -> list[str]:
    """Code blocks without their comments and without the shown output, which is the language's."""
    found = re.findall(r"```(\w*)\n(.*?)```", (ROOT / name).read_text(encoding="utf-8"), re.DOTALL)
    return [re.sub(r"(?m) +#.*$", "", text) for kind, text in found if kind != "text"]


def test_readme_has_the_same_commands_and_code() -> None:
    assert blocks("README.ko.md") == blocks("README.md")


def test_readme_has_the_same_sections_rows_and_links() -> None:
    english, korean = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "README.ko.md"))
    assert len(re.findall(r"(?m)^#+ ", english)) == len(re.findall(r"(?m)^#+ ", korean))
    first_cells = [re.findall(r"(?m)^\| (`.*?) \| ", text) for text in (english, korean)]
    assert first_cells[0] == first_cells[1]
    links = [set(re.findall(r"\]\(([^)]+)\)", text)) for text in (english, korean)]
    assert links[1] - links[0] == {"README.md", "docs/glossary.ko.md"} and links[0] - links[1] == {"README.ko.md"}
    assert all((ROOT / link).exists() for link in links[1])


def test_readme_shows_the_real_output(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = run("demo", "--recorded", "--lang", "ko")
    real = out[out.index(demo.RECORDED) : out.index("\n커널 ·")]
    readme = ROOT / "README.ko.md"
    before, fence, rest = readme.read_text(encoding="utf-8").partition("```text\n")
    current, after = rest.split("```", 1)
    if os.environ.get("UNSTALL_UPDATE_GOLDEN"):
        readme.write_text(f"{before}{fence}{real}```{after}", encoding="utf-8")
        current = real
    assert current == real, "run: UNSTALL_UPDATE_GOLDEN=1 pytest tests/cli"
