"""What is wrong with a capture is recognised from its files and from nsys's words, and explained."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import fake_nsys
import pytest

from unstall.collect.diagnose_capture import examine, window_notes, without_export
from unstall.collect.notes import Note
from unstall.collect.nsys import Recorded
from unstall.collect.options import CollectOptions
from unstall.collect.process import Ended
from unstall.instrument.steplog import StepLog
from unstall.nsys.discover import Nsys

NEW, OLD = Nsys(Path("nsys"), (2025, 3, 1)), Nsys(Path("nsys"), (2022, 4, 2))
ASKED = CollectOptions()


def codes(notes: list[Note]) -> list[str]:
    return [note.code for note in notes]


def recorded(said: str = "", *, seen: dict[int, str] | None = None, program: int = 1, **ended: object) -> Recorded:
    how = Ended(0, started=True, seen=seen or {}, **ended)  # type: ignore[arg-type]
    return Recorded(how, said=said, arguments=["--trace=cuda,nvtx,osrt"], program=program)


def look(path: Path, nsys: Nsys = NEW, *, gpu: bool = True, **how: object) -> list[Note]:
    return examine(path, recorded(**how), nsys, ASKED, gpu=gpu)  # type: ignore[arg-type]


def export(tmp_path: Path, more: str = "") -> Path:
    return fake_nsys.small_export(tmp_path / "x.sqlite", more=more)


def test_good_capture_needs_no_words(tmp_path: Path) -> None:
    assert look(export(tmp_path)) == []


NO_KERNELS = "DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL;"
NO_RANGES = "DELETE FROM NVTX_EVENTS;"


def test_no_kernels(tmp_path: Path) -> None:
    path = export(tmp_path, NO_KERNELS)
    (here,), (nowhere,) = look(path), look(path, gpu=False)
    assert here.code == nowhere.code == "no-cuda-rows"
    assert "no CUDA kernel ran" in here.text and "no NVIDIA GPU" in nowhere.text


def test_no_kernels_because_a_signal_ended_the_program(tmp_path: Path) -> None:
    (note,) = look(export(tmp_path, NO_KERNELS), program_code=143)
    assert note.code == "no-cuda-rows" and "SIGTERM ended the program before nsys" in note.text


def test_no_kernels_because_somebody_else_has_cupti(tmp_path: Path) -> None:
    said = (
        "INSERT INTO DIAGNOSTIC_EVENT VALUES (1, 3, 'CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED: another tool.');"
    )
    (note,) = look(export(tmp_path, NO_KERNELS + said))
    assert "MULTIPLE_SUBSCRIBERS" in note.text and "torch.profiler" in note.text


def test_no_ranges(tmp_path: Path) -> None:
    (note,) = look(export(tmp_path, NO_RANGES))
    assert note.code == "no-nvtx-rows" and "--auto" in note.text
    (note,) = look(export(tmp_path, "DROP TABLE NVTX_EVENTS;"))
    assert note.code == "no-nvtx-rows"


DOMAIN = "INSERT INTO NVTX_EVENTS VALUES (1, NULL, 75, 'NVTX', 16777217, NULL, 1);"
CLASH = "INSERT INTO DIAGNOSTIC_EVENT VALUES (1, 2, 'NVTX payload extension is incompatible. 260 != 259');"
OLD_CLASH = """DROP TABLE DIAGNOSTIC_EVENT;
INSERT INTO StringIds VALUES (9, 'NVTX binary payload extension is incompatible. ID 260 != 259.');"""


@pytest.mark.parametrize(
    ("more", "nsys", "code"),
    [
        (NO_RANGES + CLASH, NEW, "nvtx-lost"),
        (NO_RANGES + OLD_CLASH, OLD, "nvtx-lost"),
        (NO_RANGES + DOMAIN, OLD, "nvtx-lost"),
        (NO_RANGES + DOMAIN, NEW, "no-nvtx-rows"),
    ],
)
def test_lost_ranges_are_told_from_ranges_that_never_were(tmp_path: Path, more: str, nsys: Nsys, code: str) -> None:
    assert codes(look(export(tmp_path, more), nsys)) == [code]


def test_real_capture_with_lost_ranges(profile_path: Callable[[str], Path]) -> None:
    notes = look(profile_path("nvtx_lost_nsys2024"), Nsys(Path("nsys"), (2024, 2, 3)))
    assert "nvtx-lost" in codes(notes)
    assert any("nvtx<0.2.12" in n.text for n in notes)


@pytest.mark.parametrize("name", ["slow_loader_window", "twoproc", "nsys2024_gpu"])
def test_real_good_captures(profile_path: Callable[[str], Path], name: str) -> None:
    assert codes(look(profile_path(name))) == []


def test_what_was_not_traced_is_not_missed(tmp_path: Path) -> None:
    done = recorded()
    done.arguments = ["--trace=osrt"]
    path = export(tmp_path, NO_RANGES + NO_KERNELS)
    assert examine(path, done, NEW, ASKED, gpu=True) == []


def test_forked_workers_are_counted(tmp_path: Path) -> None:
    seen = {1: "python", 7: "pt_data_worker", 8: "python3", 9: "cat"}
    (note,) = look(export(tmp_path), seen=seen)
    assert note.code == "forked-workers" and note.text.startswith("2 worker processes were")
    heard = "INSERT INTO NVTX_EVENTS VALUES (1, 2, 59, 'x', 7 * 16777216 + 7, NULL, 0);"
    (note,) = look(export(tmp_path, heard), seen=seen)
    assert note.text.startswith("1 worker process was")


def test_no_report_is_explained() -> None:
    (hung,) = without_export(recorded(stuck=True), OLD, [], ASKED)
    assert hung.code == "nsys-hung" and "--collector builtin" in hung.text
    sampled = recorded(stuck=True)
    sampled.arguments = ["--sample=process-tree"]
    assert "--sample none" in without_export(sampled, OLD, [], ASKED)[0].text
    (never,) = without_export(recorded("Generated:\n"), NEW, [], ASKED)
    assert never.code == "no-report" and "capture range" in never.text
    (words,) = without_export(recorded("Starting\nDisk full\n"), NEW, [], ASKED)
    assert "Disk full" in words.text
    (delayed,) = without_export(recorded(), NEW, [], CollectOptions(delay=9))
    assert "--delay" in delayed.text


def test_report_that_is_there_is_not_missed() -> None:
    done = recorded()
    done.report = Path("x.nsys-rep")
    assert without_export(done, NEW, [], ASKED) == []


def test_window_that_never_opened_says_how_many_steps_there_were() -> None:
    options = CollectOptions(steps=(100, 110))
    short = StepLog(samples_ns=[1] * 29, taken=30)
    (note,) = without_export(recorded(), NEW, [short], options)
    assert note.code == "range-never-hit" and "took 30 steps" in note.text
    (whole,) = window_notes([StepLog(samples_ns=[1] * 27, taken=29)], options)
    assert "took 29 steps" in whole.text, "not every step is timed"
    (none,) = window_notes([], options)
    assert "no step was recognised" in none.text and "--auto" in none.text
    (cut,) = window_notes([StepLog(opened=True)], options)
    assert cut.code == "window-cut"
    assert window_notes([StepLog(opened=True, closed=True)], options) == [] == window_notes([], ASKED)


def test_window_that_the_program_opened_and_nsys_did_not_hear() -> None:
    (note,) = without_export(recorded(), NEW, [StepLog(opened=True, closed=True)], CollectOptions(steps=(5, 9)))
    assert note.code == "range-never-hit" and "nvtx<0.2.12" in note.text and "fewer steps" not in note.text
