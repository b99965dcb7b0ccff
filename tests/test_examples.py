"""Every example runs as its first lines say, on small data, and shows what it promises."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
BIN = Path(sys.executable).parent
LONGEST = 40


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a profile, a second one, step times and the text of nsys stats."""
    with gzip.open(ROOT / "src/unstall/data/slow_loader_window.sqlite.gz") as packed:
        (tmp_path / "run.sqlite").write_bytes(packed.read())
    shutil.copy(ROOT / "tests/data/lab/stats_console_output.txt", tmp_path / "stats.txt")
    lines = (ROOT / "tests/data/steps/matmul.txt").read_text().splitlines()
    times = [float(line) for line in lines if not line.startswith("#")]
    (tmp_path / "before.txt").write_text("\n".join(map(str, times[:400])))
    (tmp_path / "slower.txt").write_text("\n".join(str(1.5 * t) for t in times[:400]))
    return tmp_path


def run(place: Path, name: str, *arguments: str, path: str = "") -> subprocess.CompletedProcess[str]:
    program = ["sh"] if name.endswith(".sh") else [sys.executable, "-W", "error"]
    env = {
        **os.environ,
        "XDG_CACHE_HOME": str(place / "cache"),
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": path,
    }
    command = [*program, str(EXAMPLES / name), *arguments]
    return subprocess.run(command, cwd=place, env=env, capture_output=True, text=True, check=False, timeout=60)


RUNS = {  # example → its arguments, what it must show
    "01_report.sh": (["run.sqlite"], ["WHERE IT GOES", "waits for its next batch"]),
    "01_report.py": (["run.sqlite"], ["25 steady steps of 27.4 ms", "data_loading", "not checked: gil:"]),
    "02_ranges.py": (["run.sqlite"], ["data_load", "step_*", "wrapper True"]),
    "03_annotate.py": ([], ["done"]),
    "04_compare.sh": (["run.sqlite", "run.sqlite"], ["NO DIFFERENCE"]),
    "04_compare.py": (["before.txt", "before.txt"], ["no difference"]),
    "05_what_if.py": (["run.sqlite"], ["the replay takes 1.0", "no loading: ", "one CUDA graph a step"]),
    "07_prefetch.py": ([], ["same order: True", "20 batches resident"]),
    "08_nsys_stats.py": (["stats.txt"], ["nvtx_sum: 35 rows", "data_load", "65.5"]),
    "09_batch.py": (["."], ["run.sqlite", "host-data-loading"]),
}


@pytest.mark.parametrize("name", RUNS)
def test_example(name: str, place: Path) -> None:
    if name == "07_prefetch.py":
        pytest.importorskip("torch", reason="the example needs torch")
    arguments, shown = RUNS[name]
    done = run(place, name, *arguments)
    assert done.returncode == 0, done.stderr
    assert [text for text in shown if text not in done.stdout] == [], done.stdout


def test_every_example_is_run_and_listed() -> None:
    there = {p.name for p in EXAMPLES.iterdir() if p.name[0].isdigit()}
    assert there == {*RUNS, "06_rule_plugin"}
    text = (EXAMPLES / "README.md").read_text()
    assert [name for name in there if name not in text] == []


def test_examples_are_short() -> None:
    sizes = {p.name: len(p.read_text().splitlines()) for p in EXAMPLES.glob("*.*") if p.suffix in (".py", ".sh")}
    assert {name: n for name, n in sizes.items() if n >= LONGEST} == {}


def test_gate_fails_where_it_should(place: Path) -> None:
    done = run(place, "04_compare.py", "before.txt", "slower.txt")
    assert done.returncode == 1 and done.stdout.startswith("slower")


def test_batch_names_what_it_cannot_read(place: Path) -> None:
    (place / "bad.sqlite").write_bytes(b"SQLite format 3\0" + b"x" * 50)
    done = run(place, "09_batch.py", ".")
    assert done.returncode == 0 and "bad.sqlite" in done.stdout
    assert "cut off" in (place / "profiles.csv").read_text()


def test_annotated_script_is_captured(place: Path) -> None:
    command = [sys.executable, "-m", "unstall", "run", "--collector", "builtin", "--output", "out", "--json", "r.json"]
    script = str(EXAMPLES / "03_annotate.py")
    done = subprocess.run(
        [*command, "--", sys.executable, script], cwd=place, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert '"data_load"' in (place / "r.json").read_text() and '"step_*"' in (place / "r.json").read_text()


# ---- the rule of somebody else ---------------------------------------------------------------------------------------


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """``examples/06_rule_plugin`` as pip installs it: the module, and the entry points of its pyproject."""
    try:
        import tomllib
    except ModuleNotFoundError:
        import tomli as tomllib
    source, target = EXAMPLES / "06_rule_plugin", tmp_path / "installed"
    project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
    info = target / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir(parents=True)
    shutil.copy(source / "metrics_in_step.py", target)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    points = "".join(
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in rows.items())
        for group, rows in project["entry-points"].items()
    )
    (info / "entry_points.txt").write_text(points)
    return target


TRACES = """
import sys
import metrics_in_step
from unstall.testing import TraceBuilder
for name in ("fires", "silent"):
    trace = TraceBuilder()
    getattr(metrics_in_step, name)(trace)
    trace.write(name + ".sqlite")
"""


def test_rule_of_another_package_runs_like_our_own(place: Path, plugin: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(plugin), "XDG_CACHE_HOME": str(place / "cache")}

    def python(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments], cwd=place, env=env, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    python("-c", TRACES)
    assert "nobody looks at" in python("-m", "unstall", "explain", "metrics-in-step")
    fires = python("-m", "unstall", "report", "fires.sqlite", "--markdown", "-")
    assert "The GPU waits while the step computes metrics" in fires and "MetricsHook(every=50)" in fires
    assert "computes metrics" not in python("-m", "unstall", "report", "silent.sqlite", "--markdown", "-")
