"""Files of a project that a script imports: what its findings call for may stand there.

In: a script's text and path. Out: paths of the modules beside it (``from mylib.data import …`` → ``mylib/data.py``), in
the order of their names. Nothing is imported or run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from unstall.fix.patching import parsed


def modules(text: str, path: Path) -> list[Path]:
    """Modules that exist as files under the script's folder; none where the script cannot be read."""
    try:
        tree = parsed(text, str(path))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    found = {file for name in _names(tree) if (file := _file(path.parent, name))}
    return sorted(found - {path})


def _names(tree: ast.AST) -> Iterator[list[str]]:
    """Dotted names that may be modules: of ``from a.b import c`` both ``a.b.c`` and ``a.b``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level <= 1:
            head = node.module.split(".") if node.module else []
            yield from ([*head, alias.name] for alias in node.names if alias.name != "*")
            yield head


def _file(folder: Path, name: list[str]) -> Path | None:
    if not name:
        return None
    whole = folder.joinpath(*name)
    files = (whole.with_suffix(".py"), whole / "__init__.py")
    return next((file for file in files if file.is_file()), None)
