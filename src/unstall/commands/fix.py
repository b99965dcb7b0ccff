"""``unstall fix``: the patch that a script's findings call for, shown or written.

In: a script and options as parsed. Out: a unified diff on standard output, which ``patch`` and ``git apply`` take;
what each change is for and what was left alone on standard error; the script itself only with ``--apply``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from unstall.commands.files import STDOUT, check, emit, write
from unstall.commands.progress import teller

if TYPE_CHECKING:
    from unstall.fix.patching import Change, Patch
    from unstall.fix.remedy import Remedy

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
        check(json)
    path = Path(script)
    text = patching.read(path)
    remedies, findings = _wanted(profile, only)
    made = patching.make(
        text, remedies, path=script, workers=workers or dataloader_workers.workers(), findings=findings
    )
    if apply and made.patch.diff:
        made.patch.backup, made.patch.applied = str(patching.apply(path, text, made.text)), True
    _show(made.patch, json, language)


def _wanted(profile: str | None, only: Sequence[str]) -> tuple[list[Remedy], dict[str, list[str]] | None]:
    """Remedies to write, and which findings call for each; all of them without a profile."""
    from unstall.fix.remedy import named, remedies

    asked = named(only) if only else list(remedies())
    if not profile:
        return asked, None
    from unstall.pipeline import report_of

    findings: dict[str, list[str]] = {}
    for finding in report_of(profile).findings:
        for remedy in asked:
            if finding.code in remedy.codes or {finding.fix.trial, finding.fix.patch} & set(remedy.names):
                findings.setdefault(remedy.name, []).append(finding.code)
    return [r for r in asked if r.name in findings], {n: list(dict.fromkeys(c)) for n, c in findings.items()}


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
