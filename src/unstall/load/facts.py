"""What a capture says of itself: who made it, what was traced, which rank it is.

Comes in: an export's small tables. Goes out: :class:`~unstall.model.Meta`, the presence of tables, and warnings.

**Absent or empty.** The export is lazy: a table without rows is not written. So a missing table means "nothing
happened" only when the file shows that it was being watched, and "unknown" otherwise:

- CUDA was watched when any CUPTI table is there, or the injection reported that it started: then kernels, copies,
  memsets, graphs, api and syncs without a table are *empty*. CUDA merely asked for is not enough: a failed or
  crowded-out CUPTI leaves the same silence.
- NVTX was watched when ``NVTX_EVENTS`` is there or its injection reported that it started: ranges and marks are empty.
- The OS runtime and the GIL likewise, by their own reports.
- An export made with ``--lazy=false`` holds every table there is: there, an empty table is no evidence.
- Where most of CUPTI's events were lost, a CUDA table without rows is absent: its rows may be among the lost.
- Whatever ``UNSTALL_META.not_collected`` names is absent, whatever the rules above say.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sized
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from unstall.errors import NotAProfile
from unstall.load.database import Database
from unstall.load.schema import NVTX, SOURCES
from unstall.load.trust import LATEST_NS
from unstall.model import CUDA_LOST, CUDA_TABLES, Meta, Warning_

Frame = TypeVar("Frame", bound=Sized)

RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID", "PMI_RANK")
WITHOUT_EVENTS = frozenset({"diagnostics", "gpus", "processes", "threads", "frames", "overhead"})
TRACES = {"cuda": "cuda", "nvtxevents": "nvtx", "osruntime": "osrt", "cudnn": "cudnn", "cublas": "cublas"}
# trace → our tables, and how the diagnostics say that it ran
WATCHED: Mapping[str, tuple[tuple[str, ...], str]] = {
    "cuda": (CUDA_TABLES, r"CUDA injection initialized successfully"),
    "nvtx": (("ranges", "marks"), r"NVTX injection initialized successfully"),
    "osrt": (("osrt",), r"OS runtime libraries injection initialized successfully"),
    "gil": (("gil",), r"Python GIL tracing injection initialized successfully"),
}
# Payload protocol 260 (pip nvtx >= 0.2.12) against 259 and older (nsys <= 2024.2): every range is lost, exit code 0.
# Older releases (tried: 2022.4 with nvtx 0.2.15) leave no line, but rows that end domains and no range.
PAYLOAD_CLASH = re.compile(r"NVTX payload extension is incompatible")

PRODUCED = re.compile(r"Number of CUPTI events produced:\s*(\d+)")
BROKE_OFF = re.compile(r"Error when processing events")


@dataclass(frozen=True)
class Facts:
    """The small tables of an export, read once."""

    export: dict[str, str]
    capture: list[tuple[str, str]]
    system: list[tuple[str, str]]
    diagnostics: list[str]
    ours: dict[str, str]
    tables: frozenset[str] = field(default_factory=frozenset)

    @property
    def not_collected(self) -> frozenset[str]:
        """Our tables that the collector says it could not fill."""
        return frozenset(_json_list(self.ours.get("not_collected", "")))

    @property
    def eager(self) -> bool:
        """Whether the export holds tables without rows for everything, traced or not."""
        return self.export.get("EXPORT_PARAM_LAZY", self.export.get("EXPORT_LAZY", "")) == "false"

    def says(self, pattern: str | re.Pattern[str]) -> bool:
        """Whether a diagnostic line matches."""
        return any(re.search(pattern, line) for line in self.diagnostics)


def read_facts(db: Database) -> Facts:
    """Read them; :class:`NotAProfile` for an SQLite file of something else."""
    known, there = {s.origin for s in (*SOURCES, NVTX)}, db.tables.keys() | db.broken.keys()
    described = {"META_DATA_EXPORT", "EXPORT_META_DATA", "UNSTALL_META"} & there
    if not described and not ({"StringIds"} <= there and known & there):
        raise NotAProfile(str(db.path), *_something_else(db))
    lacks = {"id", "value"} - (db.columns("StringIds") or {"id", "value"})
    if lacks:
        why = f"not a schema of nsys that is known here: StringIds has no column {', '.join(sorted(lacks))}"
        raise NotAProfile(str(db.path), why, "Export the report again with nsys export, or report this version of nsys")
    export = db.rows("META_DATA_EXPORT", "name", "value") or db.rows("EXPORT_META_DATA", "name", "value")
    return Facts(
        export=_pairs(export),
        capture=[(n or "", v or "") for n, v in db.rows("META_DATA_CAPTURE", "name", "value")],
        system=[(n or "", v or "") for n, v in db.rows("TARGET_INFO_SYSTEM_ENV", "name", "value")],
        diagnostics=[t or "" for (t,) in db.rows("DIAGNOSTIC_EVENT", "text")],
        ours=_pairs(db.rows("UNSTALL_META", "name", "value")),
        tables=frozenset(db.tables),
    )


def watched(facts: Facts, present: set[str]) -> set[str]:
    """Our tables that are empty rather than absent when they have no rows (the rule above)."""
    found: set[str] = set()
    for trace, (tables, reported) in WATCHED.items():
        beside = trace == "cuda" and any(t.startswith("CUPTI_ACTIVITY_KIND_") for t in facts.tables)
        if present & set(tables) or (beside and not facts.eager) or facts.says(reported):
            found |= set(tables)
    return found - facts.not_collected


def meta_of(path: Path, db: Database, facts: Facts, first: int, last: int) -> Meta:
    """The capture's own facts; ``first`` and ``last`` are the earliest and latest time of its events."""
    start, end = _span(db, facts, first, last)
    epoch = db.rows("TARGET_INFO_SESSION_START_TIME", "utcEpochNs")
    system = dict(facts.system)
    return Meta(
        path=str(path),
        producer=facts.ours.get("producer", "nsys"),
        producer_version=facts.ours.get("version") or facts.export.get("EXPORT_PRODUCT_VERSION", ""),
        schema_version=facts.export.get("EXPORT_SCHEMA_VERSION", ""),
        start_ns=start,
        end_ns=end,
        utc_epoch_ns=_integer(epoch[0][0]) if epoch else None,
        unprofiled_ns=_integer(facts.ours.get("unprofiled_ns")),
        options=_options(facts),
        rank=_rank(facts),
        host=system.get("Hostname") or facts.export.get("EXPORT_HOST", ""),
        cores=_cores(facts, system),
    )


def lost_nvtx(facts: Facts, ranges: int | None, marks: int | None) -> list[Warning_]:
    """The program was annotated and nothing came of it: the commonest silent failure of NVTX under an old nsys."""
    if ranges or marks or facts.ours.get("producer", "nsys") != "nsys":
        return []
    version = facts.export.get("EXPORT_PRODUCT_VERSION", "")
    nsys = f"nsys {version}" if version else "this nsys"
    remedy = "Install nvtx==0.2.11 (pip install 'nvtx<0.2.12'), or profile with a newer nsys."
    why = ""
    if facts.says(PAYLOAD_CLASH):
        why = (
            f"NVTX started but not one range was recorded, and {nsys} reports an incompatible NVTX payload extension: "
            "probably pip nvtx 0.2.12 or newer under an older nsys."
        )
    elif NVTX.origin in facts.tables and ranges is not None and _old(version):
        why = (
            f"NVTX was in use but not one range was recorded under {nsys}: probably pip nvtx 0.2.12 or newer, which "
            "this nsys cannot read."
        )
    return [Warning_(code="nvtx-lost", text=f"{why} {remedy}")] if why else []


def nothing_in(facts: Facts, tables: Mapping[str, Sized]) -> list[Warning_]:
    """What the file should hold and does not: any event at all; CUDA, where it was asked for."""
    said = []
    if not any(len(frame) for table, frame in tables.items() if table not in WITHOUT_EVENTS):
        text = "The capture holds no events: the program ended before it began, or a capture range was never entered."
        said.append(Warning_(code="no-events", text=text))
    if "cuda" in _options(facts).get("trace", "") and set(CUDA_TABLES).isdisjoint(tables):
        text = (
            "CUDA tracing was asked for and nothing of it is in the file: the program did no GPU work, or it could not "
            "be seen (another profiler such as torch.profiler was active, or this nsys does not know the driver)."
        )
        said.append(Warning_(code="cuda-not-recorded", text=text))
    return [*said, *_lost_cuda(facts, sum(len(f) for t, f in tables.items() if t in CUDA_TABLES))]


def _lost_cuda(facts: Facts, kept: int) -> list[Warning_]:
    """Most of CUPTI's events are missing beside errors in processing them: seen with JAX under nsys 2025.3.

    A low count alone is no loss: every export that was cut to a window has one.
    """
    produced = max((int(n) for line in facts.diagnostics for n in PRODUCED.findall(line)), default=0)
    if not facts.says(BROKE_OFF) or kept >= produced / 2:
        return []
    text = (
        f"nsys lost CUDA events: {produced:,} were produced, {kept:,} are in the file, and it reports errors in "
        "processing them. What the GPU did is mostly not here. Profile again; with another release of nsys, or without "
        "NVTX (--trace=cuda,osrt), it may stay (neither has been tried)."
    )
    return [Warning_(code=CUDA_LOST, text=text)]


def without_lost(tables: Mapping[str, Frame], notes: Collection[Warning_]) -> dict[str, Frame]:
    """The tables less those of CUDA that are empty because their events were lost: that is unknown, not none."""
    lost = any(note.code == CUDA_LOST for note in notes)
    return {t: frame for t, frame in tables.items() if len(frame) or not (lost and t in CUDA_TABLES)}


def _old(version: str) -> bool:
    parts = tuple(int(p) for p in re.findall(r"\d+", version)[:2])
    return len(parts) == 2 and parts <= (2024, 2)  # the newest release seen to lose them


def _span(db: Database, facts: Facts, first: int, last: int) -> tuple[int, int]:
    """Start and end. nsys states a duration; events may outlast it, and a cut-out keeps the whole capture's."""
    cut = facts.export.get("EXPORT_PARAM_TIMES_TO_EXPORT") or any(k.startswith("DERIVED_") for k in facts.export)
    stated = db.rows("ANALYSIS_DETAILS", "duration")
    duration = _integer(stated[0][0]) if stated else None
    if cut or duration is None or duration < 0:
        return first, last
    return 0, max(duration, last)


def _options(facts: Facts) -> dict[str, str]:
    asked = [TRACES[v.lower()] for n, v in facts.capture if n == "CAPTURE_EVENT_TYPE" and v.lower() in TRACES]
    asked = asked or [t for t in facts.ours.get("trace", "").split(",") if t]
    options = {"trace": ",".join(dict.fromkeys(asked))} if asked else {}
    options |= {name: facts.ours[name] for name in ("auto", "cell") if name in facts.ours}
    for name, value in facts.capture:
        if name.endswith("CUDA_GRAPH_TRACE_OPTIONS:MODE"):
            options["cuda_graph_trace"] = value.lower()
    return options


def _cores(facts: Facts, system: Mapping[str, str]) -> int | None:
    """What the program could use, where our collector asked it; what nsys says of the machine otherwise."""
    try:
        told = [p.get("cpus") for p in json.loads(facts.ours.get("processes", "{}")).values()]
    except (ValueError, AttributeError):
        told = []
    known = [n for n in (*told, _integer(system.get("CpuCores"))) if isinstance(n, int) and n > 0]
    return known[0] if known else None


def _rank(facts: Facts) -> int | None:
    """Rank from the launcher's environment, kept as NUL-separated ``NAME=value`` in one row."""
    texts = [v for _, v in (*facts.system, *facts.capture) if "=" in v]
    variables = dict(e.split("=", 1) for t in texts for e in t.split("\0") if "=" in e)
    variables |= {f"UNSTALL_{k}": v for k, v in facts.ours.items()}
    found = (_integer(variables.get(name)) for name in ("UNSTALL_rank", *RANK_VARIABLES))
    return next((rank for rank in found if rank is not None and rank >= 0), None)


def _something_else(db: Database) -> tuple[str, str]:
    if not db.tables:
        return "an SQLite file without any table", "If it is an export, it did not finish: export it again"
    names = ", ".join(" ".join(name.split())[:40] for name in sorted(db.tables)[:4])
    return f"an SQLite file of something else (tables {names} …)", "Name an export of nsys: nsys export --type sqlite …"


def _pairs(rows: list[tuple[str | None, ...]]) -> dict[str, str]:
    return {row[0] or "": row[1] or "" for row in rows}


def _integer(text: str | None) -> int | None:
    """The number that a text states, if it is one that our tables can hold."""
    try:
        number = int(text) if text else None
    except ValueError:
        return None
    return number if number is None or abs(number) <= LATEST_NS else None


def _json_list(text: str) -> list[str]:
    try:
        found = json.loads(text) if text else []
    except ValueError:
        return []
    return [str(x) for x in found] if isinstance(found, list) else []
