"""``unstall doctor``: what can be collected here, as text or JSON.

In: where the JSON goes. Out: text on standard output, unless the JSON goes there.
"""

from __future__ import annotations

import shutil

from unstall.commands.files import STDOUT, emit, emit_text, write


def run(json_file: str | None, *, language: str = "en") -> None:
    """Look at this machine and say what was found."""
    from unstall.collect.doctor import doctor, render

    record = doctor()
    if json_file == STDOUT:
        emit(record.to_json())
        return
    if json_file:
        write(json_file, record.to_json())
    emit_text(render(record, min(100, shutil.get_terminal_size((100, 24)).columns)))
