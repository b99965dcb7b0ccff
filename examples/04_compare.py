"""Compare plain step times, in milliseconds, one a line, and gate on it.   python 04_compare.py before.txt after.txt"""

import sys
from pathlib import Path

import unstall


def step_times(name: str) -> list[float]:
    """One number a line; lines that begin with # are comments."""
    return [float(line) for line in Path(name).read_text().splitlines() if not line.startswith("#")]


before, after = map(step_times, sys.argv[1:3])
found = unstall.compare(before, after)
print(f"{found.verdict}: {found.reason}")
if found.ratio is not None:
    print(f"{found.ratio:.3f}× (95 %: {found.ratio_low:.3f} to {found.ratio_high:.3f})")
for warning in found.warnings:
    print(f"  {warning.code}: {warning.text}")
sys.exit(found.verdict in ("slower", "inconclusive"))  # inconclusive is never clean
