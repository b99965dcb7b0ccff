"""Which rank each capture is: from what it says itself, from its name, never from the order of files where these tell.

In: what was read of each file. Out: :class:`Numbered` s, a warning for everything that had to be guessed, and the
captures that came twice.

1. The launcher's environment that the capture stores (``RANK`` …), where no two files claim the same.
2. The file's name: ``rank_3``, ``profile_rank3``, ``rank-3/profile``; else the one number in which the names differ
   (``job812.task3``, ``report.3``), as ``%q{SLURM_PROCID}`` leaves it.
3. The name of its process, which some launchers change (``python rank 3``), where no two claim the same.
4. Several processes in one capture: environment and file are the same for all, so their names come first; else by GPU,
   then by process, counted on from file to file.
5. What is left gets the free numbers in natural order of the names, and a warning says so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import PurePath

from unstall.model import FailedRank, Warning_
from unstall.ranks.places import natural
from unstall.ranks.summary import FileSummary, RankSummary

LARGEST = 10_000_000  # larger numbers in names are dates, jobs and processes
EXPLICIT = re.compile(r"(?i)(?<!local)(?<!local[._-])rank[._=-]?(\d{1,8})(?!\d)")
LITERAL = re.compile(r"%q\{[^}]*\}|%[hpn]\b")


@dataclass(frozen=True)
class Numbered:
    """One rank, and where its number is from: ``capture``, ``file name``, ``process name``, ``process`` or
    ``file order``."""

    rank: int
    source: str
    file: FileSummary
    summary: RankSummary


def assign(files: Sequence[FileSummary]) -> tuple[list[Numbered], list[FailedRank], list[Warning_]]:
    """Number the ranks of all files that could be read; those that could not are failed already."""
    good, copies = _copies(sorted((f for f in files if not f.error), key=lambda f: natural(f.file)))
    named = from_names([f.file for f in sorted(files, key=lambda f: natural(f.file))])
    failed = [FailedRank(file=f.file, reason=_reason(f), rank=named.get(f.file)) for f in files if f.error]
    called = [f for f in good if len(f.ranks) > 1 and _telling(f.ranks)]
    single = [f for f in good if f not in called and (len(f.ranks) == 1 or f.ranks[0].rank is not None)]
    warnings = list(_literals(good))
    numbered = [Numbered(r.called, "process name", f, r) for f in called for r in f.ranks if r.called is not None]
    numbered += _single(single, named, warnings)
    numbered += _many([f for f in good if f not in called + single], {n.rank for n in numbered}, warnings)
    kept, doubles = _once(numbered)
    return kept, sorted([*failed, *copies, *doubles], key=lambda f: natural(f.file)), warnings


def _copies(files: Sequence[FileSummary]) -> tuple[list[FileSummary], list[FailedRank]]:
    """Each capture once: no two begin at the same ns, in the same process, with steps of the same ns."""
    kept: dict[object, FileSummary] = {}
    copies = []
    for file in files:
        told = tuple((r.process, r.starts, r.periods) for r in file.ranks)
        known = file.epoch_ns is not None and any(periods.data for _, _, periods in told)
        first = kept.setdefault((file.epoch_ns, told) if known else file.file, file)
        if first is not file:
            copies.append(FailedRank(file=file.file, reason=f"is a copy of {first.file}: left out"))
    return list(kept.values()), copies


def from_names(names: Sequence[str]) -> dict[str, int]:
    """File → the rank in its name; empty where names do not tell, or tell two files the same."""
    explicit = {n: int(found[-1]) for n in names if (found := EXPLICIT.findall(n))}
    if len(explicit) == len(names) and _distinct(explicit):
        return explicit
    return _varying(names) or explicit


def _varying(names: Sequence[str]) -> dict[str, int]:
    """The one number in which names of the same shape differ."""
    shapes = {re.sub(r"\d+", "#", n) for n in names}
    if len(names) < 2 or len(shapes) != 1:
        return {}
    columns = list(zip(*([int(x) for x in re.findall(r"\d+", n)] for n in names), strict=True))
    telling = [c for c in columns if len(set(c)) == len(names) and max(c) < LARGEST]
    others = [c for c in columns if 1 < len(set(c)) < len(names)]
    return dict(zip(names, telling[0], strict=True)) if len(telling) == 1 and not others else {}


def _telling(ranks: Sequence[RankSummary]) -> bool:
    """Whether each process of a capture is called after a rank of its own."""
    called = {r.called for r in ranks}
    return len(called) == len(ranks) and None not in called


def _distinct(found: Mapping[str, int]) -> bool:
    return len(set(found.values())) == len(found)


def _single(files: list[FileSummary], named: dict[str, int], warnings: list[Warning_]) -> list[Numbered]:
    """Files of one rank each."""
    stored = {f.file: r for f in files if (r := f.ranks[0].rank) is not None}
    names = {f.file: named[f.file] for f in files if f.file in named}
    if not _distinct(stored) and len(names) == len(files) and _distinct(names):
        text = f"{_twice(stored)} in the environment of several captures: ranks are taken from the files' names."
        warnings.append(Warning_(code="rank-environment-repeats", text=text))
        stored = {}
    warnings += _contradictions(stored, names)
    sources = {"capture": stored, "file name": names, "process name": _called(files, {**names, **stored})}
    told = list(_told(files, sources))
    return [*told, *_in_order([f for f in files if not any(f.file in s for s in sources.values())], told, warnings)]


def _called(files: list[FileSummary], known: Mapping[str, int]) -> dict[str, int]:
    """File → the rank that its process is called after, of those that nothing else tells."""
    found = {f.file: r for f in files if f.file not in known and (r := f.ranks[0].called) is not None}
    return found if _distinct(found) and not {*found.values()} & {*known.values()} else {}


def _told(files: list[FileSummary], sources: Mapping[str, Mapping[str, int]]) -> Iterator[Numbered]:
    """Each by the first source that tells."""
    for file in files:
        source = next((name for name, told in sources.items() if file.file in told), "")
        if source:
            yield Numbered(sources[source][file.file], source, file, file.ranks[0])


def _in_order(left: list[FileSummary], told: list[Numbered], warnings: list[Warning_]) -> list[Numbered]:
    free = _free({n.rank for n in told})
    if left and len(left) + len(told) > 1:
        shown = ", ".join(PurePath(f.file).name for f in left[:3])
        text = f"Neither the capture nor its name tells the rank of {len(left)} files ({shown}): numbered in order."
        warnings.append(Warning_(code="rank-unknown", text=text))
    return [Numbered(next(free), "file order", f, f.ranks[0]) for f in left]


def _many(files: list[FileSummary], taken: set[int], warnings: list[Warning_]) -> list[Numbered]:
    """Captures of several ranks each."""
    free, out = _free(taken), []
    for file in files:
        order = sorted(file.ranks, key=lambda r: (r.device is None, r.device or 0, r.process or 0))
        out += [Numbered(next(free), "process", file, r) for r in order]
    if files:
        text = (
            f"{len(files)} captures hold several processes with steps: they are numbered by GPU, which need not be "
            "their rank."
        )
        warnings.append(Warning_(code="rank-by-process", text=text))
    return out


def _free(taken: set[int]) -> Iterator[int]:
    return (n for n in count() if n not in taken)


def _once(numbered: list[Numbered]) -> tuple[list[Numbered], list[FailedRank]]:
    """Each number once: the first file in natural order keeps it."""
    kept: dict[int, Numbered] = {}
    doubles = []
    for item in sorted(numbered, key=lambda n: natural(n.file.file)):
        first = kept.setdefault(item.rank, item)
        if first is not item:
            other = first.file.file if first.file is not item.file else f"process {first.summary.process} of it"
            why = f"says that it is rank {item.rank}, and so does {other}: left out"
            doubles.append(FailedRank(file=item.file.file, reason=why, rank=item.rank))
    return sorted(kept.values(), key=lambda n: n.rank), doubles


def _reason(file: FileSummary) -> str:
    return file.error.removeprefix(f"{file.file}: ")


def _twice(stored: dict[str, int]) -> str:
    counts = [f"rank {r}" for r, n in Counter(stored.values()).items() if n > 1]
    return ", ".join(counts[:3])


def _contradictions(stored: dict[str, int], names: dict[str, int]) -> list[Warning_]:
    wrong = [f for f, rank in stored.items() if EXPLICIT.search(f) and names.get(f, rank) != rank]
    if not wrong:
        return []
    first = wrong[0]
    text = (
        f"{len(wrong)} files are called after another rank than their capture tells ({PurePath(first).name}: rank "
        f"{stored[first]}): the capture is believed."
    )
    return [Warning_(code="rank-name-differs", text=text)]


def _literals(files: Sequence[FileSummary]) -> list[Warning_]:
    found = [f.file for f in files if LITERAL.search(PurePath(f.file).name)]
    if not found:
        return []
    text = (
        f"{PurePath(found[0]).name} holds a placeholder that nsys did not fill: the variable was not set where it "
        "ran, and ranks may have overwritten each other's file."
    )
    return [Warning_(code="rank-placeholder", text=text)]


def missing(present: Sequence[int], failed: Sequence[FailedRank]) -> list[int]:
    """Numbers below the highest one that no file claims."""
    known = {*present, *(f.rank for f in failed if f.rank is not None)}
    return sorted(set(range(max(known, default=-1) + 1)) - known)
