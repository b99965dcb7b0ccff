"""Held against the truth: what ``unstall`` says of each capture, as rows, a table and totals.

In: exports (``CASE.VARIANT.sqlite`` or ``.xz``) and ``truth.json``. Out: ``results.json`` and ``table.md``.
A prediction is judged on the finding of the planted fault, wherever it stands; a twin by its main findings.
"""

import json
import lzma
import statistics
import tempfile
from pathlib import Path
from typing import Any

from catalog import Planted

Row = dict[str, Any]


def judge(path: Path, unprofiled_ms: float) -> Row:
    """Findings of one export in a few words and figures; runs in a process of its own."""
    from unstall.pipeline import report_of

    with tempfile.TemporaryDirectory() as room:
        if path.suffix == ".xz":
            packed, path = path, Path(room) / path.stem
            path.write_bytes(lzma.decompress(packed.read_bytes()))
        report = report_of(path, unprofiled_ns=round(unprofiled_ms * 1e6), cache=False)
    steps = report.steps[0] if report.steps else None
    return {
        "findings": [_finding(f) for f in report.findings],
        "warnings": [w.text for w in report.warnings if w.code == "rule-crashed"],
        "steps": None if steps is None else {"source": steps.source, "count": steps.count, "warmup": steps.warmup},
        "captured_step_ms": None if steps is None else steps.step_ns / 1e6,
        "captured_mean_ms": None if steps is None else steps.period_ns.mean / 1e6,
        "gpu": report.profile.gpus[0].name if report.profile.gpus else "",
        "producer": f"{report.profile.producer} {report.profile.producer_version}",
    }


def _finding(f: Any) -> Row:
    ms = {k: None if (v := getattr(f, f"{k}_ns")) is None else round(v / 1e6, 4) for k in (
        "predicted_step", "predicted_low", "predicted_high")}  # fmt: skip
    return {"code": f.code, "main": f.main, "range": f.where.range, "confidence": f.confidence, **ms}


def row_of(case: Planted, truth: dict[str, Row], said: dict[str, Row]) -> Row:
    """One line of the table: a case, its truth, and what was said of its fault and of its healthy twin."""
    bad, fixed = said.get("bad", {}), said.get("fixed", {})
    times = truth.get("bad", {})
    found = bad.get("findings", [])
    first = found[0] if found and found[0]["main"] else None
    about = next((f for f in found if f["code"] == case.code), None)
    row: Row = {
        "case": case.name, "cause": case.code, "range": case.range, "remedy": case.remedy,
        "unprofiled_ms": times.get("unprofiled_ms"), "fixed_ms": times.get("fixed_ms"),
        "found": first and first["code"], "found_range": first and first["range"],
        "right": bool(first and first["code"] == case.code),
        "place_right": None if case.range is None else bool(first and first["range"] == case.range),
        "said": bad, "twin_said": fixed, "twin_ms": truth.get("fixed", {}).get("unprofiled_ms"),
        "period_errors": [e for v in ("bad", "fixed") if (e := _period_error(said.get(v), truth.get(v))) is not None],
        "twin_false": [f["code"] for f in fixed.get("findings", []) if f["main"] and f["code"] != "compute-bound"],
    }  # fmt: skip
    return row | ({} if case.is_control else _prediction(about, times.get("fixed_ms")))


def _period_error(said: Row | None, truth: Row | None) -> float | None:
    """Of the mean step in the capture, against the worker's own clock while it was captured."""
    if not said or not truth or not said.get("captured_mean_ms") or not truth.get("captured_ms"):
        return None
    return float(said["captured_mean_ms"] / truth["captured_ms"] - 1)


def _prediction(about: Row | None, fixed: float | None) -> Row:
    nothing = {"predicted_ms": None, "low_ms": None, "high_ms": None, "error": None, "held": None}
    if about is None or about["predicted_step"] is None or not fixed:
        return nothing
    low, high = about["predicted_low"], about["predicted_high"]
    return {
        "predicted_ms": about["predicted_step"], "low_ms": low, "high_ms": high,
        "error": about["predicted_step"] / fixed - 1, "held": low is not None and low <= fixed <= high,
    }  # fmt: skip


def totals(rows: list[Row]) -> Row:
    """The figures that count. A case without a prediction counts as an interval that did not hold."""
    captured = [r for r in rows if r["said"].get("findings") is not None]
    planted = [r for r in captured if "error" in r]
    errors = [abs(r["error"]) for r in planted if r["error"] is not None]
    placed = [r for r in captured if r["place_right"] is not None]
    twins = [r for r in rows if r["twin_said"].get("findings") is not None]
    return {
        "cases": len(captured), "right": sum(r["right"] for r in captured),
        "places": len(placed), "places_right": sum(r["place_right"] for r in placed),
        "predictions": len(planted), "predicted": len(errors),
        "median_error": statistics.median(errors) if errors else None,
        "held": sum(bool(r["held"]) for r in planted),
        "twins": len(twins), "period_errors": [e for r in rows for e in r["period_errors"]],
        "twins_clean": sum(bool(r["twin_said"]["findings"]) and not r["twin_false"] for r in twins),
    }  # fmt: skip


def write(rows: list[Row], folder: Path) -> Row:
    """``results.json`` and ``table.md``; the totals."""
    folder.mkdir(parents=True, exist_ok=True)
    sums = totals(rows)
    (folder / "results.json").write_text(
        json.dumps({"totals": sums, "cases": rows}, indent=1, ensure_ascii=False) + "\n"
    )
    (folder / "table.md").write_text(table(rows, sums))
    return sums


def table(rows: list[Row], sums: Row) -> str:
    """The table in Markdown."""
    made = next((r["said"] for r in rows if r["said"].get("gpu")), {})
    error = "–" if sums["median_error"] is None else f"{sums['median_error']:.1%}"
    head = [
        "# Planted bottlenecks\n",
        f"{made.get('gpu', 'unknown GPU')}, {made.get('producer', '')}. Times are without the profiler, both variants "
        "measured in turns in one process; the capture is of the same process.\n",
        f"- right first cause: {sums['right']} of {sums['cases']}; right range: {sums['places_right']} of "
        f"{sums['places']} that name one",
        f"- healthy twins without a false main finding: {sums['twins_clean']} of {sums['twins']}",
        f"- median error of the predicted step time: {error} ({sums['predicted']} predictions)",
        f"- intervals that hold the truth: {sums['held']} of {sums['predictions']}\n",
        "| case | true cause | found first | in | ms/step | with the remedy | true gain | predicted ms (interval) "
        "| predicted gain | error | holds | twin's false findings |",
        "|---|---|---|---|--:|--:|--:|--:|--:|--:|---|---|",
    ]
    return "\n".join([*head, *(_line(r) for r in rows)]) + "\n"


def _line(r: Row) -> str:
    now, then, guess = r["unprofiled_ms"], r["fixed_ms"], r.get("predicted_ms")
    cells = [
        r["case"], r["cause"], ("" if r["right"] else "**") + str(r["found"]) + ("" if r["right"] else "**"),
        f"`{r['found_range']}`" if r["found_range"] else "", _ms(now), _ms(then), _ratio(now, then),
        f"{guess:.2f} ({_ms(r['low_ms'])} – {_ms(r['high_ms'])})" if guess is not None else "", _ratio(now, guess),
        "" if r.get("error") is None else f"{r['error']:+.0%}", {True: "yes", False: "no"}.get(r.get("held"), ""),
        ", ".join(r["twin_false"]) or ("" if r["twin_said"].get("findings") else "nothing said of it"),
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _ratio(now: float | None, then: float | None) -> str:
    return f"{now / then:.2f}×" if now and then else ""
