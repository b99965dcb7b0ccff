"""Secrets planted in every text column of every table of every real export, in every coding: none is found again."""

from __future__ import annotations

import base64
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from unstall.collect.redact import redact
from unstall.collect.tables import columns_of, quoted
from unstall.pipeline import report_of
from unstall.report.json import to_json

EXPORTS = sorted(p.name.removesuffix(".sqlite.xz") for p in (Path(__file__).parents[1] / "data").glob("*.sqlite.xz"))
SECRET, HOST, USER = "hf_PLANTEDabc0123456789", "planted-host-77", "plantedcarol"
CODED = base64.b64encode(b"Bearer " + SECRET.encode())
PLANTED: list[bytes] = [
    SECRET.encode(),
    b"before" + SECRET.encode() + b"behind \xff",
    f"PATH=/bin\0HF_TOKEN={SECRET}\0USER={USER}\0HOSTNAME={HOST}\0RANK=3".encode(),
    f"/home/{USER}/bin/python\0train.py\0--token\0{SECRET}".encode(),
    SECRET.encode("utf-16-le"),
    b"Authorization: " + CODED,
    f"https://x/?t={SECRET}&u=/scratch/{USER}/data".encode(),
    f"ran on {HOST} as /u/{USER}".encode(),
]
GONE = [SECRET.encode(), SECRET.encode("utf-16-le"), CODED[12:36], HOST.encode(), USER.encode()]


def plant(path: Path) -> int:
    """One of :data:`PLANTED` into each of the last rows of every column that holds or may hold text; how many."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("INSERT INTO StringIds SELECT max(id) + 1, CAST(? AS TEXT) FROM StringIds", [PLANTED[2]])
        places = [(t, c) for t, columns in columns_of(db, text_only=True).items() for c in columns]
        for table, column in places:
            rows = db.execute(f"SELECT rowid FROM {quoted(table)} ORDER BY rowid DESC LIMIT {len(PLANTED)}").fetchall()
            for i, (rowid,) in enumerate(rows):
                kind = "BLOB" if i == 4 else "TEXT"
                new = f"UPDATE {quoted(table)} SET {quoted(column)} = CAST(? AS {kind}) WHERE rowid = ?"
                db.execute(new, [PLANTED[i], rowid])
        db.execute("CREATE TABLE dropped AS SELECT CAST(? AS TEXT) AS x", [PLANTED[0]])
        db.execute("DROP TABLE dropped")  # its page is free, and holds the secret
        db.commit()
    return len(places)


@pytest.mark.parametrize("name", EXPORTS)
def test_nothing_planted_is_found_again(name: str, profile_path: Callable[[str], Path], tmp_path: Path) -> None:
    export, clean = tmp_path / "run.sqlite", tmp_path / "clean.sqlite"
    export.write_bytes(profile_path(name).read_bytes())
    assert plant(export) > 60
    raw = export.read_bytes()
    assert all(word in raw for word in GONE)
    redact(export, clean)
    raw = clean.read_bytes()
    assert [word for word in GONE if word in raw] == []
    assert sorted(p.name for p in tmp_path.iterdir()) == ["clean.sqlite", "run.sqlite"]


@pytest.mark.parametrize("name", ["twoproc", "nsys2024_gpu", "nsys2022_nvtx_cpu"])
def test_the_report_stays_the_same(name: str, profile_path: Callable[[str], Path], tmp_path: Path) -> None:
    redact(profile_path(name), tmp_path / "clean.sqlite")
    before, after = (
        json.loads(to_json(report_of(p, cache=False))) for p in (profile_path(name), tmp_path / "clean.sqlite")
    )
    for field in ("path", "host"):
        assert before["profile"].pop(field) != after["profile"].pop(field)
    assert before == after
