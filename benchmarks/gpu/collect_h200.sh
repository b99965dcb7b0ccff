#!/usr/bin/env bash
# Collecting on a GPU machine whose only nsys is the one inside Nsight Compute: doctor, run, windows, signals, overhead.
# Prints one compact line a case. Needs torch with CUDA; everything of unstall that it uses is standard library only.
#
#   bash benchmarks/gpu/collect_h200.sh [FOLDER WITH LIBRARIES]
#
# The importer there may lack libdw.so.1 and libpfm.so.4 (and libelf.so.1). Where nothing can be installed, bring them:
#   mkdir -p .carry/libs && cp -L /usr/lib/x86_64-linux-gnu/{libdw.so.1,libelf.so.1,libpfm.so.4} .carry/libs/
# and name that folder; the second half then runs with UNSTALL_LIBS set to it.
set -u
cd "$(dirname "$0")/../.."
export PYTHONPATH="$PWD/src${PYTHONPATH:+:$PYTHONPATH}" PYTHONDONTWRITEBYTECODE=1
PYTHON=${PYTHON:-python3}
LIBS=${1:-$PWD/.carry/libs}
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT

cat > "$WORK/train.py" <<'PY'
"""A loop that a GPU waits for: 3 ms of loading on the main thread, then a small model, some 300 launches a step."""
import sys, time
from statistics import median
import torch
steps, code = int(sys.argv[1]), int(sys.argv[2])
model = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU()) for _ in range(16))).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
times, nvtx = [], torch.cuda.nvtx
print("ready", flush=True)
for i in range(steps):
    start = time.perf_counter()
    nvtx.range_push(f"step_{i}")
    nvtx.range_push("data_load"); end = time.perf_counter() + 0.003
    while time.perf_counter() < end: pass
    batch = torch.randn(256, 512); nvtx.range_pop()
    nvtx.range_push("forward"); loss = model(batch.cuda()).square().mean(); nvtx.range_pop()
    nvtx.range_push("backward"); optimizer.zero_grad(); loss.backward(); nvtx.range_pop()
    nvtx.range_push("optimizer"); optimizer.step(); nvtx.range_pop()
    nvtx.range_pop()
    torch.cuda.synchronize(); times.append(time.perf_counter() - start)
half = times[len(times) // 2:]
print(f"median step of the second half: {1e3 * median(half):.2f} ms", flush=True)
sys.exit(code)
PY

cat > "$WORK/case.py" <<'PY'
import json, os, sqlite3, sys, time
from pathlib import Path
from unstall.collect import CollectOptions, collect
label, asked, command = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3:]
for key in ("steps", "trace", "nsys_args"):
    if key in asked: asked[key] = tuple(asked[key])
said, start = [], time.time()
try:
    c = collect(command, CollectOptions(output=Path(os.environ["WORK"]) / label.replace(" ", "-"), **asked), say=said.append)
except Exception as error:
    print(f"== {label}: {type(error).__name__}: {error}"); print("   said:", *said, sep="\n     "); sys.exit()
rows = {}
if c.sqlite:
    db = sqlite3.connect(c.sqlite)
    tables = {n for (n,) in db.execute("SELECT name FROM sqlite_master")}
    wanted = {"kernels": "CUPTI_ACTIVITY_KIND_KERNEL", "copies": "CUPTI_ACTIVITY_KIND_MEMCPY", "api": "CUPTI_ACTIVITY_KIND_RUNTIME",
              "nvtx": "NVTX_EVENTS", "osrt": "OSRT_API", "samples": "COMPOSITE_EVENTS", "sched": "SCHED_EVENTS"}
    rows = {k: db.execute(f"SELECT count(*) FROM {t}").fetchone()[0] if t in tables else None for k, t in wanted.items()}
ms = f"{c.unprofiled_ns / 1e6:.2f} ms ({c.unprofiled_source})" if c.unprofiled_ns else "unknown"
print(f"== {label}: {c.collector} {c.version} code {c.exit_code} in {time.time() - start:.1f} s, {c.size_bytes / 1e6:.1f} MB, "
      f"signals {','.join(c.signals) or 'none'}, unprofiled {ms}")
print("   rows:", rows)
for note in c.notes: print(f"   {note.code}: {note.text}")
PY

export WORK
case_() { local label=$1 asked=$2; shift 2; "$PYTHON" "$WORK/case.py" "$label" "$asked" "$@" 2>&1; }
left() {  # processes of nsys that should not be there
  for p in /proc/[0-9]*; do cat "$p/cmdline" 2>/dev/null | tr '\0' ' ' | grep -E 'nsys|supervise.py' | grep -v grep; done |
    sed 's/^/   LEFT: /'
  ls -d /tmp/unstall-???????? /tmp/nsys-report-* 2>/dev/null | sed 's/^/   LEFT: /'
}
LOOP="$PYTHON $WORK/train.py"

echo "#### machine"; uname -r; grep -m1 -i gvisor /proc/version; nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
for d in /opt/nvidia/nsight-compute/*/host /opt/nvidia/nsight-systems*/*; do
  [ -d "$d" ] && echo "$d:" && ls "$d" && ls "$d"/*/ 2>/dev/null | grep -E '^(nsys|Qdstrm|sqlite3|.*[Ee]xport.*)' | sort -u | tr '\n' ' ' && echo
done
echo "#### doctor"; "$PYTHON" -c 'from unstall.collect.doctor import doctor, render; print(render(doctor()))'
echo "#### as it is"
case_ "auto as it is" '{}' $LOOP 60 0; left
case_ "builtin steps" '{"collector":"builtin","steps":[20,40],"auto":true}' $LOOP 60 0; left

if [ -d "$LIBS" ]; then
  export UNSTALL_LIBS=$LIBS
  echo "#### with libraries of $LIBS"; "$PYTHON" -c 'from unstall.collect.doctor import doctor, render; print(render(doctor()))' | head -12
fi
echo "#### nsys"
$LOOP 200 0
case_ "whole run"    '{"collector":"nsys"}' $LOOP 60 3; left
case_ "window auto"  '{"collector":"nsys","steps":[40,60],"auto":true}' $LOOP 100 0; left
case_ "never hit"    '{"collector":"nsys","steps":[900,910],"auto":true}' $LOOP 30 0; left
case_ "duration"     '{"collector":"nsys","duration":4}' $LOOP 100000 0; left
case_ "calibrate"    '{"collector":"nsys","auto":true,"calibrate":6}' $LOOP 60 0; left
echo "#### overhead: what the program itself measures"
for i in 1 2; do
  echo "unprofiled:"; $LOOP 300 0 | tail -1
  case_ "cuda nvtx $i"    '{"collector":"nsys","sample":"none","trace":["cuda","nvtx"]}' $LOOP 300 0
  case_ "plus osrt $i"    '{"collector":"nsys","sample":"none","trace":["cuda","nvtx","osrt"]}' $LOOP 300 0
  case_ "plus gil $i"     '{"collector":"nsys","sample":"none"}' $LOOP 300 0
  case_ "plus samples $i" '{"collector":"nsys","sample":"process-tree"}' $LOOP 300 0
  case_ "defaults $i"     '{"collector":"nsys"}' $LOOP 300 0
  case_ "builtin $i"      '{"collector":"builtin"}' $LOOP 300 0
done | grep -E '^(unprofiled|median|==)|no-sampling|hung'
echo "#### signals"
for s in INT TERM KILL; do
  ( "$PYTHON" "$WORK/case.py" "signal $s" '{"collector":"nsys"}' $LOOP 100000 0 > "$WORK/$s.log" 2>&1 ) &
  for _ in $(seq 150); do grep -q ready "$WORK/$s.log" 2>/dev/null && break; sleep 0.2; done; sleep 2
  "$PYTHON" - "$s" "$WORK/case.py" <<'PY'
import os, signal, sys
from pathlib import Path
for p in Path("/proc").iterdir():
    try: words = (p / "cmdline").read_bytes().split(b"\0")
    except OSError: continue
    if len(words) > 2 and words[1] == sys.argv[2].encode() and words[2].startswith(b"signal"):
        os.kill(int(p.name), getattr(signal, "SIG" + sys.argv[1]))
PY
  wait; sleep 2; grep -v -e '^ready' "$WORK/$s.log" | head -20; left; ls -A "$WORK" | grep -E "signal-$s|\.part" | sed "s/^/   folder: /"
done
echo "#### done"
