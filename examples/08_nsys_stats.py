"""Read the text that `nsys stats` printed, pasted from wherever.   python 08_nsys_stats.py stats.txt"""

import sys

import polars as pl

from unstall.load import stats_tables

for table in stats_tables(sys.argv[1]):  # a path, or the text itself
    if table.skipped:
        print(f"{table.report}: nsys had nothing to show: {table.skipped}")
        continue
    print(f"{table.report}: {table.frame.height} rows, printed by nsys {table.version or '?'}")
    if table.report == "nvtx_sum":
        phases = table.frame.filter(~pl.col("name").str.contains(r"step_\d+$"))  # per-step ranges wrap the phases
        shares = phases.with_columns(share=(100 * pl.col("total_ns") / pl.col("total_ns").sum()).round(1))
        print(shares.select("name", "instances", "total_ns", "median_ns", "share").sort("total_ns", descending=True))
