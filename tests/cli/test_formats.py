"""JSON and Markdown: the contract, its published schema, and names that must stay names."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
import samples

from unstall import errors, model
from unstall.commands.report import Seen, rendered
from unstall.report import outputs
from unstall.report.json import from_json, schema, schema_text, to_json
from unstall.report.markdown import code, prose, to_markdown

ROOT = Path(__file__).parents[2]

# DESIGN's names: extended freely, never renamed.
CONTRACT = {
    "ProfileFacts": "path producer producer_version schema_version duration_ns gpus processes",
    "RangeRow": "name members domain style process instances total_ns steady_total_ns self_ns avg_ns median_ns min_ns "
    "max_ns stddev_ns gpu_ns percent_of_wall share wrapper",
    "KernelRow": "name instances total_ns avg_ns median_ns min_ns max_ns stddev_ns percent",
    "CopyRow": "kind source destination instances total_ns bytes gb_per_s exposed_ns",
    "CallRow": "name calls total_ns",
    "StepsRow": "process source count warmup period_ns samples_ns unprofiled_ns host_ns gpu_busy_ns kernels_per_step",
    "Period": "median p10 p90",
    "BreakdownRow": "process step_ns categories",
    "Category": "name ns percent",
    "Finding": "code title where cost_ns_per_step predicted_step_ns predicted_low_ns predicted_high_ns "
    "predicted_speedup confidence evidence fix",
    "Where": "range process kernel",
    "FixText": "title safety text",
    "NotChecked": "code reason",
    "Warning_": "code text",
    "Comparison": "verdict ratio ratio_low ratio_high before after moved warnings",
    "StepFigure": "step_ns count",
    "Report": "schema_version profile ranges kernels copies memsets osrt api steps breakdown findings not_checked "
    "warnings comparison",
}


def test_contract_keeps_its_names() -> None:
    for record, fields in CONTRACT.items():
        assert set(fields.split()) <= set(getattr(model, record).__struct_fields__), record


def test_published_schema_is_current() -> None:
    published = (ROOT / "docs" / "report.schema.json").read_text(encoding="utf-8")
    assert published == schema_text(), "run: make schema"


def test_every_report_is_valid_against_the_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    jsonschema.validate(json.loads(to_json(samples.full_report())), schema())


def test_the_schema_can_fail() -> None:
    broken = json.loads(to_json(samples.full_report()))
    broken["steps"][0]["period_ns"]["median"] = "25 ms"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, schema())


def test_there_and_back() -> None:
    report = samples.full_report()
    assert from_json(to_json(report)) == report
    assert from_json(to_json(report, indent=2).decode()) == report


def test_lists_are_complete_and_times_are_integers() -> None:
    report = samples.full_report(ranges=[samples.a_range(f"r{i}", 1.0, 1.0) for i in range(500)])
    raw = json.loads(to_json(report))
    assert len(raw["ranges"]) == 500
    assert isinstance(raw["ranges"][0]["total_ns"], int)
    assert raw["steps"][0]["unprofiled_ns"] is None, "unknown is null"


def test_fields_of_a_newer_version_are_ignored() -> None:
    raw = json.loads(to_json(samples.full_report()))
    raw["something_new"] = 1
    assert from_json(json.dumps(raw)).steps[0].count == 30


@pytest.mark.parametrize(
    ("data", "error", "says"),
    [
        (b"", errors.ProfileUnreadable, "not readable as JSON"),
        (b'{"schema_version": 1, "prof', errors.ProfileUnreadable, "not readable as JSON"),
        (b"\xff\xfe", errors.ProfileUnreadable, "not readable as JSON"),
        (b"[]", errors.NotAProfile, "not a report"),
        (b"{}", errors.NotAProfile, "not a report"),
        (b"null", errors.NotAProfile, "not a report"),
        (b'{"traceEvents": []}', errors.NotAProfile, "not a report"),
        (b'{"schema_version": 99}', errors.ProfileUnreadable, "newer"),
    ],
)
def test_what_is_no_report_is_said(data: bytes, error: type[errors.UnstallError], says: str) -> None:
    with pytest.raises(error, match=says) as caught:
        from_json(data, name="r.json")
    assert str(caught.value).startswith("r.json: ")
    assert "\n" not in str(caught.value)


def test_outputs_are_found_in_the_package() -> None:
    names = [output.name for output in outputs()]
    assert {"html", "json", "markdown"} <= set(names)
    assert names == sorted(set(names))
    for output in outputs():
        assert output.help and output.help[0].islower(), "reads as: Write HELP"
        assert output.stream or rendered(output, [Seen(samples.full_report())])


def test_several_reports_are_json_lines() -> None:
    output = next(o for o in outputs() if o.name == "json")
    lines = bytes(rendered(output, [Seen(samples.full_report()), Seen(samples.full_report())])).splitlines()
    assert [json.loads(line)["schema_version"] for line in lines] == [1, 1]


def test_markdown(tmp_path: Path) -> None:
    golden = Path(__file__).parent / "golden" / "full.md"
    text = to_markdown(samples.full_report())
    import os

    if os.environ.get("UNSTALL_UPDATE_GOLDEN"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


HOSTILE = "`` | </details><script>alert(1)</script> [x](http://e) @team #1 ![i](j) \n# head\n- **b** <!-- "


def test_markdown_names_stay_names() -> None:
    report = samples.full_report(
        ranges=[samples.a_range(HOSTILE, 5.0, 100.0)],
        kernels=[samples.a_kernel(HOSTILE, 3.0)],
        warnings=[model.Warning_(code="odd", text=HOSTILE)],
    )
    report.profile.path = HOSTILE
    report.findings[0].title = report.findings[0].fix.text = HOSTILE
    report.breakdown[0].categories[-1].ranges = [model.RangeShare(name=HOSTILE, ns=1)]
    out = to_markdown(report)
    bare = re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", out)
    bare = bare.replace("<details>", "").replace("</details>", "").replace("<summary>", "").replace("</summary>", "")
    assert not re.search(r"<|(?<!\\)\[|(?<![\\&])#\d|@team|\n# head", bare)
    cells = [line for line in out.splitlines() if line.startswith("| `")]
    assert cells and all(len(re.findall(r"(?<!\\)\|", line)) == 7 for line in cells if "100 %" in line)


def test_code_and_prose() -> None:
    assert code("a") == "`a`"
    assert code("a`b") == "``a`b``"
    assert code("`") == "`` ` ``"
    assert code("") == "`  `"
    assert prose("a_b *c* <d> @e 25.3 ms: f-g. _h_") == "a_b \\*c\\* &#60;d&#62; &#64;\u200be 25.3 ms: f-g. \\_h\\_"
