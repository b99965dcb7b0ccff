"""Which scripts of a folder look like those that train.

In: a folder. Out: its own Python files in which a loop calls ``backward`` or steps an optimizer, itself or through a
function of the same file; in the order of their names. Files are read, and nothing of them is imported or run.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from unstall.errors import UsageError
from unstall.fix.patching import parsed, read

MOST_FILES = 200  # of a folder; what holds more is no project of a few scripts
MOST_BYTES = 1_000_000
OPTIMIZER = re.compile(r"opt|scaler|accelerator", re.IGNORECASE)
"""What an optimizer is called whose ``step`` counts: environments, schedulers and profilers have one as well."""
AT_ALL = re.compile(r"\.(backward|step)\b")  # before the file is parsed
LOOPS = (ast.For, ast.AsyncFor, ast.While)


def scripts(folder: Path) -> list[Path]:
    """Those of the folder itself; none where it cannot be read."""
    try:
        files = sorted(path for path in folder.iterdir() if path.suffix == ".py")[:MOST_FILES]
        return [path for path in files if path.is_file() and path.stat().st_size <= MOST_BYTES and _trains(path)]
    except OSError:
        return []


def _trains(path: Path) -> bool:
    try:
        text = read(path)
        tree = parsed(text, str(path)) if AT_ALL.search(text) else ast.Module([], [])
    except (UsageError, SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    trainers = _functions(tree)
    return any(_steps(loop, trainers) for loop in ast.walk(tree) if isinstance(loop, LOOPS))


def _functions(tree: ast.AST) -> set[str]:
    """Names of functions in which a step is taken, directly or through others of them."""
    functions = [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
    found: set[str] = set()
    while new := {f.name for f in functions if f.name not in found and _steps(f, found)}:
        found |= new
    return found


def _steps(node: ast.AST, trainers: set[str]) -> bool:
    """Whether something below calls ``backward``, an optimizer's ``step`` or one of these functions."""
    return any(_is_step(*call) or call[1] in trainers for call in _calls(node))


def _is_step(owner: str, name: str) -> bool:
    return bool(owner) and (name == "backward" or (name == "step" and OPTIMIZER.search(owner) is not None))


def _calls(node: ast.AST) -> Iterator[tuple[str, str]]:
    """What is called: of ``self.opt.step()`` ``("self.opt", "step")``, of ``run()`` ``("", "run")``."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            yield ast.unparse(call.func.value), call.func.attr
        elif isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
            yield "", call.func.id
