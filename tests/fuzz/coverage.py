"""Texts that reach ever more of a parser, by atheris: ``python -m tests.fuzz.coverage stats -max_total_time=60``.

Comes in: the name of a target, then libFuzzer's options (atheris is installed by hand: pip install atheris). Goes out:
libFuzzer's own words; it stops at the first exception that is none of :class:`~unstall.errors.UnstallError`.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["unstall"]):
    from unstall.compare import gate, steplog
    from unstall.compare.expression import parse
    from unstall.errors import UnstallError
    from unstall.load import stats_csv

from . import seeds

KINDS = {"stats": "text", "steplog": "log", "expression": "log", "budget": "log"}


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


TARGETS: dict[str, Callable[[bytes], object]] = {
    "stats": lambda data: stats_csv.read(data) and stats_csv.sniff(data),
    "steplog": lambda data: steplog.looks_like(_text(data)) and steplog.read(_text(data), "log"),
    "expression": lambda data: parse(_text(data)),
    "budget": lambda data: list(gate.budget(_text(data), "budget.toml")),
}


def main() -> None:
    """Run one target on the seeds and what comes of them."""
    name, options = sys.argv[1], sys.argv[2:]

    def one(data: bytes) -> None:
        with contextlib.suppress(UnstallError):
            TARGETS[name](data)

    with tempfile.TemporaryDirectory(prefix="unstall-seeds-") as room:
        seeds.make(Path(room))
        corpus = Path(room) / "corpus"
        corpus.mkdir()
        for path in seeds.of_kind(Path(room), KINDS[name]):
            (corpus / path.name).write_bytes(path.read_bytes()[:4000])
        atheris.Setup([sys.argv[0], str(corpus), *options], one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
