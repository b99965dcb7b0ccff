#!/bin/bash
# What `try` and `fix` gain on a GPU: predicted, tried, patched, measured. Run in the repository's root:
#   SITE=/tmp/site bash benchmarks/gpu/try_h200.sh            the lab's workload, what its findings call for, about 3 minutes
#   SITE=/tmp/site bash benchmarks/gpu/try_h200.sh loader …   scripts of benchmarks/planted/plain.py, about 80 s each
# SITE holds unstall's dependencies where they are not installed.
# JSON, diffs, logs and the captures go to $OUT (default: a temporary folder).
set -u
ROOT=$PWD PY=${PY:-python3} OUT=${OUT:-$(mktemp -d)}
export PYTHONPATH=$ROOT/src${SITE:+:$SITE} PYTHONWARNINGS=ignore UNSTALL_CACHE_DIR=${TMPDIR:-/tmp}/unstall-cache
WORK=$(mktemp -d) && cd "$WORK" || exit 1

one() {  # NAME SCRIPT ARGUMENTS BUDGET STEPS REMEDIES…
    local name=$1 script=$2 arguments=$3 budget=$4 steps=$5 only=() begin=$SECONDS
    shift 5
    for remedy in "$@"; do only+=(--only "$remedy"); done
    echo "== $name"
    # shellcheck disable=SC2086
    $PY -m unstall run --auto --steps 20:45 --output "$name" --json "$OUT/$name.report.json" -- $PY "$script" $arguments \
        >"$OUT/$name.log" 2>&1 || tail -3 "$OUT/$name.log"
    cp "$name/profile.sqlite" "$OUT/$name.sqlite" 2>/dev/null
    local profile=("--profile" "$name/profile.sqlite")
    # shellcheck disable=SC2086
    $PY -m unstall try "${only[@]}" "${profile[@]}" --budget "$budget" --steps "$steps" \
        --json "$OUT/$name.json" -- $PY "$script" $arguments 2>>"$OUT/$name.log" || tail -3 "$OUT/$name.log"
    cp "$script" "patched_$script"
    $PY -m unstall fix "patched_$script" "${only[@]}" "${profile[@]}" --apply >"$OUT/$name.diff" 2>>"$OUT/$name.log" ||
        tail -3 "$OUT/$name.log"
    grep '^[+-][^+-]' "$OUT/$name.diff" | cut -c1-110
    # shellcheck disable=SC2086
    $PY "$ROOT/benchmarks/gpu/measure.py" 2 "patched_$script" $arguments
    echo "   $name took $((SECONDS - begin)) s"
}

if [ $# -eq 0 ]; then
    cp "$ROOT/src/unstall/examples/slow_training.py" train.py
    one lab train.py "--steps 400" 110 150
fi
cp "$ROOT/benchmarks/planted/plain.py" plain.py
for case in "$@"; do
    case $case in
    loader) one loader plain.py loader 45 120 dataloader-workers ;;
    pageable) one pageable plain.py pageable 45 120 pin-memory ;;
    optimizer) one optimizer plain.py optimizer 45 120 fused-optimizer ;;
    fp32) one fp32 plain.py fp32 45 100 tf32 ;;
    attention) one attention plain.py attention 45 100 sdpa ;;
    item) one item plain.py item 45 120 item-after-loop ;;
    conv) one conv plain.py conv 45 100 channels-last ;;
    *) echo "no case $case" ;;
    esac
done
