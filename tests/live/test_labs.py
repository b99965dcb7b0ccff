"""The lab: both languages from one source, and every cell of both runs, in a kernel and without Jupyter."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

LABS = Path(__file__).parents[2] / "labs"
NOTEBOOKS = {"en": LABS / "profile-then-fix.ipynb", "ko": LABS / "profile-then-fix.ko.ipynb"}
LINKS = (
    "https://docs.nvidia.com/nsight-systems/UserGuide/",
    "https://karpathy.github.io/2019/04/25/recipe/",
    "https://docs.pytorch.org/docs/stable/generated/torch.cuda.nvtx.range_push.html",
    "https://docs.nvidia.com/deeplearning/performance/dl-performance-gpu-background/",
    "https://horace.io/brrr_intro.html",
)


def cells(path: Path, kind: str) -> list[dict[str, Any]]:
    return [c for c in json.loads(path.read_text(encoding="utf-8"))["cells"] if c["cell_type"] == kind]


def sources(language: str, kind: str) -> list[str]:
    return ["".join(cell["source"]) for cell in cells(NOTEBOOKS[language], kind)]


def test_the_notebooks_are_what_their_source_says() -> None:
    done = subprocess.run([sys.executable, LABS / "build.py", "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"not as the source says: {done.stdout}run: python labs/build.py"


def test_both_languages_are_in_step() -> None:
    english, korean = sources("en", "code"), sources("ko", "code")
    assert [c.replace('"ko"', '"en"').replace("--lang ko", "--lang en") for c in korean] == english
    en, ko = sources("en", "markdown"), sources("ko", "markdown")
    assert len(en) == len(ko)
    for one, other in zip(en, ko, strict=True):
        assert re.findall("^#+ ", one, re.M) == re.findall("^#+ ", other, re.M), "the same headings"
        assert re.findall(r"https://[^)\s]+", one) == re.findall(r"https://[^)\s]+", other), "the same links"
        assert re.search("[가-힣]", other) and not re.search("[가-힣]", one)


@pytest.mark.parametrize("language", NOTEBOOKS)
def test_it_teaches_what_the_lab_teaches(language: str) -> None:
    text = "\n".join(sources(language, "markdown"))
    for subject in (*LINKS, "NVTX", "GIL", "Nsight Compute", "PyTorch Profiler", "DALI", "perf_event_paranoid", "CUDA"):
        assert subject in text, subject


def test_a_part_in_one_language_only_is_refused() -> None:
    spec = importlib.util.spec_from_file_location("build", LABS / "build.py")
    assert spec is not None and spec.loader is not None
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    with pytest.raises(ValueError, match="in one language only"):
        build.parts("<!-- en -->\nonly\n<!-- code -->\n```python\n1\n```\n")
    found = build.parts("<!-- en -->\na\n<!-- ko -->\n가\n<!-- code -->\n```python\nx = '{language}'\n```\n")
    first = build.notebook(found, "ko")
    first["cells"][1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["kept"]}]
    again = build.notebook(found, "ko", first)
    assert again["cells"][1]["outputs"][0]["text"] == ["kept"] and again["cells"][1]["source"] == ["x = 'ko'"]
    changed = build.notebook([*found[:2], ("code", "```python\ny = 1\n```")], "ko", first)
    assert changed["cells"][1]["outputs"] == [], "outputs of another source would be a lie"


@pytest.mark.live
@pytest.mark.slow
@pytest.mark.parametrize(("language", "how"), [("en", []), ("ko", ["--plain"])])
def test_every_cell_runs(language: str, how: list[str], tmp_path: Path) -> None:
    """English in a kernel, Korean in the executor that serves where Jupyter is not installed."""
    pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    env = {k: v for k, v in os.environ.items() if k != "PYTEST_CURRENT_TEST"}
    line = [sys.executable, LABS / "execute.py", NOTEBOOKS[language], "--output", tmp_path, *how]
    done = subprocess.run(line, capture_output=True, text=True, env=env, cwd=tmp_path, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    run = tmp_path / NOTEBOOKS[language].name
    executed = cells(run, "code")
    assert ["".join(c["source"]) for c in executed] == sources(language, "code")
    shown = [o for c in executed for o in c["outputs"]]
    assert not [o for o in shown if o["output_type"] == "error"]
    html = ["".join(o["data"]["text/html"]) for o in shown if "text/html" in o.get("data", {})]
    views = [h for h in html if h.startswith('<div class="unstall-r')]
    assert len(views) >= 5, "the run, the recorded one, two cells, two verdicts"
    assert all(f'lang="{language}"' in view for view in views)
    printed = "".join("".join(o["text"]) for o in shown if o["output_type"] == "stream")
    assert "num_workers=" in printed and "data_load" in "".join(views)
    assert str(LABS.parent) not in run.read_text(encoding="utf-8")
