"""``unstall ranks`` as people meet it: exit codes, outputs that fit, names that stay names, both languages."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

from unstall import model
from unstall.lang import catalogue
from unstall.model import Report
from unstall.ranks import __file__ as package
from unstall.ranks.html import to_html
from unstall.ranks.markdown import to_markdown
from unstall.ranks.terminal import lines
from unstall.ranks.words import CAUSES
from unstall.testing import TraceBuilder, ms, us

HOSTILE = "<script>alert(1)</script>|`x`\x1b[2J[a](http://b) \u202e @user"


def report(hostile: bool = False, language: str = "en", count: int = 24) -> Report:
    """A merged report made by hand: one rank late, one failed, one missing."""
    name = HOSTILE if hostile else "node-a"
    rows = [
        model.RankRow(
            rank=r, rank_from="capture", file=f"{name}/profile_rank{r}.sqlite", host=name, process=100 + r, device=0,
            gpu="NVIDIA H200", step_ns=ms(15), steps=24, own_ns=ms(15 if r == 2 else 11),
            wait_ns=ms(0 if r == 2 else 4), transfer_ns=ms(1), late_share=float(r == 2),
            caused_ns=ms(4 if r == 2 else 0),
            breakdown=model.BreakdownRow(
                process=100 + r, step_ns=ms(15),
                categories=[
                    model.Category(name="gpu_compute", ns=ms(11), percent=73.3),
                    model.Category(name="rank_wait", ns=ms(4), percent=26.7),
                ],
            ),
            clock=model.RankClock(by="collectives", offset_ns=0, residual_ns=10),
            periods_ns=[ms(15), None, *[ms(15)] * (count - 2)], waits_ns=[ms(4), None, *[ms(4)] * (count - 2)],
        )
        for r in range(12)
    ]  # fmt: skip
    late = model.Straggler(
        rank=2, steps=[str(i) for i in range(count)], always=True, cause="data-loading", cost_ns_per_step=ms(4),
        lost_percent=19.4, late_share=1.0, excess_ns=ms(5), range=name, confidence="high",
    )  # fmt: skip
    network = model.Straggler(
        rank=None, steps=["7"], always=False, cause="network", cost_ns_per_step=ms(9), lost_percent=2.0, late_share=None
    )
    merged = model.Ranks(
        ranks=rows, stragglers=[late, network], files=13, step_ns=ms(15), matched_steps=count,
        steps=[str(i) for i in range(count)], meeting="collectives", missing=[12],
        failed=[model.FailedRank(file=f"{name}.sqlite", reason=f"broken: {name}", rank=13)],
        imbalance=model.Imbalance(min_ns=1, median_ns=1, max_ns=2, percent=10, wait_ns=1, lost_percent=1),
        clock=model.RanksClock(by="collectives", hosts=2, skew_ns=us(3), residual_ns=us(1)),
        collectives=[
            model.CollectiveRow(
                kind="AllReduce", communicator=0, members=list(range(12)), matched=48, per_step=2, duration_ns=ms(4),
                transfer_ns=ms(1), wait_ns=ms(3), exposed_ns=ms(5), last=2, last_share=1.0,
            )
        ],
    )  # fmt: skip
    facts = model.ProfileFacts(path=name, producer="nsys", producer_version="2025.3", schema_version="", duration_ns=1)
    warning = model.Warning_(code="w", text=f"watch out: {name}")
    return Report(profile=facts, ranks=merged, warnings=[warning], language=language)


def test_unrelated_captures_are_said_by_every_output() -> None:
    merged = model.Ranks(ranks=(report().ranks or model.Ranks(ranks=[])).ranks[:2], files=2)
    for rank in merged.ranks:
        rank.wait_ns = rank.own_ns = rank.caused_ns = None
        rank.periods_ns = rank.waits_ns = []
    text = "The captures do not look like ranks of one job: rank 0 was captured 18 s after …"
    shown = Report(profile=report().profile, ranks=merged, warnings=[model.Warning_(code="ranks-unrelated", text=text)])
    doubt = "The captures do not all look like ranks of one job"
    screen = " ".join(" ".join(line.plain for line in lines(shown, 120)).split())
    for out in (screen, to_markdown(shown), to_html(shown)):
        assert doubt in out and "rank 0 was captured 18 s after" in out
        assert "late" not in out.split(doubt)[1][:100] and "RANK BY STEP" not in out
    assert 'id="clocks"' not in to_html(shown)


@pytest.mark.parametrize("width", [40, 80, 160])
@pytest.mark.parametrize("hostile", [False, True])
@pytest.mark.parametrize("language", ["en", "ko"])
def test_no_line_is_longer_than_the_terminal(width: int, hostile: bool, language: str) -> None:
    shown = [line.plain for line in lines(report(hostile, language), width)]
    assert max(map(cell_len, shown)) <= width
    assert not any("\x1b" in line or "\u202e" in line for line in shown)


def test_the_screen_says_who_why_and_what_it_costs() -> None:
    shown = " ".join(" ".join(line.plain for line in lines(report(), 120)).split())
    for told in ("Rank 2 is late", "4.00 ms of a 15.0 ms step", "19.4 %", "its data loading, 5.00 ms more", "AllReduce",
                 "rank 13", "broken", "The network costs 9.00 ms", "2 more ranks: --top 0"):  # fmt: skip
        assert told in shown, told
    assert shown.index("Rank 2 is late") < shown.index("The network costs")


def test_markdown_and_html_hold_names_as_names() -> None:
    text, page = to_markdown(report(hostile=True)), to_html(report(hostile=True))
    text = re.sub(r"(`+).*?\1(?!`)", "", text)  # code is shown as it is, and its fence is longer than any in it
    assert "<script>alert" not in text and "\x1b" not in text and "](http" not in text.replace("\\]", "")
    assert "<script>alert" not in page and "\x1b" not in page and "\u202e" not in page
    assert "http://" not in page.replace("http://b", "").replace("http://www.w3.org/2000/svg", "")
    assert page.count("<script") == 3, "two of ours, and the figures"


def test_page_says_everything_that_the_screen_says() -> None:
    page = to_html(report())
    for told in ("Rank 2 is late", "its data loading", "AllReduce", "rank 13", "broken", "rank_wait"):
        assert told in page, told
    korean = to_html(report(language="ko"))
    assert 'lang="ko"' in korean and "뒤처진 랭크 2" in korean and "데이터 로딩" in korean


def test_every_sentence_has_its_korean() -> None:
    known, _ = catalogue("ko")
    texts = set()
    for path in Path(package).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "say" and node.args:
                told = node.args[0]
                texts |= {
                    n.value for n in (told, *getattr(told, "__dict__", {}).values()) if isinstance(n, ast.Constant)
                }
    template = (Path(package).parent / "assets" / "page.html").read_text(encoding="utf-8")
    texts |= set(re.findall(r"say\([\"']([^\"']+)[\"']", template)) | set(CAUSES.values())
    assert len(texts) > 60
    assert sorted(t for t in texts if isinstance(t, str) and t not in known) == []


def run(*words: object) -> subprocess.CompletedProcess[str]:
    code = "from unstall.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, "ranks", *map(str, words)], capture_output=True, text=True, check=False
    )


def test_exit_codes(tmp_path: Path) -> None:
    for rank in range(2):
        trace = TraceBuilder().meta(rank=rank)
        for i in range(8):
            trace.range(f"step_{i}", i * ms(5), i * ms(5) + ms(4))
            trace.launch("gemm", i * ms(5) + us(5), kernel_dur=ms(3))
        trace.write(tmp_path / f"{rank}.sqlite")
    (tmp_path / "2.sqlite").write_bytes(b"")
    good = run(tmp_path, "--no-cache", "--json", "-", "--workers", 1)
    told = [line for line in good.stderr.splitlines() if not line.endswith("captures read")]  # a busy machine reports
    assert good.returncode == 0 and told == []
    merged = json.loads(good.stdout)["ranks"]
    assert [r["rank"] for r in merged["ranks"]] == [0, 1] and merged["failed"][0]["rank"] == 2
    for words, code, told in (
        ([tmp_path / "2.sqlite", "--no-cache"], 4, "not one of 1 captures"),
        ([tmp_path / "absent"], 2, "no profile there"),
        ([tmp_path, "--json", "-", "--html", "-"], 2, "two outputs"),
        ([tmp_path, "--html", tmp_path / "no" / "x.html"], 2, "no folder"),
        ([tmp_path, "--scheduler", "nonsense://x"], 2, "--scheduler"),
    ):
        done = run(*words)
        assert (done.returncode, done.stdout) == (code, ""), done
        assert told in done.stderr and len(done.stderr.splitlines()) == 1
