"""What two profilers say of one script. usage: kineto_compare.py NSYS.sqlite TRACE.json → lines, and AGREE or DIFFER

All of it in steady steps: nsys sees the whole run, parameters going to the GPU included, Kineto the
scheduled steps only.
Kernels must agree in number a step and in length (each kernel's median within 10 %, those above 2 % of the time);
copies in kind, memory and bytes a step; the first finding in its code. Step times of two runs differ by what the host's
speed differs.

The two print C++ names differently: ``<unnamed>``, ``(int)4``, ``(bool)1``, ``[lambda(float) (instance 1)]``, and
parameters ``(int, T2, T3)`` are ``(anonymous namespace)``, ``4``, ``true``, ``{lambda(float)#1}``, the types.
Names are compared without these and without parameters. Where even then no name is the other's, the same function (its
name before the template arguments) launched as often a step, nearest in length, is taken, and marked ``~``.
"""

import re
import sys
from collections import Counter

import polars as pl

from unstall.pipeline import examine

(a, nsys), (b, kineto) = examine(sys.argv[1], cache=False), examine(sys.argv[2], cache=False)
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


def parameters_off(name):
    """``void f<X>(int)`` → ``void f<X>``: up to the bracket that opens the last top-level pair, if it ends the name."""
    depth = 0
    for at in range(len(name) - 1, -1, -1):
        depth += (name[at] in ")>") - (name[at] in "(<")
        if depth == 0:
            return name[:at] if name.endswith(")") and name[at] == "(" else name
    return name


def plain(name):
    name = name.replace("->", "").replace("<unnamed>", "").replace("(anonymous namespace)", "")
    name = re.sub(r"operator ?\(\)", "call", name).removesuffix(" const")
    name = re.sub(r"\[(lambda\(.*?\)) \(instance (\d+)\)\]", r"{\1#\2}", name)
    name = parameters_off(name).replace("(bool)1", "true").replace("(bool)0", "false")
    name = re.sub(r"\((?:unsigned )?(?:int|long|short|char)\)|(?<=\d)u?l\b|\s", "", name)
    return name.replace(",>", ">")


def steady(analysis, table, *columns):
    """Rows of a device table launched in steady steps, and the number of those steps."""
    steps, ops = analysis.steps[0], analysis.ops
    frame = steps.frame.filter("steady")
    start, end = frame["host_start"].min(), frame["host_start"].max()  # the last step has no successor
    at = pl.coalesce("api_start", "start")
    own = ops.filter((pl.col("table") == table) & (at >= start) & (at < end))["row"]
    rows = analysis.profile.table(table)
    facts = rows[own].with_columns(pl.col(c).cast(pl.String) for c in columns) if rows is not None else None
    return facts, frame.height - 1


def kernels_of(analysis):
    rows, steps = steady(analysis, "kernels", "name")
    rows = rows.with_columns(ns=pl.col("end") - pl.col("start"))
    by = rows.group_by("name").agg(pl.len() / steps, pl.col("ns").median(), pl.col("ns").sum().alias("sum"))
    return by.with_columns(share=pl.col("sum") / pl.col("sum").sum()).sort("sum", descending=True).to_dicts()


def head(name):
    return plain(name).partition("<")[0].removeprefix("void")


def partner(k, others):
    """The same kernel of the other profiler, and how it was recognised."""
    same = [o for o in others if plain(o["name"]) == plain(k["name"])]
    if same:
        return same[0], ""
    alike = [o for o in others if head(o["name"]) == head(k["name"]) and abs(o["len"] - k["len"]) <= 0.01 * k["len"]]
    return min(alike, key=lambda o: abs(o["ns"] - k["ns"]), default=None), "~"


theirs = kernels_of(kineto)
for k in kernels_of(nsys):
    if k["share"] < 0.02:
        continue
    other, mark = partner(k, theirs)
    near = other is not None and abs(other["ns"] - k["ns"]) <= max(0.1 * k["ns"], 500)
    near = near and abs(other["len"] - k["len"]) <= 0.01 * k["len"]
    tell = [f"{x['len']:.4g} x {x['ns'] / 1e3:.2f} µs" if x else "–" for x in (k, other)]
    row("  " + k["name"][:30], tell[0], mark + tell[1], near)
    if other is not None:
        theirs.remove(other)
    elif any(head(o["name"]) == head(k["name"]) for o in theirs):
        print(
            "    nsys:", k["name"], *("    kineto: " + o["name"] for o in theirs if head(o["name"]) == head(k["name"]))
        )


def copies(analysis):
    """Bytes a step by kind and memory."""
    rows, steps = steady(analysis, "copies", "kind", "source", "destination")
    if rows is None:
        return {}
    by = rows.group_by("kind", "source", "destination").agg(pl.col("bytes").sum())
    return dict(sorted((f"{k} {s} {d}", round(n / steps)) for k, s, d, n in by.iter_rows()))


row("copied a step, bytes", copies(nsys), copies(kineto), copies(nsys) == copies(kineto))
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
