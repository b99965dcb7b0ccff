"""Which scripts of a folder look like those that train.

In: a folder. Out: its own Python files in which a loop calls ``backward`` or steps an optimizer, itself or through a
function of the same file; in the order of their names. Files are read, and nothing of them is imported or run.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from unstall.errors import UsageError
from unstall.fix.patching import parsed, read

MOST_FILES = 200  # of a folder; what holds more is no project of a few scripts
MOST_BYTES = 1_000_000
OPTIMIZER = re.compile(r"opt|scaler|accelerator", re.IGNORECASE)
"""What an optimizer is called whose ``step`` counts: environments, schedulers and profilers have one as well."""
AT_ALL = re.compile(r"\.(backward|step)\b")  # before the file is parsed
STEP = "a step"  # which is no name that a function can have
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
    trainers = _trainers(tree)
    return any(trainers & _called(loop) for loop in ast.walk(tree) if isinstance(loop, LOOPS))


def _trainers(tree: ast.AST) -> set[str]:
    """:data:`STEP`, and the names of functions in which one is taken, directly or through others of them."""
    functions = [(n.name, _called(n)) for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
    found = {STEP}
    while new := {name for name, called in functions if name not in found and called & found}:
        found |= new
    return found


def _called(node: ast.AST) -> set[str]:
    """What is called below, without its owner; :data:`STEP` for ``backward`` and for an optimizer's ``step``."""
    functions = [n.func for n in ast.walk(node) if isinstance(n, ast.Call)]
    methods = {STEP if _is_step(f) else f.attr for f in functions if isinstance(f, ast.Attribute)}
    return methods | {f.id for f in functions if isinstance(f, ast.Name)}


def _is_step(method: ast.Attribute) -> bool:
    return method.attr == "backward" or (method.attr == "step" and OPTIMIZER.search(_words(method.value)) is not None)


def _words(node: ast.AST) -> str:
    """All names in an expression; nothing recurs, so that no script is nested too deeply."""
    return " ".join(value for n in ast.walk(node) for _, value in ast.iter_fields(n) if isinstance(value, str))
