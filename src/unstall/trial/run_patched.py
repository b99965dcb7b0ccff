"""``python run_patched.py COPY SCRIPT [ARGUMENTS]``: runs COPY's text as the program SCRIPT. Standard library only.

In: two paths on the command line. Out: the program, with ``__file__``, ``sys.argv`` and ``sys.path[0]`` of SCRIPT.
"""

# os.path: this runs inside other people's programs, before their first import
# ruff: noqa: PTH100, PTH120, PTH123
import os
import sys


def main() -> None:
    """Become the program."""
    copy, script = sys.argv[1], os.path.abspath(sys.argv[2])  # as Python does it: the script may change the folder
    sys.argv = sys.argv[2:]
    sys.path[0] = os.path.dirname(script)
    with open(copy, "rb") as file:
        code = compile(file.read(), script, "exec", dont_inherit=True)
    names = sys.modules["__main__"].__dict__
    names["__file__"], names["__doc__"] = script, None
    for name in ("main", "os"):
        names.pop(name, None)
    exec(code, names)


if __name__ == "__main__":
    main()
