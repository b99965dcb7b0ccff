"""What reports are called, in every version: old names and titles → the names of nsys 2023.4 and newer.

In: names, script paths, titles, skip reasons or headers as printed. Out: report names (``nvtx_sum``), or ``""``.
"""

from __future__ import annotations

import re
from collections.abc import Collection

OLD = {
    "nvtxsum": "nvtx_sum",
    "nvtxppsum": "nvtx_pushpop_sum",
    "nvtxsesum": "nvtx_startend_sum",
    "nvtxsssum": "nvtx_startend_sum",
    "nvtxpptrace": "nvtx_pushpop_trace",
    "nvtxgpuproj": "nvtx_gpu_proj_trace",
    "nvtxkernsum": "nvtx_kern_sum",
    "gpukernsum": "cuda_gpu_kern_sum",
    "gpukerngbsum": "cuda_gpu_kern_gb_sum",
    "cudaapisum": "cuda_api_sum",
    "cudaapitrace": "cuda_api_trace",
    "gputrace": "cuda_gpu_trace",
    "gpusum": "cuda_gpu_sum",
    "apigpusum": "cuda_api_gpu_sum",
    "gpumemtimesum": "cuda_gpu_mem_time_sum",
    "gpumemsizesum": "cuda_gpu_mem_size_sum",
    "kernexecsum": "cuda_kern_exec_sum",
    "kernexectrace": "cuda_kern_exec_trace",
    "osrtsum": "osrt_sum",
    "unifiedmemory": "um_sum",
    "unifiedmemorytotals": "um_total_sum",
    "umcpupagefaults": "um_cpu_page_faults_sum",
    "openaccsum": "openacc_sum",
    "openmpevtsum": "openmp_sum",
    "khrdebugsum": "opengl_khr_range_sum",
    "khrdebuggpusum": "opengl_khr_gpu_range_sum",
    "vulkanmarkerssum": "vulkan_marker_sum",
    "vulkangpumarkersum": "vulkan_gpu_marker_sum",
    "vulkanapisum": "vulkan_api_sum",
    "vulkanapitrace": "vulkan_api_trace",
    "dx11pixsum": "dx11_pix_sum",
    "dx12pixsum": "dx12_pix_sum",
    "dx12gpumarkersum": "dx12_gpu_marker_sum",
    "wddmqueuesdetails": "wddm_queue_sum",
}
"""Names of nsys 2022.4 and older → names of today."""

_TITLES = (  # words of a title, or of the reason for skipping; the first line that is wholly there decides
    (("nvtx", "push", "pop"), "nvtx_pushpop_sum"),
    (("nvtx", "start", "end"), "nvtx_startend_sum"),
    (("nvtx", "range"), "nvtx_sum"),
    (("nv tools extension",), "nvtx_sum"),
    (("operating system runtime",), "osrt_sum"),
    (("os runtime",), "osrt_sum"),
    (("memory operation", "size"), "cuda_gpu_mem_size_sum"),
    (("memory operation",), "cuda_gpu_mem_time_sum"),
    (("memops", "size"), "cuda_gpu_mem_size_sum"),
    (("memops",), "cuda_gpu_mem_time_sum"),
    (("gpu memory data",), "cuda_gpu_mem_time_sum"),
    (("cuda kernel",), "cuda_gpu_kern_sum"),
    (("gpu kernel",), "cuda_gpu_kern_sum"),
    (("cuda api",), "cuda_api_sum"),
    (("cuda trace data",), "cuda_api_sum"),
)
_HEADERS = (  # the first that matches decides
    (r"total proj time", "nvtx_gpu_proj_sum"),
    (r"nvtx range.*kernel name", "nvtx_kern_sum"),
    (r"style.*\brange\b", "nvtx_sum"),
    (r"\brange\b", "nvtx_pushpop_sum"),
    (r"category", "cuda_gpu_sum"),
    (r"time.*\boperation\b", "cuda_gpu_mem_time_sum"),
    (r"\boperation\b", "cuda_gpu_mem_size_sum"),
    (r"num calls.*\bname\b", "osrt_sum"),
    (r"instances.*gridxyz.*\bname\b", "cuda_gpu_kern_gb_sum"),
    (r"instances.*\bname\b", "cuda_gpu_kern_sum"),
)
_KNOWN = frozenset(OLD.values()) | {"nvtx_gpu_proj_sum", "nvtx_startend_trace"}
_CUDA_CALL = re.compile(r"cuda[A-Z]|cu[A-Z]\w+|cuda\w+_v\d+")


def report_name(printed: str) -> str:
    """The report behind a name or a script's path: ``/…/reports/nvtxsum.py`` → ``nvtx_sum``, arguments left off."""
    base = re.split(r"[\\/]", printed.strip())[-1]
    name = re.split(r"\.py\b|[:\s]", base, maxsplit=1)[0].lower()
    return OLD.get(name, name)


def from_title(title: str) -> str:
    """The report that a title of older versions names (``CUDA Kernel Statistics``)."""
    words = title.lower()
    return next((name for parts, name in _TITLES if all(p in words for p in parts)), "")


def from_file(stem: str) -> str:
    """The report that ``nsys stats -o`` put into a file's name: ``run_nvtx_sum`` → ``nvtx_sum``."""
    stem = stem.lower()
    ends = [name for name in (*_KNOWN, *OLD) if stem == name or stem.endswith(f"_{name}")]
    return report_name(max(ends, key=len)) if ends else ""


def from_header(header: str, first_names: Collection[str]) -> str:
    """The report that such a table belongs to, by its header and the first names in it; a best guess."""
    text = " ".join(header.lower().split())
    name = next((name for pattern, name in _HEADERS if re.search(pattern, text)), "")
    called = name == "osrt_sum" and any(_CUDA_CALL.match(n) for n in first_names)
    return "cuda_api_sum" if called else name
