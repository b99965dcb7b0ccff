"""Holds what `unstall kernel` says of one case against what it must say. usage: kernel_check.py CASE REPORT.json"""

import json
import sys
from pathlib import Path
from typing import Any

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


def wrong(case: str, report: dict[str, Any]) -> list[str]:
    """What a report says of this case that it must not, or does not say that it must."""
    limits, must, never = WANT[case]
    codes = {f["code"] for f in report["findings"]}
    found = [f"limit {report['limit']} not in {sorted(limits)}"] if report["limit"] not in limits else []
    return found + [f"missing {c}" for c in sorted(must - codes)] + [f"false {c}" for c in sorted(never & codes)]


def main(case: str, path: str) -> int:
    """Print what was found, and whether it is right."""
    r = json.loads(Path(path).read_bytes())
    roof, occ, faults = r["roofline"], r["occupancy"], wrong(case, r)
    print(f"  {r['short_name'][:40]}: {r['limit']}; {', '.join(f['code'] for f in r['findings'])}")
    print("   ", {k: round(v, 1) for k, v in {**roof, **occ}.items() if isinstance(v, (int, float))}, occ["limiter"])
    for f in r["findings"][:3]:
        print("    -", "; ".join(e["text"] for e in f["evidence"])[:200])
    print("    not checked:", [n["code"] for n in r["not_checked"]], "ncu", r["ncu_version"], "device", r["device"])
    print("  RIGHT" if not faults else f"  WRONG: {', '.join(faults)}")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
