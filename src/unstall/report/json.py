"""The canonical form of a report: versioned JSON, and the schema that describes it.

In: a :class:`~unstall.model.Report`, or the bytes of one. Out: the other. The schema is published as
``docs/report.schema.json``; every other output is a rendering of what stands here.
"""

from __future__ import annotations

from codecs import BOM_UTF8  # some shells put it before whatever they write into a file
from typing import TYPE_CHECKING, Any

from unstall.errors import NotAProfile, ProfileUnreadable
from unstall.report import Output

if TYPE_CHECKING:
    from unstall.model import Report

SCHEMA_ID = "unstall-report-1"


def to_json(report: Report, *, indent: int | None = None) -> bytes:
    """The report as UTF-8 JSON on one line, or indented."""
    import msgspec

    encoded = msgspec.json.encode(report)
    return encoded if indent is None else msgspec.json.format(encoded, indent=indent)


def from_json(data: bytes | str, *, name: str = "report") -> Report:
    """Read back what :func:`to_json` wrote; fields that a newer minor version added are ignored.

    Raises:
        ProfileUnreadable: not JSON, cut off, or of a schema version that this version does not know.
        NotAProfile: JSON of something else.
    """
    import msgspec

    from unstall.model import SCHEMA_VERSION, Report

    again = "Write one with unstall report PROFILE --json FILE"
    try:
        raw = msgspec.json.decode((data.encode() if isinstance(data, str) else data).removeprefix(BOM_UTF8))
        version = raw.get("schema_version") if isinstance(raw, dict) else None
        if isinstance(version, int) and version > SCHEMA_VERSION:
            why = f"written in report schema {version}, newer than the {SCHEMA_VERSION} that this unstall reads"
            raise ProfileUnreadable(name, why, "Update unstall")
        return msgspec.convert(raw, Report)
    except msgspec.ValidationError as error:
        raise NotAProfile(name, f"JSON, but not a report of unstall ({error})", again) from error
    except RecursionError as error:
        raise ProfileUnreadable(name, "JSON nested too deeply for a report", again) from error
    except (msgspec.DecodeError, UnicodeError) as error:
        raise ProfileUnreadable(name, f"not readable as JSON ({error})", again) from error


def _render(reports: list[Report]) -> bytes:
    """One report indented, several as JSON Lines."""
    if len(reports) == 1:
        return to_json(reports[0], indent=2) + b"\n"
    return b"".join(to_json(report) + b"\n" for report in reports)


OUTPUT = Output("json", "the whole report as JSON; of several profiles, one line each", _render, joins=True)


def schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of a report."""
    import msgspec

    from unstall.model import Report

    described = msgspec.json.schema(Report)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA_ID, "title": "unstall report"}
    return {**head, **_ordered(described)}


def _ordered(part: Any) -> Any:
    """Alternatives in one order, null last: msgspec's own order depends on its version."""
    if isinstance(part, list):
        return [_ordered(value) for value in part]
    if not isinstance(part, dict):
        return part
    ordered = {key: _ordered(value) for key, value in part.items()}
    if "anyOf" in ordered:
        ordered["anyOf"].sort(key=lambda option: (option == {"type": "null"}, str(option)))
    return ordered


def schema_text() -> str:
    """The schema as its file in ``docs/`` holds it."""
    import json

    return json.dumps(schema(), indent=1) + "\n"
