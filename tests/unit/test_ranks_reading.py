"""Reading many captures: which files, which rank is which, and workers that crash, hang, or lose their parent."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
from ranks_job import Job

import unstall
from unstall.errors import ProfileUnreadable, UsageError
from unstall.model import Process, ProfileFacts, Report
from unstall.ranks import numbers, places
from unstall.ranks.pool import Pool, default_workers
from unstall.ranks.summary import FileSummary, RankSummary, named
from unstall.report.json import to_json
from unstall.testing import TraceBuilder, ms

PATIENT = 60


# -- places -----------------------------------------------------------------------------------------------------------


def test_a_folder_is_searched_and_of_a_report_and_its_export_the_export_is_taken(tmp_path: Path) -> None:
    for rank in (0, 2, 10):
        folder = tmp_path / f"rank-{rank}"
        folder.mkdir()
        for name in ("profile.sqlite", "profile.nsys-rep", "run.json"):
            (folder / name).touch()
    hidden = tmp_path / ".rank-3.817.part"
    hidden.mkdir()
    (hidden / "profile.sqlite").touch()
    (tmp_path / "only.nsys-rep").touch()
    found = [Path(p.name).relative_to(tmp_path).as_posix() for p in places.find([str(tmp_path)])]
    ranked = ["rank-0/profile.sqlite", "rank-2/profile.sqlite", "rank-10/profile.sqlite"]
    assert found == ["only.nsys-rep", *ranked], "in natural order, each once, nothing unfinished"


def test_patterns_files_and_the_same_file_twice(tmp_path: Path) -> None:
    for name in ("a.1.sqlite", "a.2.sqlite", "b.sqlite", "odd.name"):
        (tmp_path / name).touch()
    assert len(places.find([str(tmp_path / "a.*"), str(tmp_path / "a.1.sqlite")])) == 2
    assert [p.name for p in places.find([str(tmp_path / "odd.name")])] == [str(tmp_path / "odd.name")]
    for nothing in ("c*", "absent.sqlite"):
        with pytest.raises(UsageError, match="no profile there"):
            places.find([str(tmp_path / nothing)])


def told(folder: Path, *named: str) -> list[str]:
    return [w.text.replace(f"{folder}/", "") for w in places.repeated(places.find([str(folder / n) for n in named]))]


def test_what_is_named_twice_is_read_once_and_said(tmp_path: Path) -> None:
    for name in ("a.1.sqlite", "a.2.sqlite", "b.sqlite"):
        (tmp_path / name).touch()
    assert told(tmp_path, "a.1.sqlite", "b.sqlite") == told(tmp_path, "a.*") == []
    assert told(tmp_path, "b.sqlite", "b.sqlite") == ["b.sqlite was named 2 times: it is read once."]
    overlap = ["2 files were named more than once (a.1.sqlite, a.2.sqlite): each is read once."]
    assert told(tmp_path, "a.*", "a.?.sqlite") == told(tmp_path, "a.1.sqlite", "a.2.sqlite", ".") == overlap
    (tmp_path / "link.sqlite").symlink_to(tmp_path / "b.sqlite")
    same = ["link.sqlite is the same file as b.sqlite: it is read once."]
    assert told(tmp_path, "b.sqlite", "link.sqlite") == told(tmp_path, "[bl]*.sqlite") == same
    assert [Path(p.name).name for p in places.find([str(tmp_path / "link.sqlite")])] == ["link.sqlite"]


def test_a_copy_is_not_another_rank(tmp_path: Path) -> None:
    for path in Job(ranks=2, steps=12).write(tmp_path):
        shutil.copy(path, path.with_name(f"copy_of_{path.name}"))
    report = unstall.ranks([str(tmp_path), str(tmp_path / "profile_rank0.sqlite")], cache=False)
    assert report.ranks and [r.rank for r in report.ranks.ranks] == [0, 1]
    assert [f.reason.replace(f"{tmp_path}/", "") for f in report.ranks.failed] == [
        f"is a copy of copy_of_profile_rank{r}.sqlite: left out" for r in range(2)
    ]
    assert report.warnings[0].code == "ranks-file-repeats"


def test_addresses_are_listed_fetched_and_removed(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    for rank in (0, 1):
        (tmp_path / f"profile_rank{rank}.sqlite").write_bytes(b"content %d" % rank)
    for name in (f"file://{tmp_path}", f"file://{tmp_path}/profile*"):
        found = places.find([name])
        assert all(places.is_address(p.name) for p in found) and len(found) == 2 and "rank0" in found[0].name
    with places.fetched(found[1].name) as copy:
        assert Path(copy).read_bytes() == b"content 1" and not copy.startswith(str(tmp_path))
    assert not Path(copy).exists()
    with pytest.raises(ProfileUnreadable, match="cannot be fetched"), places.fetched(f"file://{tmp_path}/absent"):
        pass
    with pytest.raises(UsageError):
        places.find(["nosuchprotocol://bucket/run"])


# -- numbers ----------------------------------------------------------------------------------------------------------


def read(name: str, *ranks: int | None, devices: bool = False) -> FileSummary:
    rows = [RankSummary(rank=r, device=i if devices else None, process=i) for i, r in enumerate(ranks)]
    return FileSummary(file=name, ranks=rows)


@pytest.mark.parametrize(
    "names",
    [
        ["x/rank_0.sqlite", "x/rank_1.sqlite", "x/rank_2.sqlite"],
        ["profile_rank0.nsys-rep", "profile_rank1.nsys-rep", "profile_rank2.nsys-rep"],
        ["run/rank-0/profile.sqlite", "run/rank-1/profile.sqlite", "run/rank-2/profile.sqlite"],
        ["job812.task0.sqlite", "job812.task1.sqlite", "job812.task2.sqlite"],
        ["report.0.sqlite", "report.1.sqlite", "report.2.sqlite"],
        ["n7_r0.sqlite", "n7_r1.sqlite", "n7_r2.sqlite"],
    ],
)
def test_ranks_from_names(names: list[str]) -> None:
    assert numbers.from_names(names) == dict(zip(names, range(3), strict=True))
    assert numbers.from_names(names[::-1]) == dict(zip(names, range(3), strict=True)), "whatever their order"


@pytest.mark.parametrize(
    "names",
    [
        ["a_20260101.sqlite", "b_20260102.sqlite"],  # different shapes
        ["node0_local_rank0.sqlite", "node0_local_rank1.sqlite", "node1_local_rank0.sqlite"],  # two numbers differ
        ["run_1700000000.sqlite", "run_1700000060.sqlite"],  # times
    ],
)
def test_names_that_do_not_tell(names: list[str]) -> None:
    assert numbers.from_names(names) == {}


def test_the_capture_is_believed_before_its_name() -> None:
    found, failed, said = numbers.assign([read("rank_0.sqlite", 5), read("rank_1.sqlite", 4)])
    assert [(n.rank, n.file.file, n.source) for n in found] == [
        (4, "rank_1.sqlite", "capture"), (5, "rank_0.sqlite", "capture"),
    ]  # fmt: skip
    assert not failed and [w.code for w in said] == ["rank-name-differs"]


def test_an_environment_that_is_the_same_everywhere_is_not_believed() -> None:
    found, _, said = numbers.assign([read(f"p.{i}.sqlite", 0) for i in range(3)])
    assert [n.rank for n in found] == [0, 1, 2] and said[0].code == "rank-environment-repeats"


def test_duplicates_and_gaps_are_said() -> None:
    files = [read("a.sqlite", 0), read("b.sqlite", 1), read("c.sqlite", 1), read("d.sqlite", 4)]
    found, failed, _ = numbers.assign(files)
    assert [n.rank for n in found] == [0, 1, 4]
    assert [(f.file, f.rank) for f in failed] == [("c.sqlite", 1)] and "b.sqlite" in failed[0].reason
    assert numbers.missing([0, 1, 4], failed) == [2, 3]


def test_what_nobody_tells_is_numbered_in_order_and_said() -> None:
    found, _, said = numbers.assign([read("x.sqlite", None), read("other-name.sqlite", None)])
    assert [(n.rank, n.source) for n in found] == [(0, "file order"), (1, "file order")]
    assert "rank-unknown" in {w.code for w in said}


def test_several_processes_of_one_capture_are_ranks_by_device() -> None:
    found, _, said = numbers.assign([read("node.sqlite", None, None, devices=True)])
    assert [(n.rank, n.summary.device, n.source) for n in found] == [(0, 0, "process"), (1, 1, "process")]
    assert "rank-by-process" in {w.code for w in said}


def called(name: str, *ranks: int | None, stored: int | None = None) -> FileSummary:
    rows = [RankSummary(rank=stored, called=r, device=1 - i, process=i) for i, r in enumerate(ranks)]
    return FileSummary(file=name, ranks=rows)


def test_names_of_processes_tell_after_environment_and_file_name() -> None:
    files = [called("a.sqlite", 7, stored=1), called("rank_2.sqlite", 8), called("c.sqlite", 5), called("d.sqlite", 6)]
    found, failed, said = numbers.assign(files)
    assert [(n.rank, n.source) for n in found] == [
        (1, "capture"), (2, "file name"), (5, "process name"), (6, "process name"),
    ]  # fmt: skip
    assert not failed and not said
    found, _, said = numbers.assign([called("x.sqlite", 3), called("other.sqlite", 3)])
    assert [n.source for n in found] == ["file order"] * 2, "a name that all have tells none of them"
    assert [w.code for w in said] == ["rank-unknown"]


def test_processes_of_one_capture_are_ranks_by_their_names(tmp_path: Path) -> None:
    files = [called("node-0/p.sqlite", 1, 0, stored=0), called("node-1/p.sqlite", 3, 2, stored=1)]
    found, failed, said = numbers.assign(files)
    assert [(n.rank, n.summary.process, n.source) for n in found] == [
        (0, 1, "process name"), (1, 0, "process name"), (2, 1, "process name"), (3, 0, "process name"),
    ]  # fmt: skip
    assert not failed and not said, "the node's own number is in its environment, and nobody's rank"
    half, _, said = numbers.assign([called("p.sqlite", 1, None)])
    assert [n.source for n in half] == ["process"] * 2 and [w.code for w in said] == ["rank-by-process"]


def test_a_trace_whose_processes_hold_their_rank(tmp_path: Path) -> None:
    trace = TraceBuilder(pid=100, trace=("nvtx",), gpu="")
    for pid, name in ((700, "train.py rank 5"), (600, "python3 [local rank 0, rank=4]")):
        trace.process(pid, name)
        for i in range(12):
            trace.range(f"step_{i}", i * ms(20), i * ms(20) + ms(19), tid=trace.thread(pid))
    report = unstall.ranks([str(trace.write(tmp_path / "node.sqlite"))], cache=False)
    assert report.ranks
    assert [(r.rank, r.process, r.rank_from) for r in report.ranks.ranks] == [
        (4, 600, "process name"), (5, 700, "process name"),
    ]  # fmt: skip
    assert "rank-by-process" not in {w.code for w in report.warnings}


@pytest.mark.parametrize(
    ("name", "program", "rank"),
    [
        ("train.py rank 3", "train.py", 3),
        ("rank 12: python", ": python", 12),
        ("python [rank=2]", "python []", 2),
        ("worker_rank_7", "worker_", 7),
        ("train.py local_rank 1", "train.py local_rank 1", None),
        ("node rank 1", "node rank 1", None),
        ("tune --lora-rank 16", "tune --lora-rank 16", None),
        ("lowrank8", "lowrank8", None),
        ("crank 3", "crank 3", None),
        ("python3", "python3", None),
    ],
)
def test_ranks_in_names_of_processes(name: str, program: str, rank: int | None) -> None:
    facts = ProfileFacts(path="", producer="", producer_version="", schema_version="", duration_ns=None)
    facts.processes = [Process(process=1, name=name)]
    assert named(Report(profile=facts), 1) == (program, rank)


def test_a_placeholder_that_was_never_filled_is_said() -> None:
    _, _, said = numbers.assign([read("report_%q{RANK}.sqlite", 0)])
    assert "rank-placeholder" in {w.code for w in said}


# -- workers ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    """A file that nobody ever writes: whoever reads it hangs."""
    path = tmp_path / "profile_rank1.sqlite"
    os.mkfifo(path)
    return path


def test_one_that_hangs_is_given_up_and_the_others_are_read(tmp_path: Path, pipe: Path) -> None:
    (first,) = Job(ranks=1, steps=4).write(tmp_path / "ok")
    with Pool(1, patience=3, step=None, cache=False) as pool:
        found = {f.file: f for f in pool.read([str(pipe), str(first)])}
    assert "not read within 3 s" in found[str(pipe)].error and not found[str(first)].error


def test_a_reader_that_is_killed_is_a_line(tmp_path: Path, pipe: Path) -> None:
    (first,) = Job(ranks=1, steps=4).write(tmp_path / "ok")
    with Pool(1, patience=PATIENT, step=None, cache=False) as pool:

        def kill() -> None:
            while not (pool._workers and pool._workers[0].file):
                time.sleep(0.01)
            os.kill(pool._workers[0].process.pid, signal.SIGKILL)

        threading.Thread(target=kill).start()
        found = {f.file: f for f in pool.read([str(pipe), str(first)])}
    assert "was killed (SIGKILL)" in found[str(pipe)].error and not found[str(first)].error


def test_neither_worker_nor_copy_outlives_the_parent(tmp_path: Path, pipe: Path) -> None:
    room = tmp_path / "tmp"
    room.mkdir()
    code = f"import unstall\nunstall.ranks([{str(pipe)!r}], workers=1, cache=False)"
    parent = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "TMPDIR": str(room)})
    deadline = time.monotonic() + PATIENT
    children: list[psutil.Process] = []
    while not children and time.monotonic() < deadline:
        children = psutil.Process(parent.pid).children(recursive=True)
        time.sleep(0.02)
    time.sleep(1.0)  # the worker is reading by now, or nearly
    parent.kill()
    parent.wait()
    _, alive = psutil.wait_procs(children, timeout=PATIENT)
    assert children and not alive
    assert list(room.iterdir()) == []


def test_a_script_without_a_guard_may_use_it(tmp_path: Path) -> None:
    Job(ranks=2, steps=12).write(tmp_path / "job")
    script = tmp_path / "script.py"
    script.write_text(
        f"import unstall\nmerged = unstall.ranks([{str(tmp_path / 'job')!r}], workers=2, cache=False).ranks\n"
        "print(len(merged.ranks))\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert done.stdout == "2\n" and done.stderr == ""


def test_broken_empty_and_foreign_files_are_lines(tmp_path: Path) -> None:
    Job(ranks=2, steps=12).write(tmp_path)
    (tmp_path / "profile_rank2.sqlite").touch()
    (tmp_path / "profile_rank3.sqlite").write_bytes(b"SQLite format 3\0" + b"\1" * 2000)
    (tmp_path / "profile_rank4.sqlite").write_text("hello")
    report = unstall.ranks([str(tmp_path)], workers=1, cache=False)
    assert report.ranks and [r.rank for r in report.ranks.ranks] == [0, 1]
    assert [f.rank for f in report.ranks.failed] == [2, 3, 4] and report.ranks.missing == []
    assert all(f.reason and f.file not in f.reason for f in report.ranks.failed)


def test_names_that_are_no_text_and_links_that_lead_nowhere(tmp_path: Path) -> None:
    ranked = Job(ranks=1, steps=12).write(tmp_path)
    ranked[0].rename(os.fsdecode(os.fsencode(ranked[0]) + b"\xff.sqlite"))
    (tmp_path / os.fsdecode(b"lost\xfe.sqlite")).symlink_to("absent")
    (tmp_path / "loop.sqlite").symlink_to("loop.sqlite")
    report = unstall.ranks([str(tmp_path)], workers=1, cache=False)
    assert report.ranks is not None and [r.file.endswith("\\xff.sqlite") for r in report.ranks.ranks] == [True]
    reasons = {Path(f.file).name: f.reason for f in report.ranks.failed}
    assert reasons.keys() == {"loop.sqlite", "lost\\xfe.sqlite"}
    assert to_json(report)


def test_none_that_can_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.sqlite").touch()
    with pytest.raises(ProfileUnreadable, match="not one of 1 captures"):
        unstall.ranks([str(tmp_path)], cache=False)


def test_workers_fit_the_machine(tmp_path: Path) -> None:
    file = tmp_path / "a.sqlite"
    file.touch()
    assert default_workers([str(file)]) == 1, "never more than files"
    assert 1 <= default_workers([str(file)] * 100) <= (os.cpu_count() or 1)
    with file.open("wb") as sparse:
        sparse.truncate(1 << 40)
    assert default_workers([str(file)] * 100) == 1, "one that large leaves no room for a second"
    with pytest.raises(UsageError):
        unstall.ranks([str(file)], workers=0)
