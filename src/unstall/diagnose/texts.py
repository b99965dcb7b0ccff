"""How a rule speaks: figures and the sentences they go into, kept apart so that a rule can speak a second language.

In: a rule's ``TEXTS`` (language → :class:`Texts`) and its :class:`Line` s. Out: ``Evidence`` and ``FixText``. Templates
are ``str.format`` with specs of the field: ``{x:ms}`` (from ns), ``{x:us}``, ``{x:pct}`` (from a fraction), ``{x:n}``,
``{x:bytes}``, ``{x:rate}`` (bytes/s) and ``{x:times}``; in English,
``{x:workers}`` and ``{x:cores}`` are a count with its word.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from unstall import calls
from unstall.model import Evidence, FixText

Safety = Literal["safe", "changes-numerics", "manual"]


@dataclass(frozen=True)
class Fix:
    """A remedy in the terms of a framework.

    ``jax`` and ``cuda`` fall back to ``pytorch`` when empty, ``cupy`` to ``cuda``; ``elsewhere`` is the title for all
    but PyTorch, where ``title`` names PyTorch's own means. ``when`` tells in an explanation, which shows them all, what
    a remedy is for where the rule has several.
    """

    title: str
    pytorch: str
    jax: str = ""
    cuda: str = ""
    cupy: str = ""
    elsewhere: str = ""
    when: str = ""
    safety: Safety = "safe"
    trial: str | None = None
    patch: str | None = None

    def text(self, framework: str) -> str:
        """The remedy for ``pytorch``, ``jax``, ``cupy`` or ``cuda``."""
        return {"jax": self.jax, "cuda": self.cuda, "cupy": self.cupy or self.cuda}.get(framework) or self.pytorch


@dataclass(frozen=True)
class Texts:
    """All that a rule says, in one language.

    Attributes:
        title: of the finding; a template over the hit's ``facts``.
        says: templates of evidence lines, by key.
        fix: the remedy.
        titles, fixes: alternatives, by key (the hit names it).
        explain: the explanation in this language; the module's docstring when empty.
    """

    title: str
    says: Mapping[str, str]
    fix: Fix
    titles: Mapping[str, str] = field(default_factory=dict)
    fixes: Mapping[str, Fix] = field(default_factory=dict)
    explain: str = ""


@dataclass(frozen=True)
class Line:
    """One figure of evidence: the template's key, the values that go in, and the figure itself with its source."""

    key: str
    value: float | None = None
    unit: str = ""
    source: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


def line(key: str, value: float | None = None, unit: str = "", source: str = "", **facts: Any) -> Line:
    """A :class:`Line`; ``value`` is known to the template as ``value``, and a ``call`` goes by its plain name."""
    named = {"call": calls.plain(str(facts["call"]))} if facts.get("call") else {}
    return Line(key, value, unit, source, {"value": value, **facts, **named})


_WHOLE = {
    "en": ((" of a {step:ms} step", " of the {step:ms} captured"), (" a step", " in all")),
    "ko": (("{step:ms} 스텝", "캡처한 {step:ms}"), ("스텝마다 ", "모두 합쳐 ")),
}
"""What a template says instead where the whole capture counts as one step."""


def of_whole(told: Texts, language: str) -> Texts:
    """The texts for a capture without steps."""

    def fit(template: str) -> str:
        for stepwise, whole in _WHOLE.get(language, _WHOLE["en"]):
            template = template.replace(stepwise, whole)
        return template

    says, titles = ({k: fit(v) for k, v in texts.items()} for texts in (told.says, told.titles))
    return replace(told, title=fit(told.title), says=says, titles=titles)


def choose(texts: Mapping[str, Texts], language: str) -> Texts:
    """The texts in ``language``, English where it lacks them; what programs read of a remedy is said in English."""
    english = texts["en"]
    told = texts.get(language, english)
    fixes = {key: _switched(told.fixes.get(key, fix), fix) for key, fix in english.fixes.items()}
    says, titles = {**english.says, **told.says}, {**english.titles, **told.titles}
    return replace(told, fix=_switched(told.fix, english.fix), fixes=fixes, says=says, titles=titles)


def _switched(fix: Fix, english: Fix) -> Fix:
    return replace(fix, safety=english.safety, trial=english.trial, patch=english.patch)


def evidence(texts: Texts, row: Line) -> Evidence:
    """The row as the report shows it."""
    value = None if row.value is None else float(row.value)
    return Evidence(text=say(texts.says[row.key], row.facts), value=value, unit=row.unit, source=row.source)


def fix_text(fix: Fix, framework: str, facts: Mapping[str, Any], workers: int | None = None) -> FixText:
    """The remedy as the report shows it."""
    return FixText(
        title=say(fix.title, facts),
        safety=fix.safety,
        text=say(fix.text(framework), facts),
        trial=fix.trial,
        patch=fix.patch,
        workers=workers,
    )


def say(template: str, facts: Mapping[str, Any]) -> str:
    """The template with its figures in."""
    return _FORMATTER.vformat(template, (), facts)


class _Formatter(string.Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        shown = _SPECS.get(format_spec)
        return shown(value) if shown else str(super().format_field(value, format_spec))


def ms(ns: float) -> str:
    """``22.0 ms``: three significant figures, and no fewer digits than the whole milliseconds."""
    return f"{_figures(ns / 1e6)} ms"


def _us(ns: float) -> str:
    return f"{_figures(ns / 1e3)} µs" if ns < 999_500 else ms(ns)


def _pct(fraction: float) -> str:
    if 0.995 <= fraction < 1:  # not rounded up to all
        return f"{min(100 * fraction, 99.9):.1f} %"
    return f"{100 * fraction:.0f} %" if fraction >= 0.1 else f"{_figures(100 * fraction)} %"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else _figures(value)


def _bytes(value: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= size:
            return f"{_figures(value / size)} {unit}"
    return f"{value:.0f} bytes"


def _rate(value: float) -> str:
    return f"{_figures(value / 1e12)} TB/s" if value >= 1e12 else f"{_figures(value / 1e9)} GB/s"


def _times(value: float) -> str:
    return f"{_figures(value)}×"


def _figures(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.2g}"


def _counted(what: str) -> Callable[[float], str]:
    return lambda value: f"{_number(value)} {what if value == 1 else f'{what}s'}"


_FORMATTER = _Formatter()
_SPECS = {"ms": ms, "us": _us, "pct": _pct, "n": _number, "bytes": _bytes, "rate": _rate, "times": _times}
_SPECS |= {"workers": _counted("worker"), "cores": _counted("core")}
