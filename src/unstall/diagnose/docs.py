"""The page of each rule, generated: ``python -m unstall.diagnose.docs [FOLDER]`` writes ``docs/findings/*.md``.

In: the registry. Out: Markdown, one page a code and an index. A test keeps the committed pages current.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from unstall.diagnose import registry
from unstall.diagnose.registry import COLLECT, Rule

FOLDER = Path("docs") / "findings"


def pages() -> dict[str, str]:
    """File name → text."""
    rules = registry.rules()
    return {"index.md": _index(rules), **{f"{r.code}.md": page(r) for r in rules}}


def page(rule: Rule) -> str:
    """One rule's page."""
    summary, _, rest = rule.explain().partition("\n\n")
    needs = [f"`{t}`" for t in rule.tables]
    lines = [f"# {rule.code}", summary, rest.rstrip(), "## What must be collected"]
    if needs:
        how = "; ".join(COLLECT[t] for t in rule.tables if t in COLLECT)
        lines.append(f"Tables {', '.join(needs)}: {how}.")
    else:
        lines.append("Nothing beyond steps; it uses what is there.")
    if rule.steps:
        lines.append("Needs repeating steps.")
    return "\n\n".join(lines) + "\n"


def _index(rules: tuple[Rule, ...]) -> str:
    rows = [f"| [{r.code}]({r.code}.md) | {r.explain().partition(chr(10))[0]} |" for r in rules]
    head = "# Findings\n\nWhat `unstall` looks for, one page each; `unstall explain CODE` prints the same.\n"
    return "\n".join([head, "| code | meaning |", "|---|---|", *rows]) + "\n\n" + NSYS_RULES


NSYS_RULES = """## Beside the rules of `nsys analyze`

| rule of `nsys analyze` | covered by | what is different here |
|---|---|---|
| `cuda_memcpy_async` (async copies of pageable memory) | `pageable-copy`, `device-to-host-copy`, `blocking-sync` | \
only where the step waits for the copy |
| `cuda_memcpy_sync` | `pageable-copy`, `exposed-copy`, `device-to-host-copy`, `many-small-copies` | sized by the time \
exposed, not by a list of calls |
| `cuda_memset_sync` | `blocking-sync` | only where the GPU then runs dry |
| `cuda_api_sync` | `blocking-sync` | event waits included; a wait for the GPU is no cost |
| `gpu_gaps` | the breakdown, and the rule of whatever the host did in the gap | any length: many small gaps count as \
much as one large |
| `gpu_time_util` | the breakdown; `compute-bound` when the GPU is busy | overlaps are counted once |
"""


def write(folder: Path, wanted: Mapping[str, str]) -> None:
    """Write generated pages (file name → text), and remove those that are gone."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.md"):
        if old.name not in wanted:
            old.unlink()
    for name, text in wanted.items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if sys.argv[1:] else FOLDER, pages())
