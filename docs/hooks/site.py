"""The site beyond docs/: pages of the repository, links to them, included files, generated lists.

In: what mkdocs calls a hook with. Out: files added to the site, Markdown with its links rewritten. The pages are
written for the repository, where a link to ``../ARCHITECTURE.md`` works; the site has the same page elsewhere.
"""

from __future__ import annotations

import html
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.utils import get_relative_url

from unstall.diagnose import registry

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(Path(__file__).parent))

import api  # noqa: E402  (beside this file, which mkdocs loads by its path)

PAGES = {  # page of the repository → of the site
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "README.ko.md": "ko.md",
    "benchmarks/README.md": "benchmarks/reading.md",
    "benchmarks/compare.md": "benchmarks/compare.md",
    "benchmarks/planted/table.md": "benchmarks/planted.md",
    "examples/README.md": "examples/index.md",
}
SOURCES = {site: page for page, site in PAGES.items()}
SHOWN = "examples/"
"""Files from here are part of the site, as they are."""
FINDINGS = "findings/"
LANGUAGES = {".py": "python", ".yml": "yaml", ".toml": "toml", ".sh": "sh"}
SHIM, OURS = "https://unpkg.com/iframe-worker/shim", "assets/iframe-worker.js"
"""What the theme's offline plugin loads for the search on pages opened from disk; the copy here loads from the site."""
PIPED = re.compile(r"`([^`\n]*\\\|[^`\n]*)`")
"""Code in a table with a bar in it: GitHub wants it escaped, Python-Markdown shows the backslash."""
FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[([^\]]+)\]\((?!\w+:)([^)#\s]+)(#[^)\s]*)?\)")
INCLUDE = re.compile(r"^<!-- include: (\S+) -->$", re.MULTILINE)


def on_config(config: Any) -> Any:
    """Folders in the navigation become lists of their pages."""
    config.nav = [_opened(entry) for entry in config.nav]
    return config


def _opened(entry: Any) -> Any:
    title, target = next(iter(entry.items())) if isinstance(entry, dict) else ("", entry)
    if not isinstance(target, str) or not target.endswith("/"):
        return entry
    names = sorted(p.name for p in (ROOT / "docs" / target).glob("*.md"))
    pages: list[Any] = [target + name for name in sorted(names, key=lambda n: n != "index.md")]
    return {title: [*pages, *([{"한국어": list(_korean())}] if target == FINDINGS else [])]}


def _korean() -> dict[str, str]:
    """Page of the site → explanation of a finding in Korean, as ``unstall explain CODE --lang ko`` prints it."""
    texts = {r.code: r.explain("ko") for r in registry.rules()}
    rows = [f"| [{code}]({code}.md) | {text.partition(chr(10))[0]} |" for code, text in texts.items()]
    index = "\n".join(["# 발견 항목", "", "| 코드 | 뜻 |", "|---|---|", *rows])
    pages = {code: f"# {code}\n\n{text}\n\n[English](../{code}.md)" for code, text in texts.items()}
    return {f"{FINDINGS}ko/{name}.md": text for name, text in {"index": index, **pages}.items()}


def on_files(files: Files, config: Any) -> Files:
    """The pages of the repository, and the files that they show."""
    for page, site in PAGES.items():
        if (ROOT / page).exists():
            files.append(File.generated(config, site, abs_src_path=str(ROOT / page)))
    for name, text in _korean().items():
        files.append(File.generated(config, name, content=text))
    for path in sorted((ROOT / SHOWN).rglob("*.*")):
        if path.is_file() and path.suffix in LANGUAGES:
            files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links, includes, and the API where its place is marked."""
    here = page.file.src_uri
    source = SOURCES.get(here, f"docs/{here}")
    if posixpath.dirname(here) == FINDINGS.rstrip("/"):
        markdown += f"\n[한국어](ko/{posixpath.basename(here)})\n"
    markdown = INCLUDE.sub(lambda found: _included(found[1]), markdown)
    parts = FENCE.split(markdown)
    parts[::2] = [LINK.sub(lambda found: _link(found, source, here), _bars(part)) for part in parts[::2]]
    return "".join(parts).replace("<!-- api -->", api.page() if "<!-- api -->" in markdown else "")


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Nothing is loaded from elsewhere."""
    return output.replace(SHIM, get_relative_url(OURS, page.url))


def on_post_template(output_content: str, template_name: str, config: Any) -> str:
    """The same for pages that are none, such as 404.html, which may be shown at any depth."""
    return output_content.replace(SHIM, f"/{OURS}")


def _bars(text: str) -> str:
    return PIPED.sub(lambda found: "<code>" + html.escape(found[1]).replace("\\|", "&#124;") + "</code>", text)


def _included(name: str) -> str:
    path = ROOT / name
    return f"```{LANGUAGES.get(path.suffix, 'text')}\n{path.read_text(encoding='utf-8').rstrip()}\n```"


def _link(found: re.Match[str], source: str, here: str) -> str:
    text, target, anchor = found[1], found[2], found[3] or ""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    if path in PAGES:
        site = PAGES[path]
    elif path.startswith("docs/"):
        site = path.removeprefix("docs/")
    elif path.startswith(SHOWN):
        site = path
    else:
        return text  # code of the repository: the site has no page for it
    return f"[{text}]({posixpath.relpath(site, posixpath.dirname(here) or '.')}{anchor})"
