"""What the documentation says can be done, can be done: commands parse or run, Python runs, links lead somewhere."""

from __future__ import annotations

import ast
import gzip
import json
import lzma
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from pages import FENCE, PAGES, ROOT, Block, blocks, in_blocks, in_prose

from unstall.cli import app
from unstall.commands import docs

CHECKED = {"report", "explain", "compare", "baseline", "redact", "doctor", "fix"}
"""Commands that a test may run: they start no program of the reader's."""
PYTHON = blocks("python")
COMMANDS, TOLD = in_blocks(), in_prose()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with everything that the pages call by a name."""
    folder = tmp_path_factory.mktemp("docs")
    with gzip.open(ROOT / "src/unstall/data/slow_loader_window.sqlite.gz") as packed:
        (folder / "run.sqlite").write_bytes(packed.read())
    with lzma.open(ROOT / "tests/data/healthy_window.sqlite.xz") as packed:
        (folder / "other.sqlite").write_bytes(packed.read())
    for name in ("before.sqlite", "after.sqlite"):
        shutil.copy(folder / "run.sqlite", folder / name)
    shutil.copy(ROOT / "tests/data/lab/stats_console_output.txt", folder / "stats.txt")
    for name in ("old.txt", "new.txt", "step_ms.txt"):
        shutil.copy(ROOT / "tests/data/steps/matmul.txt", folder / name)
    shutil.copy(ROOT / "src/unstall/examples/slow_training.py", folder / "train.py")
    budget = next(b.text for b in blocks("toml") if b.page.name == "ci.md")
    (folder / "unstall-budget.toml").write_text(budget)
    (folder / "after").mkdir()
    shutil.copy(folder / "run.sqlite", folder / "after/profile.sqlite")
    return folder


def test_there_is_something_to_check() -> None:
    assert len(COMMANDS) > 30 and len(TOLD) > 20 and len(PYTHON) > 5 and len(PAGES) > 40


# ---- commands --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", sorted({told for _, told in COMMANDS}))
def test_command_parses(words: str) -> None:
    """As the command line itself parses it, down to the subcommand; nothing runs."""
    command, rest = _found(words)
    if rest not in (["--help"], ["--version"]):
        with command.make_context("unstall", _plain(rest)):
            pass


@pytest.mark.parametrize("words", sorted({told for _, told in TOLD}))
def test_command_in_a_sentence_exists(words: str) -> None:
    """The command and its options; a sentence may leave arguments out."""
    command, rest = _found(words.replace("COMMAND", "report"))
    if rest == ["--version"] or hasattr(command, "commands"):
        return
    try:
        with command.make_context("unstall", [w for w in _plain(rest) if w not in ("--help", "--version")]):
            pass
    except Exception as error:
        if (
            not str(error).startswith(("Missing argument", "Missing option"))
            and type(error).__name__ != "MissingParameter"
        ):
            raise


def _found(words: str) -> tuple[Any, list[str]]:
    command, rest = typer.main.get_command(app), shlex.split(words)
    while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
        assert rest[0] in command.commands, f"no such command: unstall {words}"
        command, rest = command.commands[rest[0]], rest[1:]
    return command, rest


def _plain(words: list[str]) -> list[str]:
    """Words that stand for figures become figures."""
    return [{"X": "1", "N": "3", "S": "2"}.get(word, word) for word in words]


RUNNABLE = sorted(
    {
        told
        for page, told in COMMANDS
        if told.split()[0] in CHECKED
        and page.name in ("start.md", "ci.md", "stats.md", "compare.md", "privacy.md", "README.md")
        and not re.search(r"\b[A-Z]{1,}\b|NAME|\.nsys-rep|--live|after\.sqlite --fail-if 'step_ms|--apply| -$", told)
    }
)


def test_many_are_run() -> None:
    assert len(RUNNABLE) >= 12, RUNNABLE


@pytest.mark.parametrize("words", RUNNABLE)
def test_command_runs(words: str, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a copy of the folder; a gate may fail (1), nothing else."""
    shutil.copytree(place, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    arguments = shlex.split(words)
    if arguments[:2] == ["baseline", "check"]:
        _quietly("baseline", "save", "run.sqlite", "--output", _after(arguments, "--baseline", "unstall-baseline.json"))
    code = _quietly(*arguments)
    assert code == 0 or (code == 1 and {"--fail-if", "--budget"} & set(arguments)), f"exit code {code}: {words}"


def _after(arguments: list[str], option: str, default: str) -> str:
    return arguments[arguments.index(option) + 1] if option in arguments else default


def _quietly(*arguments: str) -> int:
    from unstall import cli

    before = sys.argv
    sys.argv = ["unstall", *arguments]
    try:
        cli.main()
    except SystemExit as stop:
        return int(stop.code or 0)
    finally:
        sys.argv = before
    return 0


SHELL = [
    b for b in blocks("sh", "bash", "") if b.language or re.search(r"^(unstall|nsys|make)\b", b.text, re.MULTILINE)
]


@pytest.mark.parametrize("block", SHELL, ids=lambda b: b.name)
def test_shell_is_shell(block: Block) -> None:
    """Words in capitals and ellipses stand for something; quotes, pipes and loops must be right."""
    done = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# ---- Python ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", PYTHON, ids=lambda b: b.name)
def test_python_parses(block: Block) -> None:
    ast.parse(block.text)


@pytest.mark.parametrize("block", [b for b in PYTHON if b.run], ids=lambda b: b.name)
def test_python_runs(block: Block, place: Path, tmp_path: Path) -> None:
    shutil.copytree(place, tmp_path, dirs_exist_ok=True)
    code = [sys.executable, "-W", "error", "-c", block.text]
    done = subprocess.run(code, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


def test_other_blocks_parse() -> None:
    yaml = pytest.importorskip("yaml", reason="the extra docs is not installed")
    for block in blocks("yaml"):
        assert yaml.safe_load(block.text)["kind"]
    for path in (ROOT / "examples").rglob("*.yml"):
        assert yaml.safe_load(path.read_text())["jobs"]
    for block in blocks("json"):
        json.loads(block.text)


# ---- pages -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Files of the repository; headings in them are checked where the site is built."""
    prose = FENCE.sub("", page.read_text(encoding="utf-8"))
    targets = re.findall(r"\]\((?!\w+:)([^)#\s]+)", prose)
    assert [t for t in targets if not (page.parent / t).exists()] == []


def test_a_page_a_command_is_current() -> None:
    wanted, folder = docs.pages(), ROOT / "docs/commands"
    assert {p.name for p in folder.glob("*.md")} == set(wanted)
    stale = [name for name, text in wanted.items() if (folder / name).read_text(encoding="utf-8") != text]
    assert not stale, "run: python -m unstall.commands.docs"


def test_every_option_is_on_the_page_of_its_command() -> None:
    """Against what typer itself offers, so that the generator cannot leave one out."""
    root = typer.main.get_command(app)
    for name, command in root.commands.items():
        text = (ROOT / f"docs/commands/{name}.md").read_text()
        below = getattr(command, "commands", {"": command}).values()
        offered = {option for each in below for p in each.params for option in p.opts if option.startswith("--")}
        assert [o for o in offered - {"--help"} if f"`{o}" not in text] == []


def test_workflow_of_the_example_uses_commands_that_exist() -> None:
    text = (ROOT / "examples/ci/unstall-gate.yml").read_text()
    lines = [line.partition("unstall ")[2] for line in text.splitlines() if "run: unstall " in line]
    assert len(lines) >= 3
    for line in lines:
        test_command_parses(line)


def test_the_readme_has_two_set_up_commands() -> None:
    text = (ROOT / "README.md").read_text()
    assert re.findall(r"^make (\w+)", text, re.MULTILINE) == ["demo", "test"]


def test_variables_of_ours_are_documented() -> None:
    """Every ``UNSTALL_…`` that a page names is read somewhere."""
    named = {v for page in PAGES for v in re.findall(r"\bUNSTALL_[A-Z_]+\b", page.read_text(encoding="utf-8"))}
    source = "\n".join(p.read_text() for d in ("src", "tests") for p in (ROOT / d).rglob("*.py"))
    assert [v for v in named if f'"{v}"' not in source] == []


def test_remedies_of_the_page_are_those_there_are() -> None:
    from unstall.fix.remedy import remedies

    text = (ROOT / "docs/try-and-fix.md").read_text()
    named = set(re.findall(r"^\| `(\w[\w-]*)` \|", text, re.MULTILINE)) - {"equal", "agree", "differ", "unknown"}
    assert named and named <= {r.name for r in remedies()}


def test_error_codes_and_findings_named_exist() -> None:
    """Codes in back quotes that look like a finding's are one, or a warning's that the code says."""
    from unstall.diagnose import registry

    text = (ROOT / "docs/findings/index.md").read_text()
    assert set(re.findall(r"^\| \[([\w-]+)\]", text, re.MULTILINE)) == {r.code for r in registry.rules()}
    source = "\n".join(p.read_text() for p in (ROOT / "src").rglob("*.py"))
    warnings = (ROOT / "docs/compare.md").read_text().partition("## Warnings")[2].partition("## What moved")[0]
    codes = re.findall(r"`([a-z]+(?:-[a-z]+)+)`", warnings)
    assert len(codes) > 15 and [c for c in codes if f'"{c}"' not in source] == []
