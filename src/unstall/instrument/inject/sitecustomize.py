"""Imported by Python at start-up because ``PYTHONPATH`` names this folder: starts ``unstall``, then runs the
``sitecustomize`` that it hides. Must never raise, and must not make anything else importable: ``unstall`` may live in
another environment than the program, so only that one name is found, and only from here."""

# os.path: pathlib would cost every Python process its import
# ruff: noqa: PTH100, PTH120
import sys


def _start() -> None:
    import os
    from importlib.machinery import PathFinder

    home = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

    class Finder:
        @staticmethod
        def find_spec(name: str, path: object = None, target: object = None) -> object:
            return PathFinder.find_spec(name, [home]) if name == "unstall" else None

    sys.meta_path.insert(0, Finder)  # type: ignore[arg-type]
    from unstall.instrument import bootstrap

    bootstrap.start()


def _hidden() -> None:
    import os
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    here = os.path.dirname(os.path.abspath(__file__))
    spec = PathFinder.find_spec("sitecustomize", [p for p in sys.path if os.path.abspath(p or ".") != here])
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


try:
    _start()
except Exception as error:
    sys.stderr.write(f"unstall: not started in this program ({type(error).__name__}: {error})\n")
if __name__ == "sitecustomize":  # not when run.py runs this file: Python has run the other one then
    _hidden()
