"""Whose terms a remedy is given in: which framework launched the work.

In: names of kernels and ranges, a process's name. Out: ``pytorch``, ``jax``, ``cupy`` or ``cuda``; a rule's
:class:`~unstall.diagnose.texts.Fix` fit for it.

Recognised by what each framework writes itself, most telling first: PyTorch's kernels live in ``at::`` and ``c10::``,
its compiler's are ``triton_poi_fused…``, Kineto's operators are ``aten::``; XLA names kernels after its fusions and
writes the NVTX domain ``TSL`` and ranges ``XlaModule:``, ``Thunk:``; CuPy's generated kernels begin with ``cupy_``. A
Python process without any of these is taken for PyTorch, any other program for CUDA C++.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from unstall.diagnose.texts import Fix

Framework = Literal["pytorch", "jax", "cupy", "cuda"]
SIGNS: tuple[tuple[Framework, re.Pattern[str]], ...] = (
    ("pytorch", re.compile(r"\b(at|c10|torch)::|triton_(poi|red|per|tem)_fused|^aten::|^torch\.ops$|^ProfilerStep")),
    ("cupy", re.compile(r"^cupyx?_\w")),
    ("jax", re.compile(r"(?i)^(loop|input|wrapped|gemm|custom|triton)_\w*fusion|^\w*fusion(_\d+)?$|^wrapped_\w+$|"
                       r"\bxla\b|^XlaModule|^Thunk:|^TSL$|^PjRt|^PjitFunction|RedzoneChecker|redzone_checker")),
)  # fmt: skip


def recognised(names: Iterable[str], process: str, *, works: bool = True) -> Framework:
    """The framework whose signs most names bear.

    Args:
        names: distinct names of kernels, of ranges and of their domains.
        process: name of the process.
        works: whether it ran anything on a GPU.
    """
    found = list(names)
    counts = {framework: sum(1 for n in found if sign.search(n)) for framework, sign in SIGNS}
    best = max(counts, key=lambda f: counts[f])
    if counts[best]:
        return best
    return "cuda" if works and "python" not in process.lower() else "pytorch"


def worded(fix: Fix, framework: Framework) -> Fix:
    """A rule's remedy for a framework: patches, trials and PyTorch's own means in the title are for PyTorch alone."""
    if framework == "pytorch":
        return fix
    return replace(fix, title=fix.elsewhere or fix.title, trial=None, patch=None)
