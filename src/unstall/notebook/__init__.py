"""A notebook: ``%load_ext unstall``, then ``%%unstall`` on a cell and ``%unstall PATH``.

    ================= ======================================================================================
    magics            what the two magics do, in IPython's terms
    options           the line behind them → :class:`~unstall.notebook.options.Asked`
    cell              one cell, collected: the built-in collector in the kernel's own process
    session           one cell, collected: nsys, where the kernel runs under ``nsys launch``
    kernel            a kernel that does: ``python -m unstall.notebook.kernel``
    ================= ======================================================================================

In: a shell of IPython. Out: magics in it. Reports and comparisons show themselves whether this is loaded or not
(``Report._repr_html_``, through ``unstall.report.inline``).
"""

from __future__ import annotations

from typing import Any

NAME = "unstall"


def load(shell: Any) -> None:
    """Register the magics."""
    from unstall.notebook.magics import Magics

    magics = Magics(shell)
    shell.register_magic_function(magics.line, "line", NAME)
    shell.register_magic_function(magics.cell, "cell", NAME)


def unload(shell: Any) -> None:
    """Take them back."""
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop(NAME, None)
