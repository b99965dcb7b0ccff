"""What a remedy is, and the list of all of them: every module of this package that defines ``REMEDY``.

In: nothing. Out: :func:`remedies`. A remedy is one file: adding it here means adding that file. Besides ``REMEDY`` it
may define ``switch(torch)``, called in the program that is tried once it has imported torch, and ``patch(script)``,
which writes the remedy into a script (:mod:`unstall.fix.script`). Standard library only: ``switch`` runs inside other
people's programs, whose environment need not hold what ours does.
"""

from __future__ import annotations

import functools
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal

from unstall.errors import UsageError

FLOAT_NOISE = 1e-4
"""Relative difference of fp32 losses that the order of additions alone makes: a fused AdamW against the plain one
differs by 1e-7 in the first step, and training multiplies that by about ten in ten steps."""


@dataclass(frozen=True)
class Remedy:
    """One remedy.

    Attributes:
        name: what findings call it (``fix.trial``) and ``--only`` takes.
        title: what it does, in a few words.
        write: what to write in the script, one line.
        codes: findings that it serves.
        safety: ``safe``, ``changes-numerics`` or ``manual``, as in :class:`unstall.model.FixText`.
        needs: ``cuda`` where it does nothing without a GPU; empty otherwise.
        tolerance: relative difference that losses of the first steps may have.
        redraws: random numbers may be drawn elsewhere (worker processes, threads), so that batches are other draws of
            the same distribution.
        lead: steps that live on batches made before the loop needed them; their times are not steady.
        aliases: other names, such as the patch's name in findings.
        environ: environment variables that switch it on, for what must be known before Python starts.
    """

    name: str
    title: str
    write: str
    codes: tuple[str, ...] = ()
    safety: Literal["safe", "changes-numerics", "manual"] = "safe"
    needs: Literal["", "cuda"] = ""
    tolerance: float = FLOAT_NOISE
    redraws: bool = False
    lead: int = 0
    aliases: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    switch: Callable[[Any], None] | None = None
    patch: Callable[[Any], None] | None = None

    @property
    def by_patch(self) -> bool:
        """It is tried by running a patched copy of the script: nothing can be switched."""
        return self.switch is None and not self.environ and self.patch is not None

    @property
    def names(self) -> tuple[str, ...]:
        """Everything it may be called by."""
        return (self.name, *self.aliases)


@functools.cache
def remedies() -> tuple[Remedy, ...]:
    """All remedies, by name."""
    import unstall.fix as package

    found = []
    for info in pkgutil.iter_modules(package.__path__):
        module = import_module(f"unstall.fix.{info.name}")
        remedy = getattr(module, "REMEDY", None)
        if isinstance(remedy, Remedy):
            found.append(remedy)
    return tuple(sorted(found, key=lambda r: r.name))


def named(names: Sequence[str]) -> list[Remedy]:
    """Remedies by name, alias or finding code, in the order asked for.

    Raises:
        UsageError: one of the names is unknown.
    """
    chosen: list[Remedy] = []
    for name in names:
        some = [r for r in remedies() if name in r.names] or [r for r in remedies() if name in r.codes]
        if not some:
            known = ", ".join(r.name for r in remedies())
            raise UsageError(name, "no remedy and no finding of that name has a remedy", f"Remedies: {known}")
        chosen += [r for r in some if r not in chosen]
    return chosen
