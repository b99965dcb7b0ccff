"""How long many ranks take, and what memory: of the process that merges, and of a worker.

    python benchmarks/ranks.py                       # 256 ranks of 200,000 rows, and fewer; 1 and 2 workers
    python benchmarks/ranks.py --ranks 32 --workers 2

Comes in: a real capture of a training run, repeated in time by ``bigfile.py`` until it has the wanted rows; a copy a
rank, all times moved by the rank's own amount, one kernel of each step called an all-reduce, and on all ranks but one
made longer, as if they waited for that one. Goes out: a table, and what merging the summaries of 16,000 ranks takes.
Each row is one run of ``unstall.ranks`` in a process of its own, cache off; the planted rank must be found. The page
cache is warm after the first run: files are read from memory, as they would not be on a cluster's first look.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from bigfile import EVENTS, repeat

ROOT = Path(__file__).parents[1]
PLACES = (ROOT / "tests" / "data", ROOT.parent / "shared" / "profiles")
SOURCES = ("launch_bound", "item_sync_window")
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)"
LATE_NS = 2_000_000
LIMIT = 10 << 30  # bytes of disk


def base(room: Path, rows: int) -> Path:
    """The capture that every rank's is made of."""
    packed = next(p for n in SOURCES for d in PLACES if (p := d / f"{n}.sqlite.xz").exists())
    small, big = room / "small.sqlite", room / "base.sqlite"
    with lzma.open(packed) as source, small.open("wb") as target:
        shutil.copyfileobj(source, target)
    with closing(sqlite3.connect(small)) as db:
        rarest = (
            "SELECT demangledName FROM CUPTI_ACTIVITY_KIND_KERNEL GROUP BY 1 HAVING count(*) >= 20 ORDER BY count(*)"
        )
        (name,) = db.execute(f"{rarest} LIMIT 1").fetchone()
        db.execute("UPDATE StringIds SET value = ? WHERE id = ?", (ALL_REDUCE, name))
        db.commit()
    repeat(small, big, rows)
    small.unlink()
    return big


def rank_of(source: Path, target: Path, rank: int, late: int) -> None:
    """The rank's own capture."""
    shutil.copyfile(source, target)
    with closing(sqlite3.connect(target)) as db:
        db.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")
        have = {n for (n,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for table in have.intersection(EVENTS):
            columns = [r[1] for r in db.execute(f'PRAGMA table_info("{table}")')]
            moved = ", ".join(f"{c} = {c} + {997 * rank}" for c in ("start", "end") if c in columns)
            db.execute(f'UPDATE "{table}" SET {moved}')
        if rank != late:
            name = "(SELECT id FROM StringIds WHERE value LIKE 'ncclDevKernel%')"
            db.execute(f"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = end + {LATE_NS} WHERE demangledName IN {name}")
        db.execute("CREATE TABLE IF NOT EXISTS UNSTALL_META (name TEXT PRIMARY KEY, value TEXT)")
        db.execute("INSERT OR REPLACE INTO UNSTALL_META VALUES ('rank', ?)", (str(rank),))
        db.commit()


def measure(folder: Path, ranks: int, workers: int) -> None:
    """One run in this process; its figures as JSON."""
    import unstall
    from unstall.ranks import flow

    peaks: list[int] = []
    seconds: list[float] = []
    sizes: list[int] = []
    told = flow._told

    def watched(found, *rest):  # type: ignore[no-untyped-def]
        from unstall.ranks.summary import encode

        for summary in told(found, *rest):
            peaks.append(summary.peak_bytes)
            seconds.append(summary.seconds)
            sizes.append(len(encode(summary)))
            yield summary

    flow._told = watched
    files = [str(folder / f"profile_rank{r}.sqlite") for r in range(ranks)]
    begun = time.monotonic()
    report = unstall.ranks(files, workers=workers, cache=False)
    lasted = time.monotonic() - begun
    assert report.ranks and len(report.ranks.ranks) == ranks, report.ranks and report.ranks.failed
    print(json.dumps({
        "seconds": lasted,
        "cpu": sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]),
        "each": sorted(seconds)[len(seconds) // 2],
        "worker_mb": max(peaks) / 1e6,
        "parent_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6,
        "summary_kb": max(sizes) / 1e3,
        "matched": report.ranks.matched_steps,
        "late": [s.rank for s in report.ranks.stragglers if s.always],
    }))  # fmt: skip


def merge_many(path: Path, late: Path, ranks: int) -> None:
    """What merging alone takes for so many ranks: two real summaries, over and over."""
    from unstall.ranks.merge import merge
    from unstall.ranks.summary import decode, encode, summarise

    usual, other = (encode(summarise(str(p), str(p), cache=False)) for p in (path, late))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    files = []
    for rank in range(ranks):
        files.append(decode(other if rank == 5 else usual))
        files[-1].file, files[-1].ranks[0].rank = f"rank{rank}", rank
    begun = time.monotonic()
    merged, _ = merge(files)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    late_ranks = [s.rank for s in merged.stragglers if s.always]
    lasted = time.monotonic() - begun
    print(f"merging {ranks} summaries of {len(usual) / 1e3:.0f} kB: {lasted:.1f} s, late {late_ranks}")
    print(f"peak {after:.0f} MB, {before:.0f} MB of it before the first was held")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--ranks", default="32,256")
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--late", type=int, default=3, help="the rank that the others wait for")
    parser.add_argument("--merge", type=int, default=16_000, help="ranks whose summaries are merged at the end")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        return measure(Path(options.measure[0]), int(options.measure[1]), int(options.measure[2]))
    counts, workers = ([int(n) for n in text.split(",")] for text in (options.ranks, options.workers))
    with tempfile.TemporaryDirectory(prefix="unstall-benchmark-") as room_:
        room = Path(room_)
        source = base(room, options.rows)
        assert source.stat().st_size * max(counts) < LIMIT, "more disk than allowed"
        for rank in range(max(counts)):
            rank_of(source, room / f"profile_rank{rank}.sqlite", rank, options.late)
        print(f"# {max(counts)} captures of {source.stat().st_size / 1e6:.1f} MB", flush=True)
        print("| ranks | workers | wall | CPU of workers | a capture | a worker | merging | a summary | late |")
        print("|---:|---:|---:|---:|---:|---:|---:|---:|---|")
        for count in counts:
            for number in workers:
                env = {**os.environ, "UNSTALL_CACHE": "off"}
                command = [sys.executable, __file__, "--measure", str(room), str(count), str(number)]
                done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
                if done.returncode:
                    sys.exit(done.stderr)
                f = json.loads(done.stdout.splitlines()[-1])
                print(
                    f"| {count} | {number} | {f['seconds']:.1f} s | {f['cpu']:.0f} s | {f['each']:.2f} s | "
                    f"{f['worker_mb']:.0f} MB | {f['parent_mb']:.0f} MB | {f['summary_kb']:.0f} kB | "
                    f"{f['late']} of {f['matched']} steps |",
                    flush=True,
                )
        merge_many(room / "profile_rank0.sqlite", room / f"profile_rank{options.late}.sqlite", options.merge)


if __name__ == "__main__":
    main()
