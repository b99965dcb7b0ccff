"""Predict and replay: what would the step take if …   python 05_what_if.py run.sqlite"""

import sys

import polars as pl

import unstall
from unstall.analyze import intervals
from unstall.analyze.replay import Change, Replay

analysis = unstall.analyze(unstall.load(sys.argv[1]))
if not analysis.steps or analysis.ranges is None:
    sys.exit("a replay needs steps and ranges")
replay = Replay(analysis, analysis.steps[0], analysis.report.steps[0].unprofiled_ns)
print(f"untouched, the replay takes {replay.self_check:.3f} of the captured step")  # close to 1, or do not trust it
print(f"step without the profiler: {replay.baseline.step_ns / 1e6:.2f} ms")

name = pl.col("name").cast(pl.String)
loading = analysis.ranges.filter(name == "data_load")
half = (pl.col("end") - pl.col("start")) // 2  # of calls and operations the columns of replay.calls, replay.ops
changes = {
    "no loading": Change(cut=intervals.union(loading["start"], loading["end"])),
    "copies from pinned memory, a step ahead": Change(side=pl.col("copy_kind") == "HtoD"),
    "kernels twice as fast": Change(op_ns=pl.when(pl.col("table") == "kernels").then(half)),
    "one CUDA graph a step": Change(graph=True),
}
for what, change in changes.items():
    p = replay.predict(change)
    print(f"{what}: {p.step_ns / 1e6:.2f} ms ({p.low_ns / 1e6:.2f} to {p.high_ns / 1e6:.2f}), then {p.limit} limits")
