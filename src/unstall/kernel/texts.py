"""What is said of a kernel: a title, sentences of evidence, and a remedy in the terms of PyTorch, Triton and CUDA.

In: nothing. Out: English; :mod:`unstall.lang.ko.kernel` holds the Korean, sentence by sentence.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Text:
    """One finding's words. ``fix`` is its heading; the three others say how in each framework's terms."""

    title: str
    fix: str
    pytorch: str
    triton: str
    cuda: str


TEXTS = {
    "memory-bound": Text(
        "Memory limits it",
        "Move fewer bytes",
        "Fuse it with its neighbours (torch.compile), use bf16 instead of fp32, avoid copies and transposes.",
        "Load each block once and do all that needs it; store in bf16; widen BLOCK so that loads are vectors.",
        "Keep data in registers or shared memory between passes, use smaller types, and 16-byte vector loads.",
    ),
    "compute-bound": Text(
        "Arithmetic limits it",
        "Compute less, or on faster units",
        "Lower precision (bf16, fp8) where the loss allows it; otherwise it is near what the GPU can do.",
        "Use tl.dot in bf16 with fp32 accumulation, and autotune BLOCK sizes, num_warps and num_stages.",
        "Tensor cores through cuBLASLt or CUTLASS; fewer instructions an element (fast intrinsics).",
    ),
    "latency-bound": Text(
        "Neither arithmetic nor memory is near its limit: it waits",
        "Give the GPU more independent work at a time",
        "Larger batches, fewer and larger kernels (torch.compile, foreach or fused variants).",
        "More programs in the grid, num_warps and num_stages from autotune, several elements a thread.",
        "More blocks and warps an SM, more independent instructions a thread (unrolling), asynchronous copies.",
    ),
    "small-grid": Text(
        "The grid is too small for this GPU",
        "Launch more blocks",
        "Larger batches, or do several such operations at once (batched matrix products, foreach, torch.compile).",
        "Smaller BLOCK sizes, or split the reduction over programs (split-K, tl.atomic_add).",
        "Smaller tiles, split-K, or a grid of at least one block for each multiprocessor.",
    ),
    "tail-effect": Text(
        "The last wave of blocks leaves most of the GPU idle",
        "Make the work divide evenly",
        "Pad or choose sizes so that blocks fill whole waves; batch sizes that are multiples of what fits at once.",
        "Another BLOCK size, or a persistent kernel: one program an SM that loops over tiles.",
        "Another tile size, stream-K or a persistent kernel with one block an SM.",
    ),
    "low-occupancy": Text(
        "Few warps fit on a multiprocessor: {limiter} limits them",
        "Use less of what limits",
        "The kernel is a library's: other shapes or types choose another one; torch.compile(mode='max-autotune').",
        "Fewer num_stages or smaller BLOCK sizes use less shared memory; more num_warps spread the registers.",
        "__launch_bounds__ or -maxrregcount for registers, smaller tiles, blocks of 128 to 256 threads.",
    ),
    "uneven-warps": Text(
        "Warps finish at very different times",
        "Spread the work evenly",
        "Sort or bucket inputs by length, so that neighbouring blocks do the same amount of work.",
        "Let programs take tiles from a counter (tl.atomic_add) instead of a fixed share.",
        "Smaller blocks, or work taken from an atomic counter, so that no block waits for its longest warp.",
    ),
    "uncoalesced-access": Text(
        "Global memory is read or written in pieces: most of each sector is thrown away",
        "Let neighbouring threads touch neighbouring addresses",
        "Make the tensor contiguous in the order in which it is used (.contiguous(), channels_last); gather rows.",
        "Let tl.arange run along the dimension with stride 1; transpose through tl.trans after a contiguous load.",
        "Let threadIdx.x run along the fastest dimension, use structures of arrays, transpose in shared memory.",
    ),
    "divergence": Text(
        "Threads of a warp go different ways",
        "Let the threads of a warp take the same branch",
        "Replace data-dependent branches by torch.where over whole tensors, or sort so that equal cases lie together.",
        "Use tl.where and masks over blocks; give cases of different length to different programs.",
        "Branch by warp instead of by thread, sort or compact the work first, take loops to the same length.",
    ),
    "bank-conflicts": Text(
        "Threads queue for the same bank of shared memory",
        "Spread the accesses over the banks",
        "The kernel is the library's: another layout or size of the last dimension avoids it (not a power of two).",
        "Leave the layout to tl.dot and tl.trans (they swizzle); avoid reshapes that change the fastest dimension.",
        "Pad rows by one element (tile[32][33]) or swizzle the index.",
    ),
    "tensor-cores-idle": Text(
        "Matrix arithmetic on CUDA cores: tensor cores are idle",
        "Use tensor cores",
        "torch.set_float32_matmul_precision('high') for TF32, or torch.autocast in bf16; dimensions in multiples of 8.",
        "tl.dot on bf16 blocks (or input_precision='tf32') instead of sums of products.",
        "cuBLASLt with CUBLAS_COMPUTE_32F_FAST_TF32, CUTLASS, or mma/wgmma instructions.",
    ),
}

STALLS = {
    "long_scoreboard": "data from global memory (long scoreboard)",
    "short_scoreboard": "shared memory or special functions (short scoreboard)",
    "barrier": "the other warps of their block, at a barrier",
    "lg_throttle": "the queue for global memory (LG throttle)",
    "mio_throttle": "the queue for shared memory and special functions (MIO throttle)",
    "tex_throttle": "the texture queue",
    "math_pipe_throttle": "a free arithmetic pipe",
    "wait": "a fixed delay between dependent instructions",
    "no_instruction": "instructions (cache misses of the program itself)",
    "no_instructions": "instructions (cache misses of the program itself)",
    "not_selected": "their turn: others could issue as well",
    "branch_resolving": "branches",
    "dispatch_stall": "the dispatcher",
    "drain": "stores to drain at the end",
    "imc_miss": "constants (cache misses)",
    "membar": "a memory fence",
    "sleeping": "a sleep of their own",
    "misc": "other things",
    "gmma": "tensor cores (wgmma)",
}
"""Reason in a counter's name → what a warp waits for."""
