"""Step time of a script as it is, unprofiled, through the hooks of ``unstall try``. usage: measure.py RUNS SCRIPT …"""

import statistics
import sys

from unstall.trial.runs import once

runs, command = int(sys.argv[1]), sys.argv[2:]
found = []
for _ in range(runs):
    run = once([sys.executable, *command], [], steps=150, seconds=30, most=120)
    if not run.good:
        sys.exit(f"{' '.join(command)}: {run.reason}")
    steady = run.samples_ns[len(run.samples_ns) // 3 :]  # batches made ahead are used up by then
    found.append(statistics.median(steady) / 1e6)
print(
    f"{' '.join(command)}: {statistics.median(found):.2f} ms a step ({', '.join(f'{f:.2f}' for f in found)})",
    flush=True,
)
