"""The languages: every sentence has its translation, with the same figures, in the terms of the glossary."""

from __future__ import annotations

import ast
import inspect
import re
import string
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import unstall
from unstall import lang
from unstall.diagnose import ranking, registry
from unstall.diagnose.registry import Rule
from unstall.model import Meta, Profile
from unstall.report import tables, words
from unstall.report.html import texts as page

ROOT = Path(__file__).parents[2]
SOURCE = Path(unstall.__file__).parent
GLOSSARY = ROOT / "docs" / "glossary.ko.md"
TEXTS, HEARD = lang.catalogue("ko")
KOREAN = {**TEXTS, **HEARD}
RULES = registry.rules()
KO = lang.speaker("ko")
HANGUL = re.compile("[가-힣]")

SECTIONS = ("탐지 대상", "해결 방법", "안전성", "오탐인 경우", "판정 기준")
LATIN = {"api", "unstall", "pid"}
"""What stays in Latin letters although it is a word."""


def fields(template: str) -> list[str]:
    """Placeholders with their formats; those that translate what is in them, or count English words, aside."""
    same = {lang.SAID: "", lang.EACH: "", "workers": "n", "cores": "n"}
    parsed = string.Formatter().parse(template)
    return sorted({f"{name}:{same.get(spec or '', spec)}" for _, name, spec, _ in parsed if name})


REMEDY = ("title", "pytorch", "jax", "cuda", "cupy", "elsewhere", "when")


def of_rule(rule: Rule, language: str) -> dict[str, str]:
    """Every text of a rule by its place."""
    told = rule.module.TEXTS[language]
    out = {"title": told.title, **{f"titles.{k}": t for k, t in told.titles.items()}}
    out |= {f"says.{k}": t for k, t in told.says.items()}
    for key, fix in {"": told.fix, **told.fixes}.items():
        out |= {f"fix.{key}.{name}": getattr(fix, name) for name in REMEDY}
    explained = inspect.cleandoc(told.explain or rule.module.__doc__)
    return out | {f"explain.{i}": part for i, part in enumerate(re.split(r"(?m)^## .*$", explained))}


def pairs() -> Iterator[tuple[str, str, str]]:
    """(place, English, Korean) of everything that is translated."""
    for rule in RULES:
        english, korean = of_rule(rule, "en"), of_rule(rule, "ko")
        for place in english:
            yield f"{rule.code} {place}", english[place], korean.get(place, "")
    for key, text in page.TEXTS["en"].items():
        yield f"page {key}", text, page.TEXTS["ko"].get(key, "")
    for english, korean in KOREAN.items():
        yield "catalogue", english, korean


PAIRS = list(pairs())


# -- completeness -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.code)
def test_rule_says_everything_in_korean(rule: Rule) -> None:
    assert "ko" in rule.module.TEXTS, f'{rule.module.__file__} has no TEXTS["ko"]'
    english, korean = of_rule(rule, "en"), of_rule(rule, "ko")
    assert set(english) == set(korean)
    for place, text in english.items():
        assert bool(text) == bool(korean[place]), f"{rule.code} {place} is not translated"
        if not place.startswith("explain"):
            assert fields(text) == fields(korean[place]), f"{rule.code} {place}: other figures"


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.code)
def test_rule_is_explained_in_korean(rule: Rule) -> None:
    assert rule.module.TEXTS["ko"].explain, f"{rule.module.__file__}: the docstring is not translated (explain=)"
    text = rule.explain("ko")
    assert [s for s in SECTIONS if f"## {s}" not in text] == []
    assert "{" not in text and not re.search("문제|이슈", text)


def test_translations_hold_the_same_figures() -> None:
    wrong = [english for english, korean in KOREAN.items() if fields(english) != fields(korean)]
    assert wrong == []


def test_everything_is_in_korean_and_calls_a_finding_a_finding() -> None:
    for place, english, korean in PAIRS:
        if set(re.findall("[a-z]{3,}", re.sub(r"{[^}]*}", "", english))) - LATIN:
            assert HANGUL.search(korean), f"{place}: {english!r} → {korean!r}"
        assert not re.search("문제|이슈", korean), f"{place}: {korean}"


def test_one_translation_for_one_text() -> None:
    seen: dict[str, str] = {}
    package = SOURCE / "lang" / "ko"
    for path in package.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for key, value in zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else ():
                english, korean = ast.literal_eval(key), ast.literal_eval(value)  # type: ignore[arg-type]
                assert seen.setdefault(english, korean) == korean, f"{english!r} is translated in two ways"


FINAL = "은는이가을를과와"
BY_SOUND = re.compile(rf"{{([^}}]*)}}(?:\S?)(?<=}})([{FINAL}]|으로|로|이나|나)(?=[\s,.)]|$)")
OPEN_UNITS = {"ms", "us", "pct", "bytes", "rate", "times"}
"""Units read with an open last syllable: 밀리초, 퍼센트, 메가바이트, 배."""


def test_no_particle_hangs_on_the_sound_of_a_name() -> None:
    for place, _, korean in PAIRS:
        for match in BY_SOUND.finditer(korean):
            field, _, spec = match[1].partition(":")
            open_sound = match[2] in ("는", "가", "를", "와", "로", "나")
            with_unit = spec in OPEN_UNITS or field in ("time", "step", "share", "cost")
            assert with_unit and open_sound, f"{place}: {match[0]} in {korean}"


# -- what the code says -----------------------------------------------------------------------------------------------


@cache
def nodes() -> list[tuple[Path, ast.AST]]:
    """Everything in the whole package; the page has texts of its own."""
    paths = [path for path in sorted(SOURCE.rglob("*.py")) if "html" not in path.relative_to(SOURCE).parts]
    return [(path, node) for path in paths for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]


def calls(*names: str) -> Iterator[tuple[Path, ast.Call]]:
    for path, node in nodes():
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) in names:
            yield path, node


def said() -> Iterator[tuple[str, str]]:
    """Every template that the code hands to a speaker."""
    for path, call in calls("say"):
        if call.args and isinstance(call.args[0], ast.Constant):
            yield str(path.relative_to(SOURCE)), str(call.args[0].value)
    for path, call in calls("plural"):
        if len(call.args) == 3 and isinstance(call.args[2], ast.Constant):
            yield str(path.relative_to(SOURCE)), f"{{n}} {call.args[2].value}"
    yield from (("report/words.py", text) for text in words.CATEGORIES.values())
    yield from (("report/words.py", f"{{n}} {noun}") for noun in words.TABLES.values())
    yield from (("report/tables.py", text) for text in tables.BY.values())
    yield from (("diagnose/ranking.py", text) for text in ranking.LIMITS.values())


def test_every_text_of_the_code_is_translated() -> None:
    missing = sorted({f"{where}: {text}" for where, text in said() if text not in KOREAN and re.search("[a-z]", text)})
    assert missing == [], "add them to src/unstall/lang/ko"


def skeletons(node: ast.expr | None) -> list[str]:
    """What a text may look like with a figure in each of its holes."""
    if isinstance(node, ast.Constant):
        return [str(node.value)]
    if isinstance(node, ast.JoinedStr):
        out = [""]
        for part in node.values:
            inner = part.value if isinstance(part, ast.FormattedValue) else part
            choices = skeletons(inner) if isinstance(inner, ast.Constant | ast.IfExp) else ["7"]
            out = [text + choice for text in out for choice in choices]
        return out
    if isinstance(node, ast.IfExp):
        return skeletons(node.body) + skeletons(node.orelse)
    return []


def noted() -> Iterator[tuple[str, str]]:
    """Warnings and reasons as the stages write them, where the sentence stands in the code."""
    for path, call in calls("Warning_", "NotChecked"):
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        text = given.get("text", given.get("reason"))
        for found in [text, *(_assigned(path, text.id) if isinstance(text, ast.Name) else [])]:
            for sentence in skeletons(found):
                if re.search("[a-z]{3,} [a-z]{2,}", sentence):
                    yield str(path.relative_to(SOURCE)), sentence


def _assigned(path: Path, name: str) -> list[ast.expr]:
    here = (node for where, node in nodes() if where == path)
    return [n.value for n in here if isinstance(n, ast.Assign) and getattr(n.targets[0], "id", "") == name]


COMPOSED = (
    "7; capture fewer at once", "7 rows 7", "the same 7 kernels", "7: 7, and fewer than", "7, the first: line 7",
    "7: the first 7 of 7 steps", "7: 7 processes have steps",
)  # fmt: skip
"""Sentences that are put together from words: ``test_heard_in_korean`` has them as they come."""


def test_every_warning_and_reason_is_translated() -> None:
    told = sorted({(where, text) for where, text in noted() if not text.startswith(COMPOSED)})
    assert len(told) > 50
    missing = [f"{where}: {text}" for where, text in told if not HANGUL.search(KO.heard(text))]
    assert missing == [], "add them to HEARD in src/unstall/lang/ko"


@pytest.mark.parametrize(
    "sentence",
    [
        "Rows that end before they start, left out: 1,200 in kernels, 34 in copies.",
        "Rows with something other than a possible number where one belongs (kept, that value unknown): 2 in api.",
        "the same 12 kernels run 7 % slower after: a clock, a power limit or another tenant of the GPU",
        "before: 3 steady steps, and fewer than 5 cannot tell a change from noise",
        "after: the first 3 of 40 steps left out, slower than steady state",
        "2 lines are not a step time and left out, the first: line 4",
        "traced on one side only: osrt (before), gil (after)",
        "before: 2 processes have steps, 25 ms (pid 7), 12 ms (pid 8); the slowest, pid 7, is compared",
        "19 of 27 processes with steps: only the 8 with most work were examined; capture fewer at once for the others",
        "NVTX rows that are not ranges, kept apart: 3 marks, 1 domain name.",
        "The export does not say the thread of some rows, which are kept as thread 0: 12 in api, 3 in osrt.",
        "Process 100 drives 2 GPUs (busy in a step: GPU 0 4 ms, GPU 1 3 ms): GPU busy, GPU idle and where a step goes "
        "are of the first of them",
        "The export does not say the GPU of some rows: 12 in kernels, 3 in copies. 4 are put on the GPU of their "
        "context, 11 on an unknown one.",
        "2 processes (817, 818) share GPU 0: each one's step includes waiting for the other's kernels; 2 processes "
        "(817, 819) share GPU 1: each one's step includes waiting for the other's kernels",
        "The step takes 108 ms under the profiler: 415 ms without it is another run's or not in milliseconds, unless "
        "threads contend (for the GIL, for a lock) and wait less while they are traced. Predictions start there.",
        "The step takes 108 ms under the profiler and 415 ms without it, as the run itself measured: something waits "
        "less while it is traced, as threads that contend for the GIL do. Such waits are longer than shown here, and "
        "what their remedy brings is best measured (unstall try).",
        "2 processes (817, 818) share GPU 0: not at the same time, though: no steady step of one meets work of another",
    ],
)
def test_heard_in_korean(sentence: str) -> None:
    heard = KO.heard(sentence)
    assert HANGUL.search(heard)
    names = {"osrt", "gil", "kernels", "copies", "api", "GPU", "NVTX", "export", "pid", "GIL", "unstall", "try"}
    left = set(re.findall("[A-Za-z]{3,}", heard)) - names
    assert not left, heard
    assert sorted(re.findall(r"\d[\d,.]*\d|\d", heard)) == sorted(re.findall(r"\d[\d,.]*\d|\d", sentence)), heard


def test_every_way_to_collect_is_translated() -> None:
    from unstall.analyze import collecting

    kineto = Profile(meta=Meta(producer="kineto"))
    reasons = [*registry.COLLECT.values(), *collecting.KINETO.values(), collecting.LOST]
    reasons += [f"needs CUDA calls: {collecting.TRACED}", f"CPU samples: none; {collecting.HUNG}"]
    reasons += [f"CPU samples: none; {way}" for _, way in collecting.OF_NSYS]
    reasons += [collecting.in_terms_of(kineto, table, text) for table, text in registry.COLLECT.items()]
    for reason in reasons:
        assert not re.search(r"collect with|needs |\bor\b|\bthe\b", KO.heard(reason)), KO.heard(reason)


# -- the glossary -----------------------------------------------------------------------------------------------------

CODE = re.compile(r"`[^`]*`|{[^}]*}|Nsight \w+|\b[\w.]+\([^)]*\)|\b\w+[_.]\w[\w.]*|\b\w+=\S+|--[\w-]+")
"""Names, options and placeholders: no words of the language."""


def glossary() -> dict[str, tuple[str, ...]]:
    """English term → the Korean forms that stand for it."""
    rows = [line.split("|")[1:4] for line in GLOSSARY.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    return {e.strip(): tuple(k for k in map(str.strip, f"{ko},{also}".split(",")) if k) for e, ko, also in rows[1:]}


TERMS = sorted(glossary().items(), key=lambda item: -len(item[0]))


def without_their_terms(english: str, korean: str) -> list[str]:
    """Terms of the English text whose Korean is not in the translation; the longest first, each word taken once."""
    rest, korean, missing = CODE.sub(" ", english), " ".join(korean.split()), []
    for term, forms in TERMS:
        ending = f"{term[:-1]}(?:y|ies)" if term.endswith("y") else f"{term}(?:s|es)?"
        found = re.compile(rf"(?<![\w-]){ending}(?![\w-])", re.IGNORECASE)
        if found.search(rest):
            rest = found.sub(" ", rest)
            missing += [] if any(form in korean for form in forms) else [f"{term} → {forms[0]}"]
    return missing


def test_translations_keep_to_the_glossary() -> None:
    assert len(TERMS) > 80
    for term in ("launch gap", "pinned memory", "forward", "backward"):
        assert term in dict(TERMS), "the lab's own terms"
    strayed = {english: missing for _, english, korean in PAIRS if (missing := without_their_terms(english, korean))}
    assert strayed == {}


def test_glossary_catches_another_word() -> None:
    assert without_their_terms("Pinned memory in a step", "고정 메모리, 스텝") == ["pinned memory → 페이지 고정 메모리"]
    assert without_their_terms("`pinned` copies of {range:ms}", "복사") == []


# -- how it works -----------------------------------------------------------------------------------------------------


def speaker() -> lang.Speaker:
    heard = {
        "{n} more in {place}": "{place}에 {n}개 더",
        "not known": "알 수 없음",
        "{name} is {how:said}, {parts:each}": "{name}: {how:said}, {parts:each}",
        "{x} and {x}": "{x} 두 번",
    }
    return lang.Speaker("xx", {"red": "빨강"}, heard)


def test_a_speaker_says_templates_and_knows_finished_sentences() -> None:
    say = speaker()
    assert say("red") == "빨강" and say("blue {n}", n=2) == "blue 2"
    assert say("{n} more in {place}", n=3, place="kernels") == "kernels에 3개 더"
    assert say.heard("1,200 more in red") == "red에 1,200개 더", "a name is not translated"
    assert say.heard("some more in red") == "some more in red", "a count is a figure"
    assert say.heard("door is red, not known, blue") == "door: 빨강, 알 수 없음, blue"
    assert say.heard("1 and 1") == "1 두 번" and say.heard("1 and 2") == "1 and 2"
    assert say.heard("before: not known; 3 more in api") == "before: 알 수 없음; api에 3개 더"
    assert say.heard("never heard of; not known") == "never heard of; not known"


def test_english_is_what_the_code_says() -> None:
    english = lang.speaker("en")
    for sentence in ("not checked: {odd", "before: 3 more", "{n}"):
        assert english.heard(sentence) == sentence
    assert lang.speaker("no such language").heard("faster") == "faster"


def test_the_most_particular_template_is_heard_first() -> None:
    say = lang.Speaker("xx", {}, {"{a} in {b}": "둘", "{a} rows in {b}": "행"})
    assert say.heard("3 rows in api") == "행" and say.heard("3 calls in api") == "둘"
    outer = lang.Speaker("xx", {}, {"left, {where}: {why:said}": "{where}: {why:said}", "{a} takes long": "{a} 느림"})
    assert outer.heard("left, line 7: it takes long") == "line 7: it 느림"


@pytest.mark.parametrize("english", sorted(HEARD), ids=lambda text: text[:40])
def test_no_template_is_taken_for_another(english: str) -> None:
    """A sentence made of a template is heard as that template, whatever the others are."""
    values = {name: "7" for _, name, _, _ in string.Formatter().parse(english) if name}
    sentence = string.Formatter().vformat(re.sub(r":(?:said|each)}", "}", english), (), values)
    assert KO.heard(sentence) == KO(english, **values)
