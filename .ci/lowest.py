"""The lowest versions that pyproject.toml promises to work with, as constraints for pip; ``python .ci/lowest.py``."""

from __future__ import annotations

import re
from pathlib import Path

text = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
needed = re.search(r"^dependencies = \[(.*?)^\]", text, re.S | re.M)
assert needed is not None
for name, version in re.findall(r'"([\w-]+)(?:\[[\w,]+\])?>=([\d.]+)', needed[1]):
    print(f"{name}=={version}")
print("click<8.3")  # of the time of the lowest typer, which newer ones warn
