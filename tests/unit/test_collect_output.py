"""Where a capture goes: chosen, refused, complete or absent; one for each rank."""

from __future__ import annotations

from pathlib import Path

import pytest

from unstall.collect.output import RECORD, Place, name_of, reserve, size_of
from unstall.collect.ranks import Rank, rank_of
from unstall.errors import UsageError


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def capture(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / RECORD).write_text("{}")
    (folder / "profile.sqlite").write_text("old")
    return folder


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["python", "train.py", "--lr", "1"], "train"),
        (["/usr/bin/python3.11", "-u", "-m", "pkg.train"], "pkg.train"),
        (["torchrun", "--nproc-per-node=2", "my train.py"], "my_train"),
        (["bash", "run.sh"], "run"),
        (["./a.out", "1"], "a.out"),
        (["env", "A=1", "python", "x.py"], "x"),
        (["python"], "python"),
        (["sh", "-c", "echo 한국어"], "echo_한국어"),
    ],
)
def test_name(command: list[str], name: str) -> None:
    assert name_of(command) == name


def test_default_folder_is_new_each_time(tmp_path: Path) -> None:
    places = []
    for _ in range(3):
        place = reserve(["python", "train.py"], None, force=False, rank=None)
        assert not place.final.exists()
        places.append(place.commit())
    assert len(set(places)) == 3 and all(p.parent == tmp_path / "unstall-out" for p in places)
    assert all(p.name.startswith("train-") for p in places)


def test_nothing_is_there_until_it_is_complete(tmp_path: Path) -> None:
    place = reserve(["x"], tmp_path / "a/b/c", force=False, rank=None)
    (place.partial / "profile.sqlite").write_text("new")
    assert not place.final.exists()
    assert place.commit() == tmp_path / "a/b/c"
    assert [p.name for p in (tmp_path / "a/b").iterdir()] == ["c"] and size_of(place.final) == 3


def test_discarding_leaves_no_folder_of_ours(tmp_path: Path) -> None:
    place = reserve(["x"], None, force=False, rank=None)
    (place.partial / "half").write_text("x")
    place.discard()
    assert list(tmp_path.iterdir()) == []


def test_older_capture_is_replaced_only_when_told(tmp_path: Path) -> None:
    folder = capture(tmp_path / "out")
    (folder / ".report.html.x1_y2").write_text("a page that was being written when we were killed")
    with pytest.raises(UsageError, match=r"holds a capture already.*--force"):
        reserve(["x"], folder, force=False, rank=None)
    place = reserve(["x"], folder, force=True, rank=None)
    (place.partial / "profile.sqlite").write_text("new")
    assert (folder / "profile.sqlite").read_text() == "old"
    place.commit()
    assert [p.name for p in folder.iterdir()] == ["profile.sqlite"] and [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("force", [False, True])
def test_folder_with_anything_else_is_never_touched(tmp_path: Path, force: bool) -> None:
    folder = capture(tmp_path / "out")
    (folder / "thesis.tex").write_text("dear")
    with pytest.raises(UsageError, match="other files"):
        reserve(["x"], folder, force=force, rank=None)
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(UsageError, match="a file"):
        reserve(["x"], file, force=force, rank=None)
    assert (folder / "thesis.tex").read_text() == "dear"


@pytest.mark.parametrize("force", [False, True])
def test_what_came_to_be_meanwhile_is_kept(tmp_path: Path, force: bool) -> None:
    place = reserve(["x"], tmp_path / "out", force=force, rank=None)
    (place.partial / "profile.sqlite").write_text("mine")
    folder = capture(tmp_path / "out")
    (folder / "thesis.tex").write_text("dear")
    assert place.commit() == tmp_path / "out-2"
    assert (tmp_path / "out-2/profile.sqlite").read_text() == "mine" and (folder / "thesis.tex").exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "out-2"]


def test_two_runs_of_the_same_second_are_two_captures(tmp_path: Path) -> None:
    places = [reserve(["x"], tmp_path / "out", force=False, rank=None)]
    (tmp_path / ".out.1.part").mkdir()
    places.append(Place(tmp_path / "out", tmp_path / ".out.1.part"))
    for number, place in enumerate(places):
        (place.partial / "profile.sqlite").write_text(str(number))
    assert [place.commit().name for place in places] == ["out", "out-2"]
    assert (tmp_path / "out/profile.sqlite").read_text() == "0"


def test_empty_folder_may_be_used(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    assert reserve(["x"], tmp_path / "out", force=False, rank=None).commit().is_dir()


def test_folder_that_cannot_be_made_is_said_before_anything_runs() -> None:
    with pytest.raises(UsageError, match="cannot be made"):
        reserve(["x"], Path("/proc/nowhere/x"), force=False, rank=None)


@pytest.mark.parametrize(
    ("environ", "rank"),
    [
        ({"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "TORCHELASTIC_RUN_ID": "j7"}, Rank(3, "j7")),
        ({"RANK": "0", "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "none"}, Rank(0)),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, Rank(1)),
        ({"PMI_RANK": "2", "PMI_SIZE": "4"}, Rank(2)),
        ({"SLURM_PROCID": "5", "SLURM_NTASKS": "6", "SLURM_JOB_ID": "991"}, Rank(5, "991")),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_JOB_ID": "991"}, None),
        ({"LOCAL_RANK": "1"}, Rank(1)),
        ({"RANK": "0", "WORLD_SIZE": "1"}, None),
        ({"RANK": "general"}, None),
        ({}, None),
    ],
)
def test_rank(environ: dict[str, str], rank: Rank | None) -> None:
    assert rank_of(environ) == rank


def test_ranks_share_a_folder_and_have_one_each(tmp_path: Path) -> None:
    for number in (0, 1):
        place = reserve(["python", "t.py"], None, force=False, rank=Rank(number, "job5"))
        assert place.commit() == tmp_path / f"unstall-out/t-job5/rank-{number}"
    assert reserve(["x"], tmp_path / "d", force=False, rank=Rank(4)).final == tmp_path / "d/rank-4"


def test_ranks_without_a_job_agree_by_their_launcher() -> None:
    finals = {reserve(["python", "t.py"], None, force=False, rank=Rank(n)).final.parent for n in range(3)}
    assert len(finals) == 1
