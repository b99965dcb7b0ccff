"""Which rules there are: every module of this package with a ``CODE``, and those that other packages announce.

In: the package folder and the entry points of group ``unstall.rules``. Out: :class:`Rule` s in order of code. A rule is
one module with

- a docstring: what it detects, why it costs time, how safe the remedy is, when it is a false alarm, its thresholds;
- ``CODE``, ``TABLES`` (without these the rule cannot run), ``TEXTS`` (language →
  :class:`~unstall.diagnose.texts.Texts`);
- ``CATEGORY``: the part of the step's breakdown that it speaks of, where its name is not the code's;
- ``check(case)``, which yields :class:`~unstall.diagnose.case.Hit` s, or one ``Skip``;
- ``fires(t)`` and ``silent(t)``: fill an empty ``testing.TraceBuilder`` with a trace that has the fault, and one that
  has not;
- optionally ``STEPS = False`` (also runs where no step was found), ``GPU = False`` (needs no device work), ``LAST =
  True`` (what is left where nothing else is worth working on: runs after the others, stands behind them), ``ONCE =
  True`` (looks at the whole capture, once), ``SIDE = "device"`` (not the host's doing), ``GENERAL = 1`` (its remedy
  hides other causes on the host, which are told first; with ``2`` those on the device too).

An entry point names such a module: ``[project.entry-points."unstall.rules"] my-rule = "my_package.my_rule"``.
"""

from __future__ import annotations

import difflib
import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module, metadata
from typing import Any

from unstall.diagnose import texts
from unstall.errors import UsageError
from unstall.lang import ENGLISH, Speaker, speaker
from unstall.model import Warning_

GROUP = "unstall.rules"
SAFETY = "How safe"
"""The heading of an explanation before which the remedies go."""
COLLECT = {
    "kernels": "needs GPU work: collect with `--trace=cuda` on a machine with a GPU",
    "copies": "needs GPU copies: collect with `--trace=cuda` on a machine with a GPU",
    "api": "needs CUDA calls: collect with `--trace=cuda`",
    "ranges": "needs NVTX ranges: collect with `--trace=nvtx`, or `unstall run --auto` for a script without them",
    "osrt": "needs OS runtime calls: collect with `--trace=osrt`",
    "gil": "needs GIL waits: collect with `--trace=python-gil` (nsys 2023.4 or newer)",
    "samples": "needs CPU samples: collect with `--sample=process-tree` where the kernel allows it",
}


@dataclass(frozen=True)
class Rule:
    """A rule's module, with its optional settings filled in."""

    module: Any

    @property
    def code(self) -> str:
        return str(self.module.CODE)

    @property
    def tables(self) -> tuple[str, ...]:
        return tuple(self.module.TABLES)

    @property
    def steps(self) -> bool:
        """Whether it needs repeating steps."""
        return bool(getattr(self.module, "STEPS", True))

    @property
    def gpu(self) -> bool:
        """Whether it needs device work."""
        return bool(getattr(self.module, "GPU", True))

    @property
    def last(self) -> bool:
        """Whether it is what is left where nothing else is worth working on."""
        return bool(getattr(self.module, "LAST", False))

    @property
    def general(self) -> int:
        """How much its remedy hides: 0 nothing, 1 other causes on the host, 2 any."""
        return int(getattr(self.module, "GENERAL", 0))

    @property
    def category(self) -> str:
        """The part of the breakdown that it speaks of."""
        return str(getattr(self.module, "CATEGORY", self.code.replace("-", "_")))

    @property
    def once(self) -> bool:
        """Whether it looks at the whole capture."""
        return bool(getattr(self.module, "ONCE", False))

    @property
    def on_host(self) -> bool:
        """Whether it is the host that holds the GPU back."""
        return str(getattr(self.module, "SIDE", "host")) == "host"

    def texts(self, language: str) -> texts.Texts:
        """What it says, in a language (English where it lacks it)."""
        return texts.choose(self.module.TEXTS, language)

    def explain(self, language: str = "en") -> str:
        """The explanation, Markdown: the docstring or its translation, and the remedy for each framework."""
        told = self.texts(language)
        say = speaker(language if told.explain else ENGLISH)
        text = inspect.cleandoc(told.explain or self.module.__doc__ or "")
        before, heading, after = text.partition(f"## {say(SAFETY)}")
        return f"{before.rstrip()}\n\n{_remedies(told, say)}\n\n{heading}{after}".rstrip()


def _remedies(told: texts.Texts, say: Speaker) -> str:
    parts = [f"## {say('How to fix')}"]
    for fix in (told.fix, *told.fixes.values()):
        title = _plain(fix.title) + (f": {fix.when}" if fix.when else "")
        parts.append(f"**{title}** ({say('safety: {safety:said}', safety=fix.safety)})")
        named = (("PyTorch", fix.pytorch), ("JAX", fix.jax), ("CuPy", fix.cupy), (say("CUDA C++ and others"), fix.cuda))
        parts += [f"- {name}: {_plain(text)}" for name, text in named if text]
    return "\n\n".join(parts)


def _plain(template: str) -> str:
    """A template for reading: figures that only a capture knows become ``…``."""
    import string

    pieces = string.Formatter().parse(template)
    return "".join(text + ("…" if name is not None else "") for text, name, _, _ in pieces)


def rules() -> tuple[Rule, ...]:
    """All rules, in order of code; those of other packages that cannot be imported are left to :func:`broken`."""
    return _found()[0]


def broken() -> tuple[Warning_, ...]:
    """Rules of other packages that could not be imported."""
    return _found()[1]


@cache
def _found() -> tuple[tuple[Rule, ...], tuple[Warning_, ...]]:
    found = {r.code: r for r in _built_in()}
    lines = []
    for point in metadata.entry_points(group=GROUP):
        try:
            rule = Rule(point.load())
            found.setdefault(rule.code, rule)
        except Exception as error:  # somebody else's code: any fault of it is a line, not the end of the report
            text = f"The rule {point.name} of {point.value} could not be loaded: {type(error).__name__}: {error}."
            lines.append(Warning_(code="rule-crashed", text=text))
    return tuple(found[c] for c in sorted(found)), tuple(lines)


def _built_in() -> Iterator[Rule]:
    package = import_module(__package__ or "unstall.diagnose")
    for module in pkgutil.iter_modules(package.__path__):
        loaded = import_module(f"{package.__name__}.{module.name}")
        if hasattr(loaded, "CODE"):
            yield Rule(loaded)


def rule(code: str) -> Rule:
    """The rule with this code.

    Raises:
        UsageError: there is none.
    """
    for candidate in rules():
        if candidate.code == code:
            return candidate
    codes = [r.code for r in rules()]
    meant = difflib.get_close_matches(code, codes, 1)
    known = f"Did you mean {meant[0]}? `unstall explain` lists all." if meant else f"Known: {', '.join(codes)}."
    raise UsageError(code, "no such finding", known)
