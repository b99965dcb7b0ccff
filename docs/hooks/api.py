"""The public Python API as Markdown, from its docstrings: what the site shows on the page *Python*.

In: the names of ``unstall.__all__``. Out: a section each, grouped; every public name is in exactly one group.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import unstall

GROUPS = {
    "Stages": ("load", "analyze", "diagnose", "report_of", "compare", "collect", "ranks", "explain"),
    "In a training script": ("annotate", "step", "prefetch", "resident"),
    "Out of a report": ("to_json", "from_json", "to_markdown"),
}
SECTION = re.compile(r"^(Args|Returns|Raises|Yields|Attributes):$")
ROLE = re.compile(r":\w+:`~?([^`]+)`")
ENTRY = re.compile(r"^(\*{0,2}\w[\w, …*]*): (.*)$")


def page() -> str:
    """All groups; what no group names is a record or an error."""
    named = {name for names in GROUPS.values() for name in names}
    rest = [n for n in unstall.__all__ if n not in named and not n.startswith("_")]
    errors = [n for n in rest if _is_error(n)]
    parts: list[str] = []
    for title, names in {**GROUPS, "Records": [n for n in rest if n not in errors], "Errors": errors}.items():
        parts.append(f"## {title}")
        for name in (n for n in names if n in unstall.__all__):
            parts += list(_described(name))
    return "\n\n".join(parts)


def _is_error(name: str) -> bool:
    value = getattr(unstall, name)
    return isinstance(value, type) and issubclass(value, Exception)


def _described(name: str) -> Iterator[str]:
    value = getattr(unstall, name)
    if inspect.ismodule(value):  # a stage is a package that can be called by its own name
        value = getattr(import_module(value.__name__), name)
    yield f"### unstall.{name}"
    if not isinstance(value, type):
        yield f"```python\n{_signature(name, value)}\n```"
    text = inspect.cleandoc(value.__doc__ or "")
    if isinstance(value, type) and text.startswith(f"{name}("):  # what a dataclass is given without words of its own
        text = ""
    yield markdown(text) if text else "A record."
    fields = _fields(value) if isinstance(value, type) and not _is_error(name) else []
    if fields and "Attributes:" not in text:
        yield "\n".join(["| field | type |", "|---|---|", *(f"| `{n}` | `{t}` |" for n, t in fields)])


class _Shown(str):
    """An annotation as it is written: without quotation marks."""

    __repr__ = str.__str__


def _signature(name: str, value: Any) -> str:
    told = inspect.signature(value)
    rows = [p.replace(annotation=_annotation(p.annotation)) for p in told.parameters.values()]
    told = told.replace(parameters=rows, return_annotation=_annotation(told.return_annotation))
    text = f"unstall.{name}{told}"
    if len(text) <= 78:
        return text
    parts = [str(p) for p in rows]
    named = next((i for i, p in enumerate(rows) if p.kind is p.KEYWORD_ONLY), len(parts))
    parts[named:named] = ["*"] if named < len(parts) and not any(p.kind is p.VAR_POSITIONAL for p in rows) else []
    return f"unstall.{name}(\n" + "".join(f"    {p},\n" for p in parts) + ")" + str(told).rpartition(")")[2]


def _annotation(annotation: Any) -> Any:
    return _Shown(annotation) if isinstance(annotation, str) else annotation


def _fields(value: type) -> list[tuple[str, str]]:
    own = {n: t for base in reversed(value.__mro__) for n, t in getattr(base, "__annotations__", {}).items()}
    return [
        (n, str(t).replace("|", "\\|")) for n, t in own.items() if not n.startswith("_") and "ClassVar" not in str(t)
    ]


def markdown(docstring: str) -> str:
    """A docstring of ours (Google's sections, a few roles of reStructuredText) as Markdown."""
    text = ROLE.sub(lambda found: f"`{found[1].rpartition('.')[2]}`", docstring).replace("``", "`")
    lines: list[str] = []
    section = False
    for line in text.splitlines():
        if SECTION.match(line):
            section = True
            lines += ["", f"**{line[:-1]}**", ""]
        elif section and line.startswith("    ") and not line.startswith("     "):
            entry = ENTRY.match(line.strip())
            lines.append(f"- `{entry[1]}`: {entry[2]}" if entry else f"- {line.strip()}")
        elif section and line.strip():
            lines.append(f"  {line.strip()}" if line.startswith(" ") else line)
            section = line.startswith(" ")
        else:
            lines.append(line)
    return "\n".join(lines)
