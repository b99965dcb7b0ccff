#!/bin/bash
# GPU metrics beside a step: three loads that must come out as computing hard, waiting on memory, computing lightly.
# Under 120 s. Run in the repository's root:
#   SITE=/tmp/site bash benchmarks/gpu/gpu_metrics_h200.sh
# Where counters are for administrators only, it prints what nsys and unstall say of that. Prints the counters' names and
# ranges as they are in the export; trimmed exports go to $OUT.
set -u
ROOT=$PWD PY=${PY:-python3} OUT=${OUT:-$(mktemp -d)}
export PYTHONPATH=$ROOT/src${SITE:+:$SITE} PYTHONWARNINGS=ignore UNSTALL_CACHE=off COLUMNS=120
[ -d "$ROOT/.carry/libs" ] && export UNSTALL_LIBS=${UNSTALL_LIBS:-$ROOT/.carry/libs}
WORK=$(mktemp -d) && cd "$WORK" || exit 1
cp "$ROOT/benchmarks/gpu/gpu_metrics_train.py" train.py
cat >look.py <<'END'
import json, lzma, shutil, sqlite3, sys
case, report, export, out = sys.argv[1:]
r = json.load(open(report))
tables = r["profile"]["tables"]
print(f"  rows: gpu_metrics {tables.get('gpu_metrics')}, kernels {tables.get('kernels')}")
for m in (r.get("gpu_metrics") or [])[:2]:
    print("  ", {k: round(v, 1) if isinstance(v, float) else v for k, v in m.items() if v is not None})
parts = {p["name"]: p["percent"] for b in r["breakdown"] for c in b["categories"] for p in c.get("parts", [])}
print("   parts:", {k: round(v, 1) for k, v in parts.items()})
want = {"hard": "computing_hard", "memory": "waiting_on_memory", "light": "computing_lightly"}[case]
print("  RIGHT" if parts and max(parts, key=parts.get) == want else f"  WRONG: {want} expected")
db = sqlite3.connect(export)
have = [n for (n,) in db.execute("select name from sqlite_master where type='table'")]
print("   tables:", [n for n in have if "METRIC" in n or "GENERIC_EVENT" in n and "ENUM" not in n])
if "GPU_METRICS" in have:
    rows = db.execute("select t.metricName, t.typeId, count(*), min(value), max(value), min(timestamp), max(timestamp) from "
                      "GPU_METRICS m join TARGET_INFO_GPU_METRICS t using (typeId, metricId) group by 1, 2").fetchall()
    if case == "hard":
        print("   columns:", [c[1] for c in db.execute("pragma table_info(GPU_METRICS)")],
              [c[1] for c in db.execute("pragma table_info(TARGET_INFO_GPU_METRICS)")])
        for row in rows:
            print("   ", row)
    last = db.execute("select max(end) from CUPTI_ACTIVITY_KIND_KERNEL").fetchone()[0]
    small = f"{case}.small.sqlite"
    shutil.copy(export, small)
    cut = sqlite3.connect(small)
    cut.execute("delete from GPU_METRICS where timestamp not between ? and ?", (last - 60_000_000, last + 1_000_000))
    for table in [n for n in have if n.startswith(("OSRT", "SCHED", "COMPOSITE", "SAMPLING", "ENUM_", "TARGET_INFO_SYSTEM_ENV"))]:
        cut.execute(f'drop table "{table}"')
    cut.commit(), cut.execute("vacuum"), cut.close()
    open(f"{out}/gpu_metrics_{case}.sqlite.xz", "wb").write(lzma.compress(open(small, "rb").read()))
END
for case in hard memory light; do
    echo "== $case"
    $PY -m unstall run --collector nsys --gpu-metrics all --trace cuda,nvtx --sample none --output "$case" \
        --json "$case.json" -- $PY train.py $case 40 >"$OUT/gpu_metrics_$case.log" 2>&1
    grep -iE 'metric|permission|counter' "$OUT/gpu_metrics_$case.log" | cut -c1-200 | head -5
    [ -f "$case.json" ] || { tail -5 "$OUT/gpu_metrics_$case.log"; continue; }
    $PY look.py $case "$case.json" "$case/profile.sqlite" "$OUT"
    [ $case = hard ] && $PY -m unstall report "$case/profile.sqlite" | sed -n '/WHERE IT GOES/,/FINDINGS/p'
done
ls -l "$OUT" | awk 'NR > 1 {print "  " $9, $5}'
