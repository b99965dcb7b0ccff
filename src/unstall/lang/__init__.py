"""What people read, in their language: English stands in the code, every other language in a catalogue beside this.

In: an English sentence as the code writes it, a template with named figures. Out: the sentence with its figures in, in
the language asked for; in English where a catalogue lacks it. A catalogue is a package here, named after its language,
with the modules' ``TEXTS``: English template → translation. The terms that translations keep to: ``docs/glossary.ko.md``.

The language is a property of what is shown (``Report.language``, ``Comparison.language``), set where that is made and
read where it is rendered: nothing is global. Rules bring their own texts, beside their own code.

Sentences that earlier stages said (warnings, what was not checked, progress) arrive finished: a profile from the cache
and a report from a file hold words, not templates. :meth:`Speaker.heard` finds the template that such a sentence was
made of and says it again.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from unstall.model import Report

Language = Literal["en", "ko"]
ENGLISH: Language = "en"
SAID = "said"
"""Format of a translation's field that holds words of ours, not a name: ``{why:said}`` is translated as well."""


class Speaker:
    """Says things in one language: ``say("{n} more", n=3)``."""

    def __init__(self, language: str, texts: Mapping[str, str]) -> None:
        self.language, self._texts = language, texts
        self._patterns: list[tuple[re.Pattern[str], str]] | None = None
        self._formatter = _Formatter(self)

    def __call__(self, template: str, /, **facts: Any) -> str:
        """The template in this language, its figures in."""
        return self._formatter.vformat(self._texts.get(template, template), (), facts)

    def heard(self, sentence: str) -> str:
        """A finished English sentence in this language; as it is where no template fits."""
        if not self._texts:
            return sentence
        if sentence in self._texts and "{" not in sentence:
            return self._texts[sentence]
        for pattern, template in self._compiled():
            match = pattern.fullmatch(sentence)
            if match:
                return self(template, **match.groupdict())
        return sentence

    def _compiled(self) -> list[tuple[re.Pattern[str], str]]:
        """Templates as patterns, those with the most text of their own first: they are the most particular."""
        if self._patterns is None:
            wanted = [t for t in self._texts if "{" in t and _own(t)]
            self._patterns = [(pattern(t), t) for t in sorted(wanted, key=_own, reverse=True)]
        return self._patterns


class _Formatter(string.Formatter):
    def __init__(self, speaker: Speaker) -> None:
        self._speaker = speaker

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec == SAID:
            return self._speaker.heard(str(value))
        return str(super().format_field(value, format_spec))


def pattern(template: str) -> re.Pattern[str]:
    """What a sentence made of this template looks like; a field that comes twice must be the same both times."""
    seen: set[str] = set()
    out = ""
    for text, field, _, _ in string.Formatter().parse(template):
        out += re.escape(text)
        if field is not None:
            out += f"(?P={field})" if field in seen else f"(?P<{field}>.*?)"
            seen.add(field)
    return re.compile(out, re.DOTALL)


def _own(template: str) -> int:
    """Letters of a template outside its fields."""
    return sum(ch.isalpha() for text, *_ in string.Formatter().parse(template) for ch in text)


@cache
def speaker(language: str) -> Speaker:
    """Who says things in ``language``; English where there is no such catalogue."""
    return Speaker(language, catalogue(language))


@cache
def catalogue(language: str) -> Mapping[str, str]:
    """English template → translation; empty for English and for languages that are not there."""
    if language not in {found.name for found in iter_modules(__path__)}:
        return {}
    package = import_module(f"{__name__}.{language}")
    modules = (import_module(f"{package.__name__}.{found.name}") for found in iter_modules(package.__path__))
    return {english: said for module in modules for english, said in module.TEXTS.items()}


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
