"""The command line from outside: exit codes, what goes to which stream, and that inputs stay as they were."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from unstall import cli, demo
from unstall.collect import flow
from unstall.commands import demo as demo_command
from unstall.errors import CollectionFailed, GateFailed, ProfileUnreadable, UnstallError, UsageError
from unstall.report.json import from_json, schema

Run = Callable[..., tuple[int, str, str]]
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorded profile that ships with the package."""
    path = tmp_path_factory.mktemp("profile") / demo.RECORDED
    with demo.recorded() as source:
        shutil.copyfile(source, path)
    return path


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# -- what works ----------------------------------------------------------------------------------------------------


def test_demo(run: Run) -> None:
    code, out, err = run("demo", "--recorded")
    assert (code, err) == (0, "")
    assert "NVIDIA H200" in out and "data_load" in out
    assert "without the profiler: 27.0 ms" in out
    assert "FASTER: before / after is 10.1×" in out and "ON THIS MACHINE" not in out


def test_demo_tries_the_fix_on_this_machine(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """In NumPy and with the built-in collector, as where there is neither PyTorch nor nsys."""
    monkeypatch.setattr(demo, "has_torch", lambda: False)
    monkeypatch.setattr(flow, "find_nsys", lambda: [])
    monkeypatch.setattr(demo_command, "TRIAL_S", demo.SHORTEST_TRIAL_S)
    code, out, err = run("demo")
    assert code == 0
    here = out[out.index("ON THIS MACHINE") :]
    assert "data loading" in here and "data_load" in here and "of NumPy" in here
    assert "plain: " in err and "prefetch: " in err
    tried = here[here.index("As it is: ") :]
    assert re.search(r"prefetch .* (faster|inconclusive|no difference|slower)", tried)
    assert re.search(r"^(FASTER|INCONCLUSIVE|NO DIFFERENCE|SLOWER): ", tried, re.M)


def test_demo_says_what_it_cannot_do_here(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_program(*_: object, **__: object) -> None:
        raise CollectionFailed("python", "cannot be started", "Do this")

    monkeypatch.setattr("unstall.collect.collect", no_program)
    code, out, err = run("demo")
    assert (code, err) == (0, "")
    assert "Not done here: python: cannot be started. Do this" in out


def test_demo_for_a_program_runs_nothing_here(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unstall.collect.collect", lambda *_, **__: pytest.fail("nothing is to be run"))
    code, out, err = run("demo", "--json", "-")
    assert (code, err) == (0, "")
    assert json.loads(out)["steps"][0]["unprofiled_ns"] == 26_990_000


def test_recorded_step_times_are_those_of_the_recording() -> None:
    comparison = demo.recorded_verdict()
    assert comparison.verdict == "faster" and comparison.before.count == comparison.after.count == 32
    assert comparison.before.step_ns == pytest.approx(demo.TRUTH.unprofiled_ms * 1e6, rel=0.02)
    assert comparison.after.step_ns == pytest.approx(demo.TRUTH.fixed_ms * 1e6, rel=0.02)


def test_readme_shows_the_real_output(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = run("demo", "--recorded")
    shown = out[out.index(demo.RECORDED) : out.index("\nKERNELS")]
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    before, fence, rest = text.partition("```text\n")
    current, after = rest.split("```", 1)
    if os.environ.get("UNSTALL_UPDATE_GOLDEN"):
        readme.write_text(f"{before}{fence}{shown}```{after}", encoding="utf-8")
        current = shown
    assert current == shown, "run: UNSTALL_UPDATE_GOLDEN=1 pytest tests/cli"


def test_report(run: Run, profile: Path) -> None:
    before = digest(profile), sorted(profile.parent.iterdir())
    code, out, err = run("report", profile)
    assert (code, err) == (0, "")
    assert out.startswith("slow_loader_window.sqlite · nsys 2025.3")
    assert "The GPU idles 94 % of a 27.4 ms step" in out
    assert (digest(profile), sorted(profile.parent.iterdir())) == before, "input and its folder are left alone"


def test_json_on_standard_output_is_nothing_else(run: Run, profile: Path) -> None:
    code, out, err = run("report", profile, "--json", "-")
    assert (code, err) == (0, "")
    raw = json.loads(out)
    jsonschema.validate(raw, schema())
    assert raw["profile"]["path"] == str(profile)
    assert raw["steps"][0]["period_ns"]["median"] == pytest.approx(27.4e6, rel=0.01)
    assert sum(c["ns"] for c in raw["breakdown"][0]["categories"]) == raw["breakdown"][0]["step_ns"]


def test_options_reach_the_analysis(run: Run, profile: Path) -> None:
    _, out, _ = run("report", profile, "--json", "-", "--step", "data_load", "--unprofiled-ms", "26.99", "--no-cache")
    steps = json.loads(out)["steps"][0]
    assert steps["source"] == "regex:data_load"
    assert steps["unprofiled_ns"] == 26_990_000


def test_files_and_terminal_together(run: Run, profile: Path, tmp_path: Path) -> None:
    code, out, _ = run("report", profile, "--json", tmp_path / "r.json", "--markdown", tmp_path / "r.md")
    assert code == 0 and "WHERE IT GOES" in out
    assert from_json((tmp_path / "r.json").read_bytes()).steps[0].count == 25
    assert (tmp_path / "r.md").read_text().startswith("### unstall: `slow_loader_window.sqlite`")
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_file()) == ["r.json", "r.md"], "no temporary file is left"


def test_several_profiles(run: Run, profile: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.sqlite"
    shutil.copyfile(profile, other)
    code, out, _ = run("report", profile, other, "--json", "-")
    assert code == 0
    assert [Path(json.loads(line)["profile"]["path"]).name for line in out.splitlines()] == [profile.name, other.name]
    code, out, _ = run("report", profile, other)
    assert (code, out.count("WHERE IT GOES")) == (0, 2)
    code, _, _ = run("report", profile, other, "--json", tmp_path / "{name}.json")
    assert code == 0
    assert (tmp_path / "other.json").exists() and (tmp_path / "slow_loader_window.json").exists()


def test_output_into_a_device(run: Run, profile: Path) -> None:
    assert run("report", profile, "--json", "/dev/null")[0] == 0
    assert Path("/dev/null").is_char_device()


def test_version_and_help(run: Run) -> None:
    assert run("--version")[:2] == (0, "unstall 0.1.0\n")
    code, out, _ = run("--help")
    assert code == 0 and "report" in out and "demo" in out
    code, out, _ = run("report", "--help")
    assert code == 0
    for option in ("--json", "--markdown", "--top", "--by", "--step", "--unprofiled-ms", "--no-cache"):
        assert option in out


def unstall(*arguments: object, **environment: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-c", "from unstall.cli import main; main()", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, env={**os.environ, **environment}, check=False)


def test_a_reader_that_stops_early_is_no_error(profile: Path) -> None:
    command = f"{sys.executable} -c 'from unstall.cli import main; main()' report {profile} --top 0 --no-cache"
    done = subprocess.run(["bash", "-c", f"{command} | true; echo ${{PIPESTATUS[0]}}"], capture_output=True, check=True)
    assert done.stdout.strip() in (b"141", b"0")
    assert done.stderr == b""


def test_an_ascii_locale_is_no_error(profile: Path) -> None:
    done = unstall("report", profile, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 0
    assert b"####" in done.stdout and done.stdout.isascii()


def test_a_path_that_is_not_text_is_no_error(profile: Path, tmp_path: Path) -> None:
    odd = os.fsencode(tmp_path) + b"/odd\xff\x1b[31m.sqlite"
    shutil.copyfile(profile, odd)
    done = unstall("report", os.fsdecode(odd), "--json", "-")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["steps"]
    assert b"\x1b" not in unstall("report", os.fsdecode(odd)).stdout


# -- bad input: one line, exit code 4 ---------------------------------------------------------------------------------


def zero(path: Path) -> None:
    path.write_bytes(b"")


def zeros(path: Path) -> None:
    path.write_bytes(b"\0" * 100_000)


def garbage(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 100)


def text(path: Path) -> None:
    path.write_text("step 1 loss 0.3\n" * 100)


def header_only(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0" + b"\0" * 84)


def something_else(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("create table friends (name text)")
    db.close()


def truncated(path: Path) -> None:
    with demo.recorded() as source:
        path.write_bytes(source.read_bytes()[: source.stat().st_size // 2])


def directory(path: Path) -> None:
    path.mkdir()


def missing(path: Path) -> None:
    pass


def html(path: Path) -> None:
    path.write_text("<!doctype html><html><body>404 not found</body></html>")


def other_json(path: Path) -> None:
    path.write_text('{"hello": [1, 2, 3]}')


def compressed(path: Path) -> None:
    path.write_bytes((Path(demo.__file__).parent / "data" / f"{demo.RECORDED}.gz").read_bytes())


BAD = [
    zero,
    zeros,
    garbage,
    text,
    header_only,
    something_else,
    truncated,
    directory,
    missing,
    html,
    other_json,
    compressed,
]


@pytest.mark.parametrize("make", BAD)
def test_bad_input_is_one_clear_line(make: Callable[[Path], None], run: Run, tmp_path: Path) -> None:
    path = tmp_path / "bad.sqlite"
    make(path)
    before = digest(path) if path.is_file() else None
    code, out, err = run("report", path)
    assert (code, out) == (4, "")
    assert err.startswith("unstall: ") and err.endswith("\n") and err.count("\n") == 1
    assert str(path) in err and "Traceback" not in err and "internal error" not in err
    assert before is None or digest(path) == before
    assert code == run("report", path, "--json", "-")[0]


def test_a_file_that_may_not_be_read(run: Run, profile: Path, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    path = tmp_path / "secret.sqlite"
    shutil.copyfile(profile, path)
    path.chmod(0)
    code, _, err = run("report", path)
    assert code == 4 and "permission" in err.lower()


def test_a_hostile_path_cannot_reach_the_terminal(run: Run, tmp_path: Path) -> None:
    _, _, err = run("report", tmp_path / "\x1b[31mno\nsuch")
    assert "\x1b" not in err and err.count("\n") == 1 and r"\x1b[31mno\nsuch" in err


# -- bad requests: exit code 2, before anything is read -------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        (), ("nonsense",), ("report",), ("report", "P", "--top", "-1"), ("report", "P", "--by", "size"),
        ("report", "P", "--unprofiled-ms", "0"), ("report", "P", "--unprofiled-ms", "fast"), ("report", "P", "--bogus"),
        ("report", "P", "--json", "-", "--markdown", "-"), ("report", "P", "--json", "P"),
        ("report", "P", "--step", "("), ("report", "P", "--step", "no such range"),
        ("report", "P", "--json", "/no/such/folder/r.json"), ("report", "P", "--json", "/"),
        ("report", "P", "P", "--json", "{name}.json"),
    ],
)  # fmt: skip
def test_usage(
    arguments: tuple[str, ...], run: Run, profile: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    before = digest(profile)
    code, out, err = run(*[str(profile) if a == "P" else a for a in arguments])
    assert code == 2
    assert "Traceback" not in err
    assert not arguments or (err.startswith("unstall: ") and err.count("\n") == 1)
    assert digest(profile) == before
    assert "WHERE IT GOES" not in out, "found out before the work starts"
    assert not [p for p in tmp_path.iterdir() if p.is_file()]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("report", "P", "--by", "no"), "--by: 'no' is not one of 'total', 'self', 'gpu'. See unstall report --help"),
        (("ranks", "P", "--patience", "0"), "--patience: "), (("report", "P", "--top", "x"), "--top: "),
        (("report",), "Missing argument 'PROFILE'. See unstall report --help"),
    ],
)  # fmt: skip
def test_a_wrong_command_line_is_one_line_without_words_of_libraries(
    arguments: tuple[str, ...], said: str, run: Run
) -> None:
    _, _, err = run(*arguments)
    assert err.startswith(f"unstall: {said}") and err.count("\n") == 1
    assert "Value error" not in err and "Input should" not in err and "Invalid value" not in err


def test_an_output_is_never_an_input(run: Run, profile: Path, tmp_path: Path) -> None:
    alias = tmp_path / "alias.sqlite"
    alias.symlink_to(profile)
    code, _, err = run("report", profile, "--json", alias)
    assert code == 2 and "is a profile to be read" in err


@pytest.mark.parametrize(
    "words",
    [("run", "--delay"), ("run", "--duration"), ("run", "--calibrate"), ("try", "--budget"), ("ranks", "--patience")],
)
@pytest.mark.parametrize("given", ["inf", "nan", "1e9", "-1"])
def test_seconds_that_nothing_can_wait(run: Run, words: tuple[str, str], given: str) -> None:
    code, out, err = run(*words, given, "true")
    assert (code, out) == (2, "") and err.startswith(f"unstall: {words[1]}: needs ") and err.count("\n") == 1


@pytest.mark.parametrize("given", ["inf", "1e300", "1e12"])
def test_no_step_takes_for_ever(run: Run, profile: Path, given: str) -> None:
    code, out, err = run("report", profile, "--unprofiled-ms", given)
    assert (code, out) == (2, "") and err.startswith("unstall: the step time without the profiler: ")


@pytest.mark.parametrize("given", ["0.027", "27000"])
def test_a_step_time_in_the_wrong_unit_is_doubted(run: Run, profile: Path, given: str) -> None:
    code, out, _ = run("report", profile, "--unprofiled-ms", given)
    assert code == 0 and "unprofiled-doubtful" in out


def test_two_outputs_in_one_file_are_refused(run: Run, profile: Path, tmp_path: Path) -> None:
    target = tmp_path / "report"
    code, out, err = run("report", profile, "--json", target, "--markdown", target)
    assert (code, out) == (2, "") and "two outputs in one file" in err and not target.exists()


def test_a_path_that_leads_nowhere_is_a_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path in (tmp_path / "loop", "x" * 5000):
        code, out, err = run("report", path)
        assert (code, out, err.count("\n")) == (4, "", 1)


def test_a_table_of_sums_has_no_steps_to_choose(run: Run) -> None:
    text = ROOT / "tests" / "data" / "lab" / "nvtx_sum_output.txt"
    code, out, err = run("report", text, "--step", "step")
    assert (code, out) == (2, "") and "holds sums" in err
    code, out, _ = run("report", text, "--unprofiled-ms", "25")
    assert code == 0 and "without the profiler: 25.0 ms" in out


@pytest.mark.parametrize("arguments", [("report", "PROFILE"), ("report", "PROFILE", "--json", "-"), ("explain",)])
def test_a_full_disk_is_no_fault_of_ours(profile: Path, arguments: tuple[str, ...]) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full here")
    command = [sys.executable, "-m", "unstall", *(str(profile) if a == "PROFILE" else a for a in arguments)]
    with full.open("w") as out:
        done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2 and done.stderr.startswith("unstall: standard output: cannot be written")
    assert done.stderr.count("\n") == 1


def test_a_failing_write_leaves_the_old_file(
    run: Run, profile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "r.json"
    target.write_text("old")

    def full(self: Path, other: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    code, _, err = run("report", profile, "--json", target, "--no-cache")
    assert code == 2 and "No space left on device" in err
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir() if p.is_file()] == ["r.json"]


# -- one place for exit codes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [UnstallError, GateFailed, UsageError, CollectionFailed, ProfileUnreadable])
def test_errors_become_their_exit_code(error: type[UnstallError], run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error("this", "that", "Do so")

    monkeypatch.setattr("unstall.pipeline.report_of", fail)
    assert run("report", "x") == (error.exit_code, "", "unstall: this: that. Do so\n")


def test_what_we_did_not_foresee(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("oh\nno")

    monkeypatch.setattr("unstall.pipeline.report_of", fail)
    code, out, err = run("report", "x")
    assert (code, out, err.count("\n")) == (cli.INTERNAL_ERROR, "", 1)
    assert "ZeroDivisionError: oh" in err and "UNSTALL_DEBUG=1" in err
    monkeypatch.setenv("UNSTALL_DEBUG", "1")
    code, _, err = run("report", "x")
    assert code == cli.INTERNAL_ERROR and "Traceback" in err


def test_interrupted(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("unstall.pipeline.report_of", stop)
    code, out, err = run("report", "x")
    assert (code, out) == (130, "") and "Traceback" not in err


def test_every_exit_code_is_documented() -> None:
    page = (ROOT / "docs" / "exit-codes.md").read_text(encoding="utf-8")
    documented = {int(code) for code in re.findall(r"(?m)^\| (\d+) \|", page)}
    raised = {e.exit_code for e in (UnstallError, GateFailed, UsageError, CollectionFailed, ProfileUnreadable)}
    assert documented == {0, 130, 141, cli.INTERNAL_ERROR} | raised


@pytest.mark.parametrize("argument", ["-", "/dev/stdin"])
def test_what_is_piped_in_is_read_once_and_whole(argument: str) -> None:
    text = (Path(__file__).parents[1] / "data" / "lab" / "nvtx_sum_output.txt").read_bytes()
    done = subprocess.run(
        [sys.executable, "-m", "unstall", "report", argument], input=text, capture_output=True, check=False
    )
    assert done.returncode == 0
    assert b"data_load" in done.stdout and b"1135.9" in done.stdout
    empty = subprocess.run(
        [sys.executable, "-m", "unstall", "report", argument], input=b"", capture_output=True, check=False
    )
    assert empty.returncode == 4
    assert len(empty.stderr.decode().splitlines()) == 1
