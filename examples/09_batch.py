"""A folder of profiles as one table: step time, main finding, predicted gain.   python 09_batch.py FOLDER"""

import sys
from pathlib import Path

import polars as pl

import unstall

rows = []
for path in sorted(Path(sys.argv[1]).glob("**/*.sqlite")):
    try:
        report = unstall.report_of(path)
    except unstall.ProfileUnreadable as error:  # one bad file is a row, not the end
        rows.append({"profile": path.name, "failed": error.why})
        continue
    first = next((f for f in report.findings if f.main), None)
    rows.append({
        "profile": path.name,
        "step_ms": report.steps[0].step_ns / 1e6 if report.steps else None,
        "finding": first.code if first else None,
        "predicted_ms": first.predicted_step_ns / 1e6 if first and first.predicted_step_ns else None,
    })  # fmt: skip
schema = {"profile": str, "step_ms": float, "finding": str, "predicted_ms": float, "failed": str}
table = pl.DataFrame(rows, schema=schema).with_columns(gain=(pl.col("step_ms") / pl.col("predicted_ms")).round(2))
print(table.sort("gain", descending=True, nulls_last=True))
table.write_csv("profiles.csv")
