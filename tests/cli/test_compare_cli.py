"""``unstall compare`` and ``unstall baseline`` from outside: every kind of side, gates, exit codes, streams."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from unstall.report.json import from_json, schema

Run = Callable[..., tuple[int, str, str]]
ROOT = Path(__file__).parents[2]


@pytest.fixture
def log(tmp_path: Path) -> Callable[..., Path]:
    """``log("a.txt", 20.0)`` → a list of 100 step times around 20 ms with 2 % noise."""

    def log(name: str, ms: float, n: int = 100) -> Path:
        seed = int.from_bytes(name.encode()[:4], "big")
        times = ms * np.exp(np.random.default_rng(seed).normal(0, 0.02, n))
        path = tmp_path / name
        path.write_text("".join(f"{t:.4f}\n" for t in times), encoding="utf-8")
        return path

    return log


# -- sides ---------------------------------------------------------------------------------------------------


def test_two_logs(run: Run, log: Callable[..., Path]) -> None:
    code, out, err = run("compare", log("old", 20), log("new", 10))
    assert (code, err) == (0, "")
    assert out.startswith("FASTER: before / after is ") and "95 % interval" in out
    assert "old" in out and "new" in out and "WHAT MOVED" not in out


def test_verdict_without_a_gate_is_no_failure(run: Run, log: Callable[..., Path]) -> None:
    code, out, _ = run("compare", log("old", 10), log("new", 20))
    assert code == 0 and out.startswith("SLOWER")


def test_real_profiles(run: Run, profile_path: Callable[[str], Path], tmp_path: Path) -> None:
    slow, quick = profile_path("pageable_h2d_window"), profile_path("item_sync_window")
    before = hashlib.sha256(slow.read_bytes()).hexdigest()
    code, out, err = run("compare", slow, quick, "--top", 3)
    assert (code, err) == (0, "")
    assert out.startswith("FASTER") and "WHAT MOVED · 3 of " in out and "copy_batch" in out and "none" in out
    assert "different-work: " in out, "36 operations a step against 376"
    assert max(map(len, out.splitlines())) <= 100
    assert hashlib.sha256(slow.read_bytes()).hexdigest() == before


def test_profile_against_itself_is_no_difference(run: Run, profile_path: Callable[[str], Path]) -> None:
    path = profile_path("item_sync_window")
    code, out, _ = run("compare", path, path, "--json", "-")
    assert code == 0
    found = from_json(out).comparison
    assert found is not None and found.verdict == "no difference" and found.moved == []


def test_profile_against_its_own_report(run: Run, profile_path: Callable[[str], Path], tmp_path: Path) -> None:
    path = profile_path("slow_loader_window")
    assert run("report", path, "--json", tmp_path / "r.json")[0] == 0
    code, out, _ = run("compare", tmp_path / "r.json", path)
    assert code == 0 and out.startswith("NO DIFFERENCE")


def test_two_processes_on_one_gpu_are_said(run: Run, profile_path: Callable[[str], Path]) -> None:
    path = profile_path("twoproc")
    _, out, _ = run("compare", path, path)
    assert "several-processes: before: 2 processes have steps" in out and "25.3" in out


def test_program_that_lost_its_gpu(run: Run, profile_path: Callable[[str], Path]) -> None:
    code, out, _ = run("compare", profile_path("slow_loader_window"), profile_path("nsys2022_nvtx_cpu"))
    assert code == 0 and out.startswith("INCONCLUSIVE") and "GPU work before, none after" in out


def test_text_of_nsys_stats_is_a_side_where_it_lists_steps(run: Run, log: Callable[..., Path]) -> None:
    table = ROOT / "tests" / "data" / "lab" / "nvtx_sum_output.txt"
    code, out, _ = run("compare", table, log("new", 10))
    assert code == 0 and out.startswith("FASTER") and "profiler-one-side" in out


# -- outputs -------------------------------------------------------------------------------------------------


def test_json_is_a_report_with_a_comparison(run: Run, log: Callable[..., Path], tmp_path: Path) -> None:
    code, out, err = run("compare", log("old", 20), log("new", 10), "--json", "-")
    assert (code, err) == (0, "")
    found = json.loads(out)
    jsonschema.validate(found, schema())
    comparison = found["comparison"]
    assert comparison["verdict"] == "faster" and 1.9 < comparison["ratio_low"] < comparison["ratio_high"] < 2.1
    assert comparison["before"]["count"] == comparison["after"]["count"] == 100
    assert comparison["moved"] == [] and found["schema_version"] == 1


def test_json_and_markdown_files(run: Run, log: Callable[..., Path], tmp_path: Path) -> None:
    arguments = (
        "compare",
        log("old", 20),
        log("new", 10),
        "--json",
        tmp_path / "c.json",
        "--markdown",
        tmp_path / "c.md",
    )
    code, out, _ = run(*arguments)
    assert code == 0 and out.startswith("FASTER"), "the terminal shows it as well"
    assert from_json((tmp_path / "c.json").read_bytes()).comparison is not None
    text = (tmp_path / "c.md").read_text(encoding="utf-8")
    assert text.startswith("### unstall: FASTER") and "| before |" in text


def test_markdown_shows_names_as_code(run: Run, profile_path: Callable[[str], Path]) -> None:
    code, out, _ = run(
        "compare", profile_path("pageable_h2d_window"), profile_path("item_sync_window"), "--markdown", "-"
    )
    assert code == 0 and "<summary>What moved" in out and "`copy_batch`" in out
    assert "| `different-work`" not in out and "- `different-work`: " in out


# -- gates ---------------------------------------------------------------------------------------------------


def test_gate_fails_with_one_line_that_says_why(run: Run, log: Callable[..., Path]) -> None:
    code, out, err = run("compare", log("old", 20), log("new", 22), "--fail-if", "slower")
    assert code == 1 and out.startswith("SLOWER")
    assert err.count("\n") == 1 and err.startswith("unstall: gate failed: slower (") and "ms a step" in err


def test_gate_holds_and_says_so(run: Run, log: Callable[..., Path]) -> None:
    code, _, err = run("compare", log("old", 20), log("new", 20), "--fail-if", "slower", "--fail-if", "step_ms>30")
    assert code == 0 and err.startswith("unstall: gate passed: no difference")


def test_gate_that_is_not_proven_says_so(run: Run, log: Callable[..., Path]) -> None:
    code, _, err = run("compare", log("old", 20, 3), log("new", 22, 3), "--fail-if", "slower")
    assert code == 0 and "inconclusive" in err
    assert run("compare", log("old", 20, 3), log("new", 22, 3), "--fail-if", "slower or inconclusive")[0] == 1


def test_gate_keeps_standard_output_clean(run: Run, log: Callable[..., Path]) -> None:
    code, out, err = run("compare", log("old", 20), log("new", 40), "--fail-if", "slower", "--json", "-")
    assert code == 1 and json.loads(out)["comparison"]["verdict"] == "slower" and err.startswith("unstall: gate failed")


def test_budget_file(run: Run, log: Callable[..., Path], tmp_path: Path) -> None:
    budget = tmp_path / "budget.json"
    budget.write_text('{"step_ms": 25, "ratio": 0.9}', encoding="utf-8")
    old = log("old", 20)
    assert run("compare", old, log("new", 21), "--budget", budget)[0] == 0
    code, _, err = run("compare", old, log("slow", 30), "--budget", budget)
    assert code == 1 and "step_ms is" in err and "ratio is" in err


def test_unknown_figure_of_a_log_fails_the_gate(run: Run, log: Callable[..., Path]) -> None:
    code, _, err = run("compare", log("old", 20), log("new", 20), "--fail-if", "gpu_busy_percent < 50")
    assert code == 1 and "could not be checked" in err


def test_findings_can_be_gated(run: Run, profile_path: Callable[[str], Path]) -> None:
    path = profile_path("slow_loader_window")
    code, _, err = run("compare", path, path, "--fail-if", "findings.host-data-loading > 0")
    assert code == 1 and "findings.host-data-loading is 1" in err


# -- baseline ------------------------------------------------------------------------------------------------


def test_baseline_saved_checked_and_broken(run: Run, log: Callable[..., Path], tmp_path: Path) -> None:
    code, out, err = run("baseline", "save", log("run", 20))
    assert (code, out) == (0, "") and "100 steady steps" in err
    assert from_json((tmp_path / "unstall-baseline.json").read_bytes()).steps
    assert run("baseline", "check", log("good", 20))[0] == 0
    code, out, err = run("baseline", "check", log("bad", 24))
    assert code == 1 and out.startswith("SLOWER") and "gate failed: slower" in err
    assert run("baseline", "check", log("bad", 24), "--fail-if", "step_ms > 30")[0] == 0, "the named gate only"


def test_baseline_is_replaced_on_request_only(run: Run, log: Callable[..., Path], tmp_path: Path) -> None:
    assert run("baseline", "save", log("run", 20), "--output", "b.json")[0] == 0
    kept = (tmp_path / "b.json").read_bytes()
    code, _, err = run("baseline", "save", log("other", 30), "--output", "b.json")
    assert code == 2 and "--force" in err and (tmp_path / "b.json").read_bytes() == kept
    assert run("baseline", "save", log("other", 30), "--output", "b.json", "--force")[0] == 0
    assert (tmp_path / "b.json").read_bytes() != kept


def test_baseline_of_a_profile_names_no_host(run: Run, profile_path: Callable[[str], Path], tmp_path: Path) -> None:
    path = profile_path("slow_loader_window")
    assert run("baseline", "save", path)[0] == 0
    text = (tmp_path / "unstall-baseline.json").read_text(encoding="utf-8")
    assert str(path.parent) not in text and json.loads(text)["profile"]["host"] == ""
    code, out, _ = run("baseline", "check", path)
    assert code == 0 and out.startswith("NO DIFFERENCE")


def test_baseline_without_steps_is_refused(run: Run, profile_path: Callable[[str], Path], tmp_path: Path) -> None:
    code, _, err = run("baseline", "save", profile_path("nvtx_lost_nsys2024"))
    assert code == 2 and "no steady steps" in err and not (tmp_path / "unstall-baseline.json").exists()


def test_baseline_never_takes_the_place_of_what_it_is_made_of(run: Run, log: Callable[..., Path]) -> None:
    old = log("old", 20)
    content = old.read_bytes()
    code, _, err = run("baseline", "save", old, "--output", old, "--force")
    assert code == 2 and "is a file to be read" in err and old.read_bytes() == content


def test_baseline_on_standard_output(run: Run, log: Callable[..., Path], tmp_path: Path) -> None:
    code, out, _ = run("baseline", "save", log("old", 20), "--output", "-")
    assert code == 0 and from_json(out).steps and not (tmp_path / "-").exists()


def test_missing_baseline(run: Run, log: Callable[..., Path]) -> None:
    code, _, err = run("baseline", "check", log("run", 20))
    assert code == 4 and "unstall-baseline.json" in err and err.count("\n") == 1


# -- bad input -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"\0" * 100, "zeros"),
        (b"20\n21\nhello\n", "line 3"),
        (b"hello\nworld\n", "one number (ms) a line"),
        (b'{"unstall_version": "1"', "JSON"),
        (b'{"unstall_version":' + b"[" * 100_000, "nested too deeply"),
        (b"[0, 20, 21]", "took 0 ms"),
        (b"[20, NaN]", "took nan ms"),
        (b'{"unstall_version": "1"}', "not a report"),
        (b"\xff\xfe2\x000\x00\n\x00", ""),
        (b"%PDF-1.7 20\n", ""),
    ],
)
def test_bad_side(run: Run, log: Callable[..., Path], tmp_path: Path, content: bytes, words: str) -> None:
    bad = tmp_path / "bad"
    bad.write_bytes(content)
    code, out, err = run("compare", log("old", 20), bad)
    assert (code, out) == (4, "") and words in err and err.count("\n") == 1 and err.startswith("unstall: ")


def test_pipe_is_a_side(
    run: Run, log: Callable[..., Path], profile_path: Callable[[str], Path], tmp_path: Path
) -> None:
    path = profile_path("slow_loader_window")
    assert run("report", path, "--json", tmp_path / "r.json")[0] == 0
    for file, other in ((tmp_path / "r.json", path), (log("old", 20, 20_000), tmp_path / "old"), (path, path)):
        with subprocess.Popen(["cat", str(file)], stdout=subprocess.PIPE) as source:
            assert source.stdout is not None
            code, out, err = run("compare", f"/dev/fd/{source.stdout.fileno()}", other, "--json", "-")
        found = from_json(out or "{}").comparison
        assert (code, err) == (0, "") and found is not None and found.verdict == "no difference"
        assert found.before.count == found.after.count, "every byte of the pipe is read"


def test_report_behind_a_sign_of_byte_order(run: Run, profile_path: Callable[[str], Path], tmp_path: Path) -> None:
    path = profile_path("slow_loader_window")
    assert run("report", path, "--json", tmp_path / "r.json")[0] == 0
    (tmp_path / "r.json").write_bytes(b"\xef\xbb\xbf" + (tmp_path / "r.json").read_bytes())
    assert run("compare", tmp_path / "r.json", path)[0] == 0


def test_report_whose_steps_count_nothing(run: Run, profile_path: Callable[[str], Path], tmp_path: Path) -> None:
    path = profile_path("slow_loader_window")
    assert run("report", path, "--json", tmp_path / "r.json")[0] == 0
    report = json.loads((tmp_path / "r.json").read_bytes())
    report["steps"][0]["count"] = 0
    (tmp_path / "r.json").write_text(json.dumps(report), encoding="utf-8")
    assert run("compare", tmp_path / "r.json", path)[0] == 0


def test_no_such_file(run: Run, log: Callable[..., Path]) -> None:
    code, _, err = run("compare", log("old", 20), "missing.txt")
    assert code == 4 and "missing.txt" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ("--fail-if", "step_ms"),
        ("--fail-if", "nonsense > 3"),
        ("--fail-if", "__import__('os').system('true')"),
        ("--budget", "missing.toml"),
        ("--margin", "0"),
        ("--margin", "7"),
        ("--json", "-", "--markdown", "-"),
        ("--json", "old"),
        ("--budget", "budget.toml", "--json", "budget.toml"),
        ("--json", "nowhere/c.json"),
    ],
)
def test_bad_request(run: Run, log: Callable[..., Path], arguments: tuple[str, ...]) -> None:
    old = log("old", 20)
    (old.parent / "budget.toml").write_text("step_ms = 30\n", encoding="utf-8")
    content = old.read_bytes()
    code, _, err = run("compare", old, log("new", 20), *arguments)
    assert code == 2 and err.count("\n") == 1 and old.read_bytes() == content
    assert (old.parent / "budget.toml").read_text(encoding="utf-8") == "step_ms = 30\n"


def test_korean_names_fit(run: Run, log: Callable[..., Path]) -> None:
    code, out, _ = run("compare", log("이전_단계_시간.txt", 20), log("이후.txt", 10))
    assert code == 0 and "이전_단계_시간.txt" in out


# -- the example ---------------------------------------------------------------------------------------------


def test_ci_example_uses_what_there_is(run: Run) -> None:
    text = (ROOT / "examples" / "ci" / "unstall-gate.yml").read_text(encoding="utf-8")
    help_text = run("baseline", "check", "--help")[1] + run("baseline", "save", "--help")[1]
    options = {
        word for line in text.splitlines() if "unstall baseline" in line for word in line.split() if word[:2] == "--"
    }
    assert options and all(option in help_text for option in options)
    assert "unstall baseline check" in text


def test_page_lists_every_figure_and_warning() -> None:
    from unstall.compare import comparability, metrics

    page = (ROOT / "docs" / "compare.md").read_text(encoding="utf-8")
    for name in (*metrics.COMPARED, *metrics.MEASURED, "findings.CODE", "category.NAME_ms"):
        assert f"`{name}`" in page, name
    for code in comparability.BLOCKING:
        assert f"`{code}`" in page, code
