#!/bin/bash
# JAX and CuPy through `unstall run`: are steps found, and are findings and advice in their terms? Under 150 s.
#   SITE=/tmp/site bash benchmarks/gpu/frameworks_h200.sh [FRAMEWORK:CASE …]
# Prints the head of each report and the first finding's remedy; redacted exports (packed) and reports go to $OUT.
set -u
ROOT=$PWD PY=${PY:-python3} OUT=${OUT:-$(mktemp -d)}
export PYTHONPATH=$ROOT/src${SITE:+:$SITE} PYTHONWARNINGS=ignore UNSTALL_CACHE=off COLUMNS=120
export XLA_PYTHON_CLIENT_PREALLOCATE=false TF_CPP_MIN_LOG_LEVEL=2
[ -d "$ROOT/.carry/libs" ] && export UNSTALL_LIBS=${UNSTALL_LIBS:-$ROOT/.carry/libs}
WORK=$(mktemp -d) && cd "$WORK" || exit 1
cp "$ROOT/benchmarks/gpu/frameworks_train.py" train.py
cat >look.py <<'END'
import json, sys
r = json.load(open(sys.argv[1]))
s = r["steps"][0] if r["steps"] else None
print("  steps:", s and (s["source"], s["count"], f"{s['period_ns']['median'] / 1e6:.2f} ms", s["limit"], s["kernels_per_step"]))
print("  kernels:", [k["name"][:60] for k in (r["kernels"] or [])[:5]])
print("  ranges:", [(x["domain"], x["name"][:50], x["instances"], x["library"]) for x in (r["ranges"] or [])[:6]])
print("  rows:", {k: v for k, v in r["profile"]["tables"].items() if k in ("ranges", "kernels", "copies", "graphs", "api", "memsets")})
print("  copies:", [(c["kind"], c["source"], c["instances"]) for c in (r["copies"] or [])])
if r["breakdown"]:
    print("  where:", {c["name"]: round(c["percent"]) for c in r["breakdown"][0]["categories"]})
for f in r["findings"][:3]:
    print(f"  finding {f['code']} ({f['confidence']}) in {f['where']['range']}: {f['fix']['text'][:150]}")
print("  warnings:", [w["code"] for w in r["warnings"]])
END
for pair in ${*:-cupy:loading cupy:healthy cupy:launch jax:loading jax:healthy jax:launch}; do
    name=${pair/:/_}
    echo "== $name"
    # shellcheck disable=SC2086
    $PY -m unstall run --collector nsys --trace cuda,nvtx,osrt --sample none --output "$name" --json "$name.json" \
        -- $PY train.py ${pair/:/ } 30 >"$OUT/$name.txt" 2>"$OUT/$name.log" || tail -3 "$OUT/$name.log"
    [ -f "$name.json" ] || continue
    $PY look.py "$name.json"
    sed -n 1,6p "$OUT/$name.txt" | cut -c1-160
    cp "$name.json" "$OUT/$name.report.json"
    xz -c6 "$name/profile.sqlite" >"$OUT/$name.sqlite.xz"
done
ls -l "$OUT" | awk 'NR > 1 {print "  " $9, $5}'
