"""Read a profile and rank its NVTX ranges yourself, on the Polars frames.   python 02_ranges.py run.sqlite"""

import sys

import polars as pl

import unstall

profile = unstall.load(sys.argv[1])
if profile.ranges is None:  # the capture did not trace NVTX: unknown, not zero
    sys.exit("no NVTX ranges were traced")
length = (pl.col("end") - pl.col("start")).alias("ns")
closed = profile.ranges.filter(pl.col("end").is_not_null()).with_columns(length, pl.col("name").cast(pl.String))
ranked = closed.group_by("name").agg(
    pl.len().alias("count"),
    (pl.col("ns").sum() / 1e6).alias("total_ms"),
    (pl.col("ns").median() / 1e6).alias("median_ms"),
)
print(ranked.sort("total_ms", descending=True).head(10))

# What the analysis adds: numbered names as one family, self time, device time, wrappers told from phases, warm-up out.
for row in unstall.analyze(profile).report.ranges or []:
    gpu = "?" if row.gpu_ns is None else f"{row.gpu_ns / 1e6:.1f}"
    print(f"{row.name:14} × {row.instances:4} total {row.total_ns / 1e6:8.1f} ms, GPU {gpu} ms, wrapper {row.wrapper}")
