"""The parts that recording processes leave in a folder, until the parent makes one file of them.

Comes in: documents (plain dicts). Goes out: ``PID.jsonl``, one document a line, appended as the program runs: what a
killed process had written so far can be read, a line cut off in the middle is passed over.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Part:
    """The file of one process; made when there is something to write."""

    def __init__(self, folder: str, pid: int) -> None:
        self.path = Path(folder) / f"{pid}.jsonl"
        self._file: int | None = None
        self._failed = False

    def append(self, document: dict[str, Any]) -> None:
        """Add one document, in one write. Where that cannot be, one line says so, and nothing more is written."""
        if self._failed:
            return
        try:
            self._append(document)
        except OSError as error:
            self._failed = True
            sys.stderr.write(f"unstall: recording ends here: {error.strerror}. The program goes on without it.\n")

    def _append(self, document: dict[str, Any]) -> None:
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        left = memoryview(json.dumps(document, separators=(",", ":")).encode() + b"\n")
        while left:
            left = left[os.write(self._file, left) :]

    def forget(self) -> None:
        """In a forked child: the parent's file is not ours to write."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def parts(folder: Path) -> list[Path]:
    """All parts of a folder, oldest process first."""
    return sorted(folder.glob("*.jsonl"), key=lambda p: (p.stat().st_mtime_ns, p.name))


def documents(path: Path) -> Iterator[dict[str, Any]]:
    """The complete documents of one part."""
    with path.open("rb") as lines:
        for line in lines:
            if line.endswith(b"\n"):
                try:
                    yield json.loads(line)
                except ValueError:
                    return
