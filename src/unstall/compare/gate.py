"""Gates: limits that a comparison must keep, from expressions and from a budget file.

In: what must not be (``--fail-if``), what is allowed (a budget), a comparison with the side under test. Out: nothing,
or :class:`~unstall.errors.GateFailed` with one line that says which figure broke which limit. A figure that is not
known breaks the gate as well: not checked is never clean.

A budget is TOML or JSON::

    fail_if = ["slower"]
    step_ms = 30                     # at most; for ratio, gpu_busy_percent and steps: at least
    gpu_busy_percent = { min = 60 }
    findings.pageable-copy = 0
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from unstall.compare import metrics, unknown
from unstall.compare.expression import Expression, Term, parse
from unstall.compare.metrics import ANY, Known
from unstall.compare.sides import Side
from unstall.errors import GateFailed, UsageError
from unstall.model import Comparison

LARGEST = 1e300  # and no NaN, which is broken by nothing
BUDGET_HINT = 'Write NAME = LIMIT lines, NAME = { min = …, max = … }, or fail_if = ["slower"]; see docs/compare.md'


def check(gates: Sequence[Expression], side: Side, comparison: Comparison, known: Known = ANY) -> None:
    """Hold every gate; all that fail are named in one line.

    Raises:
        GateFailed: one did not hold, or hangs on a figure that is not known.
        UsageError: one asks for a figure that does not exist.
    """
    names = [name for gate in gates for name in gate.names]
    figures = metrics.figures(names, side, comparison, known)

    def why(name: str) -> str:
        return unknown.why(name, side, comparison, known)

    failed = [text for gate in gates if (text := _failure(gate, figures, comparison, why))]
    if failed:
        raise GateFailed("gate failed", "; ".join(failed))


def understand(gates: Sequence[Expression], known: Known) -> None:
    """Refuse a name that no figure has, before anything is read.

    Raises:
        UsageError: one asks for a figure that does not exist.
    """
    for gate in gates:
        metrics.understood(gate.names, known)


def _failure(
    gate: Expression, figures: Mapping[str, float | None], comparison: Comparison, why: Callable[[str], str]
) -> str:
    outcome, terms = gate.holds(figures, None if comparison.ratio is None else comparison.verdict)
    if outcome is False:
        return ""
    if outcome is None and not all(term.op for term in terms):
        return f"{gate.text} could not be checked: {comparison.reason}"
    if outcome is None:
        missing = "; ".join(why(name) for name in dict.fromkeys(term.name for term in terms))
        return f"{gate.text} could not be checked: {missing}"
    return " and ".join(_words(term, figures, comparison) for term in terms)


def _words(term: Term, figures: Mapping[str, float | None], comparison: Comparison) -> str:
    if term.op:
        return f"{term.name} is {figures[term.name]:.4g} ({term})"
    return f"{comparison.verdict} ({summary(comparison)})"


def summary(comparison: Comparison) -> str:
    """Both step times and the ratio, in a few words."""
    steps = " → ".join(
        "?" if f.step_ns is None else f"{f.step_ns / 1e6:.4g} ms" for f in (comparison.before, comparison.after)
    )
    if comparison.ratio is None or comparison.ratio_low is None or comparison.ratio_high is None:
        return steps
    return f"{steps} a step, {comparison.ratio:.3g}×, 95 % {comparison.ratio_low:.3g} to {comparison.ratio_high:.3g}"


def budget(text: str, name: str) -> list[Expression]:
    """The gates of a budget file, JSON where it begins with a brace, else TOML.

    Raises:
        UsageError: it is neither, or a limit is no number.
    """
    decoded = _decoded(text, name)
    table = decoded.get("budget", decoded) if isinstance(decoded, dict) else None
    if not isinstance(table, dict) or not table:
        raise UsageError(name, "no limits in it", BUDGET_HINT)
    gates = list(_gates(table, name))
    if not gates:  # fail_if = [], step_ms = {}: what limits nothing would pass whatever comes
        raise UsageError(name, "no limits in it", BUDGET_HINT)
    return gates


def _decoded(text: str, name: str) -> Any:
    is_json = text.lstrip("\ufeff \t\r\n").startswith("{")
    try:
        return json.loads(text, object_pairs_hook=_once) if is_json else _toml(text)
    except (ValueError, RecursionError) as error:  # both decoders' errors are ValueErrors
        raise UsageError(name, f"not readable as {'JSON' if is_json else 'TOML'} ({error})", BUDGET_HINT) from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; a name given twice is refused, as TOML does: one of its limits would be dropped."""
    twice = next((key for i, (key, _) in enumerate(pairs) if key in dict(pairs[:i])), None)
    if twice is not None:
        raise ValueError(f"{twice!r} is given twice")
    return dict(pairs)


def _toml(text: str) -> dict[str, Any]:
    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10, where tomli is a dependency of ours
        import tomli as tomllib  # type: ignore[import-not-found, no-redef, unused-ignore]
    return dict(tomllib.loads(text))


def _gates(table: Mapping[str, Any], name: str, prefix: str = "") -> Iterator[Expression]:
    for key, value in table.items():
        full = f"{prefix}{key}"
        if full == "fail_if":
            if not isinstance(value, str | list):
                raise UsageError(name, f"fail_if: {value!r} is no expression", BUDGET_HINT)
            yield from (parse(str(v)) for v in ([value] if isinstance(value, str) else value))
        elif isinstance(value, dict) and not value:
            raise UsageError(name, f"{full}: no limit given", BUDGET_HINT)
        elif isinstance(value, dict) and not value.keys() <= {"min", "max"}:
            yield from _gates(value, name, f"{full}.")
        else:
            yield from _limits(full, value, name)


def _limits(figure: str, value: Any, name: str) -> Iterator[Expression]:
    limits = value if isinstance(value, dict) else {"min" if figure in metrics.MORE_IS_BETTER else "max": value}
    for bound, limit in limits.items():
        if isinstance(limit, bool) or not isinstance(limit, int | float) or not abs(limit) < LARGEST:
            raise UsageError(name, f"{figure}: {limit!r} is no number", BUDGET_HINT)
        term = Term(figure, "<" if bound == "min" else ">", float(limit))
        yield Expression(str(term), ((term,),))
