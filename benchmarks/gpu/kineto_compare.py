"""What two profilers say of one script. usage: kineto_compare.py NSYS.sqlite TRACE.json → lines, and AGREE or DIFFER

Kernels must agree in number a step and in length (each kernel's median within 10 %, those above 2 % of the time);
copies in kind, memory and size; the first finding in its code. Step times of two runs differ by what the host's speed
differs. The two print C++ names differently: ``<unnamed>``, ``(int)4``, ``(bool)1`` are ``(anonymous namespace)``,
``4``, ``true``.
"""

import re
import sys
from collections import Counter

from unstall.pipeline import report_of

a, b = report_of(sys.argv[1], cache=False), report_of(sys.argv[2], cache=False)
bad = []


def row(what, left, right, agree):
    print(f"  {what:<34} {left!s:>34} {right!s:>34} {'' if agree else '  DIFFER'}")
    if not agree:
        bad.append(what)


def per_step(report):
    s = report.steps[0]
    return s.period_ns.median, s.gpu_busy_ns, s.kernels_per_step, s.source


for i, (name, slack) in enumerate((("step, ms", 0.4), ("GPU busy, ms", 0.1), ("device operations a step", 0.0))):
    left, right = per_step(a)[i], per_step(b)[i]
    scale = 1e6 if "ms" in name else 1
    row(name, round(left / scale, 3), round(right / scale, 3), abs(left - right) <= slack * left)
row("steps found by", per_step(a)[3], per_step(b)[3], True)


def plain(name):
    name = name.replace("(bool)1", "true").replace("(bool)0", "false")
    return re.sub(
        r"\((?:unsigned )?(?:int|long|short|char)\)|<unnamed>|\(anonymous namespace\)|(?<=\d)u?l\b|\s", "", name
    )


kernels = {plain(k.name): k for k in b.kernels}
for k in a.kernels:
    other = kernels.get(plain(k.name))
    if k.percent < 2:
        continue
    near = other is not None and abs(other.median_ns - k.median_ns) <= max(0.1 * k.median_ns, 500)
    row("  " + k.name[:30], f"{k.median_ns / 1e3:.2f} µs", f"{other.median_ns / 1e3:.2f} µs" if other else "–", near)


def copies(report):
    rows = {(c.kind, c.source, c.destination): c.bytes // c.instances for c in report.copies or [] if c.bytes}
    big = {" ".join(k): n for k, n in rows.items() if n > 1 << 16}
    return dict(sorted(big.items()))


row("copies over 64 kB, bytes each", copies(a), copies(b), copies(a) == copies(b))
row("findings", [f.code for f in a.findings if f.main], [f.code for f in b.findings if f.main],
    a.findings[0].code == b.findings[0].code)  # fmt: skip
for label, r in (("nsys", a), ("kineto", b)):
    for f in r.findings[:2]:
        ns = f.predicted_step_ns
        print(f"  {label}: {f.code} in {f.where.range}; predicted {ns and round(ns / 1e6, 2)} ms ({f.confidence})")
categories = Counter({c.name: round(c.percent) for c in a.breakdown[0].categories})
print("  breakdown, %: nsys", dict(categories), "kineto", {c.name: round(c.percent) for c in b.breakdown[0].categories})
print("  kineto warnings:", [w.code for w in b.warnings], "gpus:", [(g.name, g.sm_count) for g in b.profile.gpus])
print("  AGREE" if not bad else f"  DIFFER in {', '.join(bad)}")
sys.exit(bool(bad))
