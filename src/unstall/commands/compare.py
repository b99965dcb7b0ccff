"""``unstall compare`` and ``unstall baseline``: two sides read, compared, shown, and held against limits.

In: paths and options as parsed. Out: text on standard output, files where the user named them, and
:class:`~unstall.errors.GateFailed` when a gate did not hold. A side is a list of step times, a report as JSON (a
baseline is one), or whatever ``unstall report`` reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from unstall.commands.files import STDOUT, check, emit, emitting, say, write
from unstall.errors import NotAProfile, ProfileUnreadable, UsageError

if TYPE_CHECKING:
    from unstall.compare.expression import Expression
    from unstall.compare.metrics import Known
    from unstall.model import Comparison, Report

HEAD = 1 << 16
LONGEST_LOG = 256 << 20  # bytes: some twenty million step times


def run(
    before: str,
    after: str,
    *,
    fail_if: Sequence[str] = (),
    budget: str | None = None,
    json: str | None = None,
    markdown: str | None = None,
    html: str | None = None,
    top: int = 10,
    step: str | None = None,
    margin: float | None = None,
    across_gpus: bool = False,
    cache: bool = True,
    language: str = "en",
) -> None:
    """Compare two files; raise when a gate fails, after everything was shown and written."""
    gates = _gates(fail_if, budget)
    _check_targets([json, markdown, html], [before, after, *([budget] if budget else [])])
    from unstall.compare import compare

    old, new = (read_side(path, step=step, cache=cache, language=language) for path in (before, after))
    comparison = compare(old, new, margin=margin, across_gpus=across_gpus, language=language)
    _deliver(comparison, old, new, {"json": json, "markdown": markdown, "html": html}, top)
    _hold(gates, old, new, comparison)


def save(profile: str, output: str, *, force: bool, step: str | None, cache: bool = True) -> None:
    """Write a baseline; an older one is replaced only on request."""
    if Path(output).exists() and not force:
        raise UsageError(output, "is there already", "Replace it with --force, or name another with --output")
    _check_targets([output], [profile])
    from unstall.compare.baseline import slim
    from unstall.report.json import to_json

    report = read_side(profile, step=step, cache=cache)
    if not any(row.samples_ns for row in report.steps):
        raise UsageError(profile, "no steady steps in it, so it can be no baseline", "Name its steps with --step REGEX")
    _put(output, to_json(slim(report), indent=1) + b"\n")
    steps = max(len(row.samples_ns) for row in report.steps)
    say(f"{output}: baseline of {steps} steady steps, from {Path(profile).name}")


def read_side(path: str, *, step: str | None = None, cache: bool = True, language: str = "en") -> Report:
    """One side of a comparison, whatever kind of file it is.

    Raises:
        ProfileUnreadable: it cannot be read as any of them.
    """
    from unstall.load import copied, is_stream

    if not is_stream(Path(path)):
        return _side(path, step, cache, language)
    try:  # a pipe gives its bytes once, and what it holds takes two looks
        report = copied(Path(path), lambda copy: _side(str(copy), step, False, language))
    except OSError as error:
        raise ProfileUnreadable(path, error.strerror or str(error), "Check the path") from error
    report.profile.path = path
    return report


def _side(path: str, step: str | None, cache: bool, language: str) -> Report:
    head = _head(path)
    text = head.decode("utf-8", errors="replace")
    if text.lstrip("\ufeff \t\r\n").startswith("{") and '"unstall_version"' in text:
        from unstall.report.json import from_json

        return from_json(Path(path).read_bytes(), name=path)
    from unstall.compare import steplog

    if b"\0" not in head and steplog.looks_like(text):
        return steplog.read(_text(path), path)
    from unstall.pipeline import report_of

    try:
        return report_of(path, step=step, cache=cache, language=language)
    except NotAProfile as error:
        hint = f"{error.hint}. A list of step times has one number (ms) a line" if error.hint else steplog.WANTED
        raise NotAProfile(error.what, error.why, hint) from error


def _head(path: str) -> bytes:
    """The first bytes of a file; nothing where it cannot be read: the loader says why."""
    try:
        with Path(path).open("rb") as file:
            return file.read(HEAD)
    except OSError:
        return b""


def _text(path: str) -> str:
    file = Path(path)
    if file.stat().st_size > LONGEST_LOG:
        raise NotAProfile(path, f"over {LONGEST_LOG >> 20} MB of text", "Keep the last million step times")
    return file.read_text(encoding="utf-8", errors="replace")


def _gates(fail_if: Sequence[str], budget: str | None) -> list[Expression]:
    """Every limit, understood before anything is read."""
    from unstall.compare import gate
    from unstall.compare.expression import parse

    gates = [parse(text) for text in fail_if]
    if budget is not None:
        try:
            text = Path(budget).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(budget, f"cannot be read as text ({error})", "Name a budget file, TOML or JSON") from error
        gates += gate.budget(text, budget)
    if gates:
        gate.understand(gates, _known())
    return gates


def _known() -> Known:
    """What a gate may ask for."""
    from unstall.analyze.breakdown import TOLD_BY
    from unstall.compare.metrics import Known
    from unstall.diagnose.registry import rules

    return Known({rule.code for rule in rules()}, TOLD_BY)


def _check_targets(targets: Sequence[str | None], inputs: Sequence[str]) -> None:
    named = [target for target in targets if target]
    if named.count(STDOUT) > 1:
        raise UsageError("two outputs on standard output", "they would mix", "Give one of them a file")
    for target in named:
        if target != STDOUT:
            check(target, inputs)


def _deliver(comparison: Comparison, before: Report, after: Report, targets: dict[str, str | None], top: int) -> None:
    """To the terminal unless standard output is asked for, then to the files."""
    import msgspec

    from unstall.report import comparison as rendering
    from unstall.report.json import to_json

    if STDOUT not in targets.values():
        with emitting() as out:
            rendering.show(comparison, out, top=top)
    if target := targets["json"]:
        _put(target, to_json(msgspec.structs.replace(after, comparison=comparison), indent=2) + b"\n")
    if target := targets["markdown"]:
        _put(target, rendering.to_markdown(comparison, top=top))
    if target := targets["html"]:
        _put(target, page(comparison, before, after))


def page(comparison: Comparison, before: Report, after: Report) -> str:
    """The comparison as one HTML file; its bars and step times are those of the sides that it compared."""
    from unstall.compare.sides import choose
    from unstall.report.html import comparison_to_html
    from unstall.report.html.comparison import Side

    old, new, _ = choose(before, after)
    sides = (Side(side.report, side.steps, [round(ns) for ns in side.samples]) for side in (old, new))
    return comparison_to_html(comparison, *sides)


def _put(target: str, content: str | bytes) -> None:
    emit(content) if target == STDOUT else write(target, content)


def _hold(gates: list[Expression], before: Report, after: Report, comparison: Comparison) -> None:
    if not gates:
        return
    from unstall.compare import gate
    from unstall.compare.sides import choose

    _, side, _ = choose(before, after)
    gate.check(gates, side, comparison, _known())
    unsure = comparison.verdict == "inconclusive"
    passed = "not proven slower, for the comparison is inconclusive" if unsure else comparison.verdict
    say(f"unstall: gate passed: {passed} ({gate.summary(comparison)})")
