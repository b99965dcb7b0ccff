"""The lab's notebooks from their one source, so that both languages stay in step.

    python labs/build.py                  write them
    python labs/build.py --check          exit 1 if they are not what the source makes
    python labs/build.py --take FOLDER    with the outputs of the notebooks that labs/execute.py left in FOLDER

In: ``labs/source/NAME.md``: parts below ``<!-- en -->``, ``<!-- ko -->`` (text) and ``<!-- code -->`` (a fenced block,
for both). Out: ``labs/NAME.ipynb`` and ``labs/NAME.ko.ipynb``. Outputs of an earlier execution stay with every cell
whose source has not changed. Standard library only.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

LABS = Path(__file__).parent
LANGUAGES = ("en", "ko")
MARK = re.compile(r"^<!-- (en|ko|code) -->$", re.M)
FENCE = re.compile(r"```python\n(.*?)```\s*", re.S)

Part = tuple[str, str]


def parts(text: str) -> list[Part]:
    """``(kind, content)`` in order; what stands above the first mark is for those who edit the source."""
    pieces = MARK.split(text)[1:]
    found = list(zip(pieces[::2], (p.strip("\n") for p in pieces[1::2]), strict=True))
    for (kind, _), (following, _) in zip(found, [*found[1:], ("", "")], strict=True):
        if (kind == "en") != (following == "ko"):
            raise ValueError(f"a part in one language only: {kind} before {following or 'the end'}")
    return found


def notebook(found: Sequence[Part], language: str, before: dict[str, Any] | None = None) -> dict[str, Any]:
    """The notebook in one language; ``before`` gives its outputs to cells that are still the same."""
    kept = {cell["id"]: cell for cell in (before or {}).get("cells", []) if cell["cell_type"] == "code"}
    cells = []
    for number, (kind, content) in enumerate(p for p in found if p[0] in ("code", language)):
        cells.append(_code(content, language, number, kept) if kind == "code" else _text(content, number))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}, "unstall": {"language": language}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def _text(content: str, number: int) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": _id(content, number), "metadata": {}, "source": _lines(content)}


def _code(content: str, language: str, number: int, kept: dict[str, Any]) -> dict[str, Any]:
    fenced = FENCE.fullmatch(content + "\n")
    if fenced is None:
        raise ValueError(f"no fenced block of Python: {content[:60]!r}")
    source = fenced[1].rstrip("\n").replace("{language}", language)
    before = kept.get(_id(source, number), {})
    return {
        "cell_type": "code", "execution_count": before.get("execution_count"), "id": _id(source, number),
        "metadata": {}, "outputs": before.get("outputs", []), "source": _lines(source),
    }  # fmt: skip


def _id(source: str, number: int) -> str:
    """Cells are known again by what they say and where."""
    return f"c{number:02d}-{hashlib.sha256(source.encode()).hexdigest()[:8]}"


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def path_of(source: Path, language: str) -> Path:
    """Where a language's notebook goes."""
    return LABS / f"{source.stem}{'' if language == 'en' else f'.{language}'}.ipynb"


def dump(content: dict[str, Any]) -> str:
    """As Jupyter writes it."""
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if something would change")
    parser.add_argument("--take", type=Path, default=LABS, metavar="FOLDER", help="executed notebooks")
    asked = parser.parse_args(arguments)
    stale = []
    for source in sorted((LABS / "source").glob("*.md")):
        found = parts(source.read_text(encoding="utf-8"))
        for language in LANGUAGES:
            path = path_of(source, language)
            text = dump(notebook(found, language, _read(asked.take / path.name)))
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                stale.append(path.name)
                if not asked.check:
                    path.write_text(text, encoding="utf-8")
    print("\n".join(stale) or "as the source says")
    return int(bool(stale) and asked.check)


def _read(path: Path) -> dict[str, Any] | None:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


if __name__ == "__main__":
    sys.exit(main())
