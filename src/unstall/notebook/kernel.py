"""A kernel under ``nsys launch``, so that ``%%unstall`` captures each cell with nsys.

    python -m unstall.notebook.kernel --install      a kernel "Python (nsys)" for Jupyter and VS Code
    python -m unstall.notebook.kernel -f FILE        what that kernel runs

In: Jupyter's connection file. Out: this process becomes ``nsys launch … python -m ipykernel_launcher -f FILE``. nsys
does not pass on an interrupt, so the kernel takes interrupts as messages.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from unstall.errors import CollectionFailed, UnstallError

TRACE = "cuda,nvtx,osrt"
NAME = "unstall-nsys"
SPEC = {
    "argv": [sys.executable, "-m", "unstall.notebook.kernel", "-f", "{connection_file}"],
    "display_name": "Python (nsys)",
    "language": "python",
    "interrupt_mode": "message",
    "metadata": {"debugger": False},
}


def command(connection: str, trace: str) -> list[str]:
    """What the kernel's process runs.

    Raises:
        CollectionFailed: there is no nsys that runs.
    """
    from unstall.nsys.discover import find_nsys

    tool = next((t.path for t in find_nsys() if not t.error), None)
    if tool is None:
        raise CollectionFailed("nsys", "none that runs was found", "In a plain kernel %%unstall collects without it")
    session = f"--session-new=unstall-{os.getpid()}"
    kernel = [sys.executable, "-m", "ipykernel_launcher", "-f", connection]
    return [str(tool), "launch", session, f"--trace={trace}", *kernel]


def install(prefix: str) -> str:
    """Write the kernel's description below ``prefix``; where it is."""
    from jupyter_client.kernelspec import KernelSpecManager

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "kernel.json").write_text(json.dumps(SPEC, indent=1) + "\n", encoding="utf-8")
        return str(KernelSpecManager().install_kernel_spec(folder, NAME, prefix=prefix))


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m unstall.notebook.kernel", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--install", action="store_true", help="make it known to Jupyter")
    parser.add_argument("--prefix", default=sys.prefix, help="where [this environment]")
    parser.add_argument("--trace", default=TRACE, help=f"what nsys traces [{TRACE}]")
    parser.add_argument("-f", dest="connection", metavar="FILE", help="Jupyter's connection file")
    asked = parser.parse_args(argv)
    if asked.install:
        print(install(asked.prefix))
    elif asked.connection:
        try:
            line = command(asked.connection, asked.trace)
        except UnstallError as error:
            sys.exit(f"unstall: {error}")
        os.execv(line[0], line)
    else:
        parser.error("give --install or -f FILE")


if __name__ == "__main__":
    main()
