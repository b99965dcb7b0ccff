"""What people read, in their language: English stands in the code, every other language in a catalogue beside this.

In: an English sentence as the code writes it, a template with named figures. Out: the sentence with its figures in, in
the language asked for; in English where a catalogue lacks it. A catalogue is a package here, named after its language.
Its modules hold ``TEXTS`` and ``HEARD``: English template → translation. ``docs/glossary.ko.md`` has the terms.

The language is a property of what is shown (``Report.language``, ``Comparison.language``), set where that is made and
read where it is rendered: nothing is global. Rules bring their own texts, beside their own code.

What earlier stages said (warnings, what was not checked, progress) arrives as finished sentences: a profile from the
cache and a report from a file hold words, not templates. :meth:`Speaker.heard` finds the template of ``HEARD`` that
such a sentence was made of and says it again.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from functools import cache, cached_property
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from unstall.model import Report

Language = Literal["en", "ko"]
ENGLISH: Language = "en"
SAID, EACH = "said", "each"
"""Formats of a field that holds words of ours, not a name: ``{why:said}`` is translated as well, and ``{kinds:each}``
part by part, at its commas."""
COUNTS = re.compile(r"n|n_\w+")
"""Fields of this name match figures only, and a ``table`` is one word."""


class Speaker:
    """Says things in one language: ``say("{n} more", n=3)``."""

    def __init__(self, language: str, texts: Mapping[str, str], heard: Mapping[str, str]) -> None:
        self.language, self._texts, self._heard = language, {**texts, **heard}, heard
        self._formatter = _Formatter(self)

    def __call__(self, template: str, /, **facts: Any) -> str:
        """The template in this language, its figures in."""
        return self._formatter.vformat(self._texts.get(template, template), (), facts)

    def heard(self, sentence: str) -> str:
        """A finished English sentence in this language; as it is where no template fits."""
        return (self._said(sentence) if self._texts else None) or sentence

    def _said(self, sentence: str) -> str | None:
        """In the order of how sure it is; ``None`` where nothing is known of the sentence."""
        ways = (self._texts.get, self._joined, self._matched, self._prefixed)
        return next((said for way in ways if (said := way(sentence))), None)

    def _joined(self, sentence: str) -> str | None:
        """Several sentences in a row, each of them known."""
        parts = sentence.split("; ")
        said = [self._said(part) for part in parts] if len(parts) > 1 else []
        return "; ".join(filter(None, said)) if said and all(said) else None

    def _matched(self, sentence: str) -> str | None:
        """A sentence made of a template."""
        for pattern, template in self._patterns:
            match = pattern.fullmatch(sentence)
            if match:
                return self(template, **match.groupdict())
        return None

    def _prefixed(self, sentence: str) -> str | None:
        """A sentence behind a word that says what it is about: ``before: …``. One of the two must be known."""
        head, _, tail = sentence.partition(": ")
        about, said = self._texts.get(head), self._said(tail) if tail else None
        return f"{about or head}: {said or tail}" if tail and (about or said) else None

    @cached_property
    def _patterns(self) -> list[tuple[re.Pattern[str], str]]:
        """Templates of ``HEARD`` as patterns, the most particular first: what begins with words or a count of its own
        before what begins with anything, then those with the most letters."""
        wanted = sorted((t for t in self._heard if "{" in t), key=lambda t: (_open(t), -_letters(t)))
        return [(pattern(t), t) for t in wanted]


class _Formatter(string.Formatter):
    def __init__(self, speaker: Speaker) -> None:
        self._speaker = speaker

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec == SAID:
            return self._speaker.heard(str(value))
        if format_spec == EACH:
            return ", ".join(map(self._speaker.heard, str(value).split(", ")))
        return str(super().format_field(value, format_spec))


def pattern(template: str) -> re.Pattern[str]:
    """What a sentence made of this template looks like; a field that comes twice must be the same both times."""
    seen: set[str] = set()
    out = ""
    for text, field, _, _ in string.Formatter().parse(template):
        out += re.escape(text)
        if field is not None:
            value = r"[\d,.]+" if COUNTS.fullmatch(field) else r"\S+" if field == "table" else ".*?"
            out += f"(?P={field})" if field in seen else f"(?P<{field}>{value})"
            seen.add(field)
    return re.compile(out, re.DOTALL)


def _open(template: str) -> bool:
    """Whether a template begins with a field that anything fits."""
    text, field, *_ = next(iter(string.Formatter().parse(template)))
    return not text and field is not None and COUNTS.fullmatch(field) is None


def _letters(template: str) -> int:
    """Letters of a template outside its fields."""
    return sum(ch.isalpha() for text, *_ in string.Formatter().parse(template) for ch in text)


@cache
def speaker(language: str) -> Speaker:
    """Who says things in ``language``; English where there is no such catalogue."""
    return Speaker(language, *catalogue(language))


def catalogue(language: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """English template → translation: what the code says, and what it hears; empty where there is no such catalogue."""
    if language not in {found.name for found in iter_modules(__path__)}:
        return {}, {}
    package = import_module(f"{__name__}.{language}")
    modules = [import_module(f"{package.__name__}.{found.name}") for found in iter_modules(package.__path__)]
    texts, heard = ([getattr(module, name, {}) for module in modules] for name in ("TEXTS", "HEARD"))
    return _merged(texts), _merged(heard)


def _merged(parts: list[dict[str, str]]) -> dict[str, str]:
    return {english: said for part in parts for english, said in part.items()}


def told(report: Report, language: str) -> Report:
    """The report with what its stages said of it in ``language``, which its outputs are to use as well."""
    import msgspec

    say = speaker(language)
    return msgspec.structs.replace(
        report,
        language=language,
        warnings=[msgspec.structs.replace(w, text=say.heard(w.text)) for w in report.warnings],
        not_checked=[msgspec.structs.replace(n, reason=say.heard(n.reason)) for n in report.not_checked],
    )
