"""How a program comes to be instrumented: environment, command line, sitecustomize; in real Python processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from unstall.instrument import PARTS, Options, command, environment, parse_steps
from unstall.instrument.launch import INJECT
from unstall.instrument.options import VARIABLES, rank

PLUGIN = "import sys\ndef hello(options):\n    sys.stderr.write('plugin ' + ','.join(options.parts) + chr(10))\n"
BARE = Path(sys.base_prefix, "bin", f"python{sys.version_info[0]}.{sys.version_info[1]}")
"""The interpreter below this environment: it has none of our dependencies."""


def run(argv: list[str], options: Options, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    env = environment(options, {**os.environ, **more})
    return subprocess.run(command(argv, options), env=env, cwd=cwd, capture_output=True, text=True, check=False)


# ---- options ------------------------------------------------------------------------------------------------------


def test_options_survive_the_environment(tmp_path: Path) -> None:
    asked = Options(
        parts=PARTS, steps=(10, 30), window="cuda", step_log=str(tmp_path / "{rank}"), begin=7, nvtx="torch",
        record=str(tmp_path), plugins=("a:b", "c"),
    )  # fmt: skip
    said = asked.variables()
    assert Options.from_environment(said) == asked
    assert set(said) == {f"UNSTALL_{name}" for name in VARIABLES}
    assert Options().variables() == {}
    assert Options.from_environment({}) == Options()


@pytest.mark.parametrize("text", ["", "10", "10:", ":3", "3:3", "5:2", "-1:4", "a:b", "1:2:3"])
def test_steps_that_make_no_sense(text: str) -> None:
    with pytest.raises(ValueError, match="A:B with A < B"):
        parse_steps(text)


def test_unknown_parts_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown part 'foward'"):
        Options(parts=("foward",))


def test_an_outer_runs_options_do_not_leak_into_ours() -> None:
    outer = environment(Options(parts=PARTS, steps=(1, 2), window="cuda"), {"A": "1"})
    inner = environment(Options(step_log="/tmp/x"), outer)
    assert {k for k in inner if k.startswith("UNSTALL_")} == {"UNSTALL_STEP_LOG"}


def test_pythonpath_is_extended_once(tmp_path: Path) -> None:
    once = environment(Options(parts=PARTS), {"PYTHONPATH": "/a:/b"})
    twice = environment(Options(parts=PARTS), once)
    assert twice["PYTHONPATH"] == once["PYTHONPATH"] == f"{INJECT}:/a:/b"
    assert "PYTHONPATH" not in environment(Options(), {}), "nothing to inject"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [({}, None), ({"RANK": "3", "SLURM_PROCID": "9"}, 3), ({"OMPI_COMM_WORLD_RANK": "0"}, 0), ({"RANK": "x"}, None)],
)
def test_rank(environ: dict[str, str], expected: int | None) -> None:
    assert rank(environ) == expected


@pytest.mark.parametrize(
    "argv",
    [
        ["python", "train.py", "-I"], ["python3.11", "-u", "-X", "dev", "train.py"], ["torchrun", "-I", "x.py"],
        ["python", "-m", "train", "-E"], ["python", "-c", "print()"], ["./train.sh"], ["python"], ["python", "-"],
        ["python", "-W", "ignore", "train.py"],
    ],
)  # fmt: skip
def test_command_lines_stay_as_they_are(argv: list[str]) -> None:
    assert command(argv, Options(parts=PARTS)) == argv


@pytest.mark.parametrize("flag", ["-I", "-E", "-S", "-uI", "-sE"])
def test_a_python_that_ignores_its_environment_gets_a_runner(flag: str) -> None:
    made = command(["/usr/bin/python3", flag, "-m", "train", "--lr", "1"], Options(parts=PARTS))
    assert made == ["/usr/bin/python3", flag, str(INJECT / "run.py"), "-m", "train", "--lr", "1"]
    assert command(["python3", flag, "x.py"], Options(step_log="x")) == ["python3", flag, "x.py"], "nothing to inject"


# ---- in real processes --------------------------------------------------------------------------------------------


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "hello_plugin.py").write_text(PLUGIN)
    (tmp_path / "beside.py").write_text("here = 1\n")
    made = tmp_path / "train.py"
    made.write_text("import sys, beside\nprint(__name__, sys.argv[1:], 'unstall' in sys.modules)\n")
    return made


@pytest.mark.parametrize("how", [[], ["-m"], ["-I"], ["-E"], ["-S"], ["-E", "-m"]], ids=" ".join)
def test_script_runs_as_it_would_and_we_are_there(script: Path, how: list[str]) -> None:
    if "-I" in how:  # such a Python does not look beside the script
        script.write_text(script.read_text().replace(", beside", ""))
    target = [script.stem] if "-m" in how else [str(script)]
    options = Options(parts=("forward",))
    done = run([sys.executable, *how, *target, "--lr", "1"], options, script.parent)
    assert done.stdout == "__main__ ['--lr', '1'] True\n"
    assert done.stderr == ""


def test_code_on_the_command_line_runs_too(tmp_path: Path) -> None:
    code = "import sys; print(__name__, sys.argv, 'unstall' in sys.modules)"
    for flag in ([], ["-E"]):
        done = run([sys.executable, *flag, "-c", code, "a"], Options(parts=("forward",)), tmp_path)
        assert done.stdout == "__main__ ['-c', 'a'] True\n", done.stderr


def test_the_hidden_sitecustomize_still_runs(script: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "sitecustomize.py").write_text("import sys\nmine = 1\nsys.stderr.write('theirs')\n")
    code = "import sitecustomize; print(sitecustomize.mine)"
    options = Options(parts=("forward",))
    done = run([sys.executable, "-c", code], options, tmp_path, PYTHONPATH=str(tmp_path / "theirs"))
    assert (done.stdout, done.stderr) == ("1\n", "theirs")


@pytest.mark.skipif(not BARE.exists() or str(BARE) == sys.executable, reason="no interpreter without our dependencies")
def test_an_interpreter_without_our_dependencies_is_instrumented(tmp_path: Path) -> None:
    code = (
        "import sys; print('unstall' in sys.modules, {'polars', 'msgspec', 'numpy', 'nvtx'} & set(sys.modules));"
        "import unstall; print(unstall.annotate('x'), unstall.step(0));\n"
        "try: import msgspec\n"
        "except ImportError: print('msgspec is not importable, as before')"
    )
    done = run([str(BARE), "-c", code], Options(parts=PARTS), tmp_path)
    assert done.stdout.splitlines()[0] == "True set()", done.stderr
    assert done.stdout.splitlines()[-1] == "msgspec is not importable, as before"
    assert done.stderr == ""


def test_children_are_instrumented(script: Path) -> None:
    code = f"import subprocess, sys; subprocess.run([sys.executable, {str(script)!r}, 'child'])"
    done = run([sys.executable, "-c", code], Options(parts=("forward",)), script.parent)
    assert done.stdout == "__main__ ['child'] True\n"


def test_plugins_are_called(script: Path) -> None:
    options = Options(parts=("forward",), plugins=("hello_plugin:hello",))
    done = run([sys.executable, str(script)], options, script.parent, PYTHONPATH=str(script.parent))
    assert done.stderr == "plugin forward\n"


@pytest.mark.parametrize("variable", ["UNSTALL_AUTO=nonsense", "UNSTALL_STEPS=9:1", "UNSTALL_PLUGINS=not_there:x"])
def test_nonsense_in_the_environment_costs_a_line_not_the_program(script: Path, variable: str) -> None:
    name, _, value = variable.partition("=")
    env = {**environment(Options(parts=("forward",))), name: value}
    done = subprocess.run(
        [sys.executable, str(script)], env=env, cwd=script.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and done.stdout.startswith("__main__")
    assert done.stderr.startswith("unstall: ") and done.stderr.count("\n") == 1


def test_launch_becomes_the_program(script: Path) -> None:
    line = [sys.executable, "-m", "unstall.instrument.launch", str(script), "--lr", "1"]
    done = subprocess.run(line, capture_output=True, text=True, cwd=script.parent, check=False)
    assert done.stdout == "__main__ ['--lr', '1'] True\n", done.stderr
    done = subprocess.run(line[:3], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr.startswith("usage: ")


def test_torch_is_not_imported_for_the_script(script: Path) -> None:
    code = "import sys; print([m for m in sys.modules if m.split('.')[0] in ('torch', 'nvtx', 'numpy')])"
    done = run([sys.executable, "-c", code], Options(parts=PARTS), script.parent)
    assert done.stdout == "[]\n"
