"""The page from the command line: what is written where, and that nothing else fails for it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from unstall import demo
from unstall.collect import Capture
from unstall.report.html import page

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def capture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which a run has left the recorded profile; running a program is left out."""
    with demo.recorded() as source:
        (tmp_path / "profile.sqlite").write_bytes(source.read_bytes())
    left = Capture(exit_code=3, directory=tmp_path, sqlite=tmp_path / "profile.sqlite")
    monkeypatch.setattr("unstall.collect.collect", lambda *_, **__: left)
    return tmp_path


def test_report_writes_a_page_and_still_speaks(run: Run, capture: Path) -> None:
    code, out, err = run("report", capture / "profile.sqlite", "--html", capture / "{name}.html")
    assert (code, err) == (0, "") and "The GPU idles" in out
    written = (capture / "profile.html").read_text(encoding="utf-8")
    assert written.startswith("<!doctype html>") and "The GPU idles" in written


def test_page_on_standard_output_is_alone_there(run: Run, capture: Path) -> None:
    code, out, _ = run("report", capture / "profile.sqlite", "--html", "-")
    assert code == 0 and out.startswith("<!doctype html>") and out.rstrip().endswith("</html>")


def test_commands_of_a_finding_name_the_capture(run: Run, capture: Path) -> None:
    run("report", capture / "profile.sqlite", "--html", capture / "next.html")
    written = (capture / "next.html").read_text(encoding="utf-8")
    only = f"--profile {capture / 'profile.sqlite'} --only host-data-loading"
    assert f"unstall fix TRAIN.py {only}<" in written and f"unstall try {only} -- python TRAIN.py<" in written


def test_page_speaks_the_language_of_its_report(run: Run, capture: Path) -> None:
    run("report", capture / "profile.sqlite", "--lang", "ko", "--html", capture / "ko.html")
    written = (capture / "ko.html").read_text(encoding="utf-8")
    assert '<html lang="ko">' in written and "발견 사항" in written and ">Findings<" not in written


def test_two_profiles_in_one_page_are_refused(run: Run, capture: Path) -> None:
    other = capture / "other.sqlite"
    other.write_bytes((capture / "profile.sqlite").read_bytes())
    code, _, err = run("report", capture / "profile.sqlite", other, "--html", capture / "one.html")
    assert code == 2 and "{name}" in err and not (capture / "one.html").exists()


def test_a_table_of_sums_has_a_page_without_a_timeline(run: Run, tmp_path: Path) -> None:
    lab = Path(__file__).parents[1] / "data" / "lab" / "stats_console_output.txt"
    code, _, err = run("report", lab, "--html", tmp_path / "lab.html")
    written = (tmp_path / "lab.html").read_text(encoding="utf-8")
    assert (code, err) == (0, "") and 'id="timeline-data"' not in written and "data_load" in written


def test_run_leaves_the_page_names_it_and_what_to_type_next(run: Run, capture: Path) -> None:
    code, out, err = run("run", "--", "true")
    assert code == 3 and "The GPU idles" in out
    lines = err.splitlines()
    (page,) = [line for line in lines if line.startswith("unstall: the report as a page: ")]
    assert page.endswith("report.html")
    profile = os.path.relpath(capture / "profile.sqlite")
    assert lines[-2] == f"unstall: next, what the fixes gain: unstall try --profile {profile} -- true"
    assert "exit code 3 is the program's own" in lines[-1]
    assert (capture / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_page_asked_for_elsewhere_is_not_left_twice(run: Run, capture: Path, tmp_path: Path) -> None:
    code, _, err = run("run", "--html", capture / "mine.html", "--", "true")
    assert code == 3 and (capture / "mine.html").exists()
    assert not (capture / "report.html").exists() and "as a page" not in err


def test_a_page_that_fails_fails_nothing_else(run: Run, capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object) -> str:
        raise RuntimeError("no template")

    monkeypatch.setattr(page, "report", crash)
    code, out, err = run("run", "--", "true")
    assert code == 3 and "The GPU idles" in out
    assert "no report.html was left: no template" in err and not (capture / "report.html").exists()


def test_a_timeline_that_fails_costs_the_page_only_that(
    run: Run, capture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object) -> None:
        raise RuntimeError("no events")

    monkeypatch.setattr("unstall.analyze.timeline.timeline", crash)
    code, _, _ = run("report", capture / "profile.sqlite", "--html", capture / "out.html")
    written = (capture / "out.html").read_text(encoding="utf-8")
    assert code == 0 and "The timeline could not be made: RuntimeError: no events" in written
    assert 'id="timeline-data"' not in written


def test_no_events_are_kept_where_no_output_shows_them(
    run: Run, capture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unstall.pipeline.examine", _forwarding(kept := []))
    monkeypatch.setattr("unstall.analyze.timeline.timeline", lambda *_: pytest.fail("nobody asked for events"))
    code, _, _ = run("report", capture / "profile.sqlite", "--json", capture / "out.json")
    assert code == 0 and len(kept) == 1, "the stages run once"


def _forwarding(calls: list[object]) -> Callable[..., object]:
    from unstall.pipeline import examine

    def forward(path: object, **how: object) -> object:
        calls.append(path)
        return examine(path, **how)  # type: ignore[arg-type]

    return forward


def test_compare_writes_a_page(run: Run, capture: Path, tmp_path: Path) -> None:
    after = tmp_path / "after.txt"
    after.write_text("\n".join(f"{2.7 + 0.01 * (i % 7)}" for i in range(60)))
    code, out, _ = run("compare", capture / "profile.sqlite", after, "--html", tmp_path / "both.html")
    written = (tmp_path / "both.html").read_text(encoding="utf-8")
    assert code == 0 and re.search(r"FASTER: before / after is ([\d.]+)×", out)
    ratio = re.search(r"FASTER: before / after is ([\d.]+)×", out)
    assert ratio and f"{ratio[1]}×" in written and "What moved" not in out.splitlines()[0]


def test_compare_refuses_to_overwrite_a_side(run: Run, capture: Path) -> None:
    side = capture / "profile.sqlite"
    code, _, err = run("compare", side, side, "--html", side)
    assert code == 2 and "is a file to be read" in err


def test_few_steps_show_their_ratio_and_why_it_has_no_interval(run: Run, tmp_path: Path) -> None:
    sides = [tmp_path / "before.txt", tmp_path / "after.txt"]
    for path, ms in zip(sides, (10, 5), strict=True):
        path.write_text("".join(f"{ms + i / 100}\n" for i in range(3)))
    run("compare", *sides, "--html", tmp_path / "few.html")
    written = (tmp_path / "few.html").read_text(encoding="utf-8")
    assert ">2.00×<" in written and "no interval: the steps are too few for one" in written
    assert 'class="scale"' not in written, "nothing to draw: one mark would look like a sure one"
