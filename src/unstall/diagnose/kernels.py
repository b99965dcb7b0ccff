"""What a kernel is, from its name: one family each, across cuBLAS, CUTLASS, cuDNN, PyTorch, XLA and Triton.

In: kernel names. Out: families. Names are all that a trace tells of a kernel's arithmetic, so the patterns are the
knowledge here; each says whose names it is for. First match wins.
"""

from __future__ import annotations

import re
from functools import lru_cache

import polars as pl

LAYOUT = "layout"
ATTENTION = "attention"
FP32_GEMM = "gemm_fp32"
TENSOR_GEMM = "gemm_tensor"
GEMM = "gemm"
CONV = "conv"
LOG_SOFTMAX = "log_softmax"
SOFTMAX = "softmax"
OPTIMIZER = "optimizer"
NORM = "norm"
REDUCTION = "reduction"
ELEMENTWISE = "elementwise"
COMMUNICATION = "communication"
OTHER = "other"

GEMMS = (FP32_GEMM, TENSOR_GEMM, GEMM)
MEMORY_BOUND = (LAYOUT, SOFTMAX, LOG_SOFTMAX, OPTIMIZER, NORM, REDUCTION, ELEMENTWISE)
"""Families that do a few operations a byte: far under any GPU's ratio of arithmetic to memory (H200: 206 FLOP a byte in
bf16, A100: 153), so memory traffic sets their time."""
ARITHMETIC = (FP32_GEMM, TENSOR_GEMM, GEMM, CONV, ATTENTION)

_TENSOR = (
    r"tf32|bf16|fp16|f16|fp8|e4m3|e5m2|s8s8|i8i8|tensor "
    "?op|_s?(884|1688|16816|16832)|(?<!x)mma_|hmma|wgmma|gmma|nvjet|hgemm|"
    r"__half|bfloat16|half_t"
)
"""Marks of tensor cores in GEMM names: operand types, instruction shapes (``s1688``), cuBLAS 12's ``nvjet``."""
_FP32 = (
    r"simt_?sgemm|(^|[^a-z])sgemm|scudnn|_sgemm|f32f32_f32f32|ffma|gemm\w*<float, float, float|gemm\w*_(fp|f)32|"
    r"(fp|f)32_?gemm|matmul_(kernel_)?(fp|f)32|gemmSN\w*<float"
)
"""Marks of fp32 on CUDA cores: CUTLASS ``simt_sgemm``, cuBLAS ``sgemm`` and ``ffma``, cuDNN ``scudnn``."""
_GEMM = r"gemm|gemv|matmul|nvjet|cutlass.*Kernel2?<|cublas|_bmm_|triton\w*_(mm|bmm|addmm)|wgrad2?d?_alg|dot_kernel"
_CONV = r"conv(?!.*(gemm|matmul))|fprop|dgrad|wgrad|winograd|cudnn_infer|im2col|col2im|scudnn|cudnn.*(kernel|engine)"
_LAYOUT = (
    r"n(chw|hwc|cdhw|dhwc)\w*(_?to_?|2)(folded|n(chw|hwc|cdhw|dhwc|c))|nchw2nhwc|nhwc2nchw|convertTensor_kernel|tensorTransform|"
    r"transpose_readWrite|cublasTransposeParams.*transpose|nhwcAddPadding|wrapped_transpose|transpose_fusion"
)
_ATTENTION = r"flash|fmha|fused_?attention|mem_?eff\w*_?att|efficient_attention|attn_(fwd|bwd)|_attention_kernel|sdpa"
_ELEMENTWISE = (
    r"elementwise|pointwise|CUDAFunctor|copy_kernel|fill|dropout|masked|where|triton_poi|loop_\w*fusion|CatArray|"
    r"indexSelect|index_kernel|index_elementwise|gather|scatter|embedding|scal_kernel|axpy|arange|triu_tril"
)

_FAMILIES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        (COMMUNICATION, r"(?i)nccl|nvshmem|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all"),
        (LAYOUT, f"(?i){_LAYOUT}"),
        (ATTENTION, f"(?i){_ATTENTION}"),
        (LOG_SOFTMAX, r"(?i)log_?softmax|softmax_warp_\w+<[^<>]*(\(int\))?\d+, (\(bool\)1|true)"),
        (SOFTMAX, r"(?i)softmax"),
        (OPTIMIZER, r"(?i)multi_tensor_apply|fused_?(adam|sgd|lamb|lion)|adam_kernel|adamw"),
        (NORM, r"(?i)(layer|batch|group|rms|instance)_?norm|_bn_|GammaBeta|RowwiseMoments|bn_(fw|bw)"),
        (CONV, f"(?i){_CONV}"),
        (CONV, r"(?i)implicit_gemm|implicit_convolve|scudnn|conv.*gemm|gemm.*conv"),
        (REDUCTION, r"(?i)splitKreduce|split_k_reduce"),
        (ELEMENTWISE, r"cublasLt::epilogue|scal_kernel"),
        (TENSOR_GEMM, rf"(?i)\A(?=.*({_GEMM}))(.*({_TENSOR}))"),
        (FP32_GEMM, rf"(?i)\A(?=.*({_GEMM}))(.*({_FP32}))"),
        (GEMM, f"(?i){_GEMM}"),
        (REDUCTION, r"(?i)reduc|triton_(red|per)|input_reduce|DeviceScan|DeviceReduce|argmax|topk|sort"),
        (ELEMENTWISE, f"(?i){_ELEMENTWISE}"),
    )
)
FP32_CONV = re.compile(r"(?i)scudnn|implicit_convolve_sgemm|f32f32_f32f32|simt_s(fprop|dgrad|wgrad)|sgemm")
"""fp32 convolutions on CUDA cores, among the names of the convolution family."""


@lru_cache(maxsize=65536)
def family(name: str) -> str:
    """The family of one kernel name."""
    return next((f for f, pattern in _FAMILIES if pattern.search(name)), OTHER)


def families(names: pl.Series) -> pl.Series:
    """The family of each name, decided once a distinct name; null names are ``other``."""
    distinct = names.unique().drop_nulls().cast(pl.String).to_list()
    return names.cast(pl.String).replace_strict(
        distinct, [family(n) for n in distinct], default=OTHER, return_dtype=pl.String
    )


def is_fp32(name: str) -> bool:
    """Whether a kernel multiplies in fp32 on CUDA cores where tensor cores could.

    Matrix–vector products are left out: memory bounds them, whichever cores do the arithmetic.
    """
    kind = family(name)
    if kind == CONV:
        return bool(FP32_CONV.search(name)) and not re.search(f"(?i){_TENSOR}", name)
    return kind == FP32_GEMM and "gemv" not in name.lower()


def short(name: str, width: int = 60) -> str:
    """A name that fits a sentence: the function's own name, and for CUTLASS's ``Kernel2<…>`` what is inside."""
    inner = re.search(r"\bcutlass::Kernel2?<([\w:]+)", name)  # attention's ``AttentionKernel<float, …>`` is no wrapper
    if inner:
        return inner.group(1)[:width]
    plain = re.sub(r"<unnamed>::|\(anonymous namespace\)::|^void ", "", name)
    functor = re.search(
        r"(\w+Functor\w*|\w+_kernel_cuda|\w+KernelImpl|\w+_kernel(?!_impl_nocast)(?:_impl)?(?=[<(]))",
        plain.partition("<")[2],
    )
    head = re.split(r"[<(]", plain, maxsplit=1)[0].rpartition("::")[2] or plain
    text = f"{head} ({functor.group(1)})" if functor and "elementwise" in head else head
    return text if len(text) <= width else text[: width - 1] + "…"
