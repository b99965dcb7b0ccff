"""Whose terms a remedy is given in: which framework launched the work, and what CuPy calls the remedies.

In: names of kernels and ranges, a process's name. Out: ``pytorch``, ``jax``, ``cupy`` or ``cuda``; a rule's
:class:`~unstall.diagnose.texts.Fix` in CuPy's words, where rules speak of PyTorch, JAX and CUDA C++ alone.

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


def worded(fix: Fix, framework: Framework, code: str, key: str, language: str) -> Fix:
    """A rule's remedy for a framework: CuPy's words where it is CuPy's; patches and trials for PyTorch alone.

    Args:
        fix: the rule's.
        framework: see :func:`recognised`.
        code, key: the rule, and which of its remedies (empty for the usual one).
        language: of the words.
    """
    if framework == "pytorch":
        return fix
    told = CUPY.get(f"{code}/{key}" if key else code) if framework == "cupy" else None
    words = fix if told is None else replace(fix, cuda=told.get(language, told["en"]))
    title = TITLES.get(code, {}).get(language, fix.title)
    return replace(words, title=title, trial=None, patch=None)


TITLES: dict[str, dict[str, str]] = {
    "launch-bound": {
        "en": "Launch less: fuse, or replay a CUDA graph",
        "ko": "실행 횟수 줄이기: 융합 또는 CUDA 그래프",
    },
}
"""Headings that name PyTorch's own means, for the others: rule → language → heading."""

CUPY: dict[str, dict[str, str]] = {
    "host-data-loading": {
        "en": "Load and decode the next batch in a thread or process while the current one is computed "
        "(unstall.fix.prefetch wraps the iterator), into pinned arrays (cupyx.empty_pinned), and copy it with "
        "x.set(batch, stream=side).",
        "ko": "현재 배치를 계산하는 동안 다음 배치를 스레드나 프로세스에서 읽고 "
        "디코딩하십시오(unstall.fix.prefetch가 반복자를 감쌉니다). 페이지 고정 배열(cupyx.empty_pinned)에 담아 "
        "x.set(batch, stream=side)로 복사하십시오.",
    },
    "host-data-loading/workers": {
        "en": "Add reader threads or processes while CPU cores are idle; then make a sample cheaper: smaller "
        "decodes, caching, fewer and larger files, decoding on the GPU.",
        "ko": "CPU 코어가 노는 동안 읽는 스레드나 프로세스를 늘리고, 샘플을 가볍게 하십시오: 더 작은 디코딩, 캐시, "
        "더 적고 큰 파일, GPU 디코딩.",
    },
    "pageable-copy": {
        "en": "Keep host arrays in pinned memory (cupyx.empty_pinned, cupyx.zeros_pinned) and copy them with "
        "x.set(host, stream=side) on a cupy.cuda.Stream(non_blocking=True) while the current batch is computed.",
        "ko": "호스트 배열을 페이지 고정 메모리(cupyx.empty_pinned, cupyx.zeros_pinned)에 두고, 현재 배치를 계산하는 "
        "동안 cupy.cuda.Stream(non_blocking=True)에서 x.set(host, stream=side)로 복사하십시오.",
    },
    "exposed-copy": {
        "en": "Copy on a stream of its own: with cupy.cuda.Stream(non_blocking=True) as side: x.set(host, "
        "stream=side), and let the computing stream wait for side.record() only where it needs the data.",
        "ko": "별도 스트림에서 복사하십시오: with cupy.cuda.Stream(non_blocking=True) as side: x.set(host, "
        "stream=side). 연산 스트림은 데이터가 필요한 곳에서만 side.record()를 기다리게 하십시오.",
    },
    "many-small-copies": {
        "en": "Put the values into one NumPy array and copy it once (cupy.asarray), or create them on the GPU "
        "(cupy.arange, cupy.full, cupy.random).",
        "ko": "값을 NumPy 배열 하나에 모아 한 번에 복사하거나(cupy.asarray), GPU에서 만드십시오(cupy.arange, "
        "cupy.full, cupy.random).",
    },
    "device-to-host-copy": {
        "en": "Avoid .get(), cupy.asnumpy() and float(x) in the loop: keep results on the GPU, bring them every 50th "
        "step, or copy into a pinned array with x.get(stream=side, out=host, blocking=False) and read it a step "
        "later.",
        "ko": "반복문에서 .get(), cupy.asnumpy(), float(x)를 피하십시오: 결과를 GPU에 두고 50스텝마다 가져오거나, "
        "페이지 고정 배열에 x.get(stream=side, out=host, blocking=False)로 복사해 한 스텝 뒤에 읽으십시오.",
    },
    "blocking-sync": {
        "en": "float(x), bool(x), if x: and .get() wait for the GPU; so does cupy.cuda.Device().synchronize(). Keep "
        "conditions on the GPU (cupy.where), log every 50th step, and wait for an event only where its result is "
        "needed.",
        "ko": "float(x), bool(x), if x:, .get()은 GPU를 기다립니다. cupy.cuda.Device().synchronize()도 그렇습니다. "
        "조건은 GPU에 두고(cupy.where), 50스텝마다 기록하고, 결과가 필요한 곳에서만 이벤트를 기다리십시오.",
    },
    "launch-bound": {
        "en": "Fuse elementwise expressions (@cupy.fuse, cupy.ElementwiseKernel, a RawKernel), work on larger arrays "
        "at a time, or capture the step into a CUDA graph (stream.begin_capture(), stream.end_capture(), "
        "graph.launch()).",
        "ko": "요소별 식을 융합하고(@cupy.fuse, cupy.ElementwiseKernel, RawKernel), 한 번에 더 큰 배열을 다루거나, "
        "스텝을 CUDA 그래프로 캡처하십시오(stream.begin_capture(), stream.end_capture(), graph.launch()).",
    },
    "host-python-work": {
        "en": "Do it on the GPU (cupy instead of numpy; cupyx.scipy), in a thread while the GPU works, or every 50th "
        "step; replace Python loops over elements by array operations.",
        "ko": "GPU에서 하거나(numpy 대신 cupy, cupyx.scipy), GPU가 일하는 동안 스레드에서 하거나, 50스텝마다 "
        "하십시오. 요소를 도는 Python 반복문은 배열 연산으로 바꾸십시오.",
    },
    "allocator-churn": {
        "en": "Keep CuPy's memory pool on (it is by default: no cupy.cuda.set_allocator(None), no free_all_blocks() "
        "in the loop), write into existing arrays (out=), and allocate pinned buffers once.",
        "ko": "CuPy의 메모리 풀을 켜 두고(기본값: cupy.cuda.set_allocator(None)이나 반복문 안의 free_all_blocks()를 "
        "쓰지 않기), 있는 배열에 쓰고(out=), 페이지 고정 버퍼는 한 번만 할당하십시오.",
    },
    "fp32-matmul": {
        "en": "Set CUPY_TF32=1 in the environment before the program starts, or multiply in float16.",
        "ko": "프로그램을 시작하기 전에 환경 변수 CUPY_TF32=1을 설정하거나 float16으로 곱하십시오.",
    },
    "compute-bound": {
        "en": "CUPY_TF32=1 or float16 for products, @cupy.fuse for chains of elementwise operations, "
        "cupyx.optimizing for launch shapes, larger arrays if kernels are too small; `unstall kernel` says why one "
        "kernel is slow.",
        "ko": "행렬 곱은 CUPY_TF32=1이나 float16, 이어지는 요소별 연산은 @cupy.fuse, 실행 모양은 cupyx.optimizing, "
        "커널이 너무 작으면 더 큰 배열. 커널 하나가 느린 이유는 `unstall kernel`이 알려 줍니다.",
    },
}
"""Rule, or rule/remedy → language → the remedy in CuPy's terms."""
