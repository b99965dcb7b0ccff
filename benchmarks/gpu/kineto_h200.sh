#!/bin/bash
# One script, two profilers: nsys through `unstall run`, and torch.profiler's trace read by `unstall report`. They must
# tell the same of kernels, copies and findings. Under 150 s. Run in the repository's root:
#   SITE=/tmp/site bash benchmarks/gpu/kineto_h200.sh
# SITE holds unstall's dependencies where they are not installed; libraries that nsys lacks may lie in .carry/libs.
# The traces (packed) and both reports go to $OUT.
set -u
ROOT=$PWD PY=${PY:-python3} OUT=${OUT:-$(mktemp -d)}
export PYTHONPATH=$ROOT/src${SITE:+:$SITE} PYTHONWARNINGS=ignore UNSTALL_CACHE=off
[ -d "$ROOT/.carry/libs" ] && export UNSTALL_LIBS=${UNSTALL_LIBS:-$ROOT/.carry/libs}
WORK=$(mktemp -d) && cd "$WORK" || exit 1
cp "$ROOT/benchmarks/gpu/kineto_train.py" train.py

for case in lab launch; do
    steps=30; [ $case = launch ] && steps=20
    echo "== $case"
    $PY -m unstall run --collector nsys --output "$case" --json "$OUT/kineto_${case}_nsys.report.json" \
        -- $PY train.py $case $steps >"$OUT/kineto_$case.log" 2>&1 || tail -5 "$OUT/kineto_$case.log"
    $PY train.py $case $steps "$WORK/$case.json" 2>>"$OUT/kineto_$case.log"
    ls -l "$case.json" | awk '{printf "  trace: %.1f MB of JSON\n", $5 / 1e6}'
    $PY -c 'import sys, time; from unstall.load import load; start = time.perf_counter(); load(sys.argv[1])
print(f"  loaded in {time.perf_counter() - start:.2f} s")' "$case.json"
    $PY "$ROOT/benchmarks/gpu/kineto_compare.py" "$case/profile.sqlite" "$case.json"
    $PY -m unstall report "$case.json" --json "$OUT/kineto_$case.report.json" >/dev/null 2>>"$OUT/kineto_$case.log"
    gzip -c9 "$case.json" >"$OUT/kineto_$case.json.gz"
done
ls -l "$OUT" | awk 'NR > 1 {print "  " $9, $5}'
