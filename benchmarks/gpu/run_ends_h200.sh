#!/bin/bash
# How `unstall run` ends on a GPU: everybody signalled, --duration with --steps, --delay; both collectors. About 2 minutes.
#   SITE=/tmp/site bash benchmarks/gpu/run_ends_h200.sh [CASE …]      in the repository's root
# One line a case: exit code, collector, seconds captured, kernels, steps, the last kernel before the capture's end (ms),
# and the notes that say why it ended. Reports and logs go to $OUT.
set -u
ROOT=$PWD PY=${PY:-python3} OUT=${OUT:-$(mktemp -d)}
export PYTHONPATH=$ROOT/src${SITE:+:$SITE} PYTHONWARNINGS=ignore UNSTALL_CACHE_DIR=${TMPDIR:-/tmp}/unstall-cache OUT
WORK=$(mktemp -d) && cd "$WORK" || exit 1
cp "$ROOT/src/unstall/examples/slow_training.py" train.py

cat >one.py <<'EOF'
import json, os, signal, sqlite3, subprocess, sys, time
name, number, *options = sys.argv[1:]
def everybody(mark):
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            if mark in open(f"/proc/{entry}/environ", "rb").read() and int(entry) != os.getpid():
                yield int(entry)
        except OSError:
            continue
mark = f"RUN_ENDS={name}"
line = [sys.executable, "-m", "unstall", "run", *options, "--output", name, "--json", f"{os.environ['OUT']}/{name}.json",
        "--", sys.executable, "train.py", "--steps", "100000"]
log = open(f"{os.environ['OUT']}/{name}.log", "w")
process = subprocess.Popen(line, stdout=log, stderr=log, env={**os.environ, "RUN_ENDS": name}, start_new_session=True)
begin = time.monotonic()
if int(number):
    time.sleep(float(os.environ.get("AFTER", "15")))
    for pid in list(everybody(mark.encode())):
        os.kill(pid, int(number))
code = process.wait()
took = time.monotonic() - begin
log.close()
said = [l.strip()[9:] for l in open(log.name) if l.startswith("unstall: ") and any(w in l for w in ("SIG", "--duration", "made no", "hung", "lost", "died"))]
try:
    report = json.load(open(f"{os.environ['OUT']}/{name}.json"))
    with sqlite3.connect(f"{name}/profile.sqlite") as db:
        (last, count) = db.execute("SELECT max(end), count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()
        (end,) = db.execute("SELECT max(coalesce(end, start)) FROM NVTX_EVENTS").fetchone()
    steps = [s["count"] for s in report["steps"]]
    print(name, "rc", code, f"{took:.1f} s;", "captured", round(report["profile"]["duration_ns"] / 1e9, 2), "kernels", count,
          "steps", steps, "unprofiled", [s["unprofiled_ns"] for s in report["steps"]], "kernels end before ranges, ms",
          round((end - last) / 1e6, 1))
except Exception as error:
    print(name, "rc", code, f"{took:.1f} s;", "NO CAPTURE:", repr(error)[:150])
print("   ", " | ".join(said)[:400])
left = list(everybody(mark.encode()))
print("    left behind:", left) if left else None
EOF
for case in \
    "nsys_term 15 --collector nsys --auto" \
    "nsys_int 2 --collector nsys --auto" \
    "nsys_steps_term 15 --collector nsys --auto --steps 20:100000" \
    "nsys_steps_duration 0 --collector nsys --auto --steps 20:100000 --duration 3" \
    "nsys_delay_duration 0 --collector nsys --auto --delay 8 --duration 3" \
    "builtin_term 15 --collector builtin --auto" \
    "builtin_steps_duration 0 --collector builtin --auto --steps 20:100000 --duration 3" \
    "builtin_delay_duration 0 --collector builtin --auto --delay 8 --duration 3"; do
    [ $# -gt 0 ] && [[ " $* " != *" ${case%% *} "* ]] && continue
    # shellcheck disable=SC2086
    timeout 60 $PY one.py $case
done
