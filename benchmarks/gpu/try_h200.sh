#!/bin/bash
# What `try` and `fix` gain on a GPU: predicted, tried, patched, measured. Run in the repository's root:
#   SITE=/tmp/site bash benchmarks/gpu/try_h200.sh            the lab's workload, about 2 minutes
#   SITE=/tmp/site bash benchmarks/gpu/try_h200.sh loader …   cases of faults.py, about 50 s each
# SITE holds unstall's dependencies where they are not installed. JSON and logs go to $OUT (default: a temporary folder).
set -u
ROOT=$PWD PY=${PY:-python3} OUT=${OUT:-$(mktemp -d)}
export PYTHONPATH=$ROOT/src${SITE:+:$SITE} PYTHONWARNINGS=ignore UNSTALL_CACHE_DIR=${TMPDIR:-/tmp}/unstall-cache
WORK=$(mktemp -d) && cd "$WORK" || exit 1

one() {  # NAME SCRIPT ARGUMENTS BUDGET STEPS REMEDIES…
    local name=$1 script=$2 arguments=$3 budget=$4 steps=$5 only=()
    shift 5
    for remedy in "$@"; do only+=(--only "$remedy"); done
    echo "== $name"
    # shellcheck disable=SC2086
    $PY -m unstall try "${only[@]}" ${PROFILE:+--profile "$PROFILE"} --budget "$budget" --steps "$steps" \
        --json "$OUT/$name.json" -- $PY "$script" $arguments 2>"$OUT/$name.log" || tail -3 "$OUT/$name.log"
    cp "$script" "patched_$script"
    $PY -m unstall fix "patched_$script" "${only[@]}" --apply >"$OUT/$name.diff" 2>>"$OUT/$name.log"
    grep '^[+-][^+-]' "$OUT/$name.diff" | cut -c1-110
    # shellcheck disable=SC2086
    $PY "$ROOT/benchmarks/gpu/measure.py" 2 "patched_$script" $arguments
}

if [ $# -eq 0 ]; then
    cp "$ROOT/src/unstall/examples/slow_training.py" train.py
    one lab train.py "--steps 400" 85 150 dataloader-workers pin-memory
fi
cp "$ROOT/benchmarks/gpu/faults.py" faults.py
for case in "$@"; do
    case $case in
    loader) one loader faults.py loader 50 120 dataloader-workers ;;
    pageable) one pageable faults.py pageable 50 120 pin-memory ;;
    optimizer) one optimizer faults.py optimizer 45 120 fused-optimizer ;;
    fp32) one fp32 faults.py fp32 45 100 tf32 ;;
    attention) one attention faults.py attention 45 100 sdpa ;;
    item) one item faults.py item 45 120 item-after-loop ;;
    conv) one conv faults.py conv 45 100 channels-last ;;
    *) echo "no case $case" ;;
    esac
done
