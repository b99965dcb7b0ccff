"""Every rule against its own two traces, every code of the design against the rules, and the explanations."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from unstall.analyze import analyze
from unstall.diagnose import diagnose, explain, registry
from unstall.diagnose import run as runs
from unstall.diagnose.registry import Rule
from unstall.errors import UsageError
from unstall.load import load
from unstall.model import Report
from unstall.report.words import CATEGORIES
from unstall.testing import TraceBuilder

DESIGN = {
    "host-data-loading", "host-python-work", "gil-contention", "pageable-copy", "many-small-copies",
    "device-to-host-copy", "blocking-sync", "launch-bound", "unfused-optimizer", "fp32-matmul", "unfused-attention",
    "layout-transpose", "allocator-churn", "host-io", "host-lock-contention", "exposed-communication", "straggler-rank",
    "compute-bound",
}  # fmt: skip
SECTIONS = ("What it detects", "How safe", "When it is a false alarm", "Thresholds", "How to fix")
SETTINGS = {"STEPS": bool, "GPU": bool, "LAST": bool, "ONCE": bool, "SIDE": str, "GENERAL": int, "CATEGORY": str}
SOURCE = Path(registry.__file__).parents[1]
RULES = registry.rules()


def report_of(fill: object) -> Report:
    trace = TraceBuilder()
    fill(trace)  # type: ignore[operator]
    return diagnose(analyze(trace.profile()))


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.code)
def test_rule_fires_on_its_fault_and_puts_it_first(rule: Rule) -> None:
    report = report_of(rule.module.fires)
    assert [w for w in report.warnings if w.code == "rule-crashed"] == []
    assert rule.code in {f.code for f in report.findings}, "the rule does not see its own fault"
    main = [f.code for f in report.findings if f.main]
    assert main[0] == rule.code, f"{main[0]} comes before the fault that was planted"


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.code)
def test_rule_is_silent_without_its_fault(rule: Rule) -> None:
    report = report_of(rule.module.silent)
    assert [w for w in report.warnings if w.code == "rule-crashed"] == []
    assert rule.code not in {f.code for f in report.findings}


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.code)
def test_finding_is_complete(rule: Rule) -> None:
    found = next(f for f in report_of(rule.module.fires).findings if f.code == rule.code)
    assert found.title and found.fix.title and found.fix.text and found.where.process
    assert found.evidence and all(e.text for e in found.evidence)
    assert any(e.value for e in found.evidence), "evidence needs figures"
    assert all(e.source for e in found.evidence if e.value is not None and e.unit == "ns")
    text = " ".join([found.title, found.fix.text, *(e.text for e in found.evidence)])
    assert not re.search(r"[{}]|\bNone\b|\bnan\b", text), text
    assert found.cost_ns_per_step > 0
    if found.predicted_step_ns is not None:
        assert found.predicted_low_ns is not None and found.predicted_high_ns is not None
        assert found.predicted_low_ns <= found.predicted_step_ns <= found.predicted_high_ns


def test_every_code_of_the_design_has_one_rule() -> None:
    codes = [r.code for r in RULES]
    assert len(codes) == len(set(codes))
    assert set(codes) >= DESIGN


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.code)
def test_rule_lives_in_the_file_of_its_code_and_speaks_english(rule: Rule) -> None:
    assert rule.module.__name__.rpartition(".")[2] == rule.code.replace("-", "_")
    told = rule.module.TEXTS["en"]
    assert told.title and told.fix.pytorch and told.says
    assert set(told.fixes) <= set(told.titles) | {""} or told.fixes


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.code)
def test_rule_says_all_that_others_need_to_know_of_it(rule: Rule) -> None:
    assert rule.category in CATEGORIES, "CATEGORY must be a part of the breakdown: it colours the finding"
    for name, kind in SETTINGS.items():
        assert isinstance(getattr(rule.module, name, kind()), kind), f"{name} means something to the registry"


def test_a_rule_is_named_in_no_other_file() -> None:
    """Else adding a rule would mean adding it there as well. What one names of another's own accord is not that: a
    rule what must come first (``Hit.needs``), a remedy what it mends, the merge of ranks whose finding it hands on."""
    codes, strayed = {r.code for r in RULES}, set()
    free = {f"diagnose/{code.replace('-', '_')}.py" for code in codes} | {"ranks/merge.py"}
    for path in SOURCE.rglob("*.py"):
        part = path.relative_to(SOURCE)
        if part.parts[0] not in ("fix", "kernel") and part.as_posix() not in free:
            names = {n.value for n in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(n, ast.Constant)}
            strayed |= {(part.as_posix(), code) for code in names & codes}
    assert not strayed


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.code)
def test_languages_say_the_same(rule: Rule) -> None:
    english = rule.module.TEXTS["en"]
    for told in rule.module.TEXTS.values():
        assert set(told.says) == set(english.says)
        assert set(told.titles) == set(english.titles) and set(told.fixes) == set(english.fixes)


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.code)
def test_explanation_has_all_its_parts(rule: Rule) -> None:
    text = explain(rule.code)
    for section in SECTIONS:
        assert f"## {section}" in text, f"{rule.code} does not say: {section}"
    assert "{" not in text
    assert not re.search(r"(?i)\bissues?\b|\bproblems?\b", text), "a finding is called a finding"


def test_unknown_code_is_a_usage_error_that_lists_the_known() -> None:
    with pytest.raises(UsageError, match="host-data-loading"):
        registry.rule("no-such-code")


def test_a_code_nearly_right_is_named() -> None:
    with pytest.raises(UsageError, match=r"Did you mean launch-bound\?"):
        registry.rule("lauch-bound")


def test_without_a_gpu_nothing_hides_behind_it() -> None:
    trace = TraceBuilder()
    for i in range(20):
        start = i * 30_000_000
        loading = 26_000_000 if i % 4 == 0 else 20_000_000  # the mean lies far above the median
        loading += 20_000_000 * (i % 10 == 0)
        trace.range(f"step_{i}", start, start + loading + 1_000_000)
        trace.range("data_load", start, start + loading)
    report = runs.diagnose(analyze(trace.profile()))
    (found,) = [f for f in report.findings if f.code == "host-data-loading"]
    assert "no GPU work" in found.evidence[0].text and "hidden behind" not in str(found)


def test_explanation_in_an_unknown_language_is_english() -> None:
    assert registry.rule("launch-bound").explain("xx") == registry.rule("launch-bound").explain()


def test_a_crashing_rule_is_a_line_and_the_others_go_on() -> None:
    class Broken:
        CODE, TABLES, TEXTS = "broken", (), registry.rule("host-io").module.TEXTS

        @staticmethod
        def check(case: object) -> object:
            raise ValueError("on purpose")

    trace = TraceBuilder()
    loading = registry.rule("host-data-loading")
    loading.module.fires(trace)
    report = runs.diagnose(analyze(trace.profile()), rules=[Rule(Broken), loading])
    (line,) = [w for w in report.warnings if w.code == "rule-crashed"]
    assert "broken" in line.text and "on purpose" in line.text
    assert [f.code for f in report.findings] == ["host-data-loading"]
    assert "broken" in {n.code for n in report.not_checked}, "not checked is never clean"


def test_rules_of_other_packages_are_found_and_their_faults_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    class Point:
        name, value = "other", "other_package.rule"

        def load(self) -> object:
            raise ImportError("no such module")

    monkeypatch.setattr(registry.metadata, "entry_points", lambda group: [Point()] if group == registry.GROUP else [])
    registry._found.cache_clear()
    try:
        assert len(registry.rules()) == len(RULES)
        (line,) = registry.broken()
        assert line.code == "rule-crashed" and "other_package.rule" in line.text
    finally:
        monkeypatch.undo()
        registry._found.cache_clear()


def test_missing_tables_are_named_with_how_to_collect_them() -> None:
    trace = TraceBuilder(trace=("nvtx",))
    for i in range(6):
        trace.range(f"step_{i}", i * 1000, i * 1000 + 900)
    report = diagnose(analyze(trace.profile()))
    reasons = {n.code: n.reason for n in report.not_checked}
    for rule in RULES:
        assert rule.code in reasons or not rule.tables
    assert "--trace=python-gil" in reasons["gil-contention"]
    assert "--trace=cuda" in reasons["launch-bound"]


def test_what_nsys_lost_is_not_checked_and_says_so(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.sync("stream", 0, 1000)
    trace.diagnostic("Number of CUPTI events produced: 11314, CUPTI buffers: 50.")
    trace.diagnostic("Error when processing events: Source ID=", severity=2, source="analysis")
    report = diagnose(analyze(load(trace.write(tmp_path / "lost.sqlite"))))
    reasons = {n.code: n.reason for n in report.not_checked}
    for code in ("compute-bound", "fp32-matmul", "pageable-copy", "exposed-copy"):
        assert "nsys lost most CUDA events" in reasons[code]
    assert "--trace=osrt" in reasons["osrt"]


def test_without_steps_nothing_is_predicted_and_step_rules_are_not_checked() -> None:
    trace = TraceBuilder()
    for k in range(3):
        trace.launch(f"kernel_{k}", k * 1_000_000, kernel_dur=990_000)
    report = diagnose(analyze(trace.profile()))
    assert report.findings[0].code == "compute-bound"
    assert all(f.predicted_step_ns is None and f.confidence == "low" for f in report.findings)
    reasons = {n.code: n.reason for n in report.not_checked}
    assert "--step" in reasons["blocking-sync"]


def test_docs_pages_are_current() -> None:
    from unstall.diagnose import docs

    folder = Path(__file__).parents[2] / "docs" / "findings"
    for name, text in docs.pages().items():
        assert (folder / name).read_text(encoding="utf-8") == text, (
            f"{name} is out of date: python -m unstall.diagnose.docs"
        )
    assert {p.name for p in folder.glob("*.md")} == set(docs.pages())


def test_a_capture_of_the_built_in_collector_is_told_ways_that_it_has() -> None:
    trace = TraceBuilder(trace=("nvtx",), gpu="").meta(producer="unstall")
    for k in range(8):
        trace.range(f"step_{k}", k * 1_000_000, (k + 1) * 1_000_000)
    report = diagnose(analyze(trace.profile()))
    said = {n.code: n.reason for n in report.not_checked}
    assert not [reason for reason in said.values() if "--trace" in reason or "--sample" in reason]
    assert "does where nsys is" in said["osrt"] and "with a GPU" in said["compute-bound"]


@pytest.mark.parametrize("auto", [False, True])
def test_no_steps_advises_what_was_not_done_yet(auto: bool) -> None:
    trace = TraceBuilder().meta(options={"auto": "true"} if auto else {})
    trace.launch("kernel", 0)
    (told,) = [w.text for w in diagnose(analyze(trace.profile())).warnings if w.code == "no-steps"]
    assert "--step REGEX" in told and "unstall.step" in told
    assert ("`unstall run --auto`" in told) != auto


@pytest.mark.parametrize(
    ("counts", "reason", "applies"),
    [((20,), "two ranks", False), ((20, 4), "one rank has 4", True), ((20, 21), "not the same", True)],
)
def test_stragglers_not_looked_for_say_why(counts: tuple[int, ...], reason: str, applies: bool) -> None:
    trace = TraceBuilder()
    for device, count in enumerate(counts):
        trace.process(100 + device)
        for k in range(count):
            trace.launch("ncclDevKernel_AllReduce_Sum_bf16_RING_LL()", k * 1_000_000, kernel_dur=90_000, device=device)
    (told,) = [n for n in diagnose(analyze(trace.profile())).not_checked if n.code == "straggler-rank"]
    assert reason in told.reason and told.applies == applies


@pytest.mark.parametrize(
    ("version", "advice"),
    [
        ("2022.4.2.1", "this nsys may hang with them"),
        ("2023.2.3", "collect with `--sample=process-tree` where"),
        ("2025.3.1.90", "collect with `--sample=process-tree` where"),
        ("", "collect with `unstall run --collector builtin`"),
    ],
)
def test_host_work_without_samples_advises_what_its_nsys_can(version: str, advice: str) -> None:
    trace = TraceBuilder().meta(producer_version=version)
    registry.rule("host-python-work").module.fires(trace)
    found = diagnose(analyze(trace.profile())).findings
    (said,) = (e.text for f in found if f.code == "host-python-work" for e in f.evidence if e.source == "samples")
    assert said.startswith(f"No CPU samples say in which function; {advice}")
