"""``unstall fix``: the patch that a script's findings call for, shown or written.

In: a script and options as parsed. Out: a unified diff on standard output, which ``patch`` and ``git apply`` take;
what each change is for and what was left alone on standard error; the script itself only with ``--apply``.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from unstall.commands.files import STDOUT, check, emit, write
from unstall.commands.progress import teller
from unstall.errors import UnstallError, UsageError

if TYPE_CHECKING:
    from unstall.fix.patching import Change, Patch
    from unstall.fix.remedy import Remedy
    from unstall.model import Report

MOST_NAMED = 3  # scripts of a folder; a choice of more is no help
UNPROVEN = "no profile was given: these are all that apply, and none of them is proven to gain anything"


def run(
    script: str,
    *,
    profile: str | None,
    only: Sequence[str],
    workers: int | None,
    apply: bool,
    json: str | None,
    language: str = "en",
) -> None:
    """Show the patch; write it where asked to."""
    from unstall.fix import dataloader_workers, patching

    if json and json != STDOUT:
        check(json, [script, profile])
    path = Path(script)
    if path.is_dir():
        raise UsageError(script, "is a folder", _named(path))
    text = patching.read(path)
    remedies, findings, advised = _wanted(profile, only)
    count = workers or advised or dataloader_workers.workers()
    made = patching.make(text, remedies, path=script, workers=count, findings=findings)
    if apply and made.patch.diff:
        made.patch.backup, made.patch.applied = str(patching.apply(path, text, made.text)), True
    _show(made.patch, json, language)
    if not made.patch.diff and json != STDOUT:
        _elsewhere(path, text, remedies, profile, teller(language))


def _named(folder: Path) -> str:
    """What to type instead: the scripts of the folder that look like those that train, where they are few."""
    from unstall.fix import training

    found = [f"unstall fix {shlex.quote(str(path))}" for path in training.scripts(folder)]
    if not 0 < len(found) <= MOST_NAMED:
        return "Name the script that trains"
    return f"Name the script that trains: {', or '.join(found)}"


def _elsewhere(
    path: Path, text: str, remedies: Sequence[Remedy], profile: str | None, tell: Callable[[str], None]
) -> None:
    """Where the script itself has nothing to edit: those of its project's modules that have."""
    from unstall.fix import imported, patching

    for file in imported.modules(text, path):
        try:
            found = patching.make(patching.read(file), remedies, path=str(file), workers=1).patch
        except UnstallError:
            continue  # not this command's business
        if found.changes or any(note.line for note in found.left):
            words = ["unstall", "fix", str(file), *(["--profile", profile] if profile else [])]
            tell(f"imported from there, and worth a look: {shlex.join(words)}")


def _wanted(profile: str | None, only: Sequence[str]) -> tuple[list[Remedy], dict[str, list[str]] | None, int | None]:
    """Remedies to write, which findings call for each, and the loader workers that they advise; all remedies without
    a profile."""
    from unstall.fix.remedy import named, remedies

    asked = named(only) if only else list(remedies())
    if not profile:
        return asked, None, None
    from unstall.pipeline import report_of
    from unstall.trial.choose import workers

    report = report_of(profile)
    findings: dict[str, list[str]] = {}
    for finding in report.findings:
        for remedy in asked if only or _has_gpu(report) else [r for r in asked if r.needs != "cuda"]:
            if finding.code in remedy.codes or {finding.fix.trial, finding.fix.patch} & set(remedy.names):
                findings.setdefault(remedy.name, []).append(finding.code)
    codes = {n: list(dict.fromkeys(c)) for n, c in findings.items()}
    return [r for r in asked if r.name in findings], codes, workers(report)


def _has_gpu(report: Report) -> bool:
    """Whether the capture knows a GPU, or work on one: without it, pinned batches and the like gain nothing."""
    return bool(report.profile.gpus or report.kernels or report.copies)


def _show(patch: Patch, json: str | None, language: str) -> None:
    import msgspec

    if json:
        encoded = msgspec.json.format(msgspec.json.encode(patch)) + b"\n"
        emit(encoded) if json == STDOUT else write(json, encoded)
    if json != STDOUT:
        emit(patch.diff)
    sys.stdout.flush()
    tell = teller(language)
    for line in _words(patch):
        tell(line)


def _words(patch: Patch) -> list[str]:
    lines = [_change(c, patch.proven) for c in patch.changes]
    lines += [f"left alone, {patch.path}{f':{n.line}' if n.line else ''}: {n.reason} ({n.remedy})" for n in patch.left]
    if patch.changes and not patch.proven:
        lines.append(UNPROVEN)
    if not patch.diff:
        lines.append(f"nothing to do in {patch.path}")
    elif patch.applied:
        lines.append(f"{patch.path} written; as it was: {patch.backup}")
    else:
        lines.append("nothing was written; --apply writes it")
    return lines


def _change(change: Change, proven: bool) -> str:
    where = ", ".join(map(str, change.lines))
    what = f"line{'s' if len(change.lines) > 1 else ''} {where}: {change.remedy} ({change.title}), {change.safety}"
    return f"{what}, for {', '.join(change.findings)}" if proven else what
