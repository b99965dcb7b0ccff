"""The same in Python: the verdict's figures and the findings, typed.   python 01_report.py run.sqlite"""

import sys

import unstall

report = unstall.report_of(sys.argv[1])
for steps, breakdown in zip(report.steps, report.breakdown, strict=True):
    print(f"process {steps.process}: {steps.count} steady steps of {steps.step_ns / 1e6:.1f} ms")
    for category in breakdown.categories:  # they add up to breakdown.step_ns exactly
        print(f"  {category.name:22} {category.ns / 1e6:8.3f} ms {category.percent:5.1f} %")
for finding in report.findings:
    predicted = finding.predicted_step_ns
    print(f"{finding.code}: {finding.title}")
    print(f"  costs {finding.cost_ns_per_step / 1e6:.2f} ms a step", end="")
    print(f", {predicted / 1e6:.2f} ms with the fix" if predicted else ", no prediction")
for row in report.not_checked:  # not checked is never clean
    print(f"not checked: {row.code}: {row.reason}")
