"""The one-line fix: draw, pin and copy the next batches while the current one is computed. Needs torch, uses a GPU."""

import time

import torch

import unstall


def batches():  # stands for a loader that takes its time
    """Twenty batches of 10 ms."""
    for i in range(20):
        time.sleep(0.01)
        yield torch.full((64, 256), float(i)), torch.zeros(64)


def train(source):
    """10 ms of work a batch; returns the seconds that it took, and what was seen."""
    start, seen = time.perf_counter(), []
    for x, _ in source:
        time.sleep(0.01)
        seen.append(float(x[0, 0]))
    return time.perf_counter() - start, seen


plain, order = train(batches())
ahead, same = train(unstall.prefetch(batches(), device="cuda"))  # the line; without CUDA batches stay on the CPU
print(f"{plain:.2f} s as it was, {ahead:.2f} s drawn ahead, same order: {order == same}")

data = unstall.resident(batches(), device="cuda")  # or keep what fits on the GPU: copied once, drawn from ever after
print(f"{len(data)} batches resident, {data.bytes / 1e6:.1f} MB; second epoch {train(data)[0]:.2f} s")
