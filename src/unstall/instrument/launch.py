"""How a program is started so that it is instrumented, without an edit.

Comes in: a command line and :class:`~unstall.instrument.options.Options`. Goes out: environment variables
(:func:`environment`) and the command line to use with them (:func:`command`, nearly always the same one). As a module,
``python -m unstall.instrument.launch train.py`` does both and becomes the program.

The way in is ``PYTHONPATH``: Python imports ``sitecustomize`` from it at start-up, in the program and in all Python
processes that it starts (torchrun's ranks, spawned workers). Ours then runs the one it hides. A Python told to ignore
its environment (``-I``, ``-E``, ``-S``) is given ``inject/run.py`` to run the script instead.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from unstall.instrument.options import PARTS, VARIABLES, Options

INJECT = Path(__file__).parent / "inject"
PYTHON = re.compile(r"python(\d+(\.\d+)?t?)?(\.exe)?$")
TAKES_VALUE = ("-X", "-W", "--check-hash-based-pycs")


def environment(options: Options, base: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for an instrumented program: ``base`` (this process's own when left out) and what we add."""
    env = dict(os.environ if base is None else base)
    for name in VARIABLES:
        env.pop(f"UNSTALL_{name}", None)
    env.update(options.variables())
    if options.parts or options.record or options.plugins:
        rest = [p for p in env.get("PYTHONPATH", "").split(os.pathsep) if p and p != str(INJECT)]
        env["PYTHONPATH"] = os.pathsep.join([str(INJECT), *rest])
    if options.window == "nvtx":  # torch's ranges are not registered strings, and nsys wants those by default
        env["NSYS_NVTX_PROFILER_REGISTER_ONLY"] = "0"
    return env


def command(argv: Sequence[str], options: Options) -> list[str]:
    """The command line to start with :func:`environment`: unchanged unless its Python ignores the environment."""
    argv = list(argv)
    if not argv or not (options.parts or options.record or options.plugins) or not PYTHON.search(Path(argv[0]).name):
        return argv
    flags = _interpreter_flags(argv)
    if not any(re.fullmatch(r"-[a-zA-Z]*[IES][a-zA-Z]*", f) and f not in TAKES_VALUE for f in flags):
        return argv
    return [argv[0], *flags, str(INJECT / "run.py"), *argv[1 + len(flags) :]]


def _interpreter_flags(argv: Sequence[str]) -> list[str]:
    """Python's own flags, up to the script, ``-m`` or ``-c``."""
    flags: list[str] = []
    words = iter(argv[1:])
    for word in words:
        if not word.startswith("-") or word == "-" or re.match(r"-[a-zA-Z]*[mc]", word):
            break
        flags.append(word)
        if word in TAKES_VALUE:
            flags.append(next(words, ""))
    return flags


def main(argv: Sequence[str] | None = None) -> None:
    """``python -m unstall.instrument.launch [python flags] script.py …``: become that program, instrumented by all
    of ``--auto`` unless ``UNSTALL_AUTO`` names other parts."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["--"]:
        words = words[1:]
    if not words:
        sys.exit("usage: python -m unstall.instrument.launch [python options] (script.py | -m module) [arguments]")
    asked = Options.from_environment()
    options = asked if asked.parts else Options(**{**asked.__dict__, "parts": PARTS})
    line = command([sys.executable, *words], options)
    os.execve(line[0], line, environment(options))


if __name__ == "__main__":
    main()
