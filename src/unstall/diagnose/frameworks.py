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


def worded(fix: Fix, framework: Framework, code: str, language: str) -> Fix:
    """A rule's remedy for a framework: patches, trials and PyTorch's own means in the title are for PyTorch alone.

    Args:
        fix: the rule's.
        framework: see :func:`recognised`.
        code: the rule.
        language: of the words.
    """
    if framework == "pytorch":
        return fix
    cupy = fix.cupy or CUPY.get(code, {}).get(language, "")
    return replace(fix, title=fix.elsewhere or fix.title, cupy=cupy, trial=None, patch=None)


CUPY: dict[str, dict[str, str]] = {
    "exposed-copy": {
        "en": "Copy on a stream of its own: with cupy.cuda.Stream(non_blocking=True) as side: x.set(host, "
        "stream=side), and let the computing stream wait for side.record() only where it needs the data.",
        "ko": "별도 스트림에서 복사하십시오: with cupy.cuda.Stream(non_blocking=True) as side: x.set(host, "
        "stream=side). 연산 스트림은 데이터가 필요한 곳에서만 side.record()를 기다리게 하십시오.",
    },
    "compute-bound": {
        "en": "CUPY_TF32=1 or float16 for products, @cupy.fuse for chains of elementwise operations, "
        "cupyx.optimizing for launch shapes, larger arrays if kernels are too small; `unstall kernel` says why one "
        "kernel is slow.",
        "ko": "행렬 곱은 CUPY_TF32=1이나 float16, 이어지는 요소별 연산은 @cupy.fuse, 실행 모양은 cupyx.optimizing, "
        "커널이 너무 작으면 더 큰 배열. 커널 하나가 느린 이유는 `unstall kernel`이 알려 줍니다.",
    },
}
"""Rule → language → the remedy in CuPy's terms, where the rule's own ``Fix.cupy`` does not have it."""
