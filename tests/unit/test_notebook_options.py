"""The line behind the magics: understood, or refused in one line."""

from __future__ import annotations

import pytest

from unstall.errors import UsageError
from unstall.notebook.options import Asked, parse
from unstall.notebook.session import Session


def test_a_cell() -> None:
    asked = parse("--auto --steps 10:30 --name 'my cell' --lang ko -o report --save run.sqlite --quiet", "cell")
    assert asked == Asked(
        auto=True, steps=(10, 30), name="my cell", lang="ko", variable="report", save="run.sqlite", quiet=True
    )
    assert parse("", "cell") == Asked()


def test_a_line() -> None:
    asked = parse("'a b.sqlite' --step 'train_.*' --unprofiled-ms 2.5", "line")
    assert asked == Asked(path="a b.sqlite", step="train_.*", unprofiled_ms=2.5)


@pytest.mark.parametrize(
    ("line", "kind", "said"),
    [
        ("--bogus", "cell", "unrecognized arguments"),
        ("--steps 9:3", "cell", "not of the form A:B"),
        ("-o 1x", "cell", "no name of a variable"),
        ("-o class", "cell", "no name of a variable"),
        ("--name 'open", "cell", "No closing quotation"),
        ("", "line", "required"),
        ("--lang fr a.sqlite", "line", "invalid choice"),
    ],
)
def test_what_is_refused(line: str, kind: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse(line, kind)


def test_without_nsys_there_is_no_session() -> None:
    assert Session.of_this_process({}) is None
