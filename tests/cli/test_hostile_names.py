"""Profiles come from strangers: whatever their names hold, it is shown, and nothing else comes of it."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
import sqlite3
from collections import Counter
from contextlib import closing
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

import unstall
from unstall.commands import files, report
from unstall.commands.compare import run as compare
from unstall.errors import ProfileUnreadable
from unstall.load import cache, load
from unstall.report import Output, outputs
from unstall.report.text import visible
from unstall.testing import TraceBuilder, ms, us

SOURCE = Path(unstall.__file__).parent
HOSTILE = (
    "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x9b31m", "a\rb\nc\td\0e", "\u202eevil\u202c\u2066", "<pwned onpwned=1>",
    '"><pwned onpwned=1>', "'><pwned>", "</script><pwned>", "</style></title></textarea><pwned>", "<!--<script><pwned>",
    "]]><pwned>", "{{7*7}}", "${7*7}", "javascript:pwned()", "[x](http://pwned)", "![x](http://pwned)", "`|pwned|`",
    "\n# pwned", "=cmd|' /C calc'!A0", "+1+1", "-1-1", "@SUM(1)", "../../pwned", "/etc/pwned", "%s%n", "\ud800",
    "'); DROP TABLE StringIds; --", '"; DROP TABLE StringIds; --', "a" * 5000, "&lt;pwned&gt;", "\\u003cpwned\\u003e",
)  # fmt: skip

BREAK = "\u200b"
"""Ours: Markdown gets it where bare text would become a link."""
MARKUP = ("script", "style", "iframe", "img", "object", "link", "base", "form")


def trace(name: str) -> TraceBuilder:
    """A slow loader in which every name that a file can hold is ``name``."""
    t = TraceBuilder(gpu=name, trace=("cuda", "nvtx", "osrt"))
    t.meta(host=name)
    t.process(100, name)
    t.thread(name=name)
    for i in range(12):
        at = ms(20) * i
        t.range(f"step_{i}", at, at + ms(19))
        t.range(f"{name} load", at, at + ms(12), domain=name)
        t.osrt(name, at, at + ms(11), frames=[(name, name), name])
        t.copy("HtoD", at + ms(12), bytes=1 << 26, copy_dur=ms(2))
        t.launch(f"{name} gemm", at + ms(15), kernel_dur=ms(1))
        t.library(f"cublas {name}", at + ms(16), at + ms(16.5))
        t.api(f"cuda{name}", at + ms(17), at + ms(18))
        t.sync("stream", at + ms(18), at + ms(18.9))
    t.mark(name, us(3), domain=name)
    t.sample(us(5), [(name, name)])
    t.metric(name, us(5), 3)
    t.diagnostic(name, severity=2)
    return t


def written(name: str, folder: Path) -> Path:
    """Its export. Lone surrogates are no text that SQLite can hold: they are written as the bytes they come from."""
    return trace(name.encode("utf-8", "backslashreplace").decode()).write(folder / "run.sqlite")


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All of them in one capture: a process for each."""
    return written(" ".join(HOSTILE), tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written("forward", tmp_path_factory.mktemp("plain"))


def rendered(profile: Path, output: Output, folder: Path) -> bytes:
    target = folder / "out"
    with contextlib.redirect_stdout(io.StringIO()):
        report.run([str(profile)], {output.name: str(target)}, cache=False)
    return target.read_bytes()


# ---- terminals -------------------------------------------------------------------------------------------------------


def harmless(shown: str) -> None:
    assert [line for line in shown.split("\n") if visible(line) != line] == []


@pytest.mark.parametrize("name", [HOSTILE[0], HOSTILE[1] + HOSTILE[2], " ".join(HOSTILE)], ids="abc")
def test_terminal_shows_and_does_not_obey(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(name, tmp_path)
    report.run([str(path)], {}, top=0, cache=False)
    compare(str(path), str(path), top=0, cache=False)
    harmless(capsys.readouterr().out)


def test_text_for_people_and_lines_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    files.say(" ".join(HOSTILE[:3]))
    said = capsys.readouterr()
    harmless(said.err)
    assert said.err.count("\n") == 1


def test_every_line_goes_through_that_door() -> None:
    """No command prints by itself, and text for people is never ``emit``ted as it is."""
    bare = []
    for path in [*SOURCE.glob("commands/*.py"), SOURCE / "cli.py"]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                called, text = node.func.id, ast.unparse(node)
                if (called == "print" and "visible(" not in text) or (called == "emit" and "render(" in text):
                    bare.append(f"{path.name}: {text}")
    assert bare == []


# ---- files -----------------------------------------------------------------------------------------------------------


class Page(HTMLParser):
    """Counts elements; what a name smuggled in would be an element or an attribute of its own."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: Counter[str] = Counter()
        self.attributes: set[str] = set()
        self.links: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements[tag] += 1
        self.attributes |= {name for name, _ in attrs}
        self.links |= {value or "" for name, value in attrs if name in ("href", "src", "action", "data")}


@pytest.mark.parametrize("output", outputs(), ids=lambda o: o.name)
def test_no_output_lets_a_name_be_more_than_a_name(output: Output, export: Path, plain: Path, tmp_path: Path) -> None:
    raw = rendered(export, output, tmp_path)
    text = raw.decode("utf-8", "replace")
    if text.lstrip()[:1] in "[{":
        json.loads(text)
    elif text.lstrip()[:2] == "<!":
        page, usual = Page(text), Page(rendered(plain, output, tmp_path).decode())
        assert "pwned" not in page.elements and not {a for a in page.attributes if "pwned" in a}
        assert [page.elements[t] for t in MARKUP] == [usual.elements[t] for t in MARKUP]
        assert page.attributes <= usual.attributes | {"title"}
        assert not [link for link in page.links if "pwned" in link or link.lower().startswith("javascript")]
        assert "\x1b" not in text and "\0" not in text
    elif output.name == "markdown":
        page = Page(MarkdownIt("commonmark").enable("table").render(text))
        assert not {"pwned", "a", "img", "script"} & page.elements.keys()
        harmless(text.replace(BREAK, ""))
    elif "," in text.partition("\n")[0] or "\t" in text.partition("\n")[0]:
        cells = [cell.strip('" ') for line in text.splitlines() for cell in re.split(r"[,\t]", line)]
        assert not [cell for cell in cells if cell[:1] in ("=", "+", "@") or re.match(r"-\D", cell)]


def test_markdown_of_a_comparison(export: Path, plain: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.md"
    with contextlib.redirect_stdout(io.StringIO()):
        compare(str(export), str(plain), markdown=str(target), cache=False)
    page = Page(MarkdownIt("commonmark").enable("table").render(target.read_text()))
    assert not {"pwned", "a", "img", "script"} & page.elements.keys()
    harmless(target.read_text().replace(BREAK, ""))


def test_many_ranks(export: Path, plain: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Terminal, Markdown and page of ``ranks``."""
    from unstall.commands import ranks

    targets: dict[str, str | None] = {"html": str(tmp_path / "out.html"), "markdown": str(tmp_path / "out.md")}
    ranks.run([str(export), str(plain)], {}, workers=1, cache=False)
    said = capsys.readouterr()
    harmless(said.out + said.err)
    ranks.run([str(export), str(plain)], targets, workers=1, cache=False)
    ranks.run([str(plain), str(plain.parent)], {"html": str(tmp_path / "usual.html")}, workers=1, cache=False)
    page, usual = (Page((tmp_path / name).read_text()) for name in ("out.html", "usual.html"))
    assert "pwned" not in page.elements and not {a for a in page.attributes if "pwned" in a}
    assert [page.elements[t] for t in MARKUP] == [usual.elements[t] for t in MARKUP]
    text = (tmp_path / "out.md").read_text()
    assert (
        not {"pwned", "a", "img", "script"}
        & Page(MarkdownIt("commonmark").enable("table").render(text)).elements.keys()
    )
    harmless(text.replace(BREAK, ""))


# ---- paths -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", ["../../etc/passwd", "/etc/passwd", "..", ".hidden", "a/../../b.sqlite", "{name}"])
def test_name_in_a_template_stays_in_its_folder(profile: str, tmp_path: Path) -> None:
    target = Path(files.place(str(tmp_path / "{name}.json"), profile))
    assert target.parent == tmp_path and target.resolve().parent == tmp_path.resolve()


def test_a_link_in_the_way_is_replaced_and_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    link = tmp_path / "out.json"
    link.symlink_to(precious)
    files.write(str(link), "{}")
    assert precious.read_text() == "mine" and not link.is_symlink() and link.read_text() == "{}"


# ---- SQL and code ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("odd", ['x"; DROP TABLE StringIds; --', "x'); DELETE FROM StringIds; --", "a\nb", "%00", "]"])
def test_names_of_tables_and_columns_are_no_sql(odd: str, tmp_path: Path) -> None:
    path = written("forward", tmp_path)
    quoted = '"' + odd.replace('"', '""') + '"'
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"CREATE TABLE {quoted} ({quoted} TEXT)")
        db.execute(f"ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN {quoted} TEXT")
        db.execute(f"ALTER TABLE TARGET_INFO_SYSTEM_ENV ADD COLUMN {quoted} TEXT")
        db.commit()
    before = path.read_bytes()
    assert load(path, cache=False).kernels is not None
    from unstall.collect.redact import redact

    redact(path, tmp_path / "clean.sqlite")
    assert path.read_bytes() == before
    with closing(sqlite3.connect(tmp_path / "clean.sqlite")) as db:
        assert db.execute("SELECT count(*) FROM StringIds").fetchone()[0] > 5


def test_triggers_views_and_functions_of_a_file_do_not_run(tmp_path: Path) -> None:
    """A view in the place of a table may call any function that its reader has: but for plain ones it is not read."""
    path = written("forward", tmp_path)
    with closing(sqlite3.connect(path)) as db:
        db.execute("ALTER TABLE NVTX_EVENTS RENAME TO away")
        db.execute("CREATE VIEW NVTX_EVENTS AS SELECT *, load_extension('/tmp/evil.so') AS x FROM away")
        db.commit()
    with pytest.raises(ProfileUnreadable, match=r"cannot be read .*load_extension"):
        load(path, cache=False)


FORBIDDEN = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "yaml", "imp"}
RUNS_CODE = {"eval", "exec", "__import__"}
SIGNS = re.compile("|".join([*FORBIDDEN, *RUNS_CODE, "shell", "allow_pickle"]))
RUN_THE_USERS_OWN_PROGRAM = {"instrument/inject/run.py", "trial/run_patched.py"}


def test_nothing_is_unpickled_or_evaluated() -> None:
    for path in SOURCE.rglob("*.py"):
        name, text = str(path.relative_to(SOURCE)), path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if SIGNS.search(text) else ():
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {n.split(".")[0] for n in names} & FORBIDDEN, f"{name} imports one of {FORBIDDEN}"
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in RUNS_CODE:
                assert name in RUN_THE_USERS_OWN_PROGRAM, f"{name} calls {node.func.id}"
            if isinstance(node, ast.keyword) and node.arg in ("shell", "allow_pickle"):
                assert ast.unparse(node.value) == "False", f"{name}: {node.arg}"


def test_the_cache_holds_tables_and_json_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSTALL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "SMALL_FILE", 0)
    load(written("forward", tmp_path))
    (entry,) = (tmp_path / "cache" / "profiles").iterdir()
    for file in entry.iterdir():
        head = file.read_bytes()[:6]
        assert head == b"ARROW1" if file.suffix == ".arrow" else json.loads(file.read_bytes()), file.name


def test_a_compressed_bomb_is_not_unpacked(tmp_path: Path) -> None:
    import gzip

    bomb = tmp_path / "bomb.sqlite.gz"
    with gzip.open(bomb, "wb") as file:
        for _ in range(64):
            file.write(bytes(1 << 20))
    with pytest.raises(ProfileUnreadable):
        load(bomb)
