"""``unstall redact``: a copy of an export without environment, command lines, host and user names.

In: a profile and where the copy goes. Out: the copy, and one line that says what was taken out.
"""

from __future__ import annotations

from pathlib import Path

from unstall.commands.files import emit_text


def run(profile: str, output: str, *, force: bool) -> None:
    """Write the clean copy."""
    from unstall.collect.redact import redact

    found = redact(Path(profile), Path(output), force=force)
    emit_text(f"{output}: taken out {found.text}; checked that none of it is left.\n")
