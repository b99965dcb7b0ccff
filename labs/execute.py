"""Executes notebooks in place of Jupyter, outputs kept: python labs/execute.py NOTEBOOK… --output FOLDER

In: notebooks. Out: the same with their outputs, in FOLDER, where the place of this checkout is left out of them. With
nbclient and ipykernel in a kernel of their own; where those are not installed, in this process: cells are compiled and
run, what they print is captured at the level of the file, the last expression is shown, ``%load_ext``, ``%unstall`` and
``%%unstall`` are understood, nothing else of IPython. Ends at the first cell that fails, with exit code 1.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

TIMEOUT = 300
ROOT = Path(__file__).resolve().parents[1]


class Shell:
    """As much of IPython's shell as the extension asks for."""

    def __init__(self) -> None:
        self.user_ns: dict[str, Any] = {"__name__": "__main__"}
        self.magics: dict[str, Any] = {}
        self.outputs: list[dict[str, Any]] = []

    def register_magic_function(self, function: Any, kind: str, name: str) -> None:
        self.magics[f"{kind} {name}"] = function

    def transform_cell(self, cell: str) -> str:
        return cell

    def display(self, value: Any, kind: str = "display_data") -> None:
        html = getattr(value, "_repr_html_", lambda: None)()
        data = {"text/plain": lines(self.plain(value)), **({"text/html": lines(html)} if html else {})}
        count = {"execution_count": None} if kind == "execute_result" else {}
        self.outputs.append({"output_type": kind, "data": data, "metadata": {}, **count})

    def plain(self, value: Any) -> str:
        pretty, said = getattr(value, "_repr_pretty_", None), []
        if pretty is None:
            return repr(value)
        pretty(SimpleNamespace(text=said.append), False)
        return "".join(said)

    def run_cell(self, cell: str) -> Any:
        """Run it; its error is kept, and shown as an output."""
        result = SimpleNamespace(error_before_exec=None, error_in_exec=None)
        with Captured(self):
            try:
                self.run(cell)
            except SyntaxError as error:
                result.error_before_exec = error
            except BaseException as error:
                result.error_in_exec = error
        error = result.error_before_exec or result.error_in_exec
        if error is not None:
            shown = traceback.format_exception(error)
            self.outputs.append(
                {"output_type": "error", "ename": type(error).__name__, "evalue": str(error), "traceback": shown}
            )
        return result

    def run(self, cell: str) -> None:
        first, _, rest = cell.partition("\n")
        if first.startswith("%%"):
            name, _, line = first[2:].partition(" ")
            self.magics[f"cell {name}"](line, rest)
            return
        if first.startswith("%load_ext "):
            __import__(first.split()[1]).load_ipython_extension(self)
            cell = rest
        tree = ast.parse(cell)
        shown = tree.body and isinstance(tree.body[-1], ast.Expr) and not cell.rstrip().endswith(";")
        last = tree.body.pop() if shown else None
        exec(compile(tree, "<cell>", "exec"), self.user_ns)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), self.user_ns)
            if value is not None:
                self.display(value, "execute_result")


class Captured:
    """What a cell and its child processes print, as outputs of the shell."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell

    def __enter__(self) -> None:
        self.flush()
        self.kept = [os.dup(1), os.dup(2)]
        self.files = [tempfile.TemporaryFile(), tempfile.TemporaryFile()]
        for number, file in zip((1, 2), self.files, strict=True):
            os.dup2(file.fileno(), number)

    def __exit__(self, *_: object) -> None:
        self.flush()
        for number, (kept, file, name) in enumerate(zip(self.kept, self.files, ("stdout", "stderr"), strict=True), 1):
            os.dup2(kept, number)
            os.close(kept)
            file.seek(0)
            text = file.read().decode(errors="replace")
            file.close()
            if text:
                self.shell.outputs.insert(0, {"output_type": "stream", "name": name, "text": lines(text)})

    def flush(self) -> None:
        sys.stdout.flush()
        sys.stderr.flush()


def lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def plainly(notebook: dict[str, Any]) -> bool:
    """Execute in this process; whether every cell did."""
    shell = Shell()
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(code, 1):
        shell.outputs, begun = [], time.monotonic()
        result = shell.run_cell("".join(cell["source"]))
        cell["execution_count"], cell["outputs"] = number, shell.outputs
        for output in shell.outputs:
            if "execution_count" in output:
                output["execution_count"] = number
        print(f"  cell {number:2}: {time.monotonic() - begun:5.1f} s", flush=True)
        if result.error_before_exec or result.error_in_exec:
            print("".join(next(o for o in shell.outputs if o["output_type"] == "error")["traceback"]), flush=True)
            return False
    return True


def in_a_kernel(path: Path) -> tuple[dict[str, Any], bool]:
    """Execute in a kernel; the notebook, and whether every cell did."""
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    notebook = nbformat.read(path, 4)
    good = True
    try:
        NotebookClient(notebook, timeout=TIMEOUT, kernel_name="python3").execute(
            env={**os.environ, "PYTHONUNBUFFERED": "1"}
        )
    except CellExecutionError as error:
        print(error, flush=True)
        good = False
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times of day: of no use to a reader
    return json.loads(nbformat.writes(notebook)), good


def execute(path: Path, folder: Path, *, plain: bool) -> bool:
    """One notebook; what ran until a failure is kept as well."""
    begun = time.monotonic()
    if plain:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        good = plainly(notebook)
    else:
        notebook, good = in_a_kernel(path)
    text = json.dumps(notebook, indent=1, ensure_ascii=False).replace(str(ROOT), "/path/to/unstall") + "\n"
    (folder / path.name).write_text(text, encoding="utf-8")
    how = "in this process" if plain else "in a kernel"
    print(f"{path.name}: {'done' if good else 'FAILED'} {how}, {time.monotonic() - begun:.1f} s", flush=True)
    return good


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("notebooks", nargs="+", type=Path)
    parser.add_argument("--output", type=Path, required=True, help="folder for the executed notebooks")
    parser.add_argument("--plain", action="store_true", help="in this process, even where Jupyter is installed")
    asked = parser.parse_args(arguments)
    asked.output.mkdir(parents=True, exist_ok=True)
    plain = asked.plain or not (find_spec("nbclient") and find_spec("ipykernel"))
    return int(not all([execute(path, asked.output, plain=plain) for path in asked.notebooks]))


if __name__ == "__main__":
    sys.exit(main())
