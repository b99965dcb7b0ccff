"""Which ranges a library wrote, not the user: they are attributed and totalled, but never taken for steps or phases.

In: domains and names. Out: flags. Decided by text alone, so these are heuristics; each pattern says whose it is.
Ranges that PyTorch writes about the *script* (``ProfilerStep#3``, ``enumerate(DataLoader)…``, ``Optimizer.step#…``) are
kept with the user's: they say what the script does.
"""

from __future__ import annotations

import polars as pl

DOMAINS = (
    "NCCL|CCCL|CUB|Thrust|cuBLAS\\w*|cuDNN|cuFFT|cuSPARSE\\w*|cuSOLVER\\w*|cuTENSOR\\w*|NVSHMEM\\w*|UCX|MPI|OpenMP|"
    "TensorRT|TorchInductor|TSL|XLA|libcudf|libkvikio|GIL Trace|torch\\.ops"
)
"""Domains that libraries register (whole name, any case); ``torch.ops`` holds the operators of a Kineto trace."""

NAMES = (
    r"(?:cub|thrust|cuda|cccl)::",  # CCCL: cub::DeviceScan, thrust::sort
    r"(?:p?nccl|cublas|cublasLt|cudnn|cufft|cusparse|cusolver|cutensor|nvshmem)[A-Z_]\w*",  # ncclAllReduce, cudnnConv…
    r"nccl:|gloo:|c10d::|record_param_comms|FSDP::|DistributedDataParallel\.",  # torch.distributed about itself
    r"(?:aten|prim|quantized|torchvision|torchaudio|inductor|triton)::\w",  # emit_nvtx: an operator
    r"(?:\w+::\w[^ ]*|detach_?), (?:seq|op_id) = ",  # emit_nvtx: an operator of any other namespace, or of none
    r"autograd::engine|torch::autograd::|\w+Backward\d*(?:, |$)",  # autograd's own nodes
    r"Torch-Compiled Region|## Call CompiledFxGraph|CompiledFunction|TorchDynamo|InductorBenchmarker",  # torch.compile
    r"XlaModule|TSL:|Thunk:",  # XLA
)
"""Beginnings of names that libraries write."""


def library_domains(domains: pl.Series) -> pl.Series:
    """Whether each domain is a library's."""
    return domains.str.contains(rf"^(?i:{DOMAINS})$").fill_null(value=False)


def library_names(names: pl.Series) -> pl.Series:
    """Whether each range name is one that a library writes."""
    return names.str.contains(rf"^(?:{'|'.join(NAMES)})").fill_null(value=False)
