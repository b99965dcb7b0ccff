"""What tests read in the documentation: its pages, and the code in them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/**/*.md"), *ROOT.glob("examples/*.md")]
)
RUN = "<!-- run by a test -->"
FENCE = re.compile(r"(^<!-- [^\n]* -->\n)?^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"(?<!`)`(unstall [^`\n]+)`(?!`)")
LAUNCHERS = ("unstall", ".venv/bin/unstall")


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its text, and whether the page says that a test runs it."""

    page: Path
    language: str
    text: str
    run: bool

    @property
    def name(self) -> str:
        """For a test's id."""
        words = re.sub(r"\W+", "-", self.text.strip())[:40].strip("-")
        return f"{self.page.relative_to(ROOT)}:{words}"


def blocks(*languages: str) -> list[Block]:
    """All blocks in these languages; ``""`` is a block without one."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        found += [Block(page, m[2], m[3], (m[1] or "").strip() == RUN) for m in FENCE.finditer(text)]
    return [b for b in found if b.language in languages]


def in_blocks() -> list[tuple[Path, str]]:
    """Every command line of ours in a block, as (page, words after ``unstall``)."""
    lines = [(b.page, line) for b in blocks("sh", "bash", "console", "") for line in _joined(b.text)]
    return [(page, told) for page, line in lines for told in _ours(line)]


def in_prose() -> list[tuple[Path, str]]:
    """The same of those in sentences, which may leave arguments out."""
    texts = [(page, FENCE.sub("", page.read_text(encoding="utf-8"))) for page in PAGES]
    spans = [(page, span.replace("\\|", "|")) for page, text in texts for span in SPAN.findall(text)]
    return [(page, told) for page, span in spans for told in _ours(span)]


def _joined(text: str) -> Iterator[str]:
    yield from text.replace("\\\n", " ").splitlines()


def _ours(line: str) -> Iterator[str]:
    """What stands behind ``unstall`` on a line, whatever launcher or variable stands before it."""
    if "…" in line or "unstall" not in line:  # a shape, not a command
        return
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if re.fullmatch(r"[;&|()<>]+", word):
            yield from _command(words)
            words = []
        else:
            words.append(word)


def _command(words: list[str]) -> Iterator[str]:
    for word in words:
        if " unstall " in word:  # bash -c '…'
            yield from _ours(word)
    at = next((i for i, w in enumerate(words) if w in LAUNCHERS), None)
    if at is not None and len(words) > at + 1 and words[at - 1 : at] != ["install"]:
        yield shlex.join(words[at + 1 :])
