"""Holds what `unstall kernel` says of one case against what it must say. usage: kernel_check.py CASE REPORT.json"""

import json
import sys
from pathlib import Path

# case → limits allowed, codes that must be there, codes that must not
WANT = {
    "healthy_add": ({"memory"}, {"memory-bound"}, {"uncoalesced-access", "divergence", "bank-conflicts", "small-grid"}),
    "strided_read": ({"memory", "latency"}, {"uncoalesced-access"}, {"divergence", "tensor-cores-idle"}),
    "branchy": ({"compute", "latency"}, {"divergence"}, {"uncoalesced-access", "bank-conflicts"}),
    "bank_column": ({"memory", "latency", "compute"}, {"bank-conflicts"}, {"uncoalesced-access"}),
    "hungry_shared": ({"latency"}, {"low-occupancy", "latency-bound"}, {"divergence"}),
    "few_blocks": ({"latency"}, {"small-grid", "latency-bound"}, {"divergence", "uncoalesced-access"}),
    "last_wave": ({"compute", "latency"}, {"tail-effect"}, {"small-grid", "divergence"}),
    "fp32_product": ({"compute"}, {"tensor-cores-idle", "compute-bound"}, {"divergence", "uncoalesced-access"}),
}
case, r = sys.argv[1], json.loads(Path(sys.argv[2]).read_bytes())
limits, must, never = WANT[case]
codes = {f["code"] for f in r["findings"]}
wrong = [f"limit {r['limit']} not in {sorted(limits)}"] if r["limit"] not in limits else []
wrong += [f"missing {c}" for c in sorted(must - codes)] + [f"false {c}" for c in sorted(never & codes)]
roof, occ = r["roofline"], r["occupancy"]
print(f"  {r['short_name'][:40]}: {r['limit']}; {', '.join(f['code'] for f in r['findings'])}")
print("   ", {k: round(v, 1) for k, v in {**roof, **occ}.items() if isinstance(v, (int, float))}, occ["limiter"])
for f in r["findings"][:3]:
    print("    -", "; ".join(e["text"] for e in f["evidence"])[:200])
print("    not checked:", [n["code"] for n in r["not_checked"]], "ncu", r["ncu_version"], "device", r["device"])
print("  RIGHT" if not wrong else f"  WRONG: {', '.join(wrong)}")
sys.exit(bool(wrong))
