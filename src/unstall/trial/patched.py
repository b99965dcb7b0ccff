"""A patched copy of the script, run as if it were the script: how remedies are tried that nothing can switch on.

In: the command and the remedies. Out: a command that runs the copy (made in a folder of ours) through
``run_patched.py``, with the script's own name, folder and arguments. Modules that the script imports stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from unstall.errors import UnstallError
from unstall.fix import dataloader_workers, patching
from unstall.fix.remedy import Remedy

RUNNER = Path(__file__).with_name("run_patched.py")
PYTHON = re.compile(r"python(\d+(\.\d+)?t?)?$")


@dataclass(frozen=True)
class Patched:
    """The command to run; ``why`` says what kept us from making one, and is empty otherwise."""

    command: list[str]
    why: str = ""


def command(original: Sequence[str], remedies: Sequence[Remedy], folder: Path, workers: int | None = None) -> Patched:
    """The command with those remedies written into a copy of its script; unchanged where none needs that."""
    wanted = [r for r in remedies if r.by_patch]
    if not wanted:
        return Patched(list(original))
    at = _script(original)
    if at is None:
        return Patched(list(original), "can be tried only on `python SCRIPT.py …`")
    try:
        text = patching.read(Path(original[at]))
        made = patching.make(text, wanted, path=original[at], workers=workers or dataloader_workers.workers())
    except UnstallError as error:
        return Patched(list(original), str(error))
    if not all(any(c.remedy == r.name for c in made.patch.changes) for r in wanted):
        return Patched(list(original), _nothing(made.patch))
    copy = folder / Path(original[at]).name
    copy.write_text(made.text, encoding="utf-8", newline="")
    return Patched([*original[:at], str(RUNNER), str(copy), *original[at:]])


def _nothing(patch: patching.Patch) -> str:
    left = "; ".join(f"line {n.line}: {n.reason}" for n in patch.left)
    return f"nothing in the script to rewrite ({left})" if left else "nothing in the script to rewrite"


def _script(words: Sequence[str]) -> int | None:
    """Where the script is among the words; ``None`` where Python is not told to run a file."""
    if not words or not PYTHON.search(Path(words[0]).name):
        return None
    for index, word in enumerate(words[1:], 1):
        if word in ("-m", "-c"):
            return None
        if not word.startswith("-") and word.endswith(".py"):
            return index
    return None
