"""The same training loop for two profilers. usage: kineto_train.py lab|launch STEPS [TRACE]

Without TRACE the phases are NVTX ranges, for nsys; with it they are annotations of torch.profiler, which records all
steps but the first five and writes TRACE. *lab* loads 10 ms on the main thread and copies pageable memory; *launch*
runs many small layers.
"""

import sys
import time
from contextlib import contextmanager, nullcontext

import torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule

case, steps = sys.argv[1], int(sys.argv[2])
trace = sys.argv[3] if len(sys.argv) > 3 else None
width, depth, batch = (2048, 6, 2048) if case == "lab" else (256, 60, 64)
layers = [torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.GELU()) for _ in range(depth)]
model = torch.nn.Sequential(*layers).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(batch, width)


@contextmanager
def named(name):
    if trace:
        with record_function(name):
            yield
    else:
        torch.cuda.nvtx.range_push(name)
        yield
        torch.cuda.nvtx.range_pop()


def step():
    with named("data_load"):
        if case == "lab":
            time.sleep(0.010)
    with named("to_device"):
        inputs = x.cuda()
    with named("forward"):
        loss = model(inputs).square().mean()
    with named("backward"):
        optimizer.zero_grad()
        loss.backward()
    with named("optimizer"):
        optimizer.step()


def write(p):
    p.export_chrome_trace(trace)


both, plan = [ProfilerActivity.CPU, ProfilerActivity.CUDA], schedule(wait=3, warmup=2, active=steps - 5)
recording = profile(activities=both, schedule=plan, on_trace_ready=write) if trace else nullcontext()
times = []
with recording as p:
    for i in range(steps):
        begin = time.perf_counter()
        with nullcontext() if trace else named(f"step_{i}"):
            step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
        if p:
            p.step()
half = sorted(times[steps // 2 :])
print(f"{case}: {1e3 * half[len(half) // 2]:.2f} ms a step in the second half", flush=True)
