#!/bin/bash
# Two ranks on two GPUs, one fault each: who is late, why, what it costs; and what mending it gains. In the root:
#   SITE=/tmp/site bash benchmarks/gpu/ranks_x2.sh [CASE …]     all six: about 4 minutes
# For each case one launch: steps before the window are timed without the profiler, 25 are captured, then the same
# training without the fault is timed. JSON, pages, truth and packed exports go to $OUT.
set -u
ROOT=$PWD PY=${PY:-python3} OUT=${OUT:-$(mktemp -d)} BACKEND=${BACKEND:-nccl} MORE=${MORE:-}
export PYTHONPATH=$ROOT/src${SITE:+:$SITE} PYTHONWARNINGS=ignore NCCL_NVLS_ENABLE=0 OMP_NUM_THREADS=2
export UNSTALL_CACHE=off TORCH_CPP_LOG_LEVEL=ERROR
WORK=$(mktemp -d) && cd "$WORK" || exit 1
CASES=("$@")
[ $# -eq 0 ] && CASES=(healthy tiny_buckets slow_loading more_layers blocking fsdp)

for case in "${CASES[@]}"; do
    echo "== $case"
    begun=$SECONDS
    # shellcheck disable=SC2086
    timeout "${LIMIT:-100}" $PY -m torch.distributed.run --no-python --nproc-per-node 2 --master-port $((29500 + RANDOM % 900)) \
        $PY -m unstall run --auto --steps "${WINDOW:-30:55}" --collector "${COLLECTOR:-auto}" --no-keep-report \
        --output "$WORK/$case" -- $PY "$ROOT/benchmarks/gpu/ranks_train.py" "$case" --backend "$BACKEND" $MORE \
        >"$OUT/$case.log" 2>&1 || { echo "failed:"; grep -v '^ *$' "$OUT/$case.log" | tail -5; }
    grep -ho 'TRUTH {.*}' "$OUT/$case.log" | sort
    $PY -m unstall ranks "$WORK/$case" --json "$OUT/$case.json" --html "$OUT/$case.html" >"$OUT/$case.txt" 2>&1
    sed -n '3,20p' "$OUT/$case.txt" | cut -c1-110
    $PY - "$WORK/$case" "$OUT" "$case" <<'PYTHON'
import json, lzma, pathlib, sys
folder, out, case = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
for path in sorted(folder.glob("rank-*/profile.sqlite")):
    unprofiled = json.loads((path.parent / "run.json").read_text()).get("unprofiled_ns")
    print(path.parent.name, "unprofiled before the window", unprofiled and round(unprofiled / 1e6, 3), "ms")
    packed = out / f"ranks_{case}.{path.parent.name}.sqlite.xz"
    packed.write_bytes(lzma.compress(path.read_bytes(), preset=2))
PYTHON
    echo "($((SECONDS - begun)) s)"
done
