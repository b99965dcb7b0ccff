"""Three loads that hardware counters tell apart. usage: gpu_metrics_train.py hard|memory|light STEPS

*hard* multiplies large bf16 matrices, *memory* adds large vectors, *light* runs kernels of a few blocks, kept queued so
that the GPU is busy all the time in each.
"""

import sys

import torch

case, steps = sys.argv[1], int(sys.argv[2])
a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
v, w = torch.randn(1 << 28, device="cuda"), torch.randn(1 << 28, device="cuda")
small = torch.randn(4096, device="cuda")


def hard():
    for _ in range(8):
        torch.mm(a, a)


def memory():
    for _ in range(8):
        torch.add(v, w, out=v)


def light():
    for _ in range(20):
        torch.sort(small)
        torch.cumsum(small, 0)


run = {"hard": hard, "memory": memory, "light": light}[case]
for i in range(steps):
    torch.cuda.nvtx.range_push(f"step_{i}")
    run()
    torch.cuda.nvtx.range_pop()
torch.cuda.synchronize()
