"""NVTX tables → range families: domains and GIL rows set apart, numbered names folded, wrappers recognised by name.

In: the summary tables. Out: :class:`Ranges`. A table has no nesting, so what encloses what is guessed from names and
counts, and every guess is a warning.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from unstall.analyze.library import DOMAINS, NAMES
from unstall.analyze.names import families, family
from unstall.load._stats.fold import folded, summary
from unstall.model import RangeRow, Warning_

STEP_WORD = re.compile(
    r"(?i)(?:^|[^a-z])(?:train_?|training_?)?(?:step|iter|iteration|batch|loop)(?:$|[^a-z])|스텝|반복"
)
PHASE_WORD = re.compile(
    r"(?i)load|fetch|copy|h2d|d2h|transfer|wait|forward|backward|fwd|bwd|optim|sched|zero_grad|eval|save"
)
"""A numbered name that says what is done (``load_batch_3``) is a phase of a step rather than the step."""
_FAMILY = ["domain", "style", "family"]


@dataclass
class Ranges:
    """Range families of one text.

    Attributes:
        rows: for the report, longest total first; ``None`` where the text has no NVTX table.
        members: printed rows with ``family`` and ``domain``, for finding steps in them.
        wrappers: names of the families taken for wrappers.
    """

    rows: list[RangeRow] | None = None
    members: pl.DataFrame | None = None
    wrappers: list[str] = field(default_factory=list)
    warnings: list[Warning_] = field(default_factory=list)


def ranges(tables: dict[str, pl.DataFrame]) -> Ranges:
    """The range families in the tables (report name → frame)."""
    out = Ranges()
    printed = _printed(tables, out.warnings)
    if printed is None:
        return out
    named = _named(printed)
    gil = pl.col("name").is_in(["Holding GIL", "Waiting for GIL"]) & pl.col("domain").is_in(["GIL Trace", ""])
    out.warnings += _gil(named.filter(gil))
    out.members = named.filter(~gil).with_columns(family=_families(named.filter(~gil)))
    spans = _spans(tables.get("nvtx_gpu_proj_sum"), out.members)
    listed = folded(out.members, _FAMILY).join(spans, on=_FAMILY, how="left", maintain_order="left")
    by_name = _matches(listed["first_name"], "|".join(NAMES))
    listed = listed.with_columns(library=_library_domain(listed["domain"]) | by_name)
    rows = listed.to_dicts()
    for row in rows:
        row["wrapper"] = False
    out.warnings += [*_mark_by_name(rows), *_mark_by_total(rows)]
    out.wrappers = [r["family"] for r in rows if r["wrapper"]]
    out.rows = _rows(rows)
    return out


def _printed(tables: dict[str, pl.DataFrame], warnings: list[Warning_]) -> pl.DataFrame | None:
    """The rows of the table that knows most: all ranges, else push/pop and start/end, else those with GPU work."""
    if "nvtx_sum" in tables:
        return _styled(tables["nvtx_sum"], "")
    parts = {"nvtx_pushpop_sum": "push_pop", "nvtx_startend_sum": "start_end"}
    frames = [_styled(tables[report], style) for report, style in parts.items() if report in tables]
    if frames:
        return pl.concat(frames)
    if "nvtx_gpu_proj_sum" not in tables:
        return None
    text = "The text has no nvtx_sum: only ranges that launched GPU work from their own thread are listed."
    warnings.append(Warning_(code="ranges-with-gpu-only", text=text))
    return _styled(_own_time(tables["nvtx_gpu_proj_sum"]), "")


def _own_time(projected: pl.DataFrame) -> pl.DataFrame:
    """The time of the ranges themselves as their total, where the table has it beside that of their GPU work."""
    if "total_range_ns" not in projected.columns:
        return projected
    return projected.drop("total_ns", strict=False).rename({"total_range_ns": "total_ns"})


def _styled(frame: pl.DataFrame, style: str) -> pl.DataFrame:
    if "name" not in frame.columns or "total_ns" not in frame.columns:
        return summary(pl.DataFrame(schema={"name": pl.String, "total_ns": pl.Int64})).with_columns(style=pl.lit(style))
    printed = pl.col("style") if "style" in frame.columns else pl.lit(style)
    known = {"pushpop": "push_pop", "startend": "start_end"}
    plain = printed.cast(pl.String).str.to_lowercase().str.replace_all("[^a-z]", "").replace(known)
    columns = [c for c in frame.columns if c.endswith("_ns") or c in ("instances", "name")]
    rows = summary(frame.select(*columns, plain.fill_null("").alias("style")))
    return rows.select("name", "style", "instances", *(c for c in rows.columns if c.endswith("_ns")))


def _named(printed: pl.DataFrame) -> pl.DataFrame:
    """Names split from their domains.

    nsys 2025 and newer print the default domain as an empty word (``:data_load``), so there every colon splits. Older
    ones print it as nothing: a colon may then belong to the name, and only domains of libraries are split off.
    """
    names = printed["name"]
    new = bool(names.str.starts_with(":").any())
    head, tail = names.str.extract(r"(?s)^([^:]*):"), names.str.extract(r"(?s)^[^:]*:(.*)$")
    scoped = names.str.contains("^[^:]+::")  # aten::mm
    split = ~scoped & head.is_not_null() & (pl.repeat(new, len(names), eager=True) | _library_domain(head))
    return printed.with_columns(
        domain=pl.when(split).then(head).otherwise(pl.lit("")), name=pl.when(split).then(tail).otherwise(names)
    )


def _library_domain(domains: pl.Series) -> pl.Series:
    return _matches(domains, rf"(?i:{DOMAINS})$")


def _matches(texts: pl.Series, pattern: str) -> pl.Series:
    return texts.str.contains(f"^(?:{pattern})").fill_null(value=False)


def _families(members: pl.DataFrame) -> pl.Series:
    """Families of the names, domain by domain."""
    parts = [
        part.with_columns(family=families(part["name"])) for part in members.with_row_index().partition_by("domain")
    ]
    return pl.concat(parts).sort("index")["family"] if parts else pl.Series("family", [], dtype=pl.String)


def _gil(rows: pl.DataFrame) -> list[Warning_]:
    if not rows.height:
        return []
    parts = [
        f"“{name}” {ns / 1e6:,.1f} ms in {n:,}" for name, ns, n in rows.select("name", "total_ns", "instances").rows()
    ]
    text = f"Rows of the GIL trace are kept apart from the ranges: {'; '.join(parts)}."
    return [Warning_(code="gil-rows", text=text)]


def _spans(projected: pl.DataFrame | None, members: pl.DataFrame) -> pl.DataFrame:
    """Family → GPU-projected time, where the text holds that table too."""
    schema = {**dict.fromkeys(_FAMILY, pl.String), "gpu_span_ns": pl.Int64}
    if projected is None or not {"name", "total_proj_ns"} <= set(projected.columns):
        return pl.DataFrame(schema=schema)
    rows = _named(_styled(_own_time(projected), ""))
    if "total_proj_ns" not in rows.columns:
        return pl.DataFrame(schema=schema)
    known = members.select("domain", "style", "name", "family").unique()
    joined = rows.join(known, on=["domain", "style", "name"], how="inner")
    return joined.group_by(_FAMILY).agg(pl.col("total_proj_ns").cast(pl.Int64, strict=False).sum().alias("gpu_span_ns"))


# --------------------------------------------------------------------------------------------------------------------
# Wrappers
# --------------------------------------------------------------------------------------------------------------------


def _mark_by_name(rows: Sequence[dict[str, Any]]) -> list[Warning_]:
    """Numbered families whose members occur once each enclose the loop body, unless others could enclose them."""
    numbered = [r for r in rows if r["members"] > 1 and r["instances"] == r["members"] and not r["library"]]
    others = [r for r in rows if r not in numbered and not r["library"]]
    if not others:
        return []
    found = [r for r in numbered if _encloses(r, numbered, others)]
    for row in found:
        row["wrapper"] = True
    if not found:
        return []
    which = ", ".join(f"{r['family']} ({r['members']} names)" for r in found)
    text = (
        f"A table has no nesting: {which}, numbered and each occurring once, is taken for a wrapper around the loop "
        "body and left out of the shares."
    )
    return [Warning_(code="wrapper-by-name", text=text)]


def _encloses(row: dict[str, Any], numbered: Sequence[dict[str, Any]], others: Sequence[dict[str, Any]]) -> bool:
    """Whether a numbered family can be a wrapper.

    Not where another one with as many members is longer (``load_batch_3`` in ``step_3``). A name that counts steps need
    show nothing more; any other, or one that names a phase, must be as long as every row that repeats as often.
    """
    if any(o is not row and o["members"] == row["members"] and o["total_ns"] > row["total_ns"] for o in numbered):
        return False
    counting = family(row["first_name"]) != row["first_name"] and not PHASE_WORD.search(row["family"])
    inside = [o["total_ns"] for o in others if o["instances"] >= row["members"]]
    return counting or bool(inside and row["total_ns"] >= max(inside))


def _mark_by_total(rows: Sequence[dict[str, Any]]) -> list[Warning_]:
    """A repeating range that is called a step and is longer than each of two or more that repeat as often."""
    found = []
    for row in rows:
        peers = [o for o in rows if o is not row and o["instances"] == row["instances"] and not o["library"]]
        stepping = STEP_WORD.search(row["family"]) and not PHASE_WORD.search(row["family"]) and row["instances"] > 1
        if stepping and not row["wrapper"] and len(peers) > 1 and all(o["total_ns"] < row["total_ns"] for o in peers):
            row["wrapper"] = True
            found.append(row["family"])
    if not found:
        return []
    text = (
        f"A table has no nesting: {', '.join(found)}, by name, count and total, is taken for a wrapper around the loop "
        "body and left out of the shares."
    )
    return [Warning_(code="wrapper-by-total", text=text)]


def _rows(rows: Sequence[dict[str, Any]]) -> list[RangeRow]:
    whole = sum(r["total_ns"] for r in rows if not r["wrapper"])
    kept = ("members", "domain", "style", "instances", "total_ns", "avg_ns", "median_ns", "min_ns", "max_ns")
    return [
        RangeRow(
            **{k: r[k] for k in (*kept, "stddev_ns", "wrapper", "library", "gpu_span_ns")},
            name=r["family"], process=None, steady_total_ns=None, self_ns=None, gpu_ns=None, percent_of_wall=None,
            share=None if r["wrapper"] or not whole else 100.0 * r["total_ns"] / whole,
        )
        for r in rows
    ]  # fmt: skip
