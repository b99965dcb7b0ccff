"""Runs a script, ``-m module`` or ``-c code`` in a Python that ignores its environment, with ``unstall`` started."""

# os.path: as in sitecustomize.py
# ruff: noqa: PTH100, PTH118, PTH120
import os
import runpy
import sys

here = os.path.dirname(os.path.abspath(__file__))
words = sys.argv[1:]
sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != here]
if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
    sys.path.insert(0, "" if words[:1] in (["-m"], ["-c"]) else os.path.dirname(os.path.abspath(words[0])))
runpy.run_path(os.path.join(here, "sitecustomize.py"))

if words[:1] == ["-m"]:
    sys.argv = words[1:]
    runpy.run_module(words[1], run_name="__main__", alter_sys=True)
elif words[:1] == ["-c"]:
    sys.argv = ["-c", *words[2:]]
    exec(compile(words[1], "<string>", "exec"), {"__name__": "__main__"})
else:
    sys.argv = words
    runpy.run_path(words[0], run_name="__main__")
