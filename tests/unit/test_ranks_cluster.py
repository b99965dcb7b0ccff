"""Reading on a Dask cluster: a real one with several workers, one of which is killed in the middle."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ranks_job import Job

import unstall
from unstall.errors import UsageError

distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
pytestmark = pytest.mark.filterwarnings("default")  # of the cluster's own; ours are tested elsewhere


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with distributed.LocalCluster(
            n_workers=3, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        ) as made:
            yield made


def test_a_worker_that_is_killed_costs_no_rank(cluster: Any, tmp_path: Path) -> None:
    from unstall.ranks import cluster as reading

    files = [str(p) for p in Job(ranks=12, steps=12).write(tmp_path)]
    workers = [w.pid for w in cluster.workers.values()]
    found, killed = {}, 0
    for summary in reading.read(files, cluster.scheduler_address, patience=120, step=None, cache=False):
        if not found:
            killed = workers[0]
            os.kill(killed, signal.SIGKILL)
        found[summary.file] = summary
    assert killed and set(found) == set(files)
    assert not [s.error for s in found.values() if s.error]


def test_the_merged_report_is_the_same_as_here(cluster: Any, tmp_path: Path) -> None:
    Job(ranks=3, steps=12).write(tmp_path)
    (tmp_path / "profile_rank3.sqlite").touch()
    there = unstall.ranks([str(tmp_path)], scheduler=cluster.scheduler_address, cache=False)
    here = unstall.ranks([str(tmp_path)], workers=1, cache=False)
    assert there.ranks == here.ranks and there.ranks and len(there.ranks.failed) == 1


def test_a_file_that_takes_too_long_is_given_up(cluster: Any, tmp_path: Path) -> None:
    from unstall.ranks import cluster as reading

    os.mkfifo(tmp_path / "hangs.sqlite")
    (whole,) = Job(ranks=1, steps=12).write(tmp_path / "ok")
    found = {
        s.file: s.error
        for s in reading.read(
            [str(tmp_path / "hangs.sqlite"), str(whole)], cluster.scheduler_address, patience=4, step=None, cache=False
        )
    }
    assert found[str(whole)] == "" and "given up" in found[str(tmp_path / "hangs.sqlite")]
    with (tmp_path / "hangs.sqlite").open("wb"):  # let its reader go
        pass


def test_nothing_listens_there(monkeypatch: pytest.MonkeyPatch) -> None:
    from unstall.ranks import cluster as reading

    monkeypatch.setattr(reading, "CONNECT_SECONDS", 1)
    with pytest.raises(UsageError, match="no Dask scheduler answers"):
        list(reading.read(["x"], "tcp://127.0.0.1:9", patience=1))
