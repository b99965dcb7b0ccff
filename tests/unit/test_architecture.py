"""The house keeps its order: who may import whom, what stays light, what modules and public names must have."""

from __future__ import annotations

import ast
import dataclasses
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import unstall
from unstall import errors, model

SOURCE = Path(unstall.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))

EVERYBODY = None
MAY_IMPORT: dict[str, set[str] | None] = {
    # part of the package → the other parts that it may import; ARCHITECTURE.md says the same in words
    "pace": set(),
    "model": {"pace"},
    "errors": set(),
    "lang": {"model"},
    "_version": set(),
    "calls": set(),
    "memory": set(),
    "diagnose": {"model", "errors", "analyze", "lang", "calls"},
    # the text of nsys stats is sums already: load makes its report at once, with the naming of analyze
    "analyze": {"pace", "model", "errors", "memory", "_version", "calls"},
    "load": {"pace", "model", "errors", "memory", "_version", "analyze", "nsys", "calls"},
    "fix": {"errors", "instrument"},
    "kernel": {"model", "errors", "lang", "nsys", "diagnose"},
    "trial": {"model", "errors", "instrument", "collect", "fix"},
    "collect": {"errors", "_version", "instrument", "lang", "nsys", "calls"},
    "nsys": {"errors"},
    "compare": {"pace", "model", "errors", "lang", "stats", "calls"},
    "stats": set(),
    "instrument": {"pace"},  # runs inside the user's program: nothing of ours that is heavy
    "examples": set(),
    "packets": set(),
    "report": {"model", "errors", "lang", "packets"},  # packets lays out bytes, no words
    # a report a rank through the same pipeline, merged and shown
    "ranks": {"model", "errors", "lang", "_version", "analyze", "pipeline", "report"},
    "__init__": EVERYBODY,
    "__main__": EVERYBODY,
    "cli": EVERYBODY,
    "commands": EVERYBODY,
    "pipeline": EVERYBODY,
    "demo": EVERYBODY,
    "notebook": EVERYBODY,
    "testing": {"model", "load"},
}

HEAVY = {"polars", "numpy", "scipy", "torch", "libcst", "jinja2", "msgspec", "adbc_driver_sqlite", "psutil", "pandas"}
NETWORK = {"urllib.request", "http.client", "requests", "httpx", "urllib3", "ftplib", "smtplib", "aiohttp"}


def part_of(path: Path) -> str:
    """The top-level part that a module belongs to: ``report`` for ``report/json.py``."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """Dotted names of all modules that a file imports, at any depth, those for type checkers included."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            here = ["unstall", *path.relative_to(SOURCE).parts[: -node.level]] if node.level else []
            base = ".".join([*here, *filter(None, [node.module])])
            names |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    return names


def ours(path: Path) -> set[str]:
    """The other parts of the package that a file imports."""
    found = {name.split(".")[1] for name in imported(path) if name.startswith("unstall.")}
    return {part for part in found if (SOURCE / part).is_dir() or (SOURCE / f"{part}.py").exists()} - {part_of(path)}


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_go_one_way(path: Path) -> None:
    allowed = MAY_IMPORT[part_of(path)]
    if allowed is not EVERYBODY:
        assert ours(path) <= allowed, f"{path.name} may import only {sorted(allowed)} of this package"


def test_rules_never_see_files_and_reports_never_compute() -> None:
    for path in MODULES:
        names = {name.split(".")[0] for name in imported(path)}
        if part_of(path) in ("diagnose", "analyze"):
            assert not names & {"sqlite3", "adbc_driver_sqlite"}, f"{path} reads SQLite"
        if part_of(path) == "report":
            assert not names & {"polars", "numpy", "scipy"}, f"{path} computes"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_every_module_says_what_it_owns(path: Path) -> None:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    assert len(docstring) > 40 and "TODO" not in docstring, f"{path} opens with no description"


def test_nothing_touches_the_network() -> None:
    for path in MODULES:
        assert not imported(path) & NETWORK, f"{path} imports a network client"


def test_every_table_has_a_place_in_the_profile() -> None:
    fields = {f.name for f in dataclasses.fields(model.Profile)}
    assert fields - set(model.TABLES) == {"meta", "notes"}
    assert set(model.TABLES) <= fields
    assert model.Profile().present() == (), "what was not captured is absent, not empty"
    for name, columns in model.TABLES.items():
        assert model.empty(name).columns == list(columns)


def test_public_list_is_complete() -> None:
    records = {
        name
        for name, value in vars(model).items()
        if isinstance(value, type)
        and value.__module__ == model.__name__
        and (dataclasses.is_dataclass(value) or issubclass(value, msgspec.Struct))
    }
    missing = (records - {"Record"} | set(errors.__all__)) - set(unstall.__all__)
    assert not missing, f"not public: {sorted(missing)}"


def test_every_public_name_is_there_and_callable_where_it_should_be() -> None:
    for name in unstall.__all__:
        assert getattr(unstall, name) is not None
    for stage in ("load", "analyze", "diagnose"):
        assert callable(getattr(unstall, stage)), f"unstall.{stage}(…) must work"
    assert len(unstall.__all__) == len(set(unstall.__all__))


def test_unknown_public_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = unstall.nonsense


def test_stage_is_callable_whoever_imported_it_first() -> None:
    code = "from unstall.load import load; import unstall; assert unstall.load.load is load and callable(unstall.load)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_starting_up_imports_nothing_heavy() -> None:
    code = (
        "import sys, unstall, unstall.cli\n"
        "sys.argv = ['unstall', '--help']\n"
        "try: unstall.cli.main()\n"
        "except SystemExit as stop: assert stop.code == 0, stop.code\n"
        f"print('heavy:', *sorted(set(sys.modules) & {HEAVY!r}))"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert "Commands:" in out
    assert out.splitlines()[-1].strip() == "heavy:"


def test_each_error_has_a_documented_exit_code() -> None:
    tree = [errors.UnstallError]
    for error in tree:
        tree += error.__subclasses__()
        assert error.exit_code in (1, 2, 3, 4)
        assert error.__name__ in (errors.__doc__ or "")
