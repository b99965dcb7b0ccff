#!/bin/bash
# `unstall kernel` on kernels that have one fault each: the diagnosis must name it, and no other. Under 150 s.
#   SITE=/tmp/site bash benchmarks/gpu/kernel_h200.sh [CASE …]
# Prints a few lines a case; what ncu printed (the CSV, for test fixtures) and each report go to $OUT.
set -u
ROOT=$PWD PY=${PY:-python3} OUT=${OUT:-$(mktemp -d)}
export PYTHONPATH=$ROOT/src${SITE:+:$SITE} PYTHONWARNINGS=ignore UNSTALL_CACHE=off COLUMNS=110
WORK=$(mktemp -d) && cd "$WORK" || exit 1
cp "$ROOT/benchmarks/gpu/kernel_faults.py" faults.py
ALL="healthy_add strided_read branchy bank_column hungry_shared few_blocks last_wave fp32_product"
bad=0 begin=$SECONDS
for case in ${*:-$ALL}; do
    [ $((SECONDS - begin)) -gt 140 ] && { echo "== $case: no time left"; continue; }
    echo "== $case"
    name=$case; [ "$case" = fp32_product ] && name='gemm|sgemm'
    $PY -m unstall kernel "$name" --skip 3 --count 2 --csv "$OUT/kernel_$case.csv" --json "$OUT/kernel_$case.json" \
        -- $PY faults.py "$case" >"$OUT/kernel_$case.txt" 2>"$OUT/kernel_$case.log"
    code=$?
    [ -f "$OUT/kernel_$case.json" ] || { echo "  exit code $code"; tail -3 "$OUT/kernel_$case.log"; bad=1; continue; }
    $PY "$ROOT/benchmarks/gpu/kernel_check.py" "$case" "$OUT/kernel_$case.json" || bad=1
done
echo "== terminal"
head -60 "$OUT/kernel_strided_read.txt" 2>/dev/null
echo "== columns of the raw page"
head -1 "$OUT/kernel_healthy_add.csv" 2>/dev/null | tr ',' '\n' | grep -cE '.'
ls -l "$OUT" | awk 'NR > 1 {print "  " $9, $5}'
echo "== $((SECONDS - begin)) s, $([ $bad = 0 ] && echo 'ALL RIGHT' || echo 'SOME WRONG')"
