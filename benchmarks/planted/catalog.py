"""The planted cases by name, read without running them (they import torch; judging them needs none).

In: the folder ``cases``. Out: :class:`Planted`, one a script.
"""

import ast
from dataclasses import dataclass
from pathlib import Path

CASES = Path(__file__).parent / "cases"
VARIANTS = ("bad", "fixed")


@dataclass(frozen=True)
class Planted:
    """One script: the code of the finding that should come first, its range where that is told, and the remedy."""

    name: str
    code: str
    range: str | None
    remedy: str
    trace: str = ""  # what the profiler has to trace beside the usual

    @property
    def is_control(self) -> bool:
        """Nothing is wrong with it: no gain to predict."""
        return self.code == "compute-bound"


def catalog(names: list[str] | None = None) -> list[Planted]:
    """All cases, or those named, in alphabetical order."""
    files = sorted(p for p in CASES.glob("*.py") if p.stem != "kit")
    return [_read(p) for p in files if not names or p.stem in names]


def _read(path: Path) -> Planted:
    facts = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.targets[0], ast.Name)
        ):
            facts[node.targets[0].id] = node.value.value
    return Planted(path.stem, facts["CODE"], facts["RANGE"], facts["REMEDY"], facts.get("TRACE", ""))
