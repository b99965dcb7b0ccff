"""What every page embeds, and the policy by which it runs nothing else: shared by the report, a comparison and ranks.

In: names of our own assets, data. Out: text that is safe where it is put: JSON that holds no ``<``, styles and scripts
that cannot end their own element, a policy that knows them by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec
from markupsafe import Markup


def embedded(data: Any) -> Markup:
    """JSON for a ``<script type="application/json">``: nothing in it can end the element or a line of script."""
    raw = msgspec.json.encode(data).decode()
    for character in "<>&\u2028\u2029":
        raw = raw.replace(character, f"\\u{ord(character):04x}")
    return Markup(raw)


def policy(styles: list[str], scripts: list[str]) -> str:
    """Nothing is fetched, and no style or script runs but those of the page."""
    own = {"style-src": styles, "script-src": scripts}
    rules = [f"{rule} {' '.join(_hash(content) for content in contents)}" for rule, contents in own.items()]
    return "; ".join(["default-src 'none'", *rules, "img-src data:", "base-uri 'none'", "form-action 'none'"])


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


@cache
def asset(package: str, name: str) -> str:
    """A style or a script of ours, from the folder ``assets`` of a package."""
    content = (files(package) / "assets" / name).read_text(encoding="utf-8")
    assert "</script" not in content and "</style" not in content, f"{name} would end its own element"
    return content
